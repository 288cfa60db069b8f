#include "loop/overlap.h"

#include "loop/worker.h"

terse_status trn_overlap_plan(struct trn_overlap *overlap, const terse_layout *layout,
                              terse_method *method, float *gradient)
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
        overlap->bucket[overlap->count++] = (struct trn_bucket){
            .tensor = t, .count = tensors, .first = tensor.offset, .elements = elements};
        elements = tensors = 0;
    }
    return TERSE_OK;
}

/* Buckets must change neither the result nor what can be resumed from. They would where the whole
 * gradient is needed (clipping, local steps), and where a codec keeps state for each bucket
 * (PowerSGD). What an adversary sends is made of its whole gradient. */
terse_status trn_overlap_start(struct trn_worker *worker)
{
    const struct trn_run *const run = worker->run;
    terse_method_description method = {.size = sizeof method};
    terse_status status = terse_method_describe(worker->spec, &method, &worker->fault);
    worker->overlap.count = 0;
    if (status != TERSE_OK || run->workers == 1 || run->adversaries.count > 0 ||
        !trn_wants_overlap(run->settings) || !method.has_buckets || method.passes > 1)
        return status;
    status = trn_overlap_plan(&worker->overlap, trn_net_layout(worker->net), worker->method,
                              worker->gradient);
    worker->overlap.node = &worker->node;
    worker->overlap.scratch = worker->scratch;
    return status;
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
        if (overlap->node)
            status = trn_node_mean(overlap->node, overlap->gradient + bucket->first,
                                   bucket->elements, overlap->scratch, fault);
        if (status == TERSE_OK)
            status = terse_method_post(overlap->method, overlap->gradient, bucket->tensor,
                                       bucket->count, fault);
    }
    return status == TERSE_OK ? terse_method_progress(overlap->method, fault) : status;
}
