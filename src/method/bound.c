/* When a step may write its state in place: if nothing can make it be skipped once the opening
 * records have said that all gradients are finite. What could is an overflow: of a residual, of a
 * payload, of the sum of all workers' payloads. So upper bounds of all magnitudes are carried
 * along, a few multiplications a step; every worker tells its own in the opening record. Where they
 * grow too large (they never shrink by themselves) they are measured anew, and where the magnitudes
 * themselves are too large, the step writes beside its state. */
#include <math.h>

#include "method/method.h"

/* Products of two such numbers, and sums of a million of those, are finite. */
#define SAFE 1e15

static double largest_of(const terse_method *method, const float *floats)
{
    const uint32_t bits =
        floats ? method->step.in->kernel->magnitude_max_f32(floats, method->count) : 0;
    union {
        uint32_t bits;
        float value;
    } most = {bits};
    return bits < TSK_INFINITY_BITS ? (double)most.value : INFINITY;
}

static void measure(terse_method *method)
{
    const struct tsi_buffers *const buffers = &method->buffers;
    struct tsi_bounds *const bounds = &method->bounds;
    const int owns = method->stages.update == TSI_UPDATE_REPLACE;
    bounds->known = 1;
    bounds->weights = largest_of(method, buffers->weights);
    if (owns)
        bounds->weights = fmax(bounds->weights, largest_of(method, buffers->owner.now));
    bounds->m = largest_of(method, buffers->m.now);
    bounds->residual = largest_of(method, buffers->residual.now);
    bounds->ratio = 0;
    for (size_t i = 0; buffers->v.now && i < method->count; i++)
        bounds->ratio =
            fmax(bounds->ratio, fabs((double)buffers->m.now[i]) / sqrt((double)buffers->v.now[i]));
}

/* The bounds after a step with this gradient. */
static struct tsi_bounds next_bounds(const terse_method *method, double gradient)
{
    const struct tsi_direct direct = tsi_direct_of(method, NULL, 0, 0);
    const struct tsi_direction_row *const row = &tsi_directions[method->stages.direction];
    struct tsi_bounds next = method->bounds;
    struct tsi_moment_bounds moments = {next.m, next.ratio};
    const double point = next.weights + tsi_value(method, TSI_LAMBDA) * next.residual;
    const double g = (double)direct.scale * gradient + (double)direct.decay * point;
    const double slack = 1 + 1e-5; /* more than all roundings of a step together */
    const double most = slack * row->bound(&direct, g, &moments);
    next.m = slack * moments.m;
    next.ratio = slack * moments.ratio;
    next.residual = slack * (next.residual + (double)direct.rate * most);
    return next;
}

static int is_small(const struct tsi_bounds *bounds)
{
    return bounds->weights < SAFE && bounds->m < SAFE && bounds->residual < SAFE;
}

double tsi_bound_step(terse_method *method, double gradient)
{
    struct tsi_bounds next = next_bounds(method, gradient);
    if (!method->bounds.known || !is_small(&next)) {
        measure(method);
        next = next_bounds(method, gradient);
    }
    if (!is_small(&next))
        return INFINITY;
    method->bounds = next;
    return next.residual;
}

int tsi_bound_is_safe(terse_method *method, double largest)
{
    const double limit = method->step.in->codec_limit / 2;
    const int safe = largest * (double)method->workers < SAFE && largest < limit;
    if (safe)
        method->bounds.weights += largest;
    else
        method->bounds.known = 0;
    return safe;
}
