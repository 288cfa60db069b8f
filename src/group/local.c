/* The engine for workers of one process. The n-th all-to-alls of all handles belong together; they
 * meet on a shared board. When all handles have posted it, waiting threads copy: each claims a
 * receiver that no thread serves yet. So one thread that drives all handles never waits for itself,
 * and several threads share the work. All-to-alls complete in the order of posting. One is done
 * when its last byte is copied. */
#include <pthread.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include "group/group.h"

enum {
    /* Up to so many bytes the last handle to post copies at once, before it wakes the others. */
    SMALL_ALLTOALL = 64 * 1024,
    NAP_NS = 500000000,
};

/* One handle's buffers for the messages between it and one peer. */
struct buffers {
    const void *send_at;
    void *recv_at;
    size_t send_len;
    size_t recv_len;
};

struct handle {
    struct board *board;
    uint64_t posted; /* all-to-alls so far */
    uint32_t rank;
    int left;
    uint64_t number[TERSE_MAX_REQUESTS]; /* the all-to-all in each slot */
};

/* An all-to-all in flight. */
struct rendezvous {
    uint32_t posted;         /* handles that have posted it */
    uint32_t claimed;        /* receivers whose copy has begun */
    uint32_t served;         /* receivers whose copy is done */
    struct buffers *buffers; /* those of rank r for peer p at [r * workers + p] */
};

struct board {
    pthread_mutex_t lock;
    pthread_cond_t changed;
    uint32_t workers;
    uint32_t owners;  /* handles not yet destroyed, plus terse_group_local while it runs */
    uint32_t copying; /* threads that are copying, without the lock */
    uint64_t done;    /* all-to-alls 0 .. done-1 are done */
    uint64_t moved;   /* when a handle posted last, in nanoseconds */
    int broken;
    int32_t blamed;
    int32_t also_blamed; /* the other side of a mismatch, or -1 */
    /* All-to-all n is rendezvous[n % TERSE_MAX_REQUESTS]: a handle that has posted n still holds
     * slots for all from `done` to n, so n - done < TERSE_MAX_REQUESTS. */
    struct rendezvous rendezvous[TERSE_MAX_REQUESTS];
    struct handle *handles;
    struct buffers *buffers; /* of all rendezvous */
};

static void break_board(struct board *board, int32_t blamed, int32_t also_blamed)
{
    if (board->broken)
        return;
    board->broken = 1;
    board->blamed = blamed;
    board->also_blamed = also_blamed;
    pthread_cond_broadcast(&board->changed);
}

/* The status and the rank at fault that one handle reports for a broken board. */
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

/* ---- the engine ---- */

static uint64_t nanoseconds_now(void)
{
    struct timespec now;
    (void)clock_gettime(CLOCK_MONOTONIC, &now);
    return (uint64_t)now.tv_sec * 1000000000u + (uint64_t)now.tv_nsec;
}

/* Serves one receiver of the oldest all-to-all that has one left. Returns 0 if there is none.
 * Releases the lock while it copies. */
static int serve_one(struct board *board)
{
    const uint32_t workers = board->workers;
    struct rendezvous *rendezvous = NULL;
    if (board->broken)
        return 0;
    for (uint64_t number = board->done; number - board->done < TERSE_MAX_REQUESTS; number++) {
        rendezvous = &board->rendezvous[number % TERSE_MAX_REQUESTS];
        if (rendezvous->posted < workers || rendezvous->claimed < workers)
            break;
    }
    if (rendezvous->posted < workers || rendezvous->claimed == workers)
        return 0;
    const uint32_t to = rendezvous->claimed++;
    board->copying++;
    pthread_mutex_unlock(&board->lock);
    for (uint32_t i = 1; i < workers; i++) {
        const uint32_t from = (to + i) % workers;
        const struct buffers *const send = &rendezvous->buffers[from * workers + to];
        if (send->send_len)
            memcpy(rendezvous->buffers[to * workers + from].recv_at, send->send_at, send->send_len);
    }
    pthread_mutex_lock(&board->lock);
    board->copying--;
    rendezvous->served++;
    /* All-to-alls are done in order: a later one may have been served before its turn. */
    for (;;) {
        rendezvous = &board->rendezvous[board->done % TERSE_MAX_REQUESTS];
        if (rendezvous->served < workers)
            break;
        rendezvous->posted = rendezvous->claimed = rendezvous->served = 0;
        board->done++;
        pthread_cond_broadcast(&board->changed);
    }
    if (board->broken)
        pthread_cond_broadcast(&board->changed); /* local_destroy may wait for `copying` */
    return 1;
}

