/* Checkpoints. To save, every worker sends its state to rank 0, which writes one file. To restore,
 * every worker takes its part of the file. */
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "files/bytes.h"
#include "files/hash.h"
#include "loop/regroup.h"
#include "loop/worker.h"

#define MAX_PARTS 20u /* parts of one worker's state */
#define HEAD_LEN 16u  /* head of a packed part: u32 kind, u32 name length, u64 bytes */
#define STATISTICS "running statistics"
#define WEIGHTS "weights"

/* ---- one worker's state, packed ---- */

/* The state of this worker: that of its method, the weights, the running statistics. */
static size_t parts_of(struct trn_worker *worker, struct trn_blob *out)
{
    terse_state state;
    size_t count = 0;
    uint64_t statistics = 0;
    float *const running = trn_net_statistics(worker->net, &statistics);
    for (uint32_t i = 0;
         count < MAX_PARTS - 2 && terse_method_state(worker->method, i, &state) == TERSE_OK; i++)
        out[count++] = (struct trn_blob){.name = state.name,
                                         .kind = (uint32_t)state.kind,
                                         .worker = worker->rank,
                                         .bytes = state.bytes,
                                         .len = state.len};
    if (worker->rank == 0)
        out[count++] = (struct trn_blob){.name = WEIGHTS,
                                         .kind = TERSE_STATE_SHARED,
                                         .bytes = worker->weights,
                                         .len = worker->count * sizeof(float)};
    if (statistics > 0)
        out[count++] = (struct trn_blob){.name = STATISTICS,
                                         .kind = TERSE_STATE_OWN,
                                         .worker = worker->rank,
                                         .bytes = running,
                                         .len = statistics * sizeof(float)};
    return count;
}

/* Shared state is equal on all workers: only rank 0's is saved. */
static int is_sent(const struct trn_worker *worker, const struct trn_blob *part)
{
    return worker->rank == 0 || part->kind != TERSE_STATE_SHARED;
}

static uint64_t packed_len(const struct trn_worker *worker, const struct trn_blob *part,
                           size_t count)
{
    uint64_t len = 0;
    for (size_t i = 0; i < count; i++)
        if (is_sent(worker, &part[i]))
            len += HEAD_LEN + strlen(part[i].name) + part[i].len;
    return len;
}

static void pack(const struct trn_worker *worker, const struct trn_blob *part, size_t count,
                 uint8_t *out)
{
    for (size_t i = 0; i < count; i++) {
        const size_t name_len = strlen(part[i].name);
        if (!is_sent(worker, &part[i]))
            continue;
        trn_put_u32(out, part[i].kind);
        trn_put_u32(out + 4, (uint32_t)name_len);
        trn_put_u64(out + 8, part[i].len);
        memcpy(out + HEAD_LEN, part[i].name, name_len);
        memcpy(out + HEAD_LEN + name_len, part[i].bytes, part[i].len);
        out += HEAD_LEN + name_len + part[i].len;
    }
}

/* ---- to rank 0 ---- */

/* What a worker sends to rank 0. */
struct parcel {
    uint64_t len;
    uint64_t hash;
    trn_check check;
};

struct states {
    struct parcel parcel[TERSE_MAX_WORKERS];
    uint8_t *bytes[TERSE_MAX_WORKERS]; /* on rank 0: the packed state of every worker */
    uint8_t *mine;
};

static void drop(struct states *states)
{
    for (size_t i = 0; i < TERSE_MAX_WORKERS; i++)
        free(states->bytes[i]);
    free(states->mine);
}

