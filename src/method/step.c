/* A step: local, or an exchange from begin to end; of one worker, or of all of them side by side.
 */
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "base/fault.h"
#include "kernels/bind.h"
#include "method/method.h"

const float *terse_method_point(const terse_method *method)
{
    return method->point ? method->point : method->weights;
}

/* ---- one phase after the other ---- */

static int exchanges_now(const terse_method *method)
{
    const uint64_t every = (uint64_t)tsi_value(method, TSI_EVERY);
    return every <= 1 || (method->progress.step + 1) % every == 0;
}

/* lr stays the same between exchanges: it belongs to the round. */
static double lr_now(const terse_method *method)
{
    const uint64_t every = (uint64_t)tsi_value(method, TSI_EVERY);
    const uint64_t step = method->progress.step;
    if (method->options.aggregate_out)
        return 1; /* the optimizer's lr comes later */
    if (method->progress.lr_given >= 0)
        return method->progress.lr_given;
    return tsi_settings_lr(&method->settings, every > 1 ? step - step % every : step,
                           method->options.steps);
}

static float clip_scale(const terse_method *method, const struct tsk_table *kernel)
{
    const double clip = tsi_value(method, TSI_CLIP);
    if (clip == 0)
        return 1;
    const double norm = sqrt(kernel->square_sum_f32(method->gradient, method->count));
    return norm > clip ? (float)(clip / norm) : 1;
}

/* The gradient of a step: in one piece, or by tensor. */
struct given {
    const float *flat;
    const float *const *tensors;
};

static terse_status begin(terse_method *method, struct given given, terse_fault *fault)
{
    const struct tsk_table *kernel = NULL;
    const uint32_t every = method->options.measure_every;
    const terse_status status = tsk_bound(&kernel, fault);
    if (status != TERSE_OK)
        return status;
    const int warm = method->progress.step < (uint64_t)tsi_value(method, TSI_WARMUP);
    method->under_way = method->exchange[warm ? TSI_EXCHANGE_WARM : TSI_EXCHANGE_MAIN];
    method->gradient = given.flat;
    method->tensors = given.tensors;
    method->lr = (float)lr_now(method);
    method->scale = clip_scale(method, kernel);
    method->measuring = every > 0 && method->progress.step % every == 0;
    method->said_square = 0;
    terse_exchange_set_step(method->under_way, method->progress.rounds);
    return TERSE_OK;
}

static int is_fit(const terse_method *method, const struct tsk_table *kernel)
{
    uint32_t most = 0;
    if (method->options.skip_finite_check)
        return 1;
    if (!method->tensors)
        return kernel->magnitude_max_f32(method->gradient, method->count) < TSK_INFINITY_BITS;
    for (uint32_t t = 0; t < terse_layout_tensors(method->layout); t++) {
        const size_t count = tsi_layout_piece(method->layout, t).count;
        const uint32_t here = kernel->magnitude_max_f32(method->tensors[t], count);
        most = here > most ? here : most;
    }
    return most < TSK_INFINITY_BITS;
}

static double norm_of(const terse_method *method, const float *floats)
{
    const struct tsk_table *kernel = NULL;
    if (tsk_bound(&kernel, NULL) != TERSE_OK)
        return NAN;
    return sqrt(kernel->square_sum_f32(floats, method->count));
}

static double payload_bits(const terse_method *method)
{
    const terse_exchange *const exchange = method->under_way;
    size_t len = 0;
    for (uint32_t i = 0; i < exchange->posted_count; i++)
        len += exchange->posted[i]->said_len;
    return method->count > 0 ? 8.0 * (double)len / (double)method->count : 0;
}

/* The moments as they were before buckets were posted. */
static void take_back(terse_method *method)
{
    if (method->m_before)
        memcpy(method->m, method->m_before, method->count * sizeof(float));
    if (method->v_before)
        memcpy(method->v, method->v_before, method->count * sizeof(float));
}

/* Room for copies of the moments, once buckets are posted one by one. */
static int has_room(terse_method *method)
{
    if (method->m && !method->m_before)
        method->m_before = malloc((method->count + 1) * sizeof(float));
    if (method->v && !method->v_before)
        method->v_before = malloc((method->count + 1) * sizeof(float));
    return (!method->m || method->m_before) && (!method->v || method->v_before);
}

