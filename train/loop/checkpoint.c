/* Checkpoints. To save, every worker copies its state into a buffer that is there from the start.
 * The buffers of other processes are sent to rank 0, which writes one file from all of them while
 * the training goes on. restore.c is the way back. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "files/bytes.h"
#include "files/hash.h"
#include "loop/worker.h"

#define MAX_PARTS 20u /* parts of one worker's state */
#define HEAD_LEN 20u  /* head of a packed part: u32 kind, u32 name length, u64 bytes, u32 worker */
#define ALIGNMENT 64u /* of the bytes of a packed part: copies are fastest between whole lines */
#define PIECE 4096u   /* floats that are checked while they are in the cache */

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

/* The state of this rank: that of its method, the weights, the running statistics. The workers of
 * the method may be nodes, whose ranks have the same: the leader's is saved, by the number of the
 * node. Running statistics are each rank's own. */
static size_t parts_of(struct trn_worker *worker, struct trn_blob *out)
{
    terse_state state;
    size_t count = 0;
    uint64_t statistics = 0;
    float *const running = trn_net_statistics(worker->net, &statistics);
    const uint32_t most = trn_node_leads(&worker->node) ? MAX_PARTS - 2 : 0;
    for (uint32_t i = 0; count < most && terse_method_state(worker->method, i, &state) == TERSE_OK;
         i++)
        out[count++] = (struct trn_blob){.name = state.name,
                                         .kind = (uint32_t)state.kind,
                                         .worker = terse_group_rank(trn_method_group(worker)),
                                         .bytes = state.bytes,
                                         .len = state.len};
    if (worker->rank == 0)
        out[count++] = (struct trn_blob){.name = TRN_WEIGHTS,
                                         .kind = TERSE_STATE_SHARED,
                                         .bytes = worker->weights,
                                         .len = worker->count * sizeof(float)};
    if (statistics > 0)
        out[count++] = (struct trn_blob){.name = TRN_STATISTICS,
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
        trn_put_u32(out + 16, part[i].worker);
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

/* The parts of a rank's packed state as blobs. The bytes have the hash that their sender announced,
 * or are in this process, and the same program packed them. */
static uint32_t unpack(const struct trn_states *states, uint32_t rank, const uint8_t *at,
                       uint32_t first)
{
    const uint8_t *const end = at + states->parcels[rank].len;
    uint32_t count = first;
    while (at < end) {
        const uint32_t name_len = trn_get_u32(at + 4);
        struct trn_blob *const blob = &states->blobs[count];
        char *const name = states->names[count++].text;
        (void)snprintf(name, sizeof states->names->text, "%.*s", (int)name_len,
                       (const char *)at + HEAD_LEN);
        *blob = (struct trn_blob){.name = name,
                                  .kind = trn_get_u32(at),
                                  .worker = trn_get_u32(at + 16),
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
