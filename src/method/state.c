/* Everything a method remembers, part by part; its evaluation weights; what it can be asked. */
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "base/fault.h"
#include "method/method.h"

/* ---- state ---- */

struct part {
    const char *name;
    void *bytes;
    size_t len;
    terse_state_kind kind;
    uint32_t floats;
};

/* A part of `count` floats per element of the layout, if there is one. */
static struct part floats_of(const terse_method *method, const char *name, float *floats,
                             terse_state_kind kind)
{
    return (struct part){name, floats, floats ? method->count * sizeof(float) : 0, kind, 1};
}

/* The bucket of the whole layout: it is made first. */
static const struct tsi_bucket *whole_bucket(const terse_method *method)
{
    return method->collective[TSI_MAIN]->buckets.list[0];
}

/* The states of the codec of the whole layout: PowerSGD's factors. */
static struct part factors_of(const terse_method *method)
{
    const terse_codec *const codec = whole_bucket(method)->codec;
    const size_t len = codec->states_len;
    return (struct part){"factors", len ? codec->states : NULL, len, TERSE_STATE_SHARED, 0};
}

enum { MAX_PARTS = 17 };

static size_t parts_of(terse_method *method, struct part out[MAX_PARTS])
{
    struct tsi_posterior *const posterior = &method->posterior;
    const struct tsi_buffers *const buffers = &method->buffers;
    const int owns = method->stages.update == TSI_UPDATE_REPLACE;
    const int local = method->stages.local;
    const int rejects = tsi_value(method, TSI_REJECT) != 0;
    const size_t sent = posterior->cap;
    const size_t records = method->bits ? method->slots : 0;
    const struct part all[MAX_PARTS] = {
        {"progress", &method->progress, sizeof method->progress, TERSE_STATE_SHARED, 0},
        floats_of(method, "residual", buffers->residual.now, TERSE_STATE_RESIDUAL),
        floats_of(method, "momentum", buffers->m.now, TERSE_STATE_OWN),
        floats_of(method, "second moment", buffers->v.now, TERSE_STATE_OWN),
        floats_of(method, "update momentum", buffers->update_m, TERSE_STATE_SHARED),
        floats_of(method, "update second moment", buffers->update_v, TERSE_STATE_SHARED),
        floats_of(method, "update largest second moment", buffers->update_v_most,
                  TERSE_STATE_SHARED),
        floats_of(method, owns ? "owner weights" : "owner residual", buffers->owner.now,
                  TERSE_STATE_SLICES),
        floats_of(method, "local weights", local ? buffers->point : NULL, TERSE_STATE_OWN),
        floats_of(method, "local change", buffers->change.now, TERSE_STATE_RESIDUAL),
        {"sent count", sent ? &posterior->count : NULL, sent ? sizeof posterior->count : 0,
         TERSE_STATE_HINT, 0},
        {"sent index", posterior->index, sent * sizeof(uint64_t), TERSE_STATE_HINT, 0},
        {"sent before", posterior->before, sent * sizeof(float), TERSE_STATE_HINT, 0},
        {"sent sum", posterior->sum, sent * sizeof(float), TERSE_STATE_HINT, 0},
        {"bits", method->bits, records * sizeof *method->bits, TERSE_STATE_HINT, 0},
        factors_of(method),
        {"rejection", &method->bounds.rejection, rejects ? sizeof method->bounds.rejection : 0,
         TERSE_STATE_SHARED, 0},
    };
    size_t count = 0;
    for (size_t i = 0; i < MAX_PARTS; i++)
        if (all[i].len > 0)
            out[count++] = all[i];
    return count;
}

terse_status terse_method_state(terse_method *method, uint32_t index, terse_state *out)
{
    struct part parts[MAX_PARTS];
    if (!method || !out)
        return TERSE_BAD_ARGUMENT;
    if (method->step.torn)
        return TERSE_PEER_LOST;
    if (index >= parts_of(method, parts))
        return TERSE_BAD_ARGUMENT;
    *out = (terse_state){parts[index].name, parts[index].bytes, parts[index].len, parts[index].kind,
                         parts[index].floats};
    return TERSE_OK;
}

/* What was restored may be damaged: a list that is not one is dropped. */
static void check_posterior(terse_method *method)
{
    struct tsi_posterior *const posterior = &method->posterior;
    int sound = posterior->count <= posterior->cap;
    for (uint64_t i = 0; sound && i < posterior->count; i++)
        sound = posterior->index[i] < method->count &&
                (i == 0 || posterior->index[i] > posterior->index[i - 1]) &&
                isfinite(posterior->before[i]) && isfinite(posterior->sum[i]);
    if (!sound)
        posterior->count = 0;
}

/* An owner's floats are those of its slices alone: what was restored may be the whole. */
static void keep_slices(const terse_method *method, float *floats)
{
    const struct tsi_bucket *const bucket = whole_bucket(method);
    for (uint32_t r = 0; floats && r < method->workers; r++) {
        const struct tsi_pieces pieces = bucket->owned[r];
        for (uint32_t i = pieces.first; i < pieces.first + pieces.count && r != method->rank; i++)
            memset(floats + bucket->codec->piece[i].offset, 0,
                   bucket->codec->piece[i].count * sizeof *floats);
    }
}

