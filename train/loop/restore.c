/* A checkpoint becomes the state of the workers: each takes its part of the file, or, where their
 * number has changed, what regroup.c makes of the parts. */
#include <math.h>
#include <stdio.h>
#include <string.h>

#include "loop/regroup.h"
#include "loop/worker.h"

static terse_status copy_part(struct trn_worker *worker, const struct trn_blob *blob, void *out,
                              uint64_t len)
{
    if (!blob || blob->len != len)
        return com_fail(&worker->fault, TERSE_MISMATCH,
                        "the checkpoint is of another training: a part is missing or has another "
                        "length");
    memcpy(out, blob->bytes, len);
    return TERSE_OK;
}

/* The part of every old worker, all `len` bytes long. */
static terse_status find_parts(struct trn_worker *worker, const char *name, uint32_t old_workers,
                               uint64_t len, const void **out)
{
    for (uint32_t old = 0; old < old_workers; old++) {
        const struct trn_blob *const blob = trn_checkpoint_find(worker->run->checkpoint, name, old);
        if (!blob || blob->len != len)
            return com_fail(&worker->fault, TERSE_MISMATCH,
                            "the checkpoint is of another training: '%s' of worker %u is missing "
                            "or has another length",
                            name, old);
        out[old] = blob->bytes;
    }
    return TERSE_OK;
}

/* Whose parts they are, before and now: those of ranks, or of the method's workers. */
struct owners {
    uint32_t old;
    uint32_t now;
    uint32_t mine; /* the number of this one */
};

/* Restores a part; the number of its owners may have changed. */
static terse_status restore_part(struct trn_worker *worker, const terse_state *state,
                                 const struct owners *owners)
{
    const uint32_t old_workers = owners->old;
    const struct trn_checkpoint *const checkpoint = worker->run->checkpoint;
    const void *old[TERSE_MAX_WORKERS];
    double weight[TERSE_MAX_WORKERS];
    const int weighs = trn_weighs_shards(worker->run->settings);
    const int shared = state->kind == TERSE_STATE_SHARED;
    if (owners->now == owners->old || shared)
        return copy_part(worker,
                         trn_checkpoint_find(checkpoint, state->name, shared ? 0 : owners->mine),
                         state->bytes, state->len);
    if (state->kind == TERSE_STATE_HINT) /* it may have another length; the next step works without
                                            it */
        return TERSE_OK;
    for (uint32_t r = 0; r < old_workers; r++)
        weight[r] = (double)trn_order_count_of(worker->order, old_workers, r);
    const terse_status status = find_parts(worker, state->name, old_workers, state->len, old);
    if (status == TERSE_OK)
        trn_regroup(state->kind, old, weighs ? weight : NULL, old_workers, state->bytes,
                    state->len);
    return status;
}

/* The norm of the mean residual, if the method has one. */
static int residual_norm(struct trn_worker *worker, double *out)
{
    terse_state state;
    double squares = 0;
    for (uint32_t i = 0; terse_method_state(worker->method, i, &state) == TERSE_OK; i++) {
        const float *const floats = state.bytes;
        if (state.kind != TERSE_STATE_RESIDUAL)
            continue;
        for (size_t j = 0; j < state.len / sizeof(float); j++)
            squares += (double)floats[j] * (double)floats[j];
        *out = sqrt(squares);
        return 1;
    }
    return 0;
}

static void note_workers(struct trn_worker *worker, const struct owners *owners)
{
    char text[200];
    double norm = 0;
    const char *const what = worker->node.group ? "node" : "worker";
    const char *const many = owners->now == 1 ? "" : "s";
    if (worker->rank != 0 || !worker->run->watch->note || owners->old == owners->now)
        return;
    if (residual_norm(worker, &norm))
        (void)snprintf(text, sizeof text,
                       "resumed with %u %s%s instead of %u: each has the mean of the residuals, "
                       "whose norm is %.9g, and of the moments",
                       owners->now, what, many, owners->old, norm);
    else
        (void)snprintf(text, sizeof text,
                       "resumed with %u %s%s instead of %u: each has the mean of the moments",
                       owners->now, what, many, owners->old);
    worker->run->watch->note(worker->run->watch->context, text);
}

terse_status trn_worker_restore(struct trn_worker *worker)
{
    const struct trn_checkpoint *const checkpoint = worker->run->checkpoint;
    uint64_t old_workers = 0;
    uint64_t old_nodes = 0;
    uint64_t count = 0;
    terse_state state;
    float *const statistics = trn_net_statistics(worker->net, &count);
    const terse_state running = {.name = TRN_STATISTICS,
                                 .bytes = statistics,
                                 .len = count * sizeof(float),
                                 .kind = TERSE_STATE_OWN};
    (void)com_json_get_u64(trn_checkpoint_settings(checkpoint), "workers", &old_workers);
    old_nodes = old_workers; /* where ranks are the workers of the method */
    (void)com_json_get_u64(trn_checkpoint_settings(checkpoint), "nodes", &old_nodes);
    if (old_workers == 0 || old_workers > TERSE_MAX_WORKERS || old_nodes == 0 ||
        old_nodes > old_workers)
        return com_fail(&worker->fault, TERSE_MISMATCH,
                        "the checkpoint has no number of workers from 1 to %u", TERSE_MAX_WORKERS);
    const struct owners ranks = {(uint32_t)old_workers, worker->run->workers, worker->rank};
    const struct owners workers = {(uint32_t)old_nodes,
                                   terse_group_workers(trn_method_group(worker)),
                                   terse_group_rank(trn_method_group(worker))};
    terse_status status = copy_part(worker, trn_checkpoint_find(checkpoint, TRN_WEIGHTS, 0),
                                    worker->weights, worker->count * sizeof(float));
    for (uint32_t i = 0;
         status == TERSE_OK && terse_method_state(worker->method, i, &state) == TERSE_OK; i++)
        status = restore_part(worker, &state, &workers);
    if (status == TERSE_OK && count > 0)
        status = restore_part(worker, &running, &ranks);
    if (status == TERSE_OK)
        status = terse_method_restored(worker->method, &worker->fault);
    const com_json *const kept = trn_checkpoint_settings(checkpoint);
    (void)com_json_get_real(kept, "seconds", &worker->result.seconds);
    (void)com_json_get_u64(kept, "bytes_sent", &worker->result.bytes_sent);
    (void)com_json_get_u64(kept, "dense_bytes", &worker->result.dense_bytes);
    (void)com_json_get_u64(kept, "capped", &worker->result.capped);
    worker->step = trn_checkpoint_step(checkpoint); /* the method does not count skipped steps */
    worker->result.steps = worker->step;
    worker->result.resumed_from = worker->step;
    if (status == TERSE_OK)
        note_workers(worker, &workers);
    return status;
}
