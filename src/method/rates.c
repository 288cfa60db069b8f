/* The numbers of a step: learning rate, clipping of norm and elements, what the direction is told;
 * and upper bounds of all magnitudes, which decide when a step may write its state in place.
 *
 * It may if nothing can make it be skipped once the opening records have said that all gradients
 * are finite. What could is an overflow: of a residual, of a payload, of the sum of all workers'
 * payloads. So bounds are carried along, a few multiplications a step; every worker tells its own
 * in the opening record. Where they grow too large (they never shrink by themselves) they are
 * measured anew, and where the magnitudes themselves are too large, the step writes beside its
 * state. */
#include <math.h>
#include <string.h>

#include "direction/clip.h"
#include "method/method.h"

/* Products of two such numbers, and sums of a million of those, are finite. */
#define SAFE 1e15

/* Weights, moments and what is added to them are safe below this: roundings and the few factors
 * that bounds leave out are a small part of what is left to the largest float, 3.4e38. */
#define REACH 1e30

/* The bits of 2^64, the least power of two whose square overflows. One gradient of that size would
 * make a second moment infinite, and its element would never move again. */
#define SQUARE_LIMIT 0x5f800000u

/* lr stays the same between exchanges: it belongs to the round of local steps. */
static double lr_now(const terse_method *method)
{
    const uint64_t every = (uint64_t)tsi_value(method, TSI_EVERY);
    const uint64_t step = method->progress.step;
    const double t = (double)(every > 1 ? step - step % every : step);
    const double done = method->options.steps > 0 ? t / (double)method->options.steps : 0;
    const double ramp = tsi_value(method, TSI_RAMP);
    const double lr = tsi_value(method, TSI_LR) * (t < ramp ? (t + 1) / ramp : 1);
    if (method->options.aggregate_out)
        return 1; /* the optimizer's lr comes later */
    if (method->progress.lr_given >= 0)
        return method->progress.lr_given;
    switch ((int)tsi_value(method, TSI_SCHEDULE)) {
    case TSI_SCHEDULE_STEP: return lr * (done < 0.5 ? 1 : done < 0.75 ? 0.1 : 0.01);
    case TSI_SCHEDULE_COSINE:
        return lr * (0.5 * (1 + cos(3.14159265358979323846 * (done < 1 ? done : 1))));
    case TSI_SCHEDULE_SQRT: return lr * (1 / sqrt(t + 1));
    default: return lr;
    }
}

/* Tensors that travel as f32 have no scale that an element could make large: they stay. */
const float *tsi_clip_gradient(terse_method *method, const float *gradient, uint32_t first,
                               uint32_t count)
{
    const struct tsi_collective *const in = method->step.in;
    const double sigma = tsi_value(method, TSI_SIGMA);
    float *const flat = method->buffers.flat;
    if (sigma == 0 || in == method->collective[TSI_WARM_UP])
        return gradient;
    for (uint32_t t = first; t < first + count; t++) {
        const struct tsi_piece tensor = tsi_layout_piece(method->layout, t);
        const float *const from = gradient + tensor.offset;
        float *const to = flat + tensor.offset;
        if (!in->plain || !in->plain[t])
            tsi_clip_elements(from, to, tensor.count, sigma, method->options.threads);
        else if (to != from)
            memcpy(to, from, tensor.count * sizeof *to);
    }
    return flat;
}

/* Adam's correction of both moments as one factor of the rate. QAdam, the one without eps, has none
 * unless it is asked for: v starts at v0 > 0. */
static double correction(const terse_method *method)
{
    const double t = (double)method->progress.step + 1;
    if (tsi_value(method, TSI_EPS) == 0 && tsi_value(method, TSI_BIAS) == 0)
        return 1;
    return sqrt(1 - pow(tsi_value(method, TSI_BETA2), t)) /
           (1 - pow(tsi_value(method, TSI_BETA1), t));
}

/* Decay is part of the direction where lr is inside it, and where the settings say so; elsewhere
 * the update does it. */
void tsi_choose_rates(terse_method *method)
{
    struct tsi_step *const step = &method->step;
    struct tsi_direct *const direct = &step->direct;
    const int inside = method->stages.unit == TSI_UNIT_WEIGHT;
    const int decays = inside || (int)tsi_value(method, TSI_DECAY) == TSI_DECAY_MOMENTUM;
    const double clip = tsi_value(method, TSI_CLIP);
    const double norm =
        clip == 0 ? 0 : sqrt(step->in->kernel->square_sum_f32(step->gradient, method->count));
    step->lr = (float)lr_now(method);
    step->limit =
        method->stages.update == TSI_UPDATE_ADAM || method->stages.direction == TSI_DIRECTION_ADAM
            ? SQUARE_LIMIT
            : TSK_INFINITY_BITS;
    *direct = (struct tsi_direct){.scale = norm > clip ? (float)(clip / norm) : 1,
                                  .decay = decays ? (float)tsi_value(method, TSI_WD) : 0,
                                  .rate = inside ? step->lr : 1,
                                  .threads = method->options.threads};
    switch (method->stages.direction) {
    case TSI_DIRECTION_GRADIENT: break;
    case TSI_DIRECTION_NESTEROV:
    case TSI_DIRECTION_MOMENTUM:
        direct->momentum = (float)tsi_value(method, TSI_MOMENTUM);
        direct->add = 1;
        break;
    case TSI_DIRECTION_AVERAGE:
        direct->momentum = (float)tsi_value(method, TSI_BETA);
        direct->add = 1 - direct->momentum;
        break;
    case TSI_DIRECTION_ADAM:
        direct->momentum = (float)tsi_value(method, TSI_BETA1);
        direct->add = 1 - direct->momentum;
        direct->beta2 = (float)tsi_value(method, TSI_BETA2);
        if ((int)tsi_value(method, TSI_RATES) == TSI_RATES_THEORY) /* 1 - theta / (t + shift) */
            direct->beta2 =
                (float)(1 - tsi_value(method, TSI_THETA) /
                                ((double)method->progress.step + 1 + tsi_value(method, TSI_SHIFT)));
        direct->eps = (float)tsi_value(method, TSI_EPS);
        direct->rate = (float)(step->lr * correction(method));
        break;
    }
}

