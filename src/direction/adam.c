#include <float.h>
#include <math.h>

#include "base/parallel.h"
#include "direction/direction.h"

#define STRIDE ((size_t)512) /* steps of one stride stay in the first-level cache */

struct moments {
    const struct tsi_direct *direct;
    float step[STRIDE];
};

/* The steps of up to STRIDE elements, left in moments->step. */
static void steps_of(struct moments *moments, size_t first, size_t count)
{
    const struct tsi_direct *const direct = moments->direct;
    const float *restrict const gradient = direct->gradient + first;
    const float *restrict const at = direct->decay != 0 ? direct->at + first : gradient;
    float *restrict const m = direct->m + first;
    float *restrict const v = direct->v + first;
    float *restrict const step = moments->step;
    const float scale = direct->scale;
    const float decay = direct->decay;
    const float keep = direct->keep;
    const float add = direct->add;
    const float keep_v = direct->keep_v;
    const float add_v = 1.0f - keep_v;
    const float eps = direct->eps;
    const float rate = direct->rate;
    for (size_t i = 0; i < count; i++) {
        const float g = scale * gradient[i] + decay * at[i];
        const float second = keep_v * v[i] + add_v * (g * g);
        const float floored = second < FLT_MIN ? FLT_MIN : second > FLT_MAX ? FLT_MAX : second;
        v[i] = floored;
        m[i] = keep * m[i] + add * g;
        step[i] = rate * m[i] / (sqrtf(floored) + eps);
    }
}

static void direct_chunk(void *context, size_t chunk, size_t first, size_t count)
{
    struct moments moments = {.direct = context};
    const size_t end = first + count;
    (void)chunk;
    for (size_t from = first; from < end; from += STRIDE) {
        const size_t here = end - from < STRIDE ? end - from : STRIDE;
        steps_of(&moments, from, here);
        float *const out = moments.direct->out;
        float *const local = moments.direct->local;
        for (size_t i = 0; out && i < here; i++)
            out[from + i] += moments.step[i];
        for (size_t i = 0; local && i < here; i++)
            local[from + i] -= moments.step[i];
    }
}

void tsi_direct_adam(const struct tsi_direct *direct)
{
    struct tsi_direct copy = *direct;
    tsi_each_chunk(direct->threads, direct->count, direct_chunk, &copy);
}
