#include <string.h>

#include "base/parallel.h"
#include "kernels/kernels.h"
#include "update/update.h"

/* In place, where the answer has grown in the caller's buffer. */
static void mean_chunk(void *context, size_t chunk, size_t first, size_t count)
{
    const struct tsi_update *const update = context;
    const float *const sum = update->sum + first;
    float *const out = update->weights + first;
    const float parts = update->parts;
    (void)chunk;
    for (size_t i = 0; i < count; i++)
        out[i] = sum[i] / parts;
}

static void sign_chunk(void *context, size_t chunk, size_t first, size_t count)
{
    const struct tsi_update *const update = context;
    const float *const sum = update->sum + first;
    float *const out = update->weights + first;
    (void)chunk;
    for (size_t i = 0; i < count; i++)
        out[i] = (float)((sum[i] > 0) - (sum[i] < 0));
}

void tsi_update_answer(const struct tsi_update *update, int sign)
{
    struct tsi_update copy = *update;
    tsi_each_chunk(update->threads, update->count, sign ? sign_chunk : mean_chunk, &copy);
}

static void bits_chunk(void *context, size_t chunk, size_t first, size_t count)
{
    const struct tsi_signs *const signs = context;
    float *const out = signs->update->weights + first;
    (void)chunk;
    memset(out, 0, count * sizeof *out);
    signs->kernel->sign_add_f32(out, signs->negative + first / 8, count, 1.0f);
}

void tsi_update_answer_bits(const struct tsi_signs *signs)
{
    struct tsi_signs copy = *signs;
    tsi_each_chunk(signs->update->threads, signs->update->count, bits_chunk, &copy);
}