/* Sends lengths and hashes to all ranks, then bytes to rank 0. */
static terse_status send_states(struct trn_worker *worker, struct states *states)
{
    const uint32_t workers = worker->run->workers;
    const void *send_at[TERSE_MAX_WORKERS] = {NULL};
    size_t send_len[TERSE_MAX_WORKERS] = {0};
    void *recv_at[TERSE_MAX_WORKERS] = {NULL};
    size_t recv_len[TERSE_MAX_WORKERS] = {0};
    struct parcel mine = states->parcel[worker->rank];
    terse_status status = trn_share(worker->group, TRN_SHARE_STATE, worker->step, &mine,
                                    sizeof mine, states->parcel, &worker->fault);
    for (uint32_t r = 0; r < workers && status == TERSE_OK; r++) {
        recv_len[r] = worker->rank == 0 ? states->parcel[r].len : 0;
        states->bytes[r] = malloc(recv_len[r] + 1);
        recv_at[r] = states->bytes[r];
        if (!states->bytes[r])
            status = com_fail(&worker->fault, TERSE_NO_MEMORY, "out of memory");
    }
    send_at[0] = states->mine;
    send_len[0] = mine.len;
    const terse_alltoallv alltoallv = {send_at, send_len, recv_at, recv_len};
    return status == TERSE_OK ? terse_group_alltoallv(worker->group, &alltoallv, &worker->fault)
                              : status;
}

struct name {
    char text[TRN_MAX_BLOB_NAME + 1];
};

/* The parts of a worker's packed state as blobs; names are copied into `names`. The bytes have the
 * hash that their sender announced, and the same program packed them. */
static uint32_t unpack(const struct states *states, uint32_t worker, struct trn_blob *out,
                       struct name *names)
{
    const uint8_t *at = states->bytes[worker];
    const uint8_t *const end = at + states->parcel[worker].len;
    uint32_t count = 0;
    while (at < end) {
        const uint32_t name_len = trn_get_u32(at + 4);
        (void)snprintf(names[count].text, sizeof names[count].text, "%.*s", (int)name_len,
                       (const char *)at + HEAD_LEN);
        out[count] = (struct trn_blob){.name = names[count].text,
                                       .kind = trn_get_u32(at),
                                       .worker = worker,
                                       .bytes = at + HEAD_LEN + name_len,
                                       .len = trn_get_u64(at + 8)};
        at += HEAD_LEN + name_len + out[count].len;
        count++;
    }
    return count;
}

/* Hands the file to the thread that writes it. */
static terse_status write_file(struct trn_worker *worker, const struct states *states)
{
    const uint32_t most = worker->run->workers * MAX_PARTS;
    struct trn_blob *const blobs = calloc(most, sizeof *blobs);
    struct name *const names = calloc(most, sizeof *names);
    com_json *const settings = trn_record_settings(worker);
    uint32_t count = 0;
    terse_status status =
        blobs && names ? TERSE_OK : com_fail(&worker->fault, TERSE_NO_MEMORY, "out of memory");
    for (uint32_t r = 0; r < worker->run->workers && status == TERSE_OK; r++)
        status = trn_share_compare(states->bytes[r], states->parcel[r].len, states->parcel[r].hash,
                                   r, "its state for the checkpoint", &worker->fault);
    for (uint32_t r = 0; r < worker->run->workers && status == TERSE_OK; r++)
        count += unpack(states, r, blobs + count, names + count);
    if (status == TERSE_OK)
        status = trn_save_begin(worker, settings, blobs, count);
    else
        com_json_free(settings);
    free(blobs);
    free(names);
    return status;
}

/* Was the file written? Only rank 0 knows. */
struct written {
    int64_t status;
    trn_check check;
};

/* A file that could not be begun ends the training on all ranks: further steps would be lost. */
static terse_status agree(struct trn_worker *worker, terse_status mine)
{
    struct written record = {.status = mine};
    struct written all[TERSE_MAX_WORKERS];
    terse_fault fault = worker->fault;
    const terse_status shared = trn_share(worker->group, TRN_SHARE_CHECKPOINT, worker->step,
                                          &record, sizeof record, all, &worker->fault);
    if (shared != TERSE_OK || all[0].status == TERSE_OK)
        return shared;
    if (mine != TERSE_OK) {
        worker->fault = fault;
        return mine;
    }
    return com_fail(&worker->fault, (terse_status)all[0].status,
                    "rank 0 could not write the checkpoint");
}

