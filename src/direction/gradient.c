#include "base/parallel.h"
#include "direction/direction.h"

static void direct_chunk(void *context, size_t chunk, size_t first, size_t count)
{
    const struct tsi_direct *const direct = context;
    const float *restrict const gradient = direct->gradient + first;
    const float *restrict const at = direct->at ? direct->at + first : gradient;
    float *restrict const out = direct->out + first;
    const float scale = direct->scale;
    const float decay = direct->decay;
    const float rate = direct->rate;
    (void)chunk;
    if (decay == 0) {
        for (size_t i = 0; i < count; i++)
            out[i] += rate * (scale * gradient[i]);
        return;
    }
    for (size_t i = 0; i < count; i++)
        out[i] += rate * (scale * gradient[i] + decay * at[i]);
}

/* The local weights take the same step; `at` may be the very same buffer, so they come after. */
static void local_chunk(void *context, size_t chunk, size_t first, size_t count)
{
    const struct tsi_direct *const direct = context;
    const float *restrict const gradient = direct->gradient + first;
    float *restrict const local = direct->local + first;
    (void)chunk;
    for (size_t i = 0; i < count; i++)
        local[i] -= direct->rate * (direct->scale * gradient[i] + direct->decay * local[i]);
}

void tsi_direct_gradient(const struct tsi_direct *direct)
{
    struct tsi_direct copy = *direct;
    tsi_each_chunk(direct->threads, direct->count, direct_chunk, &copy);
    if (direct->local)
        tsi_each_chunk(direct->threads, direct->count, local_chunk, &copy);
}
