#include "base/parallel.h"
#include "update/update.h"

static void sgd_chunk(void *context, size_t chunk, size_t first, size_t count)
{
    const struct tsi_update *const update = context;
    const float *restrict const sum = update->sum + first;
    float *restrict const weights = update->weights + first;
    const float parts = update->parts;
    const float lr = update->lr;
    const float decay = update->decay;
    (void)chunk;
    for (size_t i = 0; i < count; i++)
        weights[i] -= lr * (sum[i] / parts + decay * weights[i]);
}

static void momentum_chunk(void *context, size_t chunk, size_t first, size_t count)
{
    const struct tsi_update *const update = context;
    const float *restrict const sum = update->sum + first;
    float *restrict const weights = update->weights + first;
    float *restrict const m = update->m + first;
    const float parts = update->parts;
    const float lr = update->lr;
    const float decay = update->decay;
    const float keep = update->keep;
    (void)chunk;
    for (size_t i = 0; i < count; i++) {
        m[i] = keep * m[i] + (sum[i] / parts + decay * weights[i]);
        weights[i] -= lr * m[i];
    }
}

void tsi_update_sgd(const struct tsi_update *update)
{
    struct tsi_update copy = *update;
    tsi_each_chunk(update->threads, update->count, update->m ? momentum_chunk : sgd_chunk, &copy);
}
