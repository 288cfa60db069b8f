#include <string.h>

#include "base/parallel.h"
#include "kernels/kernels.h"
#include "update/update.h"

static void signed_chunk(void *context, size_t chunk, size_t first, size_t count)
{
    const struct tsi_update *const update = context;
    const float *restrict const sum = update->sum + first;
    float *restrict const weights = update->weights + first;
    const float lr = update->lr;
    const float decay = update->decay;
    (void)chunk;
    for (size_t i = 0; i < count && decay == 0; i++)
        weights[i] -= lr * (float)((sum[i] > 0) - (sum[i] < 0));
    for (size_t i = 0; i < count && decay != 0; i++) {
        const float sign = (float)((sum[i] > 0) - (sum[i] < 0));
        weights[i] -= lr * (sign + decay * weights[i]);
    }
}

void tsi_update_signed(const struct tsi_update *update)
{
    struct tsi_update copy = *update;
    tsi_each_chunk(update->threads, update->count, signed_chunk, &copy);
}

/* ---- from bits ---- */

static void step_by(const struct tsi_update *update, const float *restrict sign,
                    float *restrict weights, size_t count)
{
    const float lr = update->lr;
    const float decay = update->decay;
    for (size_t i = 0; i < count; i++)
        weights[i] -= lr * (sign[i] + decay * weights[i]);
}

/* Signs exist as floats for a tile at a time, in the cache. */
static void bits_chunk(void *context, size_t chunk, size_t first, size_t count)
{
    const struct tsi_signs *const signs = context;
    const struct tsi_update *const update = signs->update;
    (void)chunk;
    if (update->decay == 0) { /* x + -lr is x - lr */
        signs->kernel->sign_add_f32(update->weights + first, signs->negative + first / 8, count,
                                    -update->lr);
        return;
    }
    for (size_t at = first; at < first + count; at += TSI_TILE) {
        const size_t here = first + count - at < TSI_TILE ? first + count - at : TSI_TILE;
        float sign[TSI_TILE];
        memset(sign, 0, sizeof sign);
        signs->kernel->sign_add_f32(sign, signs->negative + at / 8, here, 1.0f);
        step_by(update, sign, update->weights + at, here);
    }
}

void tsi_update_signed_bits(const struct tsi_signs *signs)
{
    struct tsi_signs copy = *signs;
    tsi_each_chunk(signs->update->threads, signs->update->count, bits_chunk, &copy);
}
