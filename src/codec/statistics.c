#include "codec/statistics.h"

#include "base/parallel.h"

struct sweep {
    const struct tsk_table *kernel;
    enum tsi_statistic which;
    const float *in;
    double *result; /* one per chunk */
};

size_t tsi_statistics_scratch(const struct tsi_piece *piece)
{
    return tsi_chunk_total(piece->count) * sizeof(double);
}

static void sweep_chunk(void *context, size_t chunk, size_t first, size_t count)
{
    const struct sweep *const sweep = context;
    const float *const in = sweep->in + first;
    switch (sweep->which) {
    case TSI_MAX: sweep->result[chunk] = sweep->kernel->magnitude_max_f32(in, count); break;
    case TSI_MAGNITUDES: sweep->result[chunk] = sweep->kernel->magnitude_sum_f32(in, count); break;
    case TSI_SQUARES: sweep->result[chunk] = sweep->kernel->square_sum_f32(in, count); break;
    }
}

/* Continues a statistic over `count` elements, chunk by chunk in ascending order, whichever thread
 * computed them. */
static double sweep_on(const struct tsi_call *call, enum tsi_statistic which, const float *in,
                       size_t count, double so_far)
{
    struct sweep sweep = {call->kernel, which, in, call->scratch};
    tsi_each_chunk(call->threads, count, sweep_chunk, &sweep);
    for (size_t i = 0; i < tsi_chunk_total(count); i++)
        if (which != TSI_MAX)
            so_far += sweep.result[i];
        else if (sweep.result[i] > so_far)
            so_far = sweep.result[i];
    return so_far;
}

double tsi_magnitude_sum(const struct tsi_call *call, const float *in)
{
    return sweep_on(call, TSI_MAGNITUDES, in, call->piece->count, 0);
}

double tsi_square_sum(const struct tsi_call *call, const float *in)
{
    return sweep_on(call, TSI_SQUARES, in, call->piece->count, 0);
}

/* ---- prescans: the state is the statistic of the elements prescanned so far ---- */

size_t tsi_statistic_len(const double *option, const struct tsi_piece *piece)
{
    (void)option;
    (void)piece;
    return sizeof(double);
}

int tsi_prescan_max(const struct tsi_call *call, const float *in, size_t first, size_t count)
{
    double *const statistic = call->prescan_state;
    *statistic = sweep_on(call, TSI_MAX, in + first, count, first == 0 ? 0 : *statistic);
    return 1;
}

/* Sums are sums of whole chunks, so that they do not depend on the prescan's slices. */
static int prescan_sum(const struct tsi_call *call, enum tsi_statistic which, const float *in,
                       size_t first, size_t count)
{
    double *const statistic = call->prescan_state;
    if (first % TSI_CHUNK != 0)
        return 0;
    *statistic = sweep_on(call, which, in + first, count, first == 0 ? 0 : *statistic);
    return 1;
}

int tsi_prescan_magnitudes(const struct tsi_call *call, const float *in, size_t first, size_t count)
{
    return prescan_sum(call, TSI_MAGNITUDES, in, first, count);
}

int tsi_prescan_squares(const struct tsi_call *call, const float *in, size_t first, size_t count)
{
    return prescan_sum(call, TSI_SQUARES, in, first, count);
}

double tsi_prescanned(const struct tsi_call *call, enum tsi_statistic which, const float *in)
{
    const double *const statistic = call->prescan_state;
    return call->prescanned ? *statistic : sweep_on(call, which, in, call->piece->count, 0);
}

/* ---- limits ---- */

terse_status tsi_within(uint32_t magnitude_bits, uint32_t limit)
{
    if (magnitude_bits >= TSK_INFINITY_BITS)
        return TERSE_NOT_FINITE;
    return magnitude_bits >= limit ? TERSE_OUT_OF_RANGE : TERSE_OK;
}

terse_status tsi_check_finite(const struct tsi_call *call, const float *in)
{
    const double most = sweep_on(call, TSI_MAX, in, call->piece->count, 0);
    return tsi_within((uint32_t)most, TSK_INFINITY_BITS);
}
