/* Workers of one process. Handle r's n-th all-to-all meets everybody's n-th all-to-all on a shared
 * board. When all have posted it, whoever waits copies: it claims a receiver that nobody serves
 * yet. So one thread that drives all handles never waits for itself, and threads share the work.
 * All-to-alls are done in the order they were posted, whole: an all-to-all is done when its last
 * byte is copied. */
#include <errno.h>
#include <pthread.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include <terse/group.h>

enum {
    SMALL_SWAP = 64 * 1024
}; /* bytes that the last to post copies at once, before it wakes all */

/* One handle's half of what passes between it and one other. */
struct part {
    const void *send_at;
    void *recv_at;
    size_t send_len;
    size_t recv_len;
};

struct handle {
    struct board *board;
    struct part *parts; /* workers for each slot */
    uint64_t posted;    /* all-to-alls so far */
    uint32_t rank;
    int left;
    uint64_t turns[TERSE_MAX_REQUESTS]; /* which all-to-all a slot holds */
};

/* An all-to-all on its way. */
struct meeting {
    uint32_t posted;                        /* handles */
    uint32_t claimed;                       /* receivers that somebody serves or has served */
    uint32_t served;                        /* receivers */
    uint8_t slots[TERSE_MAX_LOCAL_WORKERS]; /* of each handle */
};

_Static_assert(TERSE_MAX_REQUESTS <= 256, "a slot is a byte");

struct board {
    pthread_mutex_t lock;
    pthread_cond_t changed;
    uint32_t workers;
    uint32_t owners;  /* handles not yet destroyed, and the maker while it makes them */
    uint32_t copying; /* threads that copy right now, without the lock */
    uint64_t done;    /* all-to-alls 0 .. done-1 are done */
    int broken;
    int32_t blamed;
    int32_t also_blamed; /* the other side of a mismatch, or -1 */
    /* All-to-all n is meetings[n % TERSE_MAX_REQUESTS]: a handle that has posted n still holds
     * slots for all from `done` to n, so n - done < TERSE_MAX_REQUESTS. */
    struct meeting meetings[TERSE_MAX_REQUESTS];
    struct handle *handles;
    struct part *parts;
};

static struct meeting *meeting_at(struct board *board, uint64_t turn)
{
    return &board->meetings[turn % TERSE_MAX_REQUESTS];
}

static struct part *part_of(const struct board *board, const struct meeting *meeting, uint32_t who,
                            uint32_t other)
{
    return &board->handles[who].parts[(size_t)meeting->slots[who] * board->workers + other];
}

static void break_board(struct board *board, int32_t blamed, int32_t also_blamed)
{
    if (board->broken)
        return;
    board->broken = 1;
    board->blamed = blamed;
    board->also_blamed = also_blamed;
    pthread_cond_broadcast(&board->changed);
}

/* What a broken board means to one handle. */
static terse_status blame(const struct handle *handle, int32_t *rank)
{
    const struct board *const board = handle->board;
    const int32_t me = (int32_t)handle->rank;
    *rank = board->blamed;
    if (board->also_blamed < 0 || (me != board->blamed && me != board->also_blamed))
        return TERSE_PEER_LOST;
    if (me == board->blamed)
        *rank = board->also_blamed;
    return TERSE_MISMATCH;
}

/* ---- copying ---- */

/* All have posted it: do they agree on the lengths? Breaks the board if not. Returns the bytes. */
static uint64_t check_lengths(struct board *board, const struct meeting *meeting)
{
    uint64_t total = 0;
    for (uint32_t from = 0; from < board->workers; from++)
        for (uint32_t to = 0; to < board->workers; to++) {
            const size_t len = part_of(board, meeting, from, to)->send_len;
            if (len != part_of(board, meeting, to, from)->recv_len)
                break_board(board, (int32_t)from, (int32_t)to);
            total += len;
        }
    return total;
}

static void copy_to(const struct board *board, const struct meeting *meeting, uint32_t to)
{
    for (uint32_t i = 1; i < board->workers; i++) {
        const uint32_t from = (to + i) % board->workers;
        const struct part *const send = part_of(board, meeting, from, to);
        if (send->send_len)
            memcpy(part_of(board, meeting, to, from)->recv_at, send->send_at, send->send_len);
    }
}

