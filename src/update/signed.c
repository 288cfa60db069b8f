#include "base/parallel.h"
#include "update/update.h"

static void signed_chunk(void *context, size_t chunk, size_t first, size_t count)
{
    const struct tsi_update *const update = context;
    const float *restrict const sum = update->sum + first;
    float *restrict const weights = update->weights + first;
    const float lr = update->lr;
    const float decay = update->decay;
    (void)chunk;
    for (size_t i = 0; i < count; i++) {
        const float sign = (float)((sum[i] > 0) - (sum[i] < 0));
        weights[i] -= lr * (sign + decay * weights[i]);
    }
}

void tsi_update_signed(const struct tsi_update *update)
{
    struct tsi_update copy = *update;
    tsi_each_chunk(update->threads, update->count, signed_chunk, &copy);
}
