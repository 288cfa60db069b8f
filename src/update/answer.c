#include "base/parallel.h"
#include "update/update.h"

static void mean_chunk(void *context, size_t chunk, size_t first, size_t count)
{
    const struct tsi_update *const update = context;
    const float *restrict const sum = update->sum + first;
    float *restrict const out = update->weights + first;
    const float parts = update->parts;
    (void)chunk;
    for (size_t i = 0; i < count; i++)
        out[i] = sum[i] / parts;
}

static void sign_chunk(void *context, size_t chunk, size_t first, size_t count)
{
    const struct tsi_update *const update = context;
    const float *restrict const sum = update->sum + first;
    float *restrict const out = update->weights + first;
    (void)chunk;
    for (size_t i = 0; i < count; i++)
        out[i] = (float)((sum[i] > 0) - (sum[i] < 0));
}

void tsi_update_answer(const struct tsi_update *update, int sign)
{
    struct tsi_update copy = *update;
    tsi_each_chunk(update->threads, update->count, sign ? sign_chunk : mean_chunk, &copy);
}
