/* The public calls of a step: a whole gradient, flat or by tensor; all workers of a thread side by
 * side; or buckets one by one. */
#include <stdlib.h>
#include <string.h>

#include "base/fault.h"
#include "method/method.h"

const float *terse_method_point(const terse_method *method)
{
    return method->buffers.point ? method->buffers.point : method->buffers.weights;
}

/* ---- whole gradients ---- */

/* The gradient of a step: in one piece, or by tensor. */
struct gradient {
    const float *flat;
    const float *const *tensors;
};

static int exchanges_now(const terse_method *method)
{
    const uint64_t every = (uint64_t)tsi_value(method, TSI_EVERY);
    return every <= 1 || (method->progress.step + 1) % every == 0;
}

/* Workers side by side: each progresses before any progresses again. */
static terse_status step_workers(terse_method *const *method, const struct gradient *gradient,
                                 uint32_t count, terse_method_report *report, terse_fault *fault)
{
    terse_status status = TERSE_OK;
    int done = 0;
    if (!exchanges_now(method[0])) {
        for (uint32_t i = 0; i < count; i++)
            tsi_step_local(method[i], gradient[i].flat, report ? &report[i] : NULL);
        return TERSE_OK;
    }
    for (uint32_t i = 0; i < count && status == TERSE_OK; i++)
        status = tsi_step_begin(method[i], gradient[i].flat, gradient[i].tensors, 0, fault);
    while (status == TERSE_OK && !done)
        for (uint32_t i = 0; i < count && status == TERSE_OK; i++)
            status = tsi_step_progress(method[i], &done, report ? &report[i] : NULL, fault);
    return status;
}

terse_status terse_method_step_all(terse_method *const *method, const float *const *gradient,
                                   terse_method_report *report, terse_fault *fault)
{
    struct gradient given[TERSE_MAX_LOCAL_WORKERS];
    if (!method || !method[0] || !gradient)
        return tsi_fail(fault, TERSE_BAD_ARGUMENT, 0, "method or gradient is NULL");
    const uint32_t count = method[0]->owns_group ? method[0]->workers : 1;
    for (uint32_t i = 0; i < count; i++) { /* before any worker has opened the step */
        if (!method[i] || !gradient[i])
            return tsi_fail(fault, TERSE_BAD_ARGUMENT, 0, "method or gradient is NULL");
        given[i] = (struct gradient){gradient[i], NULL};
    }
    return step_workers(method, given, count, report, fault);
}

static terse_status check_one(const terse_method *method, const void *gradient, terse_fault *fault)
{
    if (!method || !gradient)
        return tsi_fail(fault, TERSE_BAD_ARGUMENT, 0, "method or gradient is NULL");
    if (method->owns_group && method->workers > 1)
        return tsi_fail(fault, TERSE_BAD_ARGUMENT, 0,
                        "this is one of several workers of a thread: use terse_method_step_all");
    return TERSE_OK;
}

terse_status terse_method_step(terse_method *method, const float *gradient,
                               terse_method_report *report, terse_fault *fault)
{
    const struct gradient given = {gradient, NULL};
    const terse_status status = check_one(method, gradient, fault);
    return status == TERSE_OK ? step_workers(&method, &given, 1, report, fault) : status;
}

/* Whether the gradient is needed in one piece: for its norm, or because it is itself what is
 * encoded. */
static int needs_flat(const terse_method *method)
{
    const struct tsi_buffers *const buffers = &method->buffers;
    return tsi_value(method, TSI_CLIP) != 0 || method->stages.local ||
           (!buffers->residual.now && !buffers->change.next && !buffers->m.now);
}

static terse_status flatten(terse_method *method, const float *const *gradient, terse_fault *fault)
{
    float **const flat = &method->buffers.flat;
    if (!*flat)
        *flat = malloc((method->count + 1) * sizeof **flat);
    if (!*flat)
        return tsi_fail(fault, TERSE_NO_MEMORY, 0, "out of memory");
    for (uint32_t t = 0; t < terse_layout_tensors(method->layout); t++) {
        const struct tsi_piece tensor = tsi_layout_piece(method->layout, t);
        if (tensor.count > 0 && gradient[t]) /* checked by the caller */
            memcpy(*flat + tensor.offset, gradient[t], tensor.count * sizeof **flat);
    }
    return TERSE_OK;
}