static void end(terse_method *method, const terse_exchange_report *done,
                terse_method_report *report)
{
    const int skipped = done->skipped != TERSE_OK;
    terse_method_report all = {.exchange = *done,
                               .step = method->progress.step,
                               .lr = (double)method->lr,
                               .residual_norm = NAN,
                               .compression_error = NAN,
                               .exchanged = 1};
    if (!skipped) {
        tsi_method_settle(method);
        method->posterior_count = method->posterior.count;
        all.bits = payload_bits(method);
        if (method->measuring && method->memory) {
            all.residual_norm = norm_of(method, method->memory);
            all.compression_error =
                method->said_square > 0 ? all.residual_norm / sqrt(method->said_square) : 0;
        }
        method->progress.step++;
        method->progress.rounds++;
    }
    if (skipped && method->buckets)
        take_back(method);
    if (skipped)
        tsi_method_point_back(method);
    if (skipped && method->bits)
        tsi_method_bits_forget(method);
    if (report)
        *report = all;
}

/* A gradient that is not finite is left out of a local step: the others cannot know of it. */
static void step_alone(terse_method *method, int fit, terse_method_report *report)
{
    if (fit)
        tsi_method_local(method);
    if (report)
        *report = (terse_method_report){
            .exchange = {.step = method->progress.rounds,
                         .skipped = fit ? TERSE_OK : TERSE_NOT_FINITE,
                         .skipped_by = fit ? -1 : (int32_t)method->rank},
            .step = method->progress.step,
            .lr = (double)method->lr,
            .residual_norm = NAN,
            .compression_error = NAN,
        };
    method->progress.step++;
}

/* ---- public ---- */

/* Begins a step of one worker; `report` is of a local one, which it ends as well. */
static terse_status begin_step(terse_method *method, struct given given, int exchanges,
                               terse_method_report *report, terse_fault *fault)
{
    const struct tsk_table *kernel = NULL;
    terse_status status = tsk_bound(&kernel, fault);
    if (status == TERSE_OK)
        status = begin(method, given, fault);
    if (status != TERSE_OK)
        return status;
    uint64_t from = tsi_now();
    const int fit = is_fit(method, kernel);
    tsi_clock(&method->under_way->room, TERSE_STAGE_DIRECTION, &from);
    if (exchanges)
        return tsi_exchange_begin(method->under_way, given.flat, fit, fault);
    step_alone(method, fit, report);
    return TERSE_OK;
}

/* Workers side by side: all of them make a phase before any makes the next. */
static terse_status step_workers(terse_method *const *method, const struct given *given,
                                 uint32_t count, terse_method_report *report, terse_fault *fault)
{
    const int exchanges = exchanges_now(method[0]);
    terse_exchange_report done[TERSE_MAX_LOCAL_WORKERS];
    terse_status status = TERSE_OK;
    for (uint32_t i = 0; i < count && status == TERSE_OK; i++)
        status = begin_step(method[i], given[i], exchanges, report ? &report[i] : NULL, fault);
    for (int over = !exchanges; !over && status == TERSE_OK;)
        for (uint32_t i = 0; i < count && status == TERSE_OK; i++)
            status = tsi_exchange_advance(method[i]->under_way, &over, &done[i], fault);
    for (uint32_t i = 0; i < count && status == TERSE_OK && exchanges; i++)
        end(method[i], &done[i], report ? &report[i] : NULL);
    for (uint32_t i = 0; i < count && status != TERSE_OK; i++)
        tsi_method_point_back(method[i]);
    return status;
}

terse_status terse_method_step_all(terse_method *const *method, const float *const *gradient,
                                   terse_method_report *report, terse_fault *fault)
{
    struct given given[TERSE_MAX_LOCAL_WORKERS];
    if (!method || !method[0] || !gradient)
        return tsi_fail(fault, TERSE_BAD_ARGUMENT, 0, "method or gradient is NULL");
    const uint32_t count = method[0]->owns_group ? method[0]->workers : 1;
    for (uint32_t i = 0; i < count; i++) { /* before any worker has said that it is ready */
        if (!method[i] || !gradient[i])
            return tsi_fail(fault, TERSE_BAD_ARGUMENT, 0, "method or gradient is NULL");
        given[i] = (struct given){gradient[i], NULL};
    }
    return step_workers(method, given, count, report, fault);
}

