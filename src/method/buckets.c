/* The calls of a gradient that comes bucket by bucket, while the backward pass goes on. */
#include <string.h>

#include "base/fault.h"
#include "method/method.h"

/* Is a step under way whose buckets are being posted? */
static int is_posting(const terse_method *method)
{
    const enum tsi_step_state state = method->step.state;
    return method->step.posting && (state == TSI_STEP_OPENING || state == TSI_STEP_SENDING);
}

static terse_status check_bucket(const terse_method *method, uint32_t first, uint32_t count,
                                 terse_fault *fault)
{
    const uint32_t tensors = terse_layout_tensors(method->layout);
    const struct tsi_step *const step = &method->step;
    if (step->state != TSI_STEP_NONE && step->state != TSI_STEP_GATHERING && !is_posting(method))
        return tsi_fail(fault, TERSE_BAD_ARGUMENT, 0, "another step is under way");
    if (count == 0 || first > tensors || count > tensors - first)
        return tsi_fail(fault, TERSE_BAD_ARGUMENT, 0, "tensors %u to %u of %u", first,
                        first + count, tensors);
    for (uint32_t i = 0; i < step->posted_count && is_posting(method); i++) {
        const struct tsi_bucket *const other = step->posted[i];
        if (first < other->first_tensor + other->tensor_count &&
            other->first_tensor < first + count)
            return tsi_fail(fault, TERSE_BAD_ARGUMENT, 0, "a tensor is posted twice");
    }
    for (uint32_t t = first; t < first + count && step->state == TSI_STEP_GATHERING; t++)
        if (method->buffers.gathered[t])
            return tsi_fail(fault, TERSE_BAD_ARGUMENT, 0, "a tensor is posted twice");
    return TERSE_OK;
}

/* ---- scope=model ---- */

/* What is selected depends on all elements, so a bucket is only noted, and the step is one of a
 * gradient that came by tensor: nothing is accumulated before all buckets are there. */
static int is_gathered(const terse_method *method)
{
    return method->stages.model && method->failed == TERSE_OK;
}

static terse_status finish_gathered(terse_method *method, terse_method_report *report,
                                    terse_fault *fault)
{
    const float **const gathered = method->buffers.gathered;
    const uint32_t tensors = terse_layout_tensors(method->layout);
    uint32_t posted = 0;
    for (uint32_t t = 0; t < tensors; t++)
        posted += gathered[t] != NULL;
    if (posted != tensors)
        return tsi_fail(fault, TERSE_BAD_ARGUMENT, 0, "%u of %u tensors were posted", posted,
                        tensors);
    method->step.state = TSI_STEP_NONE;
    const terse_status status = terse_method_step_tensors(method, gathered, report, fault);
    memset(gathered, 0, tensors * sizeof *gathered);
    return status;
}

/* ---- the calls ---- */

static terse_status check_posting(const terse_method *method, const void *gradient,
                                  terse_fault *fault)
{
    const terse_status status = tsi_check_one(method, gradient, fault);
    if (status == TERSE_OK && (tsi_value(method, TSI_CLIP) != 0 || method->stages.local))
        return tsi_fail(fault, TERSE_BAD_ARGUMENT, 0,
                        "clipping and local steps need all of the gradient: no buckets");
    return status;
}

/* A bucket whose gradient is flat, or lies where `gathered` says (`flat` is NULL then). */
static terse_status post(terse_method *method, const float *flat, uint32_t first, uint32_t count,
                         terse_fault *fault)
{
    struct tsi_bucket *bucket = NULL;
    terse_status status = TERSE_OK;
    if (method->step.state == TSI_STEP_NONE) /* the first bucket opens the step */
        status = tsi_step_begin(method, NULL, NULL, 1, fault);
    if (status == TERSE_OK)
        status = tsi_bucket_of(method->step.in, first, count, &bucket, fault);
    if (status != TERSE_OK)
        return status;
    method->step.tensors = method->buffers.gathered;
    tsi_step_add(method, bucket, flat ? tsi_clip_gradient(method, flat, first, count) : NULL);
    return tsi_step_advance(method, fault);
}

terse_status terse_method_post(terse_method *method, const float *gradient, uint32_t first,
                               uint32_t count, terse_fault *fault)
{
    terse_status status = check_posting(method, gradient, fault);
    if (status == TERSE_OK)
        status = check_bucket(method, first, count, fault);
    if (status != TERSE_OK || !is_gathered(method))
        return status == TERSE_OK ? post(method, gradient, first, count, fault) : status;
    for (uint32_t t = first; t < first + count; t++)
        method->buffers.gathered[t] = gradient + tsi_layout_piece(method->layout, t).offset;
    method->step.state = TSI_STEP_GATHERING;
    return TERSE_OK;
}

terse_status terse_method_post_tensors(terse_method *method, const float *const *gradient,
                                       uint32_t first, uint32_t count, terse_fault *fault)
{
    terse_status status = check_posting(method, gradient, fault);
    if (status == TERSE_OK)
        status = check_bucket(method, first, count, fault);
    if (status == TERSE_OK)
        status = tsi_check_tensors(method, gradient, first, count, fault);
    if (status != TERSE_OK)
        return status;
    const int flat = tsi_needs_flat(method) && !is_gathered(method);
    if (flat)
        status = tsi_flatten(method, gradient, first, count, fault);
    for (uint32_t i = 0; i < count && !flat; i++) /* a tensor without elements may have none */
        method->buffers.gathered[first + i] = gradient[i] ? gradient[i] : method->buffers.weights;
    if (is_gathered(method))
        method->step.state = TSI_STEP_GATHERING;
    else if (status == TERSE_OK)
        status = post(method, flat ? method->buffers.flat : NULL, first, count, fault);
    return status;
}

terse_status terse_method_progress(terse_method *method, terse_fault *fault)
{
    if (!method)
        return tsi_fail(fault, TERSE_BAD_ARGUMENT, 0, "method is NULL");
    terse_status status = check_posting(method, method->buffers.weights, fault);
    if (status != TERSE_OK || is_gathered(method))
        return status;
    if (method->step.state == TSI_STEP_NONE)
        status = tsi_step_begin(method, NULL, NULL, 1, fault);
    return status == TERSE_OK ? tsi_step_advance(method, fault) : status;
}

terse_status terse_method_finish(terse_method *method, const float *gradient,
                                 terse_method_report *report, terse_fault *fault)
{
    int done = 0;
    uint32_t posted = 0;
    if (!method || !gradient)
        return tsi_fail(fault, TERSE_BAD_ARGUMENT, 0, "method or gradient is NULL");
    const struct tsi_step *const step = &method->step;
    if (step->state == TSI_STEP_GATHERING)
        return finish_gathered(method, report, fault);
    const int posting = is_posting(method);
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
