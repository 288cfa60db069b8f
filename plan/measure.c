/* The link of a group, measured with the calls that steps use. Rank 0 decides how long a message
 * must be, so that all ranks send alike. */
#include <math.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include "plan.h"

enum {
    WARM_UP = 20,
    TIMES = 100,
    FIRST_LEN = 64 * 1024,
    LAST_LEN = 64 * 1024 * 1024, /* that a rank sends at once */
    TRIES = 3,
    BURSTS = 9,
    LINES = 4,
    PIECE = 128 * 1024,
    FLYING = 8, /* pieces */
};

static const double enough = 0.25; /* seconds of a transfer, in which a full queue counts little */

/* A pattern of an all-to-all: `len` bytes from each of `senders` to each of `receivers`. */
struct pattern {
    uint32_t senders;   /* ranks below it */
    uint32_t receivers; /* ranks from it on, up to `to` */
    uint32_t to;
};

struct bench {
    terse_group *group;
    uint32_t rank;
    uint32_t workers;
    uint8_t *out;
    uint8_t *in; /* a message of every sender */
    size_t cap;  /* bytes of one */
    size_t room; /* bytes of all */
    const void **send_at;
    void **recv_at;
    size_t *send_len;
    size_t *recv_len;
    terse_fault *fault;
};

static double now(void)
{
    struct timespec time;
    (void)clock_gettime(CLOCK_MONOTONIC, &time);
    return (double)time.tv_sec + 1e-9 * (double)time.tv_nsec;
}

/* ---- transfers ---- */

static int sends(const struct pattern *pattern, uint32_t from, uint32_t to)
{
    return from != to && from < pattern->senders && to >= pattern->receivers && to < pattern->to;
}

static terse_status post_piece(struct bench *bench, const struct pattern *pattern, size_t at,
                               size_t len, terse_request *out)
{
    for (uint32_t r = 0; r < bench->workers; r++) {
        bench->send_at[r] = bench->out + at;
        bench->recv_at[r] = r < pattern->senders ? bench->in + bench->cap * r + at : NULL;
        bench->send_len[r] = sends(pattern, bench->rank, r) ? len : 0;
        bench->recv_len[r] = sends(pattern, r, bench->rank) ? len : 0;
    }
    const terse_alltoallv all = {bench->send_at, bench->send_len, bench->recv_at, bench->recv_len};
    return terse_group_post_alltoallv(bench->group, &all, out, bench->fault);
}

/* As an all-reduce sends: in pieces, several of them under way. One long message each way may take
 * twice as long as the line: MPI may send it whole before it receives. */
static terse_status transfer(struct bench *bench, const struct pattern *pattern, size_t len)
{
    terse_request request[FLYING];
    size_t posted = 0;
    size_t waited = 0;
    terse_status status = TERSE_OK;
    while (status == TERSE_OK && (waited < posted || posted * PIECE < len)) {
        const size_t at = posted * PIECE;
        const size_t left = at < len ? len - at : 0;
        if (left > 0 && posted - waited < FLYING) {
            status = post_piece(bench, pattern, at, left < PIECE ? left : (size_t)PIECE,
                                &request[posted % FLYING]);
            posted++;
        } else {
            status = terse_group_wait(bench->group, request[waited % FLYING], bench->fault);
            waited++;
        }
    }
    return status;
}

/* Room for messages of this length; a rank that has none ends the measurement on all. */
static terse_status make_room(struct bench *bench, const struct pattern *pattern, size_t len)
{
    if (len <= bench->cap && bench->cap * pattern->senders <= bench->room)
        return TERSE_OK;
    free(bench->out);
    free(bench->in);
    bench->cap = len;
    bench->room = len * pattern->senders;
    bench->out = calloc(len, 1);
    bench->in = calloc(bench->room, 1);
    return bench->out && bench->in ? TERSE_OK
                                   : com_fail(bench->fault, TERSE_NO_MEMORY,
                                              "out of memory for messages of %zu bytes", len);
}

/* Rank 0's number, on every rank. */
static terse_status share(struct bench *bench, double *number)
{
    return terse_group_broadcast(bench->group, 0, number, sizeof *number, bench->fault);
}

/* Seconds of one transfer, until every rank has its bytes: that of rank 0. */
static terse_status time_transfer(struct bench *bench, const struct pattern *pattern, size_t len,
                                  double *seconds)
{
    terse_status status = terse_group_barrier(bench->group, bench->fault);
    const double start = now();
    if (status == TERSE_OK)
        status = transfer(bench, pattern, len);
    if (status == TERSE_OK)
        status = terse_group_barrier(bench->group, bench->fault);
    *seconds = now() - start;
    return status == TERSE_OK ? share(bench, seconds) : status;
}

/* Bits per second of a rank that sends to `peers` others: longer messages until one takes long
 * enough, then the middle of three. */
static terse_status rate_of(struct bench *bench, const struct pattern *pattern, uint32_t peers,
                            double latency, double *out)
{
    double seconds[TRIES] = {0};
    size_t len = FIRST_LEN;
    terse_status status = make_room(bench, pattern, len);
    if (status == TERSE_OK)
        status = time_transfer(bench, pattern, len, &seconds[0]);
    while (status == TERSE_OK && seconds[0] < enough && len * peers < LAST_LEN) {
        len *= seconds[0] < enough / 4 ? 4 : 2;
        status = make_room(bench, pattern, len);
        if (status == TERSE_OK)
            status = time_transfer(bench, pattern, len, &seconds[0]);
    }
    for (int i = 1; i < TRIES && status == TERSE_OK; i++)
        status = time_transfer(bench, pattern, len, &seconds[i]);
    const double high = fmax(fmax(seconds[0], seconds[1]), seconds[2]);
    const double low = fmin(fmin(seconds[0], seconds[1]), seconds[2]);
    const double middle = seconds[0] + seconds[1] + seconds[2] - high - low;
    /* the barrier behind it is not part of it */
    *out = 8.0 * (double)len * peers / fmax(middle - latency, middle / 2);
    return status;
}

