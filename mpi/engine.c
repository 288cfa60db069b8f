/* The MPI engine. An all-to-all is MPI_Irecv and MPI_Isend per peer: timeouts name the peer. */
#include <sched.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include <terse/mpi.h>

#if !defined(TERSE_MPI_CHUNK)
/* Bytes per message. A timeout counts from the last message, as MPI does not tell of parts of one:
 * 4 MiB take 34 s at 1 Mbit/s, and one reply of the receiver for each costs 1 % at 1 Gbit/s. */
#define TERSE_MPI_CHUNK (4 << 20)
#endif

enum {
    /* A message of this length is sent eagerly. Above 64 KiB Open MPI over TCP uses a rendezvous,
     * and on a busy link its reply queues behind the data in the same direction. */
    PIECE = TERSE_MPI_CHUNK < 60 * 1024 ? TERSE_MPI_CHUNK : 60 * 1024,
    MAX_PIECES = 16,         /* limits the memory for buffered copies of eager messages */
    TAGS = 32768,            /* the smallest number of tags of any MPI */
    YIELD_NS = 20000,        /* idle for less than this: test again at once */
    SHORT_SLEEP_NS = 50000,  /* while data flows: kernel buffers last far longer than this */
    LONG_SLEEP_NS = 1000000, /* while a peer computes */
    FLOWING_NS = 200000000,  /* idle for longer than this: no data flows */
    STOPPED_NS = 1000000000, /* a turn of the loop that took longer: the process did not run */
};

/* A transfer from or to one peer: chunk after chunk, one MPI message at a time. */
struct transfer {
    unsigned char *at; /* the message in flight */
    size_t left;       /* bytes from `at` on */
    int peer;
    int receives;
    int open; /* not complete */
};

/* An all-to-all in flight. */
struct operation {
    struct transfer *transfers;
    MPI_Request *requests; /* one per transfer; MPI_REQUEST_NULL when complete */
    size_t transfer_cap;
    int transfer_count;
    int pending; /* transfers not complete */
    int tag;
    int is_long; /* some transfer needs several messages */
};

struct engine {
    MPI_Comm comm;
    int rank;
    int workers;
    int main_only; /* the thread level allows only the main thread */
    int abandoned;
    int long_count;  /* long operations in flight: every call tests them */
    unsigned posted; /* all-to-alls so far */
    struct operation operations[TERSE_MAX_REQUESTS];
    char why[MPI_MAX_ERROR_STRING + 32]; /* the cause of a failure, or "" */
};

/* ---- failures ---- */

static terse_status failed(struct engine *engine, int code, const char *call)
{
    char text[MPI_MAX_ERROR_STRING] = "";
    int len = 0;
    int class = MPI_ERR_UNKNOWN;
    (void)MPI_Error_string(code, text, &len);
    (void)MPI_Error_class(code, &class);
    text[strcspn(text, "\n")] = '\0';
    if (class == MPI_ERR_TRUNCATE)
        return TERSE_MISMATCH;
    (void)snprintf(engine->why, sizeof engine->why, "%s: %s", call, text);
    return TERSE_PEER_LOST;
}

static terse_status wrong_thread(struct engine *engine)
{
    int is_main = 1;
    if (engine->main_only)
        (void)MPI_Is_thread_main(&is_main);
    if (is_main)
        return TERSE_OK;
    (void)snprintf(engine->why, sizeof engine->why,
                   "MPI was initialised below MPI_THREAD_SERIALIZED: only the main thread may "
                   "use this group");
    return TERSE_UNSUPPORTED;
}

/* ---- messages ---- */

static int next_len(const struct transfer *transfer)
{
    return transfer->left < TERSE_MPI_CHUNK ? (int)transfer->left : TERSE_MPI_CHUNK;
}

