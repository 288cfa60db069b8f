#include "base/parallel.h"
#include "direction/direction.h"

static void remember_chunk(void *context, size_t chunk, size_t first, size_t count)
{
    const struct tsi_direct *const direct = context;
    const float *restrict const gradient = direct->gradient + first;
    const float *restrict const at = direct->at ? direct->at + first : gradient;
    float *restrict const m = direct->m + first;
    const float scale = direct->scale * direct->add;
    const float decay = direct->decay * direct->add;
    const float keep = direct->keep;
    (void)chunk;
    if (decay == 0) {
        for (size_t i = 0; i < count; i++)
            m[i] = keep * m[i] + scale * gradient[i];
        return;
    }
    for (size_t i = 0; i < count; i++)
        m[i] = keep * m[i] + (scale * gradient[i] + decay * at[i]);
}

/* A chunk of m and out fits the second-level cache, so both loops are one pass over memory. */
static void direct_chunk(void *context, size_t chunk, size_t first, size_t count)
{
    const struct tsi_direct *const direct = context;
    remember_chunk(context, chunk, first, count);
    const float *restrict const m = direct->m + first;
    const float rate = direct->rate;
    if (direct->out) {
        float *restrict const out = direct->out + first;
        for (size_t i = 0; i < count; i++)
            out[i] += rate * m[i];
    }
    if (direct->local) {
        float *restrict const local = direct->local + first;
        for (size_t i = 0; i < count; i++)
            local[i] -= rate * m[i];
    }
}

void tsi_direct_momentum(const struct tsi_direct *direct)
{
    struct tsi_direct copy = *direct;
    tsi_each_chunk(direct->threads, direct->count, direct_chunk, &copy);
}
