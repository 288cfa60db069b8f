/* Checkpoints. To save, every worker copies its state into a buffer that is there from the start.
 * The buffers of other processes are sent to rank 0, which writes one file from all of them while
 * the training goes on. To restore, every worker takes its part of the file. */
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
#define ALIGNMENT 64u /* of the bytes of a packed part: copies are fastest between whole lines */
#define PIECE 4096u   /* floats that are checked while they are in the cache */
#define STATISTICS "running statistics"
#define WEIGHTS "weights"

/* ---- buffers ---- */

struct buffer {
    uint8_t *bytes;
    uint64_t cap;
};

/* What a worker tells all others of its packed state. */
struct parcel {
    uint64_t len;
    uint64_t hash;    /* between processes, else 0 */
    uint64_t address; /* of the bytes, for the threads of one process */
    int64_t status;   /* TERSE_OK, or why there is nothing */
    trn_check check;
};

struct name {
    char text[TRN_MAX_BLOB_NAME + 1];
};

struct trn_states {
    struct buffer mine;
    struct parcel *parcels; /* of all workers, by rank */
    struct buffer *theirs;  /* on rank 0 of processes: what the others sent, by rank */
    struct trn_blob *blobs; /* on rank 0: the file's, which point into the buffers */
    struct name *names;
};

static uint64_t round_up(uint64_t len)
{
    return (len + ALIGNMENT - 1) / ALIGNMENT * ALIGNMENT;
}

/* Buffers are written to when they are made: the first write to a fresh page takes several times as
 * long as the copy of its bytes. */
static int reserve(struct buffer *buffer, uint64_t len)
{
    if (len <= buffer->cap)
        return 1;
    free(buffer->bytes);
    buffer->cap = round_up(len);
    buffer->bytes = aligned_alloc(ALIGNMENT, buffer->cap);
    if (!buffer->bytes)
        buffer->cap = 0;
    else
        memset(buffer->bytes, 0xAA, buffer->cap); /* zeros might be left to the system */
    return buffer->bytes != NULL;
}

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
            len += round_up(HEAD_LEN + strlen(part[i].name)) + round_up(part[i].len);
    return len;
}

/* Copies the weights; 0: one of them is not finite. */
static int copy_weights(const float *in, uint64_t count, uint8_t *out)
{
    uint32_t most = 0;
    for (uint64_t i = 0; i < count; i += PIECE) {
        uint32_t bits[PIECE];
        const size_t n = count - i < PIECE ? (size_t)(count - i) : PIECE;
        memcpy(bits, in + i, n * sizeof *bits);
        memcpy(out + i * sizeof *bits, bits, n * sizeof *bits);
        for (size_t j = 0; j < n; j++) {
            const uint32_t magnitude = bits[j] & 0x7FFFFFFFu;
            most = magnitude > most ? magnitude : most;
        }
    }
    return most < 0x7F800000u;
}

/* 0: the weights are not finite; a checkpoint of them would be of no use. */
static int pack(const struct trn_worker *worker, const struct trn_blob *part, size_t count,
                uint8_t *out)
{
    int finite = 1;
    for (size_t i = 0; i < count; i++) {
        const size_t name_len = strlen(part[i].name);
        if (!is_sent(worker, &part[i]))
            continue;
        trn_put_u32(out, part[i].kind);
        trn_put_u32(out + 4, (uint32_t)name_len);
        trn_put_u64(out + 8, part[i].len);
        memcpy(out + HEAD_LEN, part[i].name, name_len);
        out += round_up(HEAD_LEN + name_len);
        if (part[i].bytes == worker->weights)
            finite = copy_weights(worker->weights, worker->count, out);
        else
            memcpy(out, part[i].bytes, part[i].len);
        out += round_up(part[i].len);
    }
    return finite;
}

/* Workers that are threads of one process read each other's buffers. */
static int are_processes(const struct trn_worker *worker)
{
    return worker->run->settings->group != NULL;
}

static struct parcel pack_mine(struct trn_worker *worker)
{
    struct buffer *const mine = &worker->states->mine;
    struct trn_blob part[MAX_PARTS];
    const size_t count = parts_of(worker, part);
    struct parcel parcel = {.len = packed_len(worker, part, count)};
    if (!reserve(mine, parcel.len))
        parcel.status = com_fail(&worker->fault, TERSE_NO_MEMORY,
                                 "rank %u: no memory for a copy of its state, %llu bytes",
                                 worker->rank, (unsigned long long)parcel.len);
    else if (!pack(worker, part, count, mine->bytes) && trn_worker_is_broken(worker))
        parcel.status = TERSE_NOT_FINITE;
    else if (are_processes(worker))
        parcel.hash = trn_hash64(mine->bytes, parcel.len, 0);
    parcel.address = (uintptr_t)mine->bytes;
    return parcel;
}