static int start_message(struct engine *engine, struct operation *operation, int i)
{
    const struct transfer *const transfer = &operation->transfers[i];
    MPI_Request *const request = &operation->requests[i];
    if (transfer->receives)
        return MPI_Irecv(transfer->at, next_len(transfer), MPI_BYTE, transfer->peer, operation->tag,
                         engine->comm, request);
    return MPI_Isend(transfer->at, next_len(transfer), MPI_BYTE, transfer->peer, operation->tag,
                     engine->comm, request);
}

static terse_status end_message(struct engine *engine, struct operation *operation, int i,
                                MPI_Status *status)
{
    struct transfer *const transfer = &operation->transfers[i];
    const int len = next_len(transfer);
    int received = len;
    if (transfer->receives)
        (void)MPI_Get_count(status, MPI_BYTE, &received);
    if (received != len)
        return TERSE_MISMATCH;
    transfer->at += len;
    transfer->left -= (size_t)len;
    if (transfer->left) {
        const int code = start_message(engine, operation, i);
        return code == MPI_SUCCESS ? TERSE_OK : failed(engine, code, "MPI_Isend or MPI_Irecv");
    }
    transfer->open = 0;
    operation->pending--;
    if (operation->pending == 0 && operation->is_long) {
        operation->is_long = 0;
        engine->long_count--;
    }
    return TERSE_OK;
}

/* Tests the messages of one operation; *moved counts the completed ones. MPI_Test is called for
 * each message, since MPICH reports an error of MPI_Testsome to MPI_COMM_WORLD and not to this
 * communicator. */
static terse_status test_messages(struct engine *engine, struct operation *operation, int *moved,
                                  int32_t *rank)
{
    for (int i = 0; operation->pending && i < operation->transfer_count; i++) {
        MPI_Status message;
        int complete = 0;
        if (operation->requests[i] == MPI_REQUEST_NULL)
            continue;
        const int code = MPI_Test(&operation->requests[i], &complete, &message);
        terse_status status = TERSE_OK;
        if (code != MPI_SUCCESS)
            status = failed(engine, code, "message");
        else if (complete)
            status = end_message(engine, operation, i, &message);
        if (status) {
            *rank = operation->transfers[i].peer;
            return status;
        }
        *moved += complete;
    }
    return TERSE_OK;
}

/* MPICH reports the error of a request to MPI_COMM_WORLD and not to the request's communicator, and
 * by default that aborts the program. So MPI_COMM_WORLD returns errors while requests are tested.
 */
static MPI_Errhandler world_errors_return(void)
{
    MPI_Errhandler before = MPI_ERRHANDLER_NULL;
    if (MPI_Comm_get_errhandler(MPI_COMM_WORLD, &before) == MPI_SUCCESS)
        (void)MPI_Comm_set_errhandler(MPI_COMM_WORLD, MPI_ERRORS_RETURN);
    return before;
}

static void restore_errhandler(MPI_Errhandler before)
{
    if (before == MPI_ERRHANDLER_NULL)
        return;
    (void)MPI_Comm_set_errhandler(MPI_COMM_WORLD, before);
    (void)MPI_Errhandler_free(&before);
}

/* MPI progresses all messages in any call; only long operations need one to start the next chunk.
 * With `all`, those of every operation are tested: `moved` tells of all that has arrived. */
static terse_status advance(struct engine *engine, uint32_t slot, int all, int *moved,
                            int32_t *rank)
{
    const MPI_Errhandler before = world_errors_return();
    terse_status status = test_messages(engine, &engine->operations[slot], moved, rank);
    for (uint32_t i = 0; (all || engine->long_count) && i < TERSE_MAX_REQUESTS && !status; i++)
        if (i != slot && (all || engine->operations[i].is_long))
            status = test_messages(engine, &engine->operations[i], moved, rank);
    restore_errhandler(before);
    return status;
}

/* ---- the engine ---- */

static void add_transfer(struct operation *operation, int peer, int receives, void *at, size_t len)
{
    operation->transfers[operation->transfer_count] =
        (struct transfer){.at = at, .left = len, .peer = peer, .receives = receives, .open = 1};
    operation->requests[operation->transfer_count] = MPI_REQUEST_NULL;
    operation->transfer_count++;
    operation->is_long |= len > TERSE_MPI_CHUNK;
}

