/* What a worker contributes to a step: the gradient of its batches, handed to the method as soon as
 * it is final, or as a whole. */
#include "loop/worker.h"

terse_status trn_worker_fill(struct trn_worker *worker, enum trn_split split,
                             const uint32_t *examples, uint32_t count, uint64_t epoch,
                             struct trn_batch *out)
{
    const struct trn_run *const run = worker->run;
    const int text = run->input.kind == TRN_TEXT;
    const int labels = run->input.target == TRN_LABELS;
    const struct trn_augment augment = {
        .crop = 1, .flip = 1, .seed = run->settings->seed, .epoch = epoch};
    const struct trn_place place = {.x = text ? NULL : worker->values,
                                    .tokens = text ? worker->tokens : NULL,
                                    .lengths = text ? worker->lengths : NULL,
                                    .labels = labels ? worker->labels : NULL,
                                    .targets = labels ? NULL : worker->targets};
    const int augmented = split == TRN_TRAIN && run->settings->augment;
    *out = (struct trn_batch){.count = count,
                              .values = worker->values,
                              .tokens = worker->tokens,
                              .lengths = worker->lengths,
                              .labels = worker->labels,
                              .targets = worker->targets};
    return trn_data_batch(run->data, split, examples, count, augmented ? &augment : NULL,
                          &run->text, &place, &worker->fault);
}

/* The last batch's gradient is final from element `first` on: so is the mean over the batches that
 * are accumulated, and is handed over where steps are not whole. */
static terse_status complete_gradient(void *context, uint64_t first, terse_fault *fault)
{
    struct trn_worker *const worker = context;
    const uint32_t parts = worker->run->settings->accumulate;
    for (uint64_t i = first; parts > 1 && i < worker->complete; i++)
        worker->gradient[i] = (worker->gradient[i] + worker->partial[i]) / (float)parts;
    worker->complete = first;
    return worker->overlap.count > 0 ? trn_overlap_final(&worker->overlap, first, fault) : TERSE_OK;
}

/* One gradient, taken at the method's point: the mean of the last `accumulate` of all batches of
 * the step. The gradients of those before are replaced, but the loss and the statistics of batch
 * norm are of all. */
static terse_status gradient_of(struct trn_worker *worker, struct trn_step_stats *out_stats)
{
    const uint32_t parts = worker->run->settings->accumulate;
    const uint64_t drawn = trn_batches_per_step(worker->run->settings);
    const uint64_t epoch = worker->step / worker->steps_per_epoch;
    const uint64_t within = worker->step % worker->steps_per_epoch;
    const float *const point = terse_method_point(worker->method);
    const struct trn_listener listener = {worker, complete_gradient};
    terse_status status =
        worker->overlap.count > 0 ? trn_overlap_begin(&worker->overlap, &worker->fault) : TERSE_OK;
    worker->complete = worker->count;
    for (uint64_t b = 0; b < drawn && status == TERSE_OK; b++) {
        const int adds = b > drawn - parts;
        const int last = b + 1 == drawn;
        struct trn_batch batch;
        double loss = 0;
        uint32_t correct = 0;
        const uint32_t count =
            trn_order_batch(worker->order, epoch, (uint32_t)(within * drawn + b), worker->examples);
        status = trn_worker_fill(worker, TRN_TRAIN, worker->examples, count, epoch, &batch);
        if (status == TERSE_OK)
            status = trn_net_gradient(worker->net, point, &batch,
                                      adds ? worker->partial : worker->gradient,
                                      last ? &listener : NULL, &loss, &correct, &worker->fault);
        for (uint64_t i = 0; adds && !last && status == TERSE_OK && i < worker->count; i++)
            worker->gradient[i] += worker->partial[i];
        out_stats->loss += loss / (double)drawn;
        out_stats->correct += correct;
        out_stats->examples += count;
    }
    return status;
}

/* What this worker hands to its method: the gradient, unless it is an adversary. */
static const float *contribution_of(struct trn_worker *worker)
{
    const struct trn_run *const run = worker->run;
    const struct trn_attacker attacker = {
        .seed = run->settings->seed, .step = worker->step, .rank = worker->rank};
    if (!trn_is_adversary(&run->adversaries, worker->rank, run->workers))
        return worker->gradient;
    trn_attack(&run->adversaries, &attacker, worker->gradient, worker->partial, worker->count);
    return worker->partial;
}

terse_status trn_worker_advance(struct trn_worker *worker, struct trn_step_stats *stats,
                                terse_method_report *report, double *computed)
{
    terse_status status = gradient_of(worker, stats);
    *computed = trn_now();
    if (status == TERSE_OK && worker->overlap.count == 0)
        status = trn_node_mean(&worker->node, worker->gradient, worker->count, worker->scratch,
                               &worker->fault);
    if (status != TERSE_OK)
        return status;
    return worker->overlap.count > 0
               ? terse_method_finish(worker->method, worker->gradient, report, &worker->fault)
               : terse_method_step(worker->method, contribution_of(worker), report, &worker->fault);
}