static void count_done(struct board *board)
{
    const uint64_t before = board->done;
    struct meeting *meeting = meeting_at(board, board->done);
    while (meeting->served == board->workers) {
        memset(meeting, 0, sizeof *meeting);
        board->done++;
        meeting = meeting_at(board, board->done);
    }
    if (board->done != before)
        pthread_cond_broadcast(&board->changed);
}

/* Serves one receiver of the oldest all-to-all that has one to serve; 0 if there is none. Takes the
 * lock off while it copies. */
static int serve_one(struct board *board)
{
    struct meeting *meeting = NULL;
    if (board->broken)
        return 0;
    for (uint64_t turn = board->done; turn - board->done < TERSE_MAX_REQUESTS; turn++) {
        meeting = meeting_at(board, turn);
        if (meeting->posted < board->workers || meeting->claimed < board->workers)
            break;
    }
    if (meeting->posted < board->workers || meeting->claimed == board->workers)
        return 0;
    const uint32_t to = meeting->claimed++;
    board->copying++;
    pthread_mutex_unlock(&board->lock);
    copy_to(board, meeting, to);
    pthread_mutex_lock(&board->lock);
    board->copying--;
    meeting->served++;
    count_done(board);
    if (board->broken)
        pthread_cond_broadcast(&board->changed); /* a handle may wait for this before it leaves */
    return 1;
}

/* ---- the engine ---- */

static terse_status local_post(void *context, uint32_t slot, const terse_alltoallv *alltoallv,
                               int32_t *rank)
{
    struct handle *const handle = context;
    struct board *const board = handle->board;
    struct part *const parts = handle->parts + (size_t)slot * board->workers;
    for (uint32_t r = 0; r < board->workers; r++)
        parts[r] = (struct part){alltoallv->send_at[r], alltoallv->recv_at[r],
                                 alltoallv->send_len[r], alltoallv->recv_len[r]};
    pthread_mutex_lock(&board->lock);
    const terse_status status = board->broken ? blame(handle, rank) : TERSE_OK;
    if (!status) {
        struct meeting *const meeting = meeting_at(board, handle->posted);
        handle->turns[slot] = handle->posted++;
        meeting->slots[handle->rank] = (uint8_t)slot;
        meeting->posted++;
        if (meeting->posted == board->workers) {
            if (check_lengths(board, meeting) <= SMALL_SWAP)
                while (serve_one(board))
                    continue;
            else
                pthread_cond_broadcast(&board->changed);
        }
    }
    pthread_mutex_unlock(&board->lock);
    return status;
}

/* The lowest rank that has not posted this all-to-all (or -1); with `left`, that never will. */
static int32_t first_absent(const struct board *board, uint64_t turn, int left)
{
    for (uint32_t r = 0; r < board->workers; r++)
        if (board->handles[r].posted <= turn && (!left || board->handles[r].left))
            return (int32_t)r;
    return -1;
}

/* Can it still come to an end? */
static terse_status look(const struct handle *handle, uint64_t turn, int32_t *rank)
{
    struct board *const board = handle->board;
    if (board->done > turn)
        return TERSE_OK;
    const int32_t absent = first_absent(board, turn, 1);
    if (absent >= 0)
        break_board(board, absent, -1);
    return board->broken ? blame(handle, rank) : TERSE_OK;
}

static terse_status local_test(void *context, uint32_t slot, int *done, int32_t *rank)
{
    struct handle *const handle = context;
    struct board *const board = handle->board;
    const uint64_t turn = handle->turns[slot];
    pthread_mutex_lock(&board->lock);
    if (board->done <= turn)
        (void)serve_one(board);
    const terse_status status = look(handle, turn, rank);
    *done = board->done > turn;
    pthread_mutex_unlock(&board->lock);
    return status;
}

static struct timespec time_in(uint64_t nanoseconds)
{
    struct timespec at;
    (void)clock_gettime(CLOCK_MONOTONIC, &at);
    const uint64_t sum = (uint64_t)at.tv_nsec + nanoseconds % 1000000000u;
    at.tv_sec += (time_t)(nanoseconds / 1000000000u + sum / 1000000000u);
    at.tv_nsec = (long)(sum % 1000000000u);
    return at;
}

/* Sleeps until the board changes. Only workers can be late: once all have posted, what is left to
 * do is copying, which needs no timeout. */
