/* The MPI engine: an all-to-all is one Irecv and one Isend per peer, so that what is missing has a
 * name.
 */
#include <sched.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include <terse/mpi.h>

#if !defined(TERSE_MPI_CHUNK)
#define TERSE_MPI_CHUNK (1 << 30) /* bytes in one message: its length is an int */
#endif

enum {
    /* A message of this length leaves at once. Above 64 KiB Open MPI over TCP first asks whether it
     * may, and on a busy link the answer waits behind the data that goes its way. */
    PIECE = TERSE_MPI_CHUNK < 60 * 1024 ? TERSE_MPI_CHUNK : 60 * 1024,
    MOST_PIECES = 16,       /* what leaves at once may have to be kept twice: not beyond this */
    TAGS = 32768,           /* every MPI has at least these */
    YIELD_NS = 20000,       /* so long nothing has moved: look again at once */
    SHORT_NAP_NS = 50000,   /* while data flows, kernel buffers last far longer than this */
    LONG_NAP_NS = 1000000,  /* somebody computes */
    FLOWING_NS = 200000000, /* nothing for so long: data does not flow */
};

/* Bytes from or to one other rank: chunk after chunk, one message at a time. */
struct lane {
    unsigned char *at; /* the message under way */
    size_t left;       /* bytes from `at` on */
    int peer;
    int receives;
    int open; /* not over */
};

/* An all-to-all under way. */
struct journey {
    struct lane *lanes;
    MPI_Request *requests; /* one for each lane; MPI_REQUEST_NULL when that is over */
    size_t lane_cap;
    int lane_count;
    int pending; /* lanes not over */
    int tag;
    int is_long; /* some lane needs several messages */
};

