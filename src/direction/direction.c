#include "direction/direction.h"

#include <float.h>
#include <math.h>
#include <string.h>

#include "base/parallel.h"

#define STRIDE ((size_t)512) /* steps of one stride stay in the first-level cache */

/* Buffers of a loop may be the same, element for element, but never overlap otherwise. */
#if defined(__clang__)
#define INDEPENDENT _Pragma("clang loop vectorize(assume_safety)")
#else
#define INDEPENDENT _Pragma("GCC ivdep")
#endif

/* ---- gradient ---- */

/* out = in + rate * g */
static void gradient_chunk(void *context, size_t chunk, size_t first, size_t count)
{
    const struct tsi_direct *const direct = context;
    const float *const gradient = direct->gradient + first;
    const float *const at = direct->at ? direct->at + first : gradient;
    const float *const in = direct->in + first;
    float *const out = direct->out + first;
    const float scale = direct->scale;
    const float decay = direct->decay;
    const float rate = direct->rate;
    (void)chunk;
    if (decay == 0) {
        INDEPENDENT
        for (size_t i = 0; i < count; i++)
            out[i] = in[i] + rate * (scale * gradient[i]);
        return;
    }
    INDEPENDENT
    for (size_t i = 0; i < count; i++)
        out[i] = in[i] + rate * (scale * gradient[i] + decay * at[i]);
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

/* ---- momentum ---- */

static void move_momentum(const struct tsi_direct *direct, size_t first, size_t count)
{
    const float *const gradient = direct->gradient + first;
    const float *const at = direct->at ? direct->at + first : gradient;
    const float *const m = direct->m + first;
    float *const m_out = direct->m_out + first;
    const float scale = direct->scale * direct->add;
    const float decay = direct->decay * direct->add;
    const float momentum = direct->momentum;
    if (decay == 0) {
        INDEPENDENT
        for (size_t i = 0; i < count; i++)
            m_out[i] = momentum * m[i] + scale * gradient[i];
        return;
    }
    INDEPENDENT
    for (size_t i = 0; i < count; i++)
        m_out[i] = momentum * m[i] + (scale * gradient[i] + decay * at[i]);
}

/* m = momentum * m + add * g;  out = in + rate * m. A chunk of m and out fits the second-level
 * cache, so all loops are one pass over memory. */
static void momentum_chunk(void *context, size_t chunk, size_t first, size_t count)
{
    const struct tsi_direct *const direct = context;
    const float *const m = direct->m_out + first;
    const float rate = direct->rate;
    (void)chunk;
    move_momentum(direct, first, count);
    if (direct->out) {
        const float *const in = direct->in + first;
        float *const out = direct->out + first;
        INDEPENDENT
        for (size_t i = 0; i < count; i++)
            out[i] = in[i] + rate * m[i];
    }
    if (direct->local) {
        float *restrict const local = direct->local + first;
        for (size_t i = 0; i < count; i++)
            local[i] -= rate * m[i];
    }
}

/* ---- Adam ---- */

/* The steps of up to STRIDE elements. */
static void adam_steps(const struct tsi_direct *direct, size_t first, size_t count,
                       float *restrict step)
{
    const float *const gradient = direct->gradient + first;
    const float *const at = direct->decay != 0 ? direct->at + first : gradient;
    const float *const m = direct->m + first;
    const float *const v = direct->v + first;
    float *const m_out = direct->m_out + first;
    float *const v_out = direct->v_out + first;
    const float scale = direct->scale;
    const float decay = direct->decay;
    const float beta1 = direct->momentum;
    const float add = direct->add;
    const float beta2 = direct->beta2;
    const float add_v = 1.0f - beta2;
    const float eps = direct->eps;
    const float rate = direct->rate;
    INDEPENDENT
    for (size_t i = 0; i < count; i++) {
        const float g = scale * gradient[i] + decay * at[i];
        const float second = beta2 * v[i] + add_v * (g * g);
        const float floored = second < FLT_MIN ? FLT_MIN : second > FLT_MAX ? FLT_MAX : second;
        const float first_moment = beta1 * m[i] + add * g;
        v_out[i] = floored;
        m_out[i] = first_moment;
        step[i] = rate * first_moment / (sqrtf(floored) + eps);
    }
}

/* out = in + rate * m / (sqrt(v) + eps) */
static void adam_chunk(void *context, size_t chunk, size_t first, size_t count)
{
    const struct tsi_direct *const direct = context;
    const size_t end = first + count;
    float step[STRIDE];
    (void)chunk;
    for (size_t from = first; from < end; from += STRIDE) {
        const size_t here = end - from < STRIDE ? end - from : STRIDE;
        adam_steps(direct, from, here, step);
        if (direct->out) {
            const float *const in = direct->in + from;
            float *const out = direct->out + from;
            INDEPENDENT
            for (size_t i = 0; i < here; i++)
                out[i] = in[i] + step[i];
        }
        for (size_t i = 0; direct->local && i < here; i++)
            direct->local[from + i] -= step[i];
    }
}

/* ---- all ---- */

void tsi_direct(enum tsi_direction direction, const struct tsi_direct *direct)
{
    struct tsi_direct copy = *direct;
    if (copy.out && !copy.in) {
        memset(copy.out, 0, copy.count * sizeof *copy.out);
        copy.in = copy.out;
    }
    switch (direction) {
    case TSI_DIRECTION_GRADIENT:
        if (copy.out)
            tsi_each_chunk(copy.threads, copy.count, gradient_chunk, &copy);
        if (copy.local)
            tsi_each_chunk(copy.threads, copy.count, local_chunk, &copy);
        break;
    case TSI_DIRECTION_MOMENTUM:
    case TSI_DIRECTION_AVERAGE:
        tsi_each_chunk(copy.threads, copy.count, momentum_chunk, &copy);
        break;
    case TSI_DIRECTION_ADAM: tsi_each_chunk(copy.threads, copy.count, adam_chunk, &copy); break;
    }
}
