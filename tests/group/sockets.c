#include "group/sockets.h"

#include <errno.h>
#include <poll.h>
#include <stdlib.h>
#include <sys/socket.h>
#include <time.h>
#include <unistd.h>

enum { MOST = 8, PAUSE_NS = 10000000 };

/* The bytes left to send and to receive between this handle and one peer, for one request. */
struct stream {
    const char *send_at;
    char *recv_at;
    size_t send_left;
    size_t recv_left;
};

struct engine {
    int sockets[MOST]; /* one per rank; -1 for this rank */
    uint32_t rank;
    uint32_t workers;
    struct stream streams[TERSE_MAX_REQUESTS][MOST];
    uint32_t queue[TERSE_MAX_REQUESTS]; /* slots in the order of their posts, oldest first */
    uint32_t queued;
    uint64_t moved; /* bytes that have arrived so far */
    size_t burst;   /* bytes to send to a rank at most between two pauses */
    size_t limit;   /* bytes to send to a rank at all */
    size_t sent[MOST];
    uint64_t sent_at[MOST]; /* when the last burst began */
};

static uint64_t nanoseconds_now(void)
{
    struct timespec now;
    (void)clock_gettime(CLOCK_MONOTONIC, &now);
    return (uint64_t)now.tv_sec * 1000000000u + (uint64_t)now.tv_nsec;
}

static terse_status post(void *context, uint32_t slot, const terse_alltoallv *alltoallv,
                         int32_t *rank)
{
    struct engine *const engine = context;
    (void)rank;
    for (uint32_t r = 0; r < engine->workers; r++)
        engine->streams[slot][r] = (struct stream){alltoallv->send_at[r], alltoallv->recv_at[r],
                                                   alltoallv->send_len[r], alltoallv->recv_len[r]};
    engine->queue[engine->queued++] = slot;
    return TERSE_OK;
}

static int is_over(const struct engine *engine, uint32_t slot)
{
    for (uint32_t r = 0; r < engine->workers; r++)
        if (engine->streams[slot][r].send_left || engine->streams[slot][r].recv_left)
            return 0;
    return 1;
}

/* The streams to one rank are used one after the other, so bytes need no labels. */
static struct stream *first_to_send(struct engine *engine, uint32_t r)
{
    for (uint32_t i = 0; i < engine->queued; i++)
        if (engine->streams[engine->queue[i]][r].send_left)
            return &engine->streams[engine->queue[i]][r];
    return NULL;
}

static struct stream *first_to_recv(struct engine *engine, uint32_t r)
{
    for (uint32_t i = 0; i < engine->queued; i++)
        if (engine->streams[engine->queue[i]][r].recv_left)
            return &engine->streams[engine->queue[i]][r];
    return NULL;
}

/* The bytes that the line to rank r takes now. */
static size_t may_send(struct engine *engine, uint32_t r)
{
    const uint64_t now = nanoseconds_now();
    const size_t left = engine->limit - engine->sent[r];
    if (engine->burst == SIZE_MAX)
        return SIZE_MAX;
    if (now - engine->sent_at[r] < PAUSE_NS)
        return 0;
    engine->sent_at[r] = now;
    return engine->burst < left ? engine->burst : left;
}

/* Sends and receives without blocking. Returns 0 if rank r is gone. */
static int move(struct engine *engine, uint32_t r)
{
    struct stream *stream;
    size_t allowed = may_send(engine, r);
    while (allowed && (stream = first_to_send(engine, r)) != NULL) {
        const size_t len = stream->send_left < allowed ? stream->send_left : allowed;
        const ssize_t n =
            send(engine->sockets[r], stream->send_at, len, MSG_DONTWAIT | MSG_NOSIGNAL);
        if (n < 0)
            break; /* full, or gone: recv finds out */
        stream->send_at += n;
        stream->send_left -= (size_t)n;
        engine->sent[r] += (size_t)n;
        allowed -= (size_t)n;
    }
    while ((stream = first_to_recv(engine, r)) != NULL) {
        const ssize_t n =
            recv(engine->sockets[r], stream->recv_at, stream->recv_left, MSG_DONTWAIT);
        if (n == 0 || (n < 0 && errno != EAGAIN))
            return 0;
        if (n < 0)
            break;
        stream->recv_at += n;
        stream->recv_left -= (size_t)n;
        engine->moved += (uint64_t)n;
    }
    return 1;
}

