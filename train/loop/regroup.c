#include "loop/regroup.h"

#include <string.h>

/* The mean of the old workers' floats, rounded once: that of equal floats is their value. */
static void take_mean(const void *const *old, const double *weight, uint32_t old_workers,
                      float *out, size_t count)
{
    double all = 0;
    for (uint32_t w = 0; w < old_workers; w++)
        all += weight ? weight[w] : 1;
    for (size_t i = 0; i < count; i++) {
        double sum = (weight ? weight[0] : 1) * (double)((const float *)old[0])[i];
        for (uint32_t w = 1; w < old_workers; w++)
            sum += (weight ? weight[w] : 1) * (double)((const float *)old[w])[i];
        out[i] = (float)(sum / all);
    }
}

/* Every element is some worker's, and all bits of it are 0 on the others. So joined bits are the
 * element's, that of a negative zero too. */
static void join_slices(const void *const *old, uint32_t old_workers, uint8_t *out, size_t len)
{
    memcpy(out, old[0], len);
    for (uint32_t w = 1; w < old_workers; w++)
        for (size_t i = 0; i < len; i++)
            out[i] |= ((const uint8_t *)old[w])[i];
}

void trn_regroup(terse_state_kind kind, const void *const *old, const double *weight,
                 uint32_t old_workers, void *out, size_t len)
{
    switch (kind) {
    case TERSE_STATE_SHARED: memcpy(out, old[0], len); break;
    case TERSE_STATE_RESIDUAL:
    case TERSE_STATE_OWN: take_mean(old, weight, old_workers, out, len / sizeof(float)); break;
    case TERSE_STATE_SLICES: join_slices(old, old_workers, out, len); break;
    case TERSE_STATE_HINT: break;
    }
}