terse_status terse_method_step_tensors(terse_method *method, const float *const *gradient,
                                       terse_method_report *report, terse_fault *fault)
{
    struct gradient given = {NULL, gradient};
    terse_status status = check_one(method, gradient, fault);
    if (status != TERSE_OK)
        return status;
    for (uint32_t t = 0; t < terse_layout_tensors(method->layout); t++)
        if (!gradient[t] && tsi_layout_piece(method->layout, t).count > 0)
            return tsi_fail(fault, TERSE_BAD_ARGUMENT, 0, "the gradient of tensor %u is NULL", t);
    if (needs_flat(method)) {
        status = flatten(method, gradient, fault);
        given = (struct gradient){method->buffers.flat, NULL};
    }
    return status == TERSE_OK ? step_workers(&method, &given, 1, report, fault) : status;
}

/* ---- buckets ---- */

static terse_status check_bucket(const terse_method *method, uint32_t first, uint32_t count,
                                 terse_fault *fault)
{
    const uint32_t tensors = terse_layout_tensors(method->layout);
    const struct tsi_step *const step = &method->step;
    if (step->state != TSI_STEP_NONE && !(step->state == TSI_STEP_SENDING && step->posting))
        return tsi_fail(fault, TERSE_BAD_ARGUMENT, 0, "another step is under way");
    if (count == 0 || first > tensors || count > tensors - first)
        return tsi_fail(fault, TERSE_BAD_ARGUMENT, 0, "tensors %u to %u of %u", first,
                        first + count, tensors);
    for (uint32_t i = 0; i < step->posted_count && step->state == TSI_STEP_SENDING; i++) {
        const struct tsi_bucket *const other = step->posted[i];
        if (first < other->first_tensor + other->tensor_count &&
            other->first_tensor < first + count)
            return tsi_fail(fault, TERSE_BAD_ARGUMENT, 0, "a tensor is posted twice");
    }
    return TERSE_OK;
}

terse_status terse_method_post(terse_method *method, const float *gradient, uint32_t first,
                               uint32_t count, terse_fault *fault)
{
    struct tsi_bucket *bucket = NULL;
    int done = 0;
    terse_status status = check_one(method, gradient, fault);
    if (status == TERSE_OK && (tsi_value(method, TSI_CLIP) != 0 || method->stages.local))
        status = tsi_fail(fault, TERSE_BAD_ARGUMENT, 0,
                          "clipping and local steps need all of the gradient: no buckets");
    if (status == TERSE_OK)
        status = check_bucket(method, first, count, fault);
    if (status != TERSE_OK)
        return status;
    if (method->step.state == TSI_STEP_NONE) { /* the first bucket opens the step */
        status = tsi_step_begin(method, gradient, NULL, 1, fault);
        if (status == TERSE_OK)
            status = tsi_step_progress(method, &done, NULL, fault);
    }
    if (status == TERSE_OK)
        status = tsi_bucket_of(method->step.in, first, count, &bucket, fault);
    if (status != TERSE_OK)
        return status;
    method->step.gradient = gradient;
    if (!method->buffers.residual.now && !method->buffers.change.next && !method->buffers.m.now)
        method->step.in->source = gradient;
    return tsi_step_send(method, bucket, fault);
}

terse_status terse_method_finish(terse_method *method, const float *gradient,
                                 terse_method_report *report, terse_fault *fault)
{
    int done = 0;
    uint32_t posted = 0;
    if (!method || !gradient)
        return tsi_fail(fault, TERSE_BAD_ARGUMENT, 0, "method or gradient is NULL");
    const struct tsi_step *const step = &method->step;
    const int posting = step->state == TSI_STEP_SENDING && step->posting;
    for (uint32_t i = 0; i < step->posted_count && posting; i++)
        posted += step->posted[i]->tensor_count;
    if (method->failed == TERSE_OK && (!posting || posted != terse_layout_tensors(method->layout)))
        return tsi_fail(fault, TERSE_BAD_ARGUMENT, 0, "%u of %u tensors were posted", posted,
                        terse_layout_tensors(method->layout));
    terse_status status =
        method->failed == TERSE_OK ? TERSE_OK : tsi_step_begin(method, gradient, NULL, 1, fault);
    while (status == TERSE_OK && !done)
        status = tsi_step_progress(method, &done, report, fault);
    return status;
}
