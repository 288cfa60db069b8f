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

uint32_t tsi_magnitude_max(const struct tsi_call *call, const float *in)
{
    struct sweep sweep = sweep_of(call, in);
    uint32_t most = 0;
    tsi_each_chunk(call->threads, call->piece->count, chunk_max, &sweep);
    for (size_t i = 0; i < tsi_chunk_total(call->piece->count); i++)
        most = sweep.maxima[i] > most ? sweep.maxima[i] : most;
    return most;
}

/* Adds the chunks' sums in ascending order, whichever thread computed them. */
static double ordered_sum(const struct tsi_call *call, const float *in, tsi_chunk_fn *chunk_sum)
{
    struct sweep sweep = sweep_of(call, in);
    double sum = 0;
    tsi_each_chunk(call->threads, call->piece->count, chunk_sum, &sweep);
    for (size_t i = 0; i < tsi_chunk_total(call->piece->count); i++)
        sum += sweep.sums[i];
    return sum;
}

double tsi_magnitude_sum(const struct tsi_call *call, const float *in)
{
    return ordered_sum(call, in, chunk_magnitude_sum);
}

double tsi_square_sum(const struct tsi_call *call, const float *in)
{
    return ordered_sum(call, in, chunk_square_sum);
}

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