static terse_status doze(struct board *board, uint64_t turn, const struct timespec *end,
                         int32_t *rank)
{
    if (first_absent(board, turn, 0) < 0) {
        pthread_cond_wait(&board->changed, &board->lock);
        return TERSE_OK;
    }
    if (pthread_cond_timedwait(&board->changed, &board->lock, end) != ETIMEDOUT || board->broken)
        return TERSE_OK;
    *rank = first_absent(board, turn, 0);
    if (*rank < 0)
        return TERSE_OK;
    break_board(board, *rank, -1);
    return TERSE_TIMEOUT;
}

static terse_status local_wait(void *context, uint32_t slot, uint64_t nanoseconds, int32_t *rank)
{
    struct handle *const handle = context;
    struct board *const board = handle->board;
    const uint64_t turn = handle->turns[slot];
    const struct timespec end = time_in(nanoseconds);
    pthread_mutex_lock(&board->lock);
    terse_status status = look(handle, turn, rank);
    while (!status && board->done <= turn) {
        if (!serve_one(board) && board->done <= turn)
            status = doze(board, turn, &end, rank);
        if (!status)
            status = look(handle, turn, rank);
    }
    pthread_mutex_unlock(&board->lock);
    return status;
}

/* ---- coming and going ---- */

static void release(struct board *board)
{
    pthread_mutex_lock(&board->lock);
    const uint32_t owners = --board->owners;
    pthread_mutex_unlock(&board->lock);
    if (owners)
        return;
    pthread_cond_destroy(&board->changed);
    pthread_mutex_destroy(&board->lock);
    free(board->parts);
    free(board->handles);
    free(board);
}

/* A handle that leaves takes its buffers along: what it has under way is broken off, and nobody
 * reads or writes them any more when this returns. */
static void local_destroy(void *context)
{
    struct handle *const handle = context;
    struct board *const board = handle->board;
    pthread_mutex_lock(&board->lock);
    handle->left = 1;
    if (handle->posted > board->done) {
        break_board(board, (int32_t)handle->rank, -1);
        while (board->copying)
            pthread_cond_wait(&board->changed, &board->lock);
    }
    pthread_cond_broadcast(&board->changed);
    pthread_mutex_unlock(&board->lock);
    release(board);
}

static int init_sync(struct board *board)
{
    pthread_condattr_t monotonic;
    if (pthread_condattr_init(&monotonic))
        return 0;
    int ok = !pthread_condattr_setclock(&monotonic, CLOCK_MONOTONIC) &&
             !pthread_cond_init(&board->changed, &monotonic);
    pthread_condattr_destroy(&monotonic);
    if (ok && pthread_mutex_init(&board->lock, NULL)) {
        pthread_cond_destroy(&board->changed);
        ok = 0;
    }
    return ok;
}

static struct board *make_board(uint32_t workers)
{
    struct board *const board = calloc(1, sizeof *board);
    if (!board)
        return NULL;
    const size_t parts_of_handle = (size_t)TERSE_MAX_REQUESTS * workers;
    board->workers = workers;
    board->owners = 1;
    board->handles = calloc(workers, sizeof *board->handles);
    board->parts = calloc(workers * parts_of_handle, sizeof *board->parts);
    if (!board->handles || !board->parts || !init_sync(board)) {
        free(board->parts);
        free(board->handles);
        free(board);
        return NULL;
    }
    for (uint32_t r = 0; r < workers; r++) {
        board->handles[r].board = board;
        board->handles[r].rank = r;
        board->handles[r].parts = board->parts + r * parts_of_handle;
    }
    return board;
}

terse_status terse_group_local(uint32_t workers, terse_group **handles)
{
    static const terse_group_ops ops = {.size = sizeof ops,
                                        .post = local_post,
                                        .test = local_test,
                                        .wait = local_wait,
                                        .destroy = local_destroy};
    if (!handles || workers == 0 || workers > TERSE_MAX_LOCAL_WORKERS)
        return TERSE_BAD_ARGUMENT;
    struct board *const board = make_board(workers);
    terse_status status = board ? TERSE_OK : TERSE_NO_MEMORY;
    terse_group *made[TERSE_MAX_LOCAL_WORKERS];
    uint32_t r = 0;
    for (; r < workers && !status; r++) {
        status = terse_group_callbacks(&ops, &board->handles[r], r, workers, &made[r]);
        if (status)
            break;
        board->owners++;
    }
    if (!status)
        memcpy(handles, made, workers * sizeof *handles);
    for (uint32_t i = 0; status && i < r; i++)
        terse_group_destroy(made[i]);
    if (board)
        release(board);
    return status;
}
