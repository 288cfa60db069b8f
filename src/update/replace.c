#include "base/parallel.h"
#include "update/update.h"

static void replace_chunk(void *context, size_t chunk, size_t first, size_t count)
{
    const struct tsi_update *const update = context;
    const float *restrict const sum = update->sum + first;
    float *restrict const weights = update->weights + first;
    (void)chunk;
    for (size_t i = 0; i < count; i++)
        weights[i] = sum[i];
}

void tsi_update_replace(const struct tsi_update *update)
{
    struct tsi_update copy = *update;
    tsi_each_chunk(update->threads, update->count, replace_chunk, &copy);
}