/* ---- bounds ---- */

double tsi_magnitude(uint32_t bits)
{
    const union {
        uint32_t bits;
        float value;
    } most = {bits};
    return bits < TSK_INFINITY_BITS ? (double)most.value : INFINITY;
}

static double largest_of(const terse_method *method, const float *floats)
{
    return tsi_magnitude(floats ? method->step.in->kernel->magnitude_max_f32(floats, method->count)
                                : 0);
}

static void measure(terse_method *method)
{
    const struct tsi_buffers *const buffers = &method->buffers;
    struct tsi_bounds *const bounds = &method->bounds;
    bounds->known = 1;
    bounds->weights = largest_of(method, buffers->weights);
    if (method->stages.update == TSI_UPDATE_REPLACE)
        bounds->weights = fmax(bounds->weights, largest_of(method, buffers->owner.now));
    bounds->m = largest_of(method, buffers->m.now);
    bounds->residual = largest_of(method, buffers->residual.now);
    bounds->ratio = 0;
    for (size_t i = 0; buffers->v.now && i < method->count; i++)
        bounds->ratio =
            fmax(bounds->ratio, fabs((double)buffers->m.now[i]) / sqrt((double)buffers->v.now[i]));
}

/* The bounds after a step with this gradient; 0 where one of them is too large. */
static int next_bounds(const terse_method *method, double gradient, struct tsi_bounds *next)
{
    const struct tsi_direct *const direct = &method->step.direct;
    struct tsi_moment_bounds moments = {method->bounds.m, method->bounds.ratio};
    *next = method->bounds;
    const double point = next->weights + tsi_value(method, TSI_LAMBDA) * next->residual;
    const double g = (double)direct->scale * gradient + (double)direct->decay * point;
    const double slack = 1 + 1e-5; /* more than all roundings of a step together */
    const double most = slack * tsi_directions[method->stages.direction].bound(direct, g, &moments);
    next->m = slack * moments.m;
    next->ratio = slack * moments.ratio;
    next->residual = slack * (next->residual + (double)direct->rate * most);
    return next->weights < SAFE && next->m < SAFE && next->residual < SAFE;
}

double tsi_bound_step(terse_method *method, double gradient)
{
    struct tsi_bounds next;
    int small = method->bounds.known && next_bounds(method, gradient, &next);
    if (!small) {
        measure(method);
        small = next_bounds(method, gradient, &next);
    }
    if (!small)
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

/* ---- what the update reaches ---- */

/* The bounds after an update; 0 where one of them is too large. Encoding sums again, as owners do,
 * and low-rank factors make elements larger by less than their number; sums are larger than means.
 * Adam's ratio is bounded by eps alone, and its squares are looked at as well. */
static int next_reach(const terse_method *method, const struct tsi_update *update, double largest,
                      struct tsi_reach *next)
{
    const double decay = (double)update->decay * next->weights;
    const double aggregate =
        update->kind == TSI_UPDATE_SIGNED ? 1 : largest * ((double)method->count + 64);
    double push = aggregate;
    if (update->m) {
        next->m = (double)update->momentum * next->m + aggregate +
                  (update->kind == TSI_UPDATE_SGD ? decay : 0);
        push = 2 * next->m; /* Nesterov's form adds the aggregate once more */
    }
    if (update->kind == TSI_UPDATE_ADAM)
        push =
            fmax(push / ((double)update->correct_m * (double)update->eps), aggregate * aggregate);
    next->weights += (double)update->lr * (push + decay);
    return push < REACH && next->m < REACH && next->weights < REACH;
}

/* A bound that is carried on although the step is skipped later is only larger than it need be. */
int tsi_reach_is_safe(terse_method *method, const struct tsi_update *update, double largest)
{
    struct tsi_reach next = method->bounds.reach;
    int safe = next.known && next_reach(method, update, largest, &next);
    if (!safe) {
        next = (struct tsi_reach){1, largest_of(method, method->buffers.weights),
                                  largest_of(method, update->m)};
        safe = next_reach(method, update, largest, &next);
    }
    next.known = safe;
    method->bounds.reach = next;
    return safe;
}