static terse_status check_one(const terse_method *method, const void *gradient, terse_fault *fault)
{
    if (!method || !gradient)
        return tsi_fail(fault, TERSE_BAD_ARGUMENT, 0, "method or gradient is NULL");
    if (method->owns_group && method->workers > 1)
        return tsi_fail(fault, TERSE_BAD_ARGUMENT, 0,
                        "one of several workers of this thread: terse_method_step_all");
    return TERSE_OK;
}

terse_status terse_method_step(terse_method *method, const float *gradient,
                               terse_method_report *report, terse_fault *fault)
{
    const terse_status status = check_one(method, gradient, fault);
    return status == TERSE_OK ? terse_method_step_all(&method, &gradient, report, fault) : status;
}

/* Whether the gradient is needed in one piece: for its norm, or because it is itself what is said.
 */
static int needs_flat(const terse_method *method)
{
    return tsi_value(method, TSI_CLIP) != 0 || method->stations.local ||
           (!method->memory && !method->said && !method->m);
}

static terse_status flatten(terse_method *method, const float *const *gradient, terse_fault *fault)
{
    if (!method->flat)
        method->flat = malloc((method->count + 1) * sizeof(float));
    if (!method->flat)
        return tsi_fail(fault, TERSE_NO_MEMORY, 0, "out of memory");
    for (uint32_t t = 0; t < terse_layout_tensors(method->layout); t++) {
        const struct tsi_piece tensor = tsi_layout_piece(method->layout, t);
        if (tensor.count > 0 && gradient[t])
            memcpy(method->flat + tensor.offset, gradient[t], tensor.count * sizeof(float));
    }
    return TERSE_OK;
}

terse_status terse_method_step_tensors(terse_method *method, const float *const *gradient,
                                       terse_method_report *report, terse_fault *fault)
{
    struct given given = {NULL, gradient};
    terse_status status = check_one(method, gradient, fault);
    if (status != TERSE_OK)
        return status;
    for (uint32_t t = 0; t < terse_layout_tensors(method->layout); t++)
        if (!gradient[t] && tsi_layout_piece(method->layout, t).count > 0)
            return tsi_fail(fault, TERSE_BAD_ARGUMENT, 0, "the gradient of tensor %u is NULL", t);
    if (needs_flat(method)) {
        status = flatten(method, gradient, fault);
        given = (struct given){method->flat, NULL};
    }
    return status == TERSE_OK ? step_workers(&method, &given, 1, report, fault) : status;
}

terse_status terse_method_post(terse_method *method, const float *gradient, uint32_t first,
                               uint32_t count, terse_fault *fault)
{
    if (!method || !gradient)
        return tsi_fail(fault, TERSE_BAD_ARGUMENT, 0, "method or gradient is NULL");
    if (method->owns_group && method->workers > 1)
        return tsi_fail(fault, TERSE_BAD_ARGUMENT, 0, "workers of one thread take whole steps");
    if (tsi_value(method, TSI_CLIP) != 0 || method->stations.local)
        return tsi_fail(fault, TERSE_BAD_ARGUMENT, 0,
                        "clipping and local steps need all of the gradient");
    if (!has_room(method))
        return tsi_fail(fault, TERSE_NO_MEMORY, 0, "out of memory");
    if (!method->buckets) {
        const terse_status status = begin(method, (struct given){gradient, NULL}, fault);
        if (status != TERSE_OK)
            return status;
        method->buckets = 1;
    }
    method->gradient = gradient;
    return terse_exchange_post(method->under_way, gradient, first, count, fault);
}

terse_status terse_method_finish(terse_method *method, const float *gradient,
                                 terse_method_report *report, terse_fault *fault)
{
    terse_exchange_report done = {0};
    if (!method || !gradient)
        return tsi_fail(fault, TERSE_BAD_ARGUMENT, 0, "method or gradient is NULL");
    if (!method->buckets)
        return tsi_fail(fault, TERSE_BAD_ARGUMENT, 0, "nothing was posted");
    const terse_status status = tsi_exchange_finish(method->under_way, gradient, &done, fault);
    if (status == TERSE_BAD_ARGUMENT)
        return status; /* tensors are missing: they can still be posted */
    if (status == TERSE_OK)
        end(method, &done, report);
    else
        tsi_method_point_back(method);
    method->buckets = 0;
    return status;
}
