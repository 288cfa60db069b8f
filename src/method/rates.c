/* The numbers of a step: the learning rate over time, and what direction and update are told. */
#include <math.h>

#include "method/method.h"

static double shape(int schedule, double t, double steps)
{
    const double done = steps > 0 ? t / steps : 0;
    switch (schedule) {
    case TSI_SCHEDULE_STEP: return done < 0.5 ? 1 : done < 0.75 ? 0.1 : 0.01;
    case TSI_SCHEDULE_COSINE:
        return 0.5 * (1 + cos(3.14159265358979323846 * (done < 1 ? done : 1)));
    case TSI_SCHEDULE_SQRT: return 1 / sqrt(t + 1);
    default: return 1;
    }
}

/* lr stays the same between exchanges: it belongs to the round of local steps. */
double tsi_lr_now(const terse_method *method)
{
    const uint64_t every = (uint64_t)tsi_value(method, TSI_EVERY);
    const uint64_t step = method->progress.step;
    const double t = (double)(every > 1 ? step - step % every : step);
    const double ramp = tsi_value(method, TSI_RAMP);
    if (method->options.aggregate_out)
        return 1; /* the optimizer's lr comes later */
    if (method->progress.lr_given >= 0)
        return method->progress.lr_given;
    return tsi_value(method, TSI_LR) * (t < ramp ? (t + 1) / ramp : 1) *
           shape((int)tsi_value(method, TSI_SCHEDULE), t, (double)method->options.steps);
}

/* beta2 of this step: constant, or the theory's 1 - theta / (t + shift), t from 1. */
static double beta2_now(const terse_method *method)
{
    const double t = (double)method->progress.step + 1 + tsi_value(method, TSI_SHIFT);
    if ((int)tsi_value(method, TSI_RATES) == TSI_RATES_THEORY)
        return 1 - tsi_value(method, TSI_THETA) / t;
    return tsi_value(method, TSI_BETA2);
}

/* Adam's correction of both moments as one factor of the rate; QAdam (with v0 > 0) has none. */
static double correction(const terse_method *method)
{
    const double t = (double)method->progress.step + 1;
    if (tsi_value(method, TSI_EPS) == 0)
        return 1;
    return sqrt(1 - pow(tsi_value(method, TSI_BETA2), t)) /
           (1 - pow(tsi_value(method, TSI_BETA1), t));
}

/* What is encoded lies in the residual, in `change`, in the momentum, or is the gradient itself. */
static void choose_output(const terse_method *method, size_t first, struct tsi_direct *out)
{
    const struct tsi_buffers *const buffers = &method->buffers;
    const int in_place = method->step.in_place;
    const struct tsi_pair *const pair =
        buffers->residual.now ? &buffers->residual : &buffers->change;
    const float *const from = pair->now;
    float *const to = tsi_out(pair, in_place && pair->now);
    out->in = from ? from + first : NULL;
    out->out = to ? to + first : NULL;
    out->m = buffers->m.now ? buffers->m.now + first : NULL;
    out->m_out = buffers->m.now ? tsi_out(&buffers->m, in_place) + first : NULL;
    out->v = buffers->v.now ? buffers->v.now + first : NULL;
    out->v_out = buffers->v.now ? tsi_out(&buffers->v, in_place) + first : NULL;
}

/* Decay is part of the direction where lr is inside it; elsewhere the update does it. */
struct tsi_direct tsi_direct_of(const terse_method *method, const float *gradient, size_t first,
                                size_t count)
{
    const int inside = method->stages.unit == TSI_UNIT_WEIGHT;
    struct tsi_direct direct = {.gradient = gradient,
                                .at = terse_method_point(method) + first,
                                .scale = method->step.scale,
                                .decay = inside ? (float)tsi_value(method, TSI_WD) : 0,
                                .rate = inside ? method->step.lr : 1,
                                .count = count,
                                .threads = tsi_threads(method)};
    choose_output(method, first, &direct);
    switch (method->stages.direction) {
    case TSI_DIRECTION_GRADIENT: break;
    case TSI_DIRECTION_MOMENTUM:
        direct.momentum = (float)tsi_value(method, TSI_MOMENTUM);
        direct.add = 1;
        break;
    case TSI_DIRECTION_AVERAGE:
        direct.momentum = (float)tsi_value(method, TSI_BETA);
        direct.add = 1 - direct.momentum;
        break;
    case TSI_DIRECTION_ADAM:
        direct.momentum = (float)tsi_value(method, TSI_BETA1);
        direct.add = 1 - direct.momentum;
        direct.beta2 = (float)beta2_now(method);
        direct.eps = (float)tsi_value(method, TSI_EPS);
        direct.rate = (float)(method->step.lr * correction(method));
        break;
    }
    return direct;
}

struct tsi_update tsi_update_of(const terse_method *method)
{
    const struct tsi_stages *const stages = &method->stages;
    const double t = (double)method->progress.rounds + 1;
    struct tsi_update update = {
        .kind = stages->update,
        .lr = method->step.lr,
        .decay = (float)tsi_value(method, TSI_WD),
        .momentum =
            (float)tsi_value(method, stages->update == TSI_UPDATE_ADAM ? TSI_BETA1 : TSI_MOMENTUM),
        .beta2 = (float)tsi_value(method, TSI_BETA2),
        .eps = (float)tsi_value(method, TSI_EPS),
        .correct_m = (float)(1 - pow(tsi_value(method, TSI_BETA1), t)),
        .correct_v = (float)(1 - pow(tsi_value(method, TSI_BETA2), t)),
        .m = method->buffers.update_m,
        .v = method->buffers.update_v,
        .weights = method->buffers.weights,
        .threads = tsi_threads(method),
        .kernel = method->step.in->kernel,
    };
    if (method->options.aggregate_out)
        update.kind =
            stages->update == TSI_UPDATE_SIGNED ? TSI_UPDATE_WRITE_SIGN : TSI_UPDATE_WRITE;
    if (stages->update == TSI_UPDATE_SUBTRACT) { /* lr was inside; local steps have an outer one */
        update.lr = stages->local ? (float)tsi_value(method, TSI_OUTER_LR) : 1;
        update.momentum = (float)tsi_value(method, TSI_OUTER_MOMENTUM);
        update.nesterov = tsi_value(method, TSI_NESTEROV) != 0;
    }
    return update;
}