/* The number of messages for `len` bytes. The last of several is shorter than PIECE, and may be
 * empty, so that a receiver detects every wrong length. */
static size_t pieces_of(size_t len)
{
    if (len == 0)
        return 0;
    return len < PIECE || len / PIECE >= MAX_PIECES ? 1 : len / PIECE + 1;
}

/* Adds piece `i` of a buffer, if it has that many. */
static void add_piece(struct operation *operation, int peer, int receives, void *at, size_t len,
                      size_t i)
{
    const size_t pieces = pieces_of(len);
    const size_t first = i * PIECE;
    if (pieces == 1 && i == 0)
        add_transfer(operation, peer, receives, at, len);
    else if (i < pieces)
        add_transfer(operation, peer, receives, (unsigned char *)at + first,
                     i + 1 < pieces ? PIECE : len - first);
}

/* A transfer is for either direction, so the const of send buffers is removed here, and only here.
 */
static void *unconst(const void *at)
{
    void *plain;
    memcpy(&plain, &at, sizeof plain);
    return plain;
}

/* Allocates enough transfers for an all-to-all. Returns 0 if there is no memory. */
static int reserve(const struct engine *engine, struct operation *operation,
                   const terse_alltoallv *alltoallv)
{
    size_t messages = 1;
    for (int r = 0; r < engine->workers; r++)
        messages += pieces_of(alltoallv->send_len[r]) + pieces_of(alltoallv->recv_len[r]);
    if (messages <= operation->transfer_cap)
        return 1;
    free(operation->transfers);
    free(operation->requests);
    operation->transfers = calloc(messages, sizeof *operation->transfers);
    operation->requests = calloc(messages, sizeof *operation->requests);
    operation->transfer_cap = operation->transfers && operation->requests ? messages : 0;
    operation->transfer_count = 0;
    return operation->transfer_cap != 0;
}

/* Lists receives first. Each rank starts with its neighbour, so that no rank is everyone's first.
 */
static void plan(const struct engine *engine, struct operation *operation,
                 const terse_alltoallv *alltoallv)
{
    const int workers = engine->workers;
    operation->transfer_count = 0;
    operation->is_long = 0;
    for (size_t piece = 0; piece < MAX_PIECES; piece++)
        for (int i = 1; i < workers; i++) {
            const int peer = (engine->rank + workers - i) % workers;
            add_piece(operation, peer, 1, alltoallv->recv_at[peer], alltoallv->recv_len[peer],
                      piece);
        }
    for (size_t piece = 0; piece < MAX_PIECES; piece++)
        for (int i = 1; i < workers; i++) {
            const int peer = (engine->rank + i) % workers;
            add_piece(operation, peer, 0, unconst(alltoallv->send_at[peer]),
                      alltoallv->send_len[peer], piece);
        }
}

static terse_status mpi_post(void *context, uint32_t slot, const terse_alltoallv *alltoallv,
                             int32_t *rank)
{
    struct engine *const engine = context;
    struct operation *const operation = &engine->operations[slot];
    const terse_status refused = wrong_thread(engine);
    if (refused)
        return refused;
    if (!reserve(engine, operation, alltoallv))
        return TERSE_NO_MEMORY;
    operation->tag = (int)(engine->posted++ % TAGS);
    plan(engine, operation, alltoallv);
    operation->pending = operation->transfer_count;
    engine->long_count += operation->is_long;
    for (int i = 0; i < operation->transfer_count; i++) {
        const int code = start_message(engine, operation, i);
        if (code != MPI_SUCCESS) {
            *rank = operation->transfers[i].peer;
            return failed(engine, code, "MPI_Isend or MPI_Irecv");
        }
    }
    return TERSE_OK;
}

