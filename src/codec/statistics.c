#include "codec/statistics.h"

#include "base/parallel.h"

struct sweep {
    const struct tsk_table *kernel;
    const float *in;
    uint32_t *maxima; /* one per chunk */
    double *sums;
};

size_t tsi_statistics_scratch(const struct tsi_piece *piece)
{
    return tsi_chunk_total(piece->count) * sizeof(double);
}

static struct sweep sweep_of(const struct tsi_call *call, const float *in)
{
    return (struct sweep){call->kernel, in, call->scratch, call->scratch};
}

static void chunk_max(void *context, size_t chunk, size_t first, size_t count)
{
    const struct sweep *const sweep = context;
    sweep->maxima[chunk] = sweep->kernel->magnitude_max_f32(sweep->in + first, count);
}

static void chunk_magnitude_sum(void *context, size_t chunk, size_t first, size_t count)
{
    const struct sweep *const sweep = context;
    sweep->sums[chunk] = sweep->kernel->magnitude_sum_f32(sweep->in + first, count);
}

static void chunk_square_sum(void *context, size_t chunk, size_t first, size_t count)
{
    const struct sweep *const sweep = context;
    sweep->sums[chunk] = sweep->kernel->square_sum_f32(sweep->in + first, count);
}

static uint32_t max_of(const struct tsi_call *call, const float *in, size_t count)
{
    struct sweep sweep = sweep_of(call, in);
    uint32_t most = 0;
    tsi_each_chunk(call->threads, count, chunk_max, &sweep);
    for (size_t i = 0; i < tsi_chunk_total(count); i++)
        most = sweep.maxima[i] > most ? sweep.maxima[i] : most;
    return most;
}

/* Adds the chunks' sums to `sum` in ascending order, whichever thread computed them. */
static double ordered_sum(const struct tsi_call *call, double sum, const float *in, size_t count,
                          tsi_chunk_fn *chunk_sum)
{
    struct sweep sweep = sweep_of(call, in);
    tsi_each_chunk(call->threads, count, chunk_sum, &sweep);
    for (size_t i = 0; i < tsi_chunk_total(count); i++)
        sum += sweep.sums[i];
    return sum;
}

uint32_t tsi_magnitude_max(const struct tsi_call *call, const float *in)
{
    return max_of(call, in, call->piece->count);
}

double tsi_magnitude_sum(const struct tsi_call *call, const float *in)
{
    return ordered_sum(call, 0, in, call->piece->count, chunk_magnitude_sum);
}

double tsi_square_sum(const struct tsi_call *call, const float *in)
{
    return ordered_sum(call, 0, in, call->piece->count, chunk_square_sum);
}

/* ---- prescans ---- */

/* The statistic of the elements prescanned so far. */
union statistic {
    uint32_t most;
    double sum;
};

size_t tsi_statistic_len(const double *option, const struct tsi_piece *piece)
{
    (void)option;
    (void)piece;
    return sizeof(union statistic);
}

int tsi_prescan_max(const struct tsi_call *call, const float *in, size_t first, size_t count)
{
    union statistic *const statistic = call->prescan_state;
    const uint32_t most = max_of(call, in + first, count);
    if (first == 0 || most > statistic->most)
        statistic->most = most;
    return 1;
}

/* Sums are sums of whole chunks, so that they do not depend on the prescan's slices. */
static int prescan_sum(const struct tsi_call *call, const float *in, size_t first, size_t count,
                       tsi_chunk_fn *chunk_sum)
{
    union statistic *const statistic = call->prescan_state;
    if (first % TSI_CHUNK != 0)
        return 0;
    statistic->sum =
        ordered_sum(call, first == 0 ? 0 : statistic->sum, in + first, count, chunk_sum);
    return 1;
}

int tsi_prescan_magnitudes(const struct tsi_call *call, const float *in, size_t first, size_t count)
{
    return prescan_sum(call, in, first, count, chunk_magnitude_sum);
}

int tsi_prescan_squares(const struct tsi_call *call, const float *in, size_t first, size_t count)
{
    return prescan_sum(call, in, first, count, chunk_square_sum);
}

uint32_t tsi_prescanned_max(const struct tsi_call *call, const float *in)
{
    const union statistic *const statistic = call->prescan_state;
    return call->prescanned ? statistic->most : tsi_magnitude_max(call, in);
}

double tsi_prescanned_magnitudes(const struct tsi_call *call, const float *in)
{
    const union statistic *const statistic = call->prescan_state;
    return call->prescanned ? statistic->sum : tsi_magnitude_sum(call, in);
}

double tsi_prescanned_squares(const struct tsi_call *call, const float *in)
{
    const union statistic *const statistic = call->prescan_state;
    return call->prescanned ? statistic->sum : tsi_square_sum(call, in);
}

/* ---- limits ---- */

terse_status tsi_within(uint32_t magnitude_bits, uint32_t limit)
{
    if (magnitude_bits >= TSK_INFINITY_BITS)
        return TERSE_NOT_FINITE;
    return magnitude_bits >= limit ? TERSE_OUT_OF_RANGE : TERSE_OK;
}

terse_status tsi_check(const struct tsi_call *call, const float *in, uint32_t limit)
{
    return tsi_within(tsi_magnitude_max(call, in), limit);
}
