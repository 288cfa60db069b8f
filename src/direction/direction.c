#include "direction/direction.h"

#include <float.h>
#include <math.h>
#include <string.h>

#include "base/parallel.h"

#define STRIDE ((size_t)512) /* steps of one stride stay in the first-level cache */

/* Buffers of a loop may be the same, element for element, but never overlap otherwise. */
#if defined(__clang__)
#pragma clang diagnostic ignored "-Wpass-failed" /* a build without vectors is no mistake */
#define INDEPENDENT _Pragma("clang loop vectorize(assume_safety)")
#else
#define INDEPENDENT _Pragma("GCC ivdep")
#endif

/* ---- gradient ---- */

/* out = in + rate * g */
static void add_gradient(const struct tsi_direct *direct, size_t first, size_t count)
{
    const float *const gradient = direct->gradient + first;
    const float *const at = direct->at ? direct->at + first : gradient;
    const float *const in = direct->in + first;
    float *const out = direct->out + first;
    const float scale = direct->scale;
    const float decay = direct->decay;
    const float rate = direct->rate;
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
static void gradient_chunk(void *context, size_t chunk, size_t first, size_t count)
{
    const struct tsi_direct *const direct = context;
    (void)chunk;
    if (direct->out)
        add_gradient(direct, first, count);
    if (direct->local) {
        const float *restrict const gradient = direct->gradient + first;
        float *restrict const local = direct->local + first;
        for (size_t i = 0; i < count; i++)
            local[i] -= direct->rate * (direct->scale * gradient[i] + direct->decay * local[i]);
    }
}

static double gradient_bound(const struct tsi_direct *direct, double g,
                             struct tsi_moment_bounds *bounds)
{
    (void)direct;
    (void)bounds;
    return g;
}

/* ---- momentum ---- */

/* m = momentum * m + add * g;  out = in + rate * m. A chunk of m and out fits the second-level
 * cache, so all loops are one pass over memory. */
static void momentum_chunk(void *context, size_t chunk, size_t first, size_t count)
{
    const struct tsi_direct *const direct = context;
    const float *const gradient = direct->gradient + first;
    const float *const at = direct->decay != 0 ? direct->at + first : gradient;
    const float *const m = direct->m + first;
    float *const m_out = direct->m_out + first;
    const float scale = direct->scale * direct->add;
    const float decay = direct->decay * direct->add;
    const float momentum = direct->momentum;
    const float rate = direct->rate;
    (void)chunk;
    if (decay == 0) {
        INDEPENDENT
        for (size_t i = 0; i < count; i++)
            m_out[i] = momentum * m[i] + scale * gradient[i];
    } else {
        INDEPENDENT
        for (size_t i = 0; i < count; i++)
            m_out[i] = momentum * m[i] + (scale * gradient[i] + decay * at[i]);
    }
    if (direct->out) {
        const float *const in = direct->in + first;
        float *const out = direct->out + first;
        INDEPENDENT
        for (size_t i = 0; i < count; i++)
            out[i] = in[i] + rate * m_out[i];
    }
    if (direct->local) {
        float *restrict const local = direct->local + first;
        for (size_t i = 0; i < count; i++)
            local[i] -= rate * m_out[i];
    }
}

static double momentum_bound(const struct tsi_direct *direct, double g,
                             struct tsi_moment_bounds *bounds)
{
    bounds->m = (double)direct->momentum * bounds->m + (double)direct->add * g;
    return bounds->m;
}

/* ---- Nesterov's momentum ---- */

/* m = momentum * m + g;  out = in + rate * (g + momentum * m). The local weights come last, since
 * `at` may be the very same buffer. */
static void nesterov_chunk(void *context, size_t chunk, size_t first, size_t count)
{
    const struct tsi_direct *const direct = context;
    const float *const gradient = direct->gradient + first;
    const float *const at = direct->decay != 0 ? direct->at + first : gradient;
    const float *const m = direct->m + first;
    float *const m_out = direct->m_out + first;
    const float scale = direct->scale;
    const float decay = direct->decay;
    const float momentum = direct->momentum;
    const float rate = direct->rate;
    (void)chunk;
    INDEPENDENT
    for (size_t i = 0; i < count; i++)
        m_out[i] = momentum * m[i] + (scale * gradient[i] + decay * at[i]);
    if (direct->out) {
        const float *const in = direct->in + first;
        float *const out = direct->out + first;
        INDEPENDENT
        for (size_t i = 0; i < count; i++)
            out[i] = in[i] + rate * ((scale * gradient[i] + decay * at[i]) + momentum * m_out[i]);
    }
    if (direct->local) {
        float *const local = direct->local + first;
        INDEPENDENT
        for (size_t i = 0; i < count; i++)
            local[i] -= rate * ((scale * gradient[i] + decay * at[i]) + momentum * m_out[i]);
    }
}

static double nesterov_bound(const struct tsi_direct *direct, double g,
                             struct tsi_moment_bounds *bounds)
{
    return g + (double)direct->momentum * momentum_bound(direct, g, bounds);
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

/* |m| <= ratio * sqrt(v) stays true: by Cauchy-Schwarz the next ratio is at most
 * sqrt(beta1^2 / beta2 * ratio^2 + (1 - beta1)^2 / (1 - beta2)). */
static double adam_bound(const struct tsi_direct *direct, double g,
                         struct tsi_moment_bounds *bounds)
{
    const double beta1 = (double)direct->momentum;
    const double beta2 = (double)direct->beta2;
    const double ratio = bounds->ratio;
    (void)momentum_bound(direct, g, bounds);
    bounds->ratio =
        sqrt(beta1 * beta1 / beta2 * ratio * ratio + (1 - beta1) * (1 - beta1) / (1 - beta2));
    return bounds->ratio;
}

/* ---- all ---- */

const struct tsi_direction_row tsi_directions[] = {
    [TSI_DIRECTION_GRADIENT] = {"gradient", gradient_chunk, gradient_bound},
    [TSI_DIRECTION_MOMENTUM] = {"momentum", momentum_chunk, momentum_bound},
    [TSI_DIRECTION_AVERAGE] = {"average", momentum_chunk, momentum_bound},
    [TSI_DIRECTION_ADAM] = {"adam", adam_chunk, adam_bound},
    [TSI_DIRECTION_NESTEROV] = {"nesterov", nesterov_chunk, nesterov_bound},
};
const size_t tsi_direction_count = sizeof tsi_directions / sizeof tsi_directions[0];
_Static_assert(sizeof tsi_directions / sizeof tsi_directions[0] <= TSI_MAX_DIRECTIONS,
               "stages.c has room for their names");

void tsi_direct(enum tsi_direction direction, const struct tsi_direct *whole, const float *gradient,
                size_t first, size_t count)
{
    struct tsi_direct slice = *whole;
    const float **const read[] = {&slice.at, &slice.m, &slice.v, &slice.in};
    float **const written[] = {&slice.m_out, &slice.v_out, &slice.out, &slice.local};
    slice.gradient = gradient;
    for (size_t i = 0; i < sizeof read / sizeof read[0]; i++) {
        *read[i] = *read[i] ? *read[i] + first : NULL;
        *written[i] = *written[i] ? *written[i] + first : NULL;
    }
    if (slice.out && !slice.in) {
        memset(slice.out, 0, count * sizeof *slice.out);
        slice.in = slice.out;
    }
    tsi_each_chunk(slice.threads, count, tsi_directions[direction].chunk, &slice);
}