terse_status trn_worker_make_room(struct trn_worker *worker)
{
    const uint32_t workers = worker->run->workers;
    struct trn_states *const states = calloc(1, sizeof *states);
    struct trn_blob part[MAX_PARTS];
    const uint64_t len = packed_len(worker, part, parts_of(worker, part));
    int made = states != NULL;
    worker->states = states;
    if (made) {
        states->parcels = calloc(workers, sizeof *states->parcels);
        states->theirs = calloc(workers, sizeof *states->theirs);
        made = states->parcels && states->theirs;
    }
    if (made && worker->rank == 0) {
        states->blobs = calloc((size_t)workers * MAX_PARTS, sizeof *states->blobs);
        states->names = calloc((size_t)workers * MAX_PARTS, sizeof *states->names);
        made = states->blobs && states->names;
    }
    if (worker->run->settings->checkpoint_every) /* else there is one at the end */
        made = made && reserve(&states->mine, len);
    return made ? TERSE_OK : com_fail(&worker->fault, TERSE_NO_MEMORY, "out of memory");
}

void trn_worker_drop_room(struct trn_worker *worker)
{
    struct trn_states *const states = worker->states;
    if (!states)
        return;
    for (uint32_t r = 0; states->theirs && r < worker->run->workers; r++)
        free(states->theirs[r].bytes);
    free(states->mine.bytes);
    free(states->parcels);
    free(states->theirs);
    free(states->blobs);
    free(states->names);
    free(states);
}

/* ---- to rank 0 ---- */

/* The bytes of other processes, into buffers that are kept for the next checkpoint. */
static terse_status send_bytes(struct trn_worker *worker)
{
    struct trn_states *const states = worker->states;
    const void *send_at[TERSE_MAX_WORKERS] = {states->mine.bytes};
    size_t send_len[TERSE_MAX_WORKERS] = {0};
    void *recv_at[TERSE_MAX_WORKERS] = {NULL};
    size_t recv_len[TERSE_MAX_WORKERS] = {0};
    terse_status status = TERSE_OK;
    if (worker->rank != 0)
        send_len[0] = states->parcels[worker->rank].len;
    for (uint32_t r = 1; r < worker->run->workers && worker->rank == 0; r++) {
        if (!reserve(&states->theirs[r], states->parcels[r].len))
            return com_fail(&worker->fault, TERSE_NO_MEMORY, "no memory for the state of rank %u",
                            r);
        recv_at[r] = states->theirs[r].bytes;
        recv_len[r] = states->parcels[r].len;
    }
    const terse_alltoallv alltoallv = {send_at, send_len, recv_at, recv_len};
    status = terse_group_alltoallv(worker->group, &alltoallv, &worker->fault);
    for (uint32_t r = 1; r < worker->run->workers && worker->rank == 0 && status == TERSE_OK; r++)
        status = trn_share_compare(recv_at[r], recv_len[r], states->parcels[r].hash, r,
                                   "its state for the checkpoint", &worker->fault);
    return status;
}

/* Every worker packs its state, tells all whether it could, and sends it to rank 0. */
static terse_status collect(struct trn_worker *worker)
{
    struct parcel *const parcels = worker->states->parcels;
    struct parcel mine = pack_mine(worker);
    const terse_status status = trn_share(worker->group, TRN_SHARE_STATE, worker->step, &mine,
                                          sizeof mine, parcels, &worker->fault);
    if (status != TERSE_OK)
        return status;
    if (mine.status != TERSE_OK)
        return (terse_status)mine.status;
    for (uint32_t r = 0; r < worker->run->workers; r++)
        if (parcels[r].status != TERSE_OK)
            return com_fail(&worker->fault, (terse_status)parcels[r].status,
                            "rank %u has no state for the checkpoint", r);
    return are_processes(worker) ? send_bytes(worker) : TERSE_OK;
}

/* The parts of a worker's packed state as blobs. The bytes have the hash that their sender
 * announced, or are in this process, and the same program packed them. */
static uint32_t unpack(const struct trn_states *states, uint32_t worker, const uint8_t *at,
                       uint32_t first)
{
    const uint8_t *const end = at + states->parcels[worker].len;
    uint32_t count = first;
    while (at < end) {
        const uint32_t name_len = trn_get_u32(at + 4);
        struct trn_blob *const blob = &states->blobs[count];
        char *const name = states->names[count++].text;
        (void)snprintf(name, sizeof states->names->text, "%.*s", (int)name_len,
                       (const char *)at + HEAD_LEN);
        *blob = (struct trn_blob){.name = name,
                                  .kind = trn_get_u32(at),
                                  .worker = worker,
                                  .bytes = at + round_up(HEAD_LEN + name_len),
                                  .len = trn_get_u64(at + 8)};
        at += round_up(HEAD_LEN + name_len) + round_up(blob->len);
    }
    return count;
}

/* Hands the file to the thread that writes it. */
static terse_status write_file(struct trn_worker *worker)
{
    const struct trn_states *const states = worker->states;
    uint32_t count = 0;
    for (uint32_t r = 0; r < worker->run->workers; r++) {
        const uint8_t *bytes = states->theirs[r].bytes;
        if (r == 0)
            bytes = states->mine.bytes;
        else if (!are_processes(worker))
            bytes = (const uint8_t *)(uintptr_t)states->parcels[r].address;
        count = unpack(states, r, bytes, count);
    }
    return trn_save_begin(worker, trn_record_settings(worker), states->blobs, count);
}

/* Was the file begun? Only rank 0 knows. */
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
    uint64_t before = 0;
    uint64_t after = 0;
    terse_group_traffic(worker->group, &before, &(uint64_t){0});
    terse_status status = collect(worker);
    if (status == TERSE_OK)
        status = agree(worker, worker->rank == 0 ? write_file(worker) : TERSE_OK);
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
