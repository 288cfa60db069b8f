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
    if (method->options.answer)
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

static terse_status begin(terse_method *method, const float *gradient, terse_fault *fault)
{
    const struct tsk_table *kernel = NULL;
    const uint32_t every = method->options.measure_every;
    const terse_status status = tsk_bound(&kernel, fault);
    if (status != TERSE_OK)
        return status;
    const int warm = method->progress.step < (uint64_t)tsi_value(method, TSI_WARMUP);
    method->under_way = method->exchange[warm ? TSI_EXCHANGE_WARM : TSI_EXCHANGE_MAIN];
    method->gradient = gradient;
    method->lr = (float)lr_now(method);
    method->scale = clip_scale(method, kernel);
    method->measuring = every > 0 && method->progress.step % every == 0;
    method->said_square = 0;
    terse_exchange_set_step(method->under_way, method->progress.rounds);
    return TERSE_OK;
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

void tsi_method_keep(terse_method *method)
{
    if (method->m_before)
        memcpy(method->m_before, method->m, method->count * sizeof(float));
    if (method->v_before)
        memcpy(method->v_before, method->v, method->count * sizeof(float));
}

void tsi_method_take_back(terse_method *method)
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
                               .memory_norm = NAN,
                               .compression_error = NAN,
                               .exchanged = 1};
    if (!skipped) {
        tsi_method_settle(method);
        method->posterior_count = method->posterior.count;
        all.bits = payload_bits(method);
        if (method->measuring && method->memory) {
            all.memory_norm = norm_of(method, method->memory);
            all.compression_error =
                method->said_square > 0 ? all.memory_norm / sqrt(method->said_square) : 0;
        }
        method->progress.step++;
        method->progress.rounds++;
    }
    if (skipped && method->buckets)
        tsi_method_take_back(method);
    if (skipped && method->bits)
        tsi_method_bits_forget(method);
    if (report)
        *report = all;
}

/* A gradient that is not finite is left out of a local step: the others cannot know of it. */
static void step_alone(terse_method *method, const struct tsk_table *kernel, const float *gradient,
                       terse_method_report *report)
{
    const int fit = method->options.trusted ||
                    kernel->magnitude_max_f32(gradient, method->count) < TSK_INFINITY_BITS;
    if (fit)
        tsi_method_local(method, gradient);
    if (report)
        *report = (terse_method_report){
            .exchange = {.step = method->progress.rounds,
                         .skipped = fit ? TERSE_OK : TERSE_NOT_FINITE,
                         .skipped_by = fit ? -1 : (int32_t)method->rank},
            .step = method->progress.step,
            .lr = (double)method->lr,
            .memory_norm = NAN,
            .compression_error = NAN,
        };
    method->progress.step++;
}

/* ---- public ---- */

terse_status terse_method_step_all(terse_method *const *method, const float *const *gradient,
                                   terse_method_report *report, terse_fault *fault)
{
    if (!method || !method[0] || !gradient)
        return tsi_fail(fault, TERSE_BAD_ARGUMENT, 0, "method or gradient is NULL");
    const uint32_t count = method[0]->owns_group ? method[0]->workers : 1;
    const int exchanges = exchanges_now(method[0]);
    const struct tsk_table *kernel = NULL;
    terse_exchange_report done[TERSE_MAX_LOCAL_WORKERS];
    terse_status status = tsk_bound(&kernel, fault);
    for (uint32_t i = 0; i < count; i++) /* before any worker has said that it is ready */
        if (!method[i] || !gradient[i])
            return tsi_fail(fault, TERSE_BAD_ARGUMENT, 0, "method or gradient is NULL");
    for (uint32_t i = 0; i < count && status == TERSE_OK; i++) {
        status = begin(method[i], gradient[i], fault);
        if (status == TERSE_OK && exchanges)
            status = tsi_exchange_begin(method[i]->under_way, gradient[i], fault);
        else if (status == TERSE_OK)
            step_alone(method[i], kernel, gradient[i], report ? &report[i] : NULL);
    }
    for (int over = !exchanges; !over && status == TERSE_OK;) {
        for (uint32_t i = 0; i < count && status == TERSE_OK; i++)
            status = tsi_exchange_advance(method[i]->under_way, &over, &done[i], fault);
    }
    for (uint32_t i = 0; i < count && status == TERSE_OK && exchanges; i++)
        end(method[i], &done[i], report ? &report[i] : NULL);
    return status;
}

terse_status terse_method_step(terse_method *method, const float *gradient,
                               terse_method_report *report, terse_fault *fault)
{
    if (!method || !gradient)
        return tsi_fail(fault, TERSE_BAD_ARGUMENT, 0, "method or gradient is NULL");
    if (method->owns_group && method->workers > 1)
        return tsi_fail(fault, TERSE_BAD_ARGUMENT, 0,
                        "one of several workers of this thread: terse_method_step_all");
    return terse_method_step_all(&method, &gradient, report, fault);
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
        const terse_status status = begin(method, gradient, fault);
        if (status != TERSE_OK)
            return status;
        tsi_method_keep(method); /* all of it: a bucket that is not fit is never directed */
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
    method->buckets = 0;
    return status;
}