static terse_status mpi_test(void *context, uint32_t slot, int *done, int32_t *rank)
{
    struct engine *const engine = context;
    int moved = 0;
    terse_status status = wrong_thread(engine);
    if (!status)
        status = advance(engine, slot, 0, &moved, rank);
    *done = !status && engine->operations[slot].pending == 0;
    return status;
}

static uint64_t nanoseconds_now(void)
{
    struct timespec now;
    (void)clock_gettime(CLOCK_MONOTONIC, &now);
    return (uint64_t)now.tv_sec * 1000000000u + (uint64_t)now.tv_nsec;
}

/* The lowest rank from which a message is missing; else the lowest that has not received ours. */
static int32_t late_rank(const struct operation *operation)
{
    int32_t not_sent = INT32_MAX;
    int32_t not_received = INT32_MAX;
    for (int i = 0; i < operation->transfer_count; i++) {
        const struct transfer *const transfer = &operation->transfers[i];
        int32_t *const lowest = transfer->receives ? &not_sent : &not_received;
        if (transfer->open && transfer->peer < *lowest)
            *lowest = transfer->peer;
    }
    return not_sent < INT32_MAX ? not_sent : not_received;
}

/* Gives up the core for a while. The sleep grows with the idle time: it delays a message by at most
 * a 64th of the wait and, while data flows, by less than kernel buffers bridge. */
static void back_off(uint64_t idle)
{
    if (idle < YIELD_NS) {
        (void)sched_yield();
        return;
    }
    const uint64_t longest = idle < FLOWING_NS ? SHORT_SLEEP_NS : LONG_SLEEP_NS;
    const struct timespec time = {0, (long)(idle / 64 < longest ? idle / 64 : longest)};
    (void)nanosleep(&time, NULL);
}

/* A timeout is a time without any message: a slow link is not a lost rank. It begins anew after a
 * turn that took a second: the process, perhaps the whole job, was stopped. */
static terse_status mpi_wait(void *context, uint32_t slot, uint64_t nanoseconds, int32_t *rank)
{
    struct engine *const engine = context;
    const struct operation *const operation = &engine->operations[slot];
    uint64_t moved_at = nanoseconds_now();
    uint64_t turn = moved_at;
    uint64_t idle = 0;
    terse_status status = wrong_thread(engine);
    while (!status) {
        const int all = idle >= FLOWING_NS || idle >= nanoseconds / 2;
        int moved = 0;
        status = advance(engine, slot, all, &moved, rank);
        if (status || operation->pending == 0)
            break;
        const uint64_t now = nanoseconds_now();
        if (moved || now - turn > STOPPED_NS)
            moved_at = now;
        turn = now;
        idle = now - moved_at;
        if (all && idle >= nanoseconds) {
            *rank = late_rank(operation);
            return TERSE_TIMEOUT;
        }
        back_off(idle);
    }
    return status;
}

static void mpi_abandon(void *context)
{
    ((struct engine *)context)->abandoned = 1;
}

static const char *mpi_explain(void *context)
{
    const struct engine *const engine = context;
    return engine->why[0] ? engine->why : NULL;
}

/* ---- creation and destruction ---- */

/* Cancels receives that are not matched yet. Other messages cannot be cancelled, so the program
 * should end now. The communicator is not freed: that would wait for the peers. */
static void cancel_all(struct engine *engine)
{
    const MPI_Errhandler before = world_errors_return();
    for (uint32_t slot = 0; slot < TERSE_MAX_REQUESTS; slot++) {
        struct operation *const operation = &engine->operations[slot];
        for (int i = 0; i < operation->transfer_count; i++) {
            int done = 0;
            if (!operation->transfers[i].receives || operation->requests[i] == MPI_REQUEST_NULL)
                continue;
            (void)MPI_Cancel(&operation->requests[i]);
            (void)MPI_Test(&operation->requests[i], &done, MPI_STATUS_IGNORE);
        }
    }
    restore_errhandler(before);
}