static void forget(struct engine *engine, uint32_t slot)
{
    uint32_t kept = 0;
    for (uint32_t i = 0; i < engine->queued; i++)
        if (engine->queue[i] != slot)
            engine->queue[kept++] = engine->queue[i];
    engine->queued = kept;
}

static terse_status test(void *context, uint32_t slot, int *done, int32_t *rank)
{
    struct engine *const engine = context;
    for (uint32_t r = 0; r < engine->workers; r++)
        if (r != engine->rank && !move(engine, r)) {
            *rank = (int32_t)r;
            return TERSE_PEER_LOST;
        }
    *done = is_over(engine, slot);
    if (*done)
        forget(engine, slot);
    return TERSE_OK;
}

static void sleep_until_something_can_move(struct engine *engine)
{
    struct pollfd polled[MOST];
    nfds_t count = 0;
    for (uint32_t r = 0; r < engine->workers; r++) {
        const short in = first_to_recv(engine, r) ? POLLIN : 0;
        const short out = engine->burst == SIZE_MAX && first_to_send(engine, r) ? POLLOUT : 0;
        if (in || out)
            polled[count++] = (struct pollfd){engine->sockets[r], (short)(in | out), 0};
    }
    (void)poll(polled, count, engine->burst == SIZE_MAX ? 20 : 2);
}

static terse_status wait_for(void *context, uint32_t slot, uint64_t nanoseconds, int32_t *rank)
{
    struct engine *const engine = context;
    uint64_t end = nanoseconds_now() + nanoseconds;
    int done = 0;
    terse_status status = test(context, slot, &done, rank);
    for (uint64_t moved = engine->moved; !status && !done; moved = engine->moved) {
        sleep_until_something_can_move(engine);
        status = test(context, slot, &done, rank);
        const uint64_t now = nanoseconds_now();
        if (engine->moved != moved) {
            end = now + nanoseconds;
        } else if (!status && !done && now > end) {
            for (uint32_t r = engine->workers; r-- > 0;)
                if (engine->streams[slot][r].recv_left)
                    *rank = (int32_t)r;
            return TERSE_TIMEOUT;
        }
    }
    return status;
}

static void destroy(void *context)
{
    struct engine *const engine = context;
    for (uint32_t r = 0; r < engine->workers; r++)
        if (engine->sockets[r] >= 0)
            (void)close(engine->sockets[r]);
    free(engine);
}

static int connect_all(struct engine **engines, uint32_t workers)
{
    for (uint32_t a = 0; a < workers; a++)
        for (uint32_t b = 0; b < a; b++) {
            int pair[2];
            if (socketpair(AF_UNIX, SOCK_STREAM, 0, pair))
                return 0;
            engines[a]->sockets[b] = pair[0];
            engines[b]->sockets[a] = pair[1];
        }
    return 1;
}

int sockets_open_slow(uint32_t workers, size_t burst, size_t limit, terse_group **handles)
{
    static const terse_group_ops ops = {
        .size = sizeof ops, .post = post, .test = test, .wait = wait_for, .destroy = destroy};
    struct engine *engines[MOST];
    if (workers > MOST)
        return 0;
    for (uint32_t r = 0; r < workers; r++) {
        engines[r] = calloc(1, sizeof *engines[r]);
        if (!engines[r])
            return 0;
        engines[r]->rank = r;
        engines[r]->workers = workers;
        engines[r]->burst = burst;
        engines[r]->limit = limit;
        for (uint32_t i = 0; i < MOST; i++)
            engines[r]->sockets[i] = -1;
    }
    if (!connect_all(engines, workers))
        return 0;
    for (uint32_t r = 0; r < workers; r++)
        if (terse_group_callbacks(&ops, engines[r], r, workers, &handles[r]))
            return 0;
    return 1;
}

int sockets_open(uint32_t workers, terse_group **handles)
{
    return sockets_open_slow(workers, SIZE_MAX, SIZE_MAX, handles);
}
