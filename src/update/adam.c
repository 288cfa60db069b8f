#include <math.h>

#include "base/parallel.h"
#include "update/update.h"

static void adam_chunk(void *context, size_t chunk, size_t first, size_t count)
{
    const struct tsi_update *const update = context;
    const float *restrict const sum = update->sum + first;
    float *restrict const weights = update->weights + first;
    float *restrict const m = update->m + first;
    float *restrict const v = update->v + first;
    const float parts = update->parts;
    const float lr = update->lr;
    const float decay = update->decay;
    const float keep = update->keep;
    const float keep_v = update->keep_v;
    /* (m / cm) / (sqrt(v / cv) + eps) = m * (root / cm) / (sqrt(v) + eps * root), root = sqrt(cv)
     */
    const float root = sqrtf(update->correct_v);
    const float factor = root / update->correct_m;
    const float eps = update->eps * root;
    (void)chunk;
    for (size_t i = 0; i < count; i++) {
        const float mean = sum[i] / parts;
        m[i] = keep * m[i] + (1.0f - keep) * mean;
        v[i] = keep_v * v[i] + (1.0f - keep_v) * (mean * mean);
        const float ratio = factor * m[i] / (sqrtf(v[i]) + eps);
        weights[i] -= lr * (ratio + decay * weights[i]);
    }
}

void tsi_update_adam(const struct tsi_update *update)
{
    struct tsi_update copy = *update;
    tsi_each_chunk(update->threads, update->count, adam_chunk, &copy);
}