static void mpi_destroy(void *context)
{
    struct engine *const engine = context;
    int finalized = 1;
    (void)MPI_Finalized(&finalized);
    if (!finalized && engine->comm != MPI_COMM_NULL) {
        if (engine->abandoned)
            cancel_all(engine);
        else
            (void)MPI_Comm_free(&engine->comm);
    }
    for (uint32_t slot = 0; slot < TERSE_MAX_REQUESTS; slot++) {
        free(engine->operations[slot].requests);
        free(engine->operations[slot].transfers);
    }
    free(engine);
}

static struct engine *make_engine(int rank, int workers)
{
    struct engine *const engine = calloc(1, sizeof *engine);
    if (!engine)
        return NULL;
    engine->comm = MPI_COMM_NULL;
    engine->rank = rank;
    engine->workers = workers;
    return engine;
}

static terse_status refuse(terse_fault *fault, terse_status status, const char *text)
{
    if (fault) {
        *fault = (terse_fault){.rank = -1};
        (void)snprintf(fault->text, sizeof fault->text, "%.220s", text);
    }
    return status;
}

static terse_status check_comm(MPI_Comm comm, int *rank, int *workers, terse_fault *fault)
{
    int initialized = 0;
    int finalized = 0;
    int inter = 0;
    (void)MPI_Initialized(&initialized);
    (void)MPI_Finalized(&finalized);
    if (!initialized || finalized)
        return refuse(fault, TERSE_BAD_ARGUMENT, "MPI is not initialised, or already finalised");
    if (comm == MPI_COMM_NULL || MPI_Comm_test_inter(comm, &inter) != MPI_SUCCESS || inter)
        return refuse(fault, TERSE_BAD_ARGUMENT, "comm is not an intracommunicator");
    if (MPI_Comm_rank(comm, rank) != MPI_SUCCESS || MPI_Comm_size(comm, workers) != MPI_SUCCESS)
        return refuse(fault, TERSE_PEER_LOST, "MPI_Comm_rank or MPI_Comm_size failed");
    if (*workers > (int)TERSE_MAX_WORKERS) {
        char text[96];
        (void)snprintf(text, sizeof text, "%d workers, a group has at most %u", *workers,
                       TERSE_MAX_WORKERS);
        return refuse(fault, TERSE_BAD_ARGUMENT, text);
    }
    return TERSE_OK;
}

terse_status terse_group_mpi(MPI_Comm comm, terse_group **out, terse_fault *fault)
{
    static const terse_group_ops ops = {.size = sizeof ops,
                                        .post = mpi_post,
                                        .test = mpi_test,
                                        .wait = mpi_wait,
                                        .abandon = mpi_abandon,
                                        .destroy = mpi_destroy,
                                        .explain = mpi_explain};
    int rank = 0;
    int workers = 0;
    int level = MPI_THREAD_SINGLE;
    terse_status status = check_comm(comm, &rank, &workers, fault);
    if (!status && !out)
        status = refuse(fault, TERSE_BAD_ARGUMENT, "out is NULL");
    if (status)
        return status;
    struct engine *const engine = make_engine(rank, workers);
    if (!engine)
        return refuse(fault, TERSE_NO_MEMORY, "out of memory");
    (void)MPI_Query_thread(&level);
    engine->main_only = level < MPI_THREAD_SERIALIZED;
    status = wrong_thread(engine);
    if (!status && MPI_Comm_dup(comm, &engine->comm) != MPI_SUCCESS) {
        (void)snprintf(engine->why, sizeof engine->why, "MPI_Comm_dup failed");
        status = TERSE_PEER_LOST;
    }
    if (!status && MPI_Comm_set_errhandler(engine->comm, MPI_ERRORS_RETURN) != MPI_SUCCESS)
        status = TERSE_PEER_LOST;
    if (!status)
        status = terse_group_callbacks(&ops, engine, (uint32_t)rank, (uint32_t)workers, out);
    if (status) {
        (void)refuse(fault, status, engine->why[0] ? engine->why : terse_status_text(status));
        mpi_destroy(engine);
    }
    return status;
}
