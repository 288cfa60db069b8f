#include "base/parallel.h"
#include "update/update.h"

static void subtract_chunk(void *context, size_t chunk, size_t first, size_t count)
{
    const struct tsi_update *const update = context;
    const float *restrict const sum = update->sum + first;
    float *restrict const weights = update->weights + first;
    const float parts = update->parts;
    const float lr = update->lr;
    (void)chunk;
    for (size_t i = 0; i < count; i++)
        weights[i] -= lr * (sum[i] / parts);
}

static void momentum_chunk(void *context, size_t chunk, size_t first, size_t count)
{
    const struct tsi_update *const update = context;
    const float *restrict const sum = update->sum + first;
    float *restrict const weights = update->weights + first;
    float *restrict const m = update->m + first;
    const float parts = update->parts;
    const float lr = update->lr;
    const float keep = update->keep;
    const float ahead = update->nesterov ? 1.0f : 0.0f;
    (void)chunk;
    for (size_t i = 0; i < count; i++) {
        const float mean = sum[i] / parts;
        m[i] = keep * m[i] + mean;
        weights[i] -= lr * (ahead != 0 ? keep * m[i] + mean : m[i]);
    }
}

void tsi_update_subtract(const struct tsi_update *update)
{
    struct tsi_update copy = *update;
    tsi_each_chunk(update->threads, update->count, update->m ? momentum_chunk : subtract_chunk,
                   &copy);
}