struct engine {
    MPI_Comm comm;
    int rank;
    int workers;
    int main_only; /* the thread level asks for it */
    int abandoned;
    int long_count; /* journeys that must be looked at even when nobody asks for them */
    unsigned turn;  /* all-to-alls so far */
    struct journey journeys[TERSE_MAX_REQUESTS];
    char why[MPI_MAX_ERROR_STRING + 32]; /* "" if there is nothing to add */
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

static int next_len(const struct lane *lane)
{
    return lane->left < TERSE_MPI_CHUNK ? (int)lane->left : TERSE_MPI_CHUNK;
}

static int start_message(struct engine *engine, struct journey *journey, int i)
{
    const struct lane *const lane = &journey->lanes[i];
    MPI_Request *const request = &journey->requests[i];
    if (lane->receives)
        return MPI_Irecv(lane->at, next_len(lane), MPI_BYTE, lane->peer, journey->tag, engine->comm,
                         request);
    return MPI_Isend(lane->at, next_len(lane), MPI_BYTE, lane->peer, journey->tag, engine->comm,
                     request);
}

static terse_status end_message(struct engine *engine, struct journey *journey, int i,
                                MPI_Status *status)
{
    struct lane *const lane = &journey->lanes[i];
    const int len = next_len(lane);
    int received = len;
    if (lane->receives)
        (void)MPI_Get_count(status, MPI_BYTE, &received);
    if (received != len)
        return TERSE_MISMATCH;
    lane->at += len;
    lane->left -= (size_t)len;
    if (lane->left) {
        const int code = start_message(engine, journey, i);
        return code == MPI_SUCCESS ? TERSE_OK : failed(engine, code, "MPI_Isend or MPI_Irecv");
    }
    lane->open = 0;
    journey->pending--;
    if (journey->pending == 0 && journey->is_long) {
        journey->is_long = 0;
        engine->long_count--;
    }
    return TERSE_OK;
}

/* Looks at one journey; *moved counts what has come to its end. Message by message, since MPICH
 * takes an error of MPI_Testsome for the world's and not for this communicator's. */
static terse_status look(struct engine *engine, struct journey *journey, int *moved, int32_t *rank)
{
    for (int i = 0; journey->pending && i < journey->lane_count; i++) {
        MPI_Status message;
        int over = 0;
        if (journey->requests[i] == MPI_REQUEST_NULL)
            continue;
        const int code = MPI_Test(&journey->requests[i], &over, &message);
        terse_status status = TERSE_OK;
        if (code != MPI_SUCCESS)
            status = failed(engine, code, "message");
        else if (over)
            status = end_message(engine, journey, i, &message);
        if (status) {
            *rank = journey->lanes[i].peer;
            return status;
        }
        *moved += over;
    }
    return TERSE_OK;
}

/* MPICH hands what goes wrong with a request to MPI_COMM_WORLD and not to the communicator that it
 * belongs to, and by default that ends the program. So the world returns errors while we ask. */
static MPI_Errhandler calm_the_world(void)
{
    MPI_Errhandler before = MPI_ERRHANDLER_NULL;
    if (MPI_Comm_get_errhandler(MPI_COMM_WORLD, &before) == MPI_SUCCESS)
        (void)MPI_Comm_set_errhandler(MPI_COMM_WORLD, MPI_ERRORS_RETURN);
    return before;
}

static void restore_the_world(MPI_Errhandler before)
{
    if (before == MPI_ERRHANDLER_NULL)
        return;
    (void)MPI_Comm_set_errhandler(MPI_COMM_WORLD, before);
    (void)MPI_Errhandler_free(&before);
}

/* MPI itself moves every message whichever is asked for; only the next chunk is up to us. */
static terse_status advance(struct engine *engine, uint32_t slot, int *moved, int32_t *rank)
{
    const MPI_Errhandler before = calm_the_world();
    terse_status status = look(engine, &engine->journeys[slot], moved, rank);
    for (uint32_t i = 0; engine->long_count && i < TERSE_MAX_REQUESTS && !status; i++)
        if (i != slot && engine->journeys[i].is_long)
            status = look(engine, &engine->journeys[i], moved, rank);
    restore_the_world(before);
    return status;
}

/* ---- the engine ---- */

static void add_lane(struct journey *journey, int peer, int receives, void *at, size_t len)
{
    journey->lanes[journey->lane_count] =
        (struct lane){.at = at, .left = len, .peer = peer, .receives = receives, .open = 1};
    journey->requests[journey->lane_count] = MPI_REQUEST_NULL;
    journey->lane_count++;
    journey->is_long |= len > TERSE_MPI_CHUNK;
}

/* Messages for `len` bytes. The last of several is shorter than the others, if need be empty, so
 * that no two such lengths look alike. */
static size_t pieces_of(size_t len)
{
    if (len == 0)
        return 0;
    return len < PIECE || len / PIECE >= MOST_PIECES ? 1 : len / PIECE + 1;
}

/* Adds piece `i` of what goes one way, if there is one. */
static void add_piece(struct journey *journey, int peer, int receives, void *at, size_t len,
                      size_t i)
{
    const size_t pieces = pieces_of(len);
    const size_t first = i * PIECE;
    if (pieces == 1 && i == 0)
        add_lane(journey, peer, receives, at, len);
    else if (i < pieces)
        add_lane(journey, peer, receives, (unsigned char *)at + first,
                 i + 1 < pieces ? PIECE : len - first);
}

/* MPI's send takes a const buffer; a lane is either way, so the const goes here and only here. */
static void *unconst(const void *at)
{
    void *plain;
    memcpy(&plain, &at, sizeof plain);
    return plain;
}

/* Room for all messages of an all-to-all? */
static int has_room(const struct engine *engine, struct journey *journey,
                    const terse_alltoallv *alltoallv)
{
    size_t messages = 1;
    for (int r = 0; r < engine->workers; r++)
        messages += pieces_of(alltoallv->send_len[r]) + pieces_of(alltoallv->recv_len[r]);
    if (messages <= journey->lane_cap)
        return 1;
    free(journey->lanes);
    free(journey->requests);
    journey->lanes = calloc(messages, sizeof *journey->lanes);
    journey->requests = calloc(messages, sizeof *journey->requests);
    journey->lane_cap = journey->lanes && journey->requests ? messages : 0;
    journey->lane_count = 0;
    return journey->lane_cap != 0;
}

/* Receives first; peers in turn from the next rank on, so that no one is everybody's first. */
static void plan(const struct engine *engine, struct journey *journey,
                 const terse_alltoallv *alltoallv)
{
    const int workers = engine->workers;
    journey->lane_count = 0;
    journey->is_long = 0;
    for (size_t piece = 0; piece < MOST_PIECES; piece++)
        for (int i = 1; i < workers; i++) {
            const int peer = (engine->rank + workers - i) % workers;
            add_piece(journey, peer, 1, alltoallv->recv_at[peer], alltoallv->recv_len[peer], piece);
        }
    for (size_t piece = 0; piece < MOST_PIECES; piece++)
        for (int i = 1; i < workers; i++) {
            const int peer = (engine->rank + i) % workers;
            add_piece(journey, peer, 0, unconst(alltoallv->send_at[peer]),
                      alltoallv->send_len[peer], piece);
        }
}

static terse_status mpi_post(void *context, uint32_t slot, const terse_alltoallv *alltoallv,
                             int32_t *rank)
{
    struct engine *const engine = context;
    struct journey *const journey = &engine->journeys[slot];
    const terse_status refused = wrong_thread(engine);
    if (refused)
        return refused;
    if (!has_room(engine, journey, alltoallv))
        return TERSE_NO_MEMORY;
    journey->tag = (int)(engine->turn++ % TAGS);
    plan(engine, journey, alltoallv);
    journey->pending = journey->lane_count;
    engine->long_count += journey->is_long;
    for (int i = 0; i < journey->lane_count; i++) {
        const int code = start_message(engine, journey, i);
        if (code != MPI_SUCCESS) {
            *rank = journey->lanes[i].peer;
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
        status = advance(engine, slot, &moved, rank);
    *done = !status && engine->journeys[slot].pending == 0;
    return status;
}

static uint64_t nanoseconds_now(void)
{
    struct timespec now;
    (void)clock_gettime(CLOCK_MONOTONIC, &now);
    return (uint64_t)now.tv_sec * 1000000000u + (uint64_t)now.tv_nsec;
}

/* The lowest rank whose bytes are missing; if none, the lowest that has not taken ours. */
static int32_t who_is_late(const struct journey *journey)
{
    int32_t says_nothing = INT32_MAX;
    int32_t takes_nothing = INT32_MAX;
    for (int i = 0; i < journey->lane_count; i++) {
        const struct lane *const lane = &journey->lanes[i];
        int32_t *const lowest = lane->receives ? &says_nothing : &takes_nothing;
        if (lane->open && lane->peer < *lowest)
            *lowest = lane->peer;
    }
    return says_nothing < INT32_MAX ? says_nothing : takes_nothing;
}

/* Leaves the core to others. The nap grows with the time that nothing has moved, so it delays what
 * comes by a 64th of the wait at most, and by less than kernel buffers bridge while data flows. */
static void rest(uint64_t idle)
{
    if (idle < YIELD_NS) {
        (void)sched_yield();
        return;
    }
    const uint64_t longest = idle < FLOWING_NS ? SHORT_NAP_NS : LONG_NAP_NS;
    const uint64_t nap = idle / 64 < longest ? idle / 64 : longest;
    const struct timespec time = {0, (long)nap};
    (void)nanosleep(&time, NULL);
}

static terse_status mpi_wait(void *context, uint32_t slot, uint64_t nanoseconds, int32_t *rank)
{
    struct engine *const engine = context;
    const struct journey *const journey = &engine->journeys[slot];
    const uint64_t start = nanoseconds_now();
    uint64_t moved_at = start;
    terse_status status = wrong_thread(engine);
    while (!status) {
        int moved = 0;
        status = advance(engine, slot, &moved, rank);
        if (status || journey->pending == 0)
            break;
        const uint64_t now = nanoseconds_now();
        if (moved)
            moved_at = now;
        if (now - start >= nanoseconds) {
            *rank = who_is_late(journey);
            status = TERSE_TIMEOUT;
            break;
        }
        rest(now - moved_at);
    }
    return status;
}

static void mpi_abandon(void *context)
{
    struct engine *const engine = context;
    engine->abandoned = 1;
}

static const char *mpi_explain(void *context)
{
    const struct engine *const engine = context;
    return engine->why[0] ? engine->why : NULL;
}

/* ---- coming and going ---- */

/* What nobody has answered yet can be taken back; the rest cannot, which is why a program should
 * end now. The communicator stays: freeing it would wait for the others. */
static void cancel_all(struct engine *engine)
{
    const MPI_Errhandler before = calm_the_world();
    for (uint32_t slot = 0; slot < TERSE_MAX_REQUESTS; slot++) {
        struct journey *const journey = &engine->journeys[slot];
        for (int i = 0; i < journey->lane_count; i++) {
            int done = 0;
            if (!journey->lanes[i].receives || journey->requests[i] == MPI_REQUEST_NULL)
                continue;
            (void)MPI_Cancel(&journey->requests[i]);
            (void)MPI_Test(&journey->requests[i], &done, MPI_STATUS_IGNORE);
        }
    }
    restore_the_world(before);
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
        free(engine->journeys[slot].requests);
        free(engine->journeys[slot].lanes);
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
        return refuse(fault, TERSE_BAD_ARGUMENT, "not an intracommunicator");
    if (MPI_Comm_rank(comm, rank) != MPI_SUCCESS || MPI_Comm_size(comm, workers) != MPI_SUCCESS)
        return refuse(fault, TERSE_PEER_LOST, "MPI cannot tell rank and size");
    if (*workers > (int)TERSE_MAX_WORKERS)
        return refuse(fault, TERSE_BAD_ARGUMENT, "too many workers for one group");
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
        status = refuse(fault, TERSE_BAD_ARGUMENT, "no place for the group");
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
