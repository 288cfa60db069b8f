/* Everything a method remembers, part by part; what it deploys; what it can be asked. */
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

/* The states of the codec that says the whole layout: PowerSGD's factors. */
static struct part factors_of(const terse_method *method)
{
    const terse_exchange *const exchange = method->exchange[TSI_EXCHANGE_MAIN];
    const terse_codec *const codec = exchange->bucket_count ? exchange->bucket[0]->codec : NULL;
    const size_t len = codec ? codec->states_len : 0;
    return (struct part){"factors", len ? codec->states : NULL, len, TERSE_STATE_HINT, 0};
}

enum { MAX_PARTS = 16 };

static size_t parts_of(terse_method *method, struct part out[MAX_PARTS])
{
    struct tsi_posterior *const posterior = &method->posterior;
    terse_exchange *const exchange = method->exchange[TSI_EXCHANGE_MAIN];
    const size_t said = posterior->cap;
    const size_t records = method->bits ? method->slots : 0;
    float *const own_local = method->stations.local ? method->point : NULL;
    const struct part all[MAX_PARTS] = {
        {"progress", &method->progress, sizeof method->progress, TERSE_STATE_SHARED, 0},
        floats_of(method, "residual", method->memory, TERSE_STATE_RESIDUAL),
        floats_of(method, "momentum", method->m, TERSE_STATE_OWN),
        floats_of(method, "second moment", method->v, TERSE_STATE_OWN),
        floats_of(method, "update momentum", method->update_m, TERSE_STATE_SHARED),
        floats_of(method, "update second moment", method->update_v, TERSE_STATE_SHARED),
        floats_of(method, "owner weights", method->owner_x, TERSE_STATE_SLICES),
        floats_of(method, "owner residual", exchange->room.owner_memory, TERSE_STATE_SLICES),
        floats_of(method, "local weights", own_local, TERSE_STATE_HINT),
        floats_of(method, "local change", method->stations.local ? method->said : NULL,
                  TERSE_STATE_RESIDUAL),
        {"said count", said ? &method->posterior_count : NULL, said ? sizeof(uint64_t) : 0,
         TERSE_STATE_HINT, 0},
        {"said index", posterior->index, said * sizeof(uint64_t), TERSE_STATE_HINT, 0},
        {"said before", posterior->before, said * sizeof(float), TERSE_STATE_HINT, 0},
        {"said sum", posterior->sum, said * sizeof(float), TERSE_STATE_HINT, 0},
        {"bits", method->bits, records * sizeof *method->bits, TERSE_STATE_HINT, 0},
        factors_of(method),
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
    if (!method || !out || index >= parts_of(method, parts))
        return TERSE_BAD_ARGUMENT;
    *out = (terse_state){parts[index].name, parts[index].bytes, parts[index].len, parts[index].kind,
                         parts[index].floats};
    return TERSE_OK;
}

/* What was restored may be damaged: a list that is not one is dropped. */
static void check_said(terse_method *method)
{
    struct tsi_posterior *const posterior = &method->posterior;
    const uint64_t count = method->posterior_count;
    int sound = count <= posterior->cap;
    for (uint64_t i = 0; i < count && sound; i++)
        sound = posterior->index[i] < method->count &&
                (i == 0 || posterior->index[i] > posterior->index[i - 1]) &&
                isfinite(posterior->before[i]) && isfinite(posterior->sum[i]);
    posterior->count = sound ? (size_t)count : 0;
    method->posterior_count = posterior->count;
}

/* An owner's floats are its slices' alone: what was restored may be the whole. */
static void keep_slices(const terse_method *method, float *floats)
{
    const terse_exchange *const exchange = method->exchange[TSI_EXCHANGE_MAIN];
    const struct tsi_bucket *const bucket = exchange->bucket[0];
    for (uint32_t r = 0; floats && r < method->workers; r++) {
        const struct tsi_pieces theirs = bucket->owned[r];
        if (r != method->rank)
            tsi_zero_pieces(bucket, theirs, floats);
    }
}

terse_status terse_method_restored(terse_method *method, terse_fault *fault)
{
    if (!method)
        return tsi_fail(fault, TERSE_BAD_ARGUMENT, 0, "method is NULL");
    method->blank.known = 0;
    if (method->posterior.cap > 0)
        check_said(method);
    keep_slices(method, method->owner_x);
    keep_slices(method, method->exchange[TSI_EXCHANGE_MAIN]->room.owner_memory);
    if (!method->stations.local ||
        method->progress.step % (uint64_t)tsi_value(method, TSI_EVERY) == 0)
        tsi_method_point(method);
    return TERSE_OK;
}

/* ---- what it deploys ---- */

int terse_method_has_eval_weights(const terse_method *method)
{
    return method->settings.row->deploys;
}

static int has_room(terse_method *method)
{
    const size_t scratch = terse_group_allreduce_scratch(method->group, method->count);
    if (!method->deploy_sum)
        method->deploy_sum = malloc((method->count + 1) * sizeof(float));
    if (!method->deploy_scratch)
        method->deploy_scratch = malloc((scratch + 1) * sizeof(float));
    return method->deploy_sum && method->deploy_scratch;
}

/* The sums of the memories of all seats of this thread side by side. */
static terse_status sum_memories(terse_method *const *method, uint32_t seats, terse_fault *fault)
{
    terse_allreduce request[TERSE_MAX_LOCAL_WORKERS];
    terse_status status = TERSE_OK;
    for (uint32_t i = 0; i < seats && status == TERSE_OK; i++) {
        if (!has_room(method[i]))
            return tsi_fail(fault, TERSE_NO_MEMORY, 0, "out of memory");
        memcpy(method[i]->deploy_sum, method[i]->memory, method[i]->count * sizeof(float));
        status =
            terse_group_allreduce_post(method[i]->group, method[i]->deploy_sum, method[i]->count,
                                       method[i]->deploy_scratch, &request[i], fault);
    }
    for (uint32_t i = 0; i < seats && status == TERSE_OK; i++)
        status = terse_group_allreduce_advance(method[i]->group, &request[i], fault);
    for (uint32_t i = 0; i < seats && status == TERSE_OK; i++)
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
        status = sum_memories(method, first->owns_group ? first->workers : 1, fault);
    if (status != TERSE_OK)
        return status;
    memcpy(out, first->weights, count * sizeof(float));
    for (size_t i = 0; i < count && first->deploy_sum; i++)
        out[i] -= first->deploy_sum[i] / (float)first->workers;
    return TERSE_OK;
}

terse_status terse_method_eval_weights(terse_method *method, float *out, terse_fault *fault)
{
    return terse_method_eval_weights_all(&method, out, fault);
}

/* ---- asking ---- */

const char *terse_method_spec(const terse_method *method)
{
    return method->spec;
}

const char *terse_method_settings(const terse_method *method)
{
    return terse_exchange_settings(method->exchange[TSI_EXCHANGE_MAIN]);
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

uint32_t terse_method_workers(const terse_method *method)
{
    return method->workers;
}
