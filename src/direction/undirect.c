/* Directions taken back: for a step that turns out to be unsayable after it was added. Rare, so
 * plain loops. */
#include <float.h>
#include <math.h>

#include "direction/direction.h"

static float gradient_at(const struct tsi_direct *direct, size_t i)
{
    const float decay = direct->decay != 0 ? direct->decay * direct->at[i] : 0;
    return direct->scale * direct->gradient[i] + decay;
}

static void take_out(const struct tsi_direct *direct, size_t i, float step)
{
    if (direct->out)
        direct->out[i] = isfinite(direct->out[i] - step) ? direct->out[i] - step : 0;
    if (direct->local)
        direct->local[i] += step;
}

/* (now - added) / keep, or 0 where that is nothing. */
static float before(float now, float added, float keep)
{
    const float value = keep > 0 ? (now - added) / keep : 0;
    return isfinite(value) ? value : 0;
}

void tsi_undirect_gradient(const struct tsi_direct *direct)
{
    for (size_t i = 0; i < direct->count; i++)
        take_out(direct, i, direct->rate * gradient_at(direct, i));
}

void tsi_undirect_momentum(const struct tsi_direct *direct)
{
    for (size_t i = 0; i < direct->count; i++) {
        take_out(direct, i, direct->rate * direct->m[i]);
        direct->m[i] = before(direct->m[i], direct->add * gradient_at(direct, i), direct->keep);
    }
}

void tsi_undirect_adam(const struct tsi_direct *direct)
{
    for (size_t i = 0; i < direct->count; i++) {
        const float g = gradient_at(direct, i);
        take_out(direct, i, direct->rate * direct->m[i] / (sqrtf(direct->v[i]) + direct->eps));
        direct->m[i] = before(direct->m[i], direct->add * g, direct->keep);
        direct->v[i] = before(direct->v[i], (1.0f - direct->keep_v) * (g * g), direct->keep_v);
        if (direct->v[i] < FLT_MIN)
            direct->v[i] = FLT_MIN;
    }
}
