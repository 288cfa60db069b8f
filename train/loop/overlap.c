#include "loop/overlap.h"

#include "loop/worker.h"

int trn_overlap_suits(const terse_method_description *method)
{
    return method->has_buckets && method->passes == 1;
}

terse_status trn_overlap_plan(struct trn_overlap *overlap, const terse_layout *layout,
                              terse_method *method, const float *gradient)
{
    uint64_t elements = 0;
    uint32_t tensors = 0;
    *overlap = (struct trn_overlap){.method = method, .gradient = gradient};
    for (uint32_t t = terse_layout_tensors(layout); t-- > 0;) {
        terse_tensor tensor;
        const terse_status status = terse_layout_tensor(layout, t, &tensor);
        if (status != TERSE_OK || overlap->count == TRN_MAX_BUCKETS)
            return status != TERSE_OK ? status : TERSE_TOO_SMALL;
        elements += tensor.count;
        tensors++;
        if (elements * sizeof(float) < TRN_BUCKET_BYTES && t > 0)
            continue;
        overlap->bucket[overlap->count++] =
            (struct trn_bucket){.tensor = t, .count = tensors, .first = tensor.offset};
        elements = tensors = 0;
    }
    return TERSE_OK;
}

terse_status trn_overlap_begin(struct trn_overlap *overlap, terse_fault *fault)
{
    overlap->posted = 0;
    return terse_method_progress(overlap->method, fault);
}

terse_status trn_overlap_final(struct trn_overlap *overlap, uint64_t first, terse_fault *fault)
{
    terse_status status = TERSE_OK;
    while (overlap->posted < overlap->count && overlap->bucket[overlap->posted].first >= first &&
           status == TERSE_OK) {
        struct trn_bucket *const bucket = &overlap->bucket[overlap->posted++];
        bucket->ready = trn_now();
        status = terse_method_post(overlap->method, overlap->gradient, bucket->tensor,
                                   bucket->count, fault);
    }
    return status == TERSE_OK ? terse_method_progress(overlap->method, fault) : status;
}