terse_status trn_worker_save(struct trn_worker *worker)
{
    struct trn_blob part[MAX_PARTS];
    struct states states = {.mine = NULL};
    uint64_t before = 0;
    uint64_t after = 0;
    if (!worker->run->settings->out)
        return TERSE_OK;
    if (trn_worker_is_broken(worker)) /* a checkpoint of such weights would be of no use */
        return TERSE_NOT_FINITE;
    terse_group_traffic(worker->group, &before, &(uint64_t){0});
    const size_t count = parts_of(worker, part);
    struct parcel *const mine = &states.parcel[worker->rank];
    mine->len = packed_len(worker, part, count);
    states.mine = malloc(mine->len + 1);
    if (!states.mine)
        return com_fail(&worker->fault, TERSE_NO_MEMORY, "out of memory");
    pack(worker, part, count, states.mine);
    mine->hash = trn_hash64(states.mine, mine->len, 0);
    terse_status status = send_states(worker, &states);
    if (status == TERSE_OK)
        status = agree(worker, worker->rank == 0 ? write_file(worker, &states) : TERSE_OK);
    drop(&states);
    terse_group_traffic(worker->group, &after, &(uint64_t){0});
    worker->result.bytes_other += after - before;
    return status;
}

/* ---- restoring ---- */

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

/* Restores a part; the number of workers may have changed. */
static terse_status restore_part(struct trn_worker *worker, const terse_state *state,
                                 uint32_t old_workers)
{
    const struct trn_checkpoint *const checkpoint = worker->run->checkpoint;
    const void *old[TERSE_MAX_WORKERS];
    double weight[TERSE_MAX_WORKERS];
    const int weighs = trn_weighs_shards(worker->run->settings);
    const int shared = state->kind == TERSE_STATE_SHARED;
    if (worker->run->workers == old_workers || shared)
        return copy_part(worker,
                         trn_checkpoint_find(checkpoint, state->name, shared ? 0 : worker->rank),
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

static void note_workers(struct trn_worker *worker, uint32_t old_workers)
{
    char text[200];
    double norm = 0;
    const uint32_t workers = worker->run->workers;
    if (worker->rank != 0 || !worker->run->watch->note || old_workers == workers)
        return;
    if (residual_norm(worker, &norm))
        (void)snprintf(
            text, sizeof text,
            "resumed with %u worker%s instead of %u: each has the mean of the residuals, "
            "whose norm is %.9g, and of the moments",
            workers, workers == 1 ? "" : "s", old_workers, norm);
    else
        (void)snprintf(text, sizeof text,
                       "resumed with %u worker%s instead of %u: each has the mean of the moments",
                       workers, workers == 1 ? "" : "s", old_workers);
    worker->run->watch->note(worker->run->watch->context, text);
}

terse_status trn_worker_restore(struct trn_worker *worker)
{
    const struct trn_checkpoint *const checkpoint = worker->run->checkpoint;
    uint64_t old_workers = 0;
    uint64_t count = 0;
    terse_state state;
    float *const statistics = trn_net_statistics(worker->net, &count);
    const terse_state running = {.name = STATISTICS,
                                 .bytes = statistics,
                                 .len = count * sizeof(float),
                                 .kind = TERSE_STATE_OWN};
    (void)com_json_get_u64(trn_checkpoint_settings(checkpoint), "workers", &old_workers);
    if (old_workers == 0 || old_workers > TERSE_MAX_WORKERS)
        return com_fail(&worker->fault, TERSE_MISMATCH,
                        "the checkpoint has no number of workers from 1 to %u", TERSE_MAX_WORKERS);
    terse_status status = copy_part(worker, trn_checkpoint_find(checkpoint, WEIGHTS, 0),
                                    worker->weights, worker->count * sizeof(float));
    for (uint32_t i = 0;
         status == TERSE_OK && terse_method_state(worker->method, i, &state) == TERSE_OK; i++)
        status = restore_part(worker, &state, (uint32_t)old_workers);
    if (status == TERSE_OK && count > 0)
        status = restore_part(worker, &running, (uint32_t)old_workers);
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
        note_workers(worker, (uint32_t)old_workers);
    return status;
}