/* The last handle to post compares the lengths of all senders and receivers. */
static terse_status local_post(void *context, uint32_t slot, const terse_alltoallv *alltoallv,
                               int32_t *rank)
{
    struct handle *const handle = context;
    struct board *const board = handle->board;
    const uint32_t workers = board->workers;
    pthread_mutex_lock(&board->lock);
    const terse_status status = board->broken ? blame(handle, rank) : TERSE_OK;
    struct rendezvous *const rendezvous = &board->rendezvous[handle->posted % TERSE_MAX_REQUESTS];
    struct buffers *const buffers = rendezvous->buffers;
    for (uint32_t r = 0; r < workers && !status; r++)
        buffers[handle->rank * workers + r] =
            (struct buffers){alltoallv->send_at[r], alltoallv->recv_at[r], alltoallv->send_len[r],
                             alltoallv->recv_len[r]};
    if (!status) {
        handle->number[slot] = handle->posted++;
        rendezvous->posted++;
        board->moved = nanoseconds_now();
    }
    if (!status && rendezvous->posted == workers) {
        uint64_t total = 0;
        for (uint32_t from = 0; from < workers; from++)
            for (uint32_t to = 0; to < workers; to++) {
                const size_t len = buffers[from * workers + to].send_len;
                if (len != buffers[to * workers + from].recv_len)
                    break_board(board, (int32_t)from, (int32_t)to);
                total += len;
            }
        if (total > SMALL_ALLTOALL)
            pthread_cond_broadcast(&board->changed);
        while (total <= SMALL_ALLTOALL && serve_one(board))
            continue;
    }
    pthread_mutex_unlock(&board->lock);
    return status;
}

/* The lowest rank that has not posted this all-to-all, or -1. With `left`, only ranks that have
 * left count: they never will. */
static int32_t first_absent(const struct board *board, uint64_t number, int left)
{
    for (uint32_t r = 0; r < board->workers; r++)
        if (board->handles[r].posted <= number && (!left || board->handles[r].left))
            return (int32_t)r;
    return -1;
}

/* Checks whether an all-to-all is done or can still complete. */
static terse_status check(const struct handle *handle, uint64_t number, int32_t *rank)
{
    struct board *const board = handle->board;
    if (board->done > number)
        return TERSE_OK;
    const int32_t absent = first_absent(board, number, 1);
    if (absent >= 0)
        break_board(board, absent, -1);
    return board->broken ? blame(handle, rank) : TERSE_OK;
}

static terse_status local_test(void *context, uint32_t slot, int *done, int32_t *rank)
{
    struct handle *const handle = context;
    struct board *const board = handle->board;
    const uint64_t number = handle->number[slot];
    pthread_mutex_lock(&board->lock);
    if (board->done <= number)
        (void)serve_one(board);
    const terse_status status = check(handle, number, rank);
    *done = board->done > number;
    pthread_mutex_unlock(&board->lock);
    return status;
}

/* Sleeps until the board changes or the time has come, NAP_NS at the most. */
static void nap_until(struct board *board, uint64_t end)
{
    const uint64_t second = 1000000000u;
    const uint64_t soon = nanoseconds_now() + NAP_NS;
    const uint64_t wake = end < soon ? end : soon;
    const struct timespec time = {(time_t)(wake / second), (long)(wake % second)};
    (void)pthread_cond_timedwait(&board->changed, &board->lock, &time);
}

/* Copies as long as there is something to copy, then sleeps until the board changes. The timeout
 * applies to posting, and counts from the last post of any handle: once all have posted, only
 * copying is left, which needs none. It begins anew after a turn of this loop that took twice a
 * nap: the whole process was stopped, and the others could not post either. */
static terse_status local_wait(void *context, uint32_t slot, uint64_t nanoseconds, int32_t *rank)
{
    struct handle *const handle = context;
    struct board *const board = handle->board;
    const uint64_t number = handle->number[slot];
    uint64_t start = nanoseconds_now();
    uint64_t turn = start;
    pthread_mutex_lock(&board->lock);
    terse_status status = check(handle, number, rank);
    while (!status && board->done <= number) {
        const int served = serve_one(board);
        const int32_t absent = first_absent(board, number, 0);
        const uint64_t now = nanoseconds_now();
        start = now - turn > 2 * (uint64_t)NAP_NS ? now : start;
        turn = now;
        const uint64_t end = (board->moved > start ? board->moved : start) + nanoseconds;
        if (served || board->done > number) {
            /* There may be more to copy. */
        } else if (absent < 0) {
            pthread_cond_wait(&board->changed, &board->lock);
        } else if (now < end) {
            nap_until(board, end);
        } else if (!board->broken) {
            *rank = absent;
            break_board(board, *rank, -1);
            status = TERSE_TIMEOUT;
        }
        if (!status)
            status = check(handle, number, rank);
    }
    pthread_mutex_unlock(&board->lock);
    return status;
}

/* ---- creation and destruction ---- */

static void release(struct board *board)
{
    pthread_mutex_lock(&board->lock);
    const uint32_t owners = --board->owners;
    pthread_mutex_unlock(&board->lock);
    if (owners)
        return;
    pthread_cond_destroy(&board->changed);
    pthread_mutex_destroy(&board->lock);
    free(board->buffers);
    free(board->handles);
    free(board);
}

/* The caller may free its buffers after this. So requests in flight break the board, and threads
 * that are still copying are waited for. */
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
    const size_t all_pairs = (size_t)workers * workers;
    board->workers = workers;
    board->owners = 1;
    board->handles = calloc(workers, sizeof *board->handles);
    board->buffers = calloc(TERSE_MAX_REQUESTS * all_pairs, sizeof *board->buffers);
    if (!board->handles || !board->buffers || !init_sync(board)) {
        free(board->buffers);
        free(board->handles);
        free(board);
        return NULL;
    }
    for (uint32_t r = 0; r < workers; r++) {
        board->handles[r].board = board;
        board->handles[r].rank = r;
    }
    for (uint32_t i = 0; i < TERSE_MAX_REQUESTS; i++)
        board->rendezvous[i].buffers = board->buffers + i * all_pairs;
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
        made[r]->in_process = 1;
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