static int ascending(const void *a, const void *b)
{
    const double first = *(const double *)a;
    const double second = *(const double *)b;
    return (first > second) - (first < second);
}

/* The median over transfers that begin after a pause, in which a link saves up what it can. */
static terse_status median_after_pauses(struct bench *bench, const struct pattern *pattern,
                                        size_t len, double pause, double *out)
{
    const struct timespec rest = {.tv_nsec = (long)(1e9 * fmin(pause, 0.9))};
    double seconds[BURSTS];
    terse_status status = TERSE_OK;
    for (int i = 0; i < BURSTS && status == TERSE_OK; i++) {
        (void)nanosleep(&rest, NULL);
        status = time_transfer(bench, pattern, len, &seconds[i]);
    }
    if (status != TERSE_OK)
        return status;
    qsort(seconds, BURSTS, sizeof seconds[0], ascending);
    *out = seconds[BURSTS / 2];
    return TERSE_OK;
}

static terse_status latency_of(struct bench *bench, double *out)
{
    double seconds[TIMES];
    terse_status status = TERSE_OK;
    for (int i = 0; i < WARM_UP + TIMES && status == TERSE_OK; i++) {
        const double start = now();
        status = terse_group_barrier(bench->group, bench->fault);
        if (i >= WARM_UP)
            seconds[i - WARM_UP] = now() - start;
    }
    if (status != TERSE_OK)
        return status;
    qsort(seconds, TIMES, sizeof seconds[0], ascending);
    *out = seconds[TIMES / 2];
    return share(bench, out);
}

/* What a link carries ahead of its rate after a pause: what a transfer takes less than its line
 * time and the time of a byte. A token bucket is as much ahead in a transfer of four times the
 * length; memory, which is faster while a message is in the cache, is not, and has no burst. */
static terse_status burst_of(struct bench *bench, const struct pattern *pattern, double rate,
                             double *out)
{
    double alone = 0;
    double before = 0;
    terse_status status = make_room(bench, pattern, 1);
    if (status == TERSE_OK)
        status = median_after_pauses(bench, pattern, 1, 0, &alone);
    *out = 0;
    double line = 0.001;
    for (int i = 0; i < LINES && status == TERSE_OK; i++) {
        line *= 4;
        const size_t len = (size_t)(line * rate / 8) + 1;
        double seconds = 0;
        if (len > LAST_LEN)
            break;
        status = make_room(bench, pattern, len);
        if (status == TERSE_OK)
            status = median_after_pauses(bench, pattern, len, 2 * line, &seconds);
        const double ahead = line + alone - seconds;
        if (ahead < line / 20) /* there is none that would matter */
            break;
        if (fmax(ahead, before) < 1.5 * fmin(ahead, before)) {
            *out = ahead;
            break;
        }
        before = ahead;
    }
    return status;
}

terse_status pln_measure(terse_group *group, struct pln_measured *out, terse_fault *fault)
{
    struct bench bench = {.group = group,
                          .rank = terse_group_rank(group),
                          .workers = terse_group_workers(group),
                          .fault = fault};
    const uint32_t workers = bench.workers;
    const struct pattern one = {1, 1, 2};
    const struct pattern both = {2, 0, 2};
    const struct pattern all = {workers, 0, workers};
    if (workers < 2)
        return com_fail(fault, TERSE_BAD_ARGUMENT,
                        "one worker has no link to measure: mpirun -n 2 or more");
    bench.send_at = calloc(workers, sizeof *bench.send_at);
    bench.recv_at = calloc(workers, sizeof *bench.recv_at);
    bench.send_len = calloc(workers, sizeof *bench.send_len);
    bench.recv_len = calloc(workers, sizeof *bench.recv_len);
    terse_status status = TERSE_OK;
    if (!bench.send_at || !bench.recv_at || !bench.send_len || !bench.recv_len)
        status = com_fail(fault, TERSE_NO_MEMORY, "out of memory");
    *out = (struct pln_measured){0};
    if (status == TERSE_OK)
        status = latency_of(&bench, &out->latency);
    if (status == TERSE_OK)
        status = rate_of(&bench, &one, 1, out->latency, &out->one_way);
    if (status == TERSE_OK)
        status = rate_of(&bench, &both, 1, out->latency, &out->both_way);
    if (status == TERSE_OK)
        status = rate_of(&bench, &all, workers - 1, out->latency, &out->loaded);
    if (status == TERSE_OK)
        status = burst_of(&bench, &one, out->one_way, &out->burst);
    out->kept[0] = bench.out;
    out->kept[1] = bench.in;
    for (int i = 0; i < 2 && status == TERSE_OK; i++) {
        free(out->kept[i]);
        out->kept[i] = NULL;
    }
    free(bench.send_at);
    free(bench.recv_at);
    free(bench.send_len);
    free(bench.recv_len);
    return status;
}