terse_status terse_method_restored(terse_method *method, terse_fault *fault)
{
    if (!method)
        return tsi_fail(fault, TERSE_BAD_ARGUMENT, 0, "method is NULL");
    method->clear.known = 0;
    method->bounds.known = 0;
    method->bounds.reach.known = 0;
    check_posterior(method);
    tsi_rejection_check(&method->bounds.rejection);
    tsi_method_bits_restored(method);
    keep_slices(method, method->buffers.owner.now);
    if (!method->stages.local ||
        method->progress.step % (uint64_t)tsi_value(method, TSI_EVERY) == 0)
        tsi_method_point(method);
    return TERSE_OK;
}

/* ---- evaluation weights ---- */

int terse_method_has_eval_weights(const terse_method *method)
{
    return method->settings.row->deploys;
}

/* The weighted sums of the residuals of all workers, side by side where one thread has several. */
static terse_status sum_residuals(terse_method *const *method, uint32_t handles, terse_fault *fault)
{
    terse_allreduce request[TERSE_MAX_LOCAL_WORKERS];
    terse_status status = TERSE_OK;
    for (uint32_t i = 0; i < handles && status == TERSE_OK; i++) {
        if (method[i]->step.torn) {
            if (fault)
                *fault = method[i]->cause;
            return TERSE_PEER_LOST;
        }
        struct tsi_buffers *const buffers = &method[i]->buffers;
        const size_t scratch = terse_group_allreduce_scratch(method[i]->group, method[i]->count);
        if (!tsi_buffer_make(&buffers->eval_sum, 1, method[i]->count) ||
            !tsi_buffer_make(&buffers->eval_scratch, 1, scratch))
            return tsi_fail(fault, TERSE_NO_MEMORY, 0, "out of memory");
        memcpy(buffers->eval_sum, buffers->residual.now, method[i]->count * sizeof(float));
        for (size_t j = 0; buffers->worker_weight && j < method[i]->count; j++)
            buffers->eval_sum[j] *= buffers->worker_weight[method[i]->rank];
        status = terse_group_allreduce_post(method[i]->group, buffers->eval_sum, method[i]->count,
                                            buffers->eval_scratch, &request[i], fault);
    }
    for (uint32_t i = 0; i < handles && status == TERSE_OK; i++)
        status = terse_group_allreduce_advance(method[i]->group, &request[i], fault);
    for (uint32_t i = 0; i < handles && status == TERSE_OK; i++)
        status = terse_group_allreduce_wait(method[i]->group, &request[i], fault);
    return status;
}

/* x_A = x - mean e. */
terse_status terse_method_eval_weights_all(terse_method *const *method, float *out,
                                           terse_fault *fault)
{
    if (!method || !method[0] || !out)
        return tsi_fail(fault, TERSE_BAD_ARGUMENT, 0, "method or out is NULL");
    terse_method *const first = method[0];
    const size_t count = first->count;
    terse_status status = TERSE_OK;
    if (terse_method_has_eval_weights(first))
        status = sum_residuals(method, first->owns_group ? first->workers : 1, fault);
    if (status != TERSE_OK)
        return status;
    memcpy(out, first->buffers.weights, count * sizeof(float));
    for (size_t i = 0; i < count && first->buffers.eval_sum; i++)
        out[i] -= first->buffers.eval_sum[i] / (float)first->workers;
    return TERSE_OK;
}

terse_status terse_method_eval_weights(terse_method *method, float *out, terse_fault *fault)
{
    return terse_method_eval_weights_all(&method, out, fault);
}

/* ---- asking ---- */

const float *terse_method_point(const terse_method *method)
{
    return method->buffers.point ? method->buffers.point : method->buffers.weights;
}

const char *terse_method_spec(const terse_method *method)
{
    return method->spec;
}

const char *terse_method_settings(const terse_method *method)
{
    return method->collective[TSI_MAIN]->settings;
}

terse_status terse_method_set_lr(terse_method *method, double lr)
{
    if (!method || !(lr >= 0) || !isfinite(lr))
        return TERSE_BAD_ARGUMENT;
    method->progress.lr_given = lr;
    return TERSE_OK;
}

uint64_t terse_method_steps_done(const terse_method *method)
{
    return method->progress.step;
}

uint64_t terse_method_steps_rejected(const terse_method *method)
{
    return method->bounds.rejection.count;
}

terse_status terse_method_tensor_bytes(const terse_method *method, uint64_t *bytes)
{
    if (!method || !bytes)
        return TERSE_BAD_ARGUMENT;
    if (method->stages.model)
        return TERSE_UNSUPPORTED;
    memcpy(bytes, method->step.tensor_bytes,
           terse_layout_tensors(method->layout) * sizeof *method->step.tensor_bytes);
    return TERSE_OK;
}

uint32_t terse_method_workers(const terse_method *method)
{
    return method->workers;
}
