#include "group/checks.h"

#include <sched.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { GUARD = 16, MOST = 64 };

static _Thread_local char why[256];

static const char *fail(const char *what, terse_status status, const terse_fault *fault)
{
    (void)snprintf(why, sizeof why, "%.40s: %s, %.150s", what, terse_status_text(status),
                   fault->text);
    return why;
}

/* ---- bytes that say where they come from and where they go ---- */

static size_t length_of(uint32_t from, uint32_t to, uint32_t round)
{
    if ((from + to + round) % 5 == 0)
        return 0;
    return (from * 131u + to * 37u + round * 1009u) % (round % 3 == 0 ? 20011u : 67u);
}

static uint8_t byte_of(uint32_t from, uint32_t to, uint32_t round, size_t i)
{
    uint32_t x = from * 0x9e3779b9u + to * 0x85ebca6bu + round * 0xc2b2ae35u + (uint32_t)i;
    x = (x ^ x >> 15) * 0x2c1b3c6du;
    return (uint8_t)(x >> 24);
}

static void fill_bytes(uint8_t *bytes, size_t len, uint32_t from, uint32_t to, uint32_t round)
{
    for (size_t i = 0; i < len; i++)
        bytes[i] = byte_of(from, to, round, i);
}

static int are_bytes(const uint8_t *bytes, size_t len, uint32_t from, uint32_t to, uint32_t round)
{
    for (size_t i = 0; i < len; i++)
        if (bytes[i] != byte_of(from, to, round, i))
            return 0;
    return 1;
}

/* ---- an all-to-all with all it needs ---- */

struct exchange {
    const void *send_at[MOST];
    size_t send_len[MOST];
    void *recv_at[MOST];
    size_t recv_len[MOST];
    uint8_t *memory;
    terse_request request;
    uint32_t round;
};

/* Lengths and contents of this round; what arrives has guard bytes behind it. */
static int prepare(struct exchange *x, const terse_group *handle, uint32_t round)
{
    const uint32_t me = terse_group_rank(handle);
    const uint32_t workers = terse_group_workers(handle);
    size_t len = 0;
    for (uint32_t r = 0; r < workers; r++) {
        x->send_len[r] = length_of(me, r, round);
        x->recv_len[r] = length_of(r, me, round);
        len += x->send_len[r] + x->recv_len[r] + GUARD;
    }
    x->round = round;
    x->memory = malloc(len);
    if (!x->memory)
        return 0;
    memset(x->memory, 0xa5, len);
    uint8_t *at = x->memory;
    for (uint32_t r = 0; r < workers; r++) {
        x->send_at[r] = x->send_len[r] ? at : NULL;
        fill_bytes(at, x->send_len[r], me, r, round);
        at += x->send_len[r];
        x->recv_at[r] = x->recv_len[r] ? at : NULL;
        at += x->recv_len[r] + GUARD;
    }
    return 1;
}

static int arrived(const struct exchange *x, const terse_group *handle)
{
    const uint32_t me = terse_group_rank(handle);
    for (uint32_t r = 0; r < terse_group_workers(handle); r++) {
        const uint8_t *const at = x->recv_at[r];
        if (!at)
            continue;
        if (!are_bytes(at, x->recv_len[r], r, me, x->round))
            return 0;
        for (int i = 0; i < GUARD; i++)
            if (at[x->recv_len[r] + (size_t)i] != 0xa5)
                return 0;
    }
    return 1;
}

static terse_alltoallv alltoallv_of(const struct exchange *x)
{
    return (terse_alltoallv){x->send_at, x->send_len, x->recv_at, x->recv_len};
}

/* Lengths of all sizes, zero too; no byte too many. */
static const char *check_alltoallv(terse_group *handle)
{
    for (uint32_t round = 0; round < 12; round++) {
        struct exchange x;
        terse_fault fault = {0};
        if (!prepare(&x, handle, round))
            return "out of memory";
        const terse_alltoallv alltoallv = alltoallv_of(&x);
        const terse_status status = terse_group_alltoallv(handle, &alltoallv, &fault);
        const int right = status == TERSE_OK && arrived(&x, handle);
        free(x.memory);
        if (status)
            return fail("alltoallv", status, &fault);
        if (!right)
            return "alltoallv: other bytes";
    }
    return NULL;
}

/* ---- many requests at once ---- */

static const char *post_round(terse_group *handle, struct exchange *x, uint32_t round)
{
    terse_fault fault = {0};
    if (!prepare(x, handle, round))
        return "out of memory";
    /* The arrays belong to the call: they may change once it returns. */
    struct exchange copy = *x;
    const terse_alltoallv alltoallv = alltoallv_of(&copy);
    const terse_status status = terse_group_post_alltoallv(handle, &alltoallv, &x->request, &fault);
    memset(&copy, 0xff, sizeof copy);
    return status ? fail("post", status, &fault) : NULL;
}

enum { ROUNDS = 7 }; /* a prime: any stride visits all */

/* Waits in another order on every rank. */
static const char *check_out_of_order(terse_group *handle)
{
    static _Thread_local struct exchange x[ROUNDS];
    const uint32_t stride = 1 + terse_group_rank(handle) % (ROUNDS - 1);
    for (uint32_t i = 0; i < ROUNDS; i++) {
        const char *const bad = post_round(handle, &x[i], 20 + i);
        if (bad)
            return bad;
    }
    for (uint32_t i = 0; i < ROUNDS; i++) {
        struct exchange *const next = &x[i * stride % ROUNDS];
        terse_fault fault = {0};
        const terse_status status = terse_group_wait(handle, next->request, &fault);
        if (status)
            return fail("wait", status, &fault);
        if (!arrived(next, handle))
            return "out of order: other bytes";
        if (terse_group_wait(handle, next->request, NULL) != TERSE_BAD_ARGUMENT)
            return "waiting twice is not refused";
        free(next->memory);
    }
    return NULL;
}

/* test instead of wait. */
static const char *check_testing(terse_group *handle)
{
    static _Thread_local struct exchange x[ROUNDS];
    uint32_t left = ROUNDS;
    for (uint32_t i = 0; i < ROUNDS; i++) {
        const char *const bad = post_round(handle, &x[i], 40 + i);
        if (bad)
            return bad;
    }
    while (left) {
        for (uint32_t i = 0; i < ROUNDS; i++) {
            terse_fault fault = {0};
            int done = 0;
            if (!x[i].memory)
                continue;
            const terse_status status = terse_group_test(handle, x[i].request, &done, &fault);
            if (status)
                return fail("test", status, &fault);
            if (done && !arrived(&x[i], handle))
                return "test: other bytes";
            if (done) {
                free(x[i].memory);
                x[i].memory = NULL;
                left--;
            }
        }
        sched_yield();
    }
    return NULL;
}

/* As many under way as there may be. */
static const char *check_run_ahead(terse_group *handle)
{
    static _Thread_local terse_request requests[TERSE_MAX_REQUESTS];
    terse_fault fault = {0};
    terse_request one_more;
    for (uint32_t turn = 0; turn < 2; turn++) {
        for (uint32_t i = 0; i < TERSE_MAX_REQUESTS; i++) {
            const terse_status status = terse_group_post_barrier(handle, &requests[i], &fault);
            if (status)
                return fail("barrier", status, &fault);
        }
        if (terse_group_post_barrier(handle, &one_more, NULL) != TERSE_BAD_ARGUMENT)
            return "one request too many is not refused";
        for (uint32_t i = 0; i < TERSE_MAX_REQUESTS; i++) {
            const uint32_t at = turn ? TERSE_MAX_REQUESTS - 1 - i : i;
            const terse_status status = terse_group_wait(handle, requests[at], &fault);
            if (status)
                return fail("wait", status, &fault);
        }
    }
    return NULL;
}

/* The oldest request stays unobserved while many others come and go. */
static const char *check_left_behind(terse_group *handle)
{
    terse_fault fault = {0};
    terse_request oldest;
    terse_status status = terse_group_post_barrier(handle, &oldest, &fault);
    for (uint32_t i = 0; i < 2 * TERSE_MAX_REQUESTS && !status; i++)
        status = terse_group_barrier(handle, &fault);
    if (!status)
        status = terse_group_wait(handle, oldest, &fault);
    return status ? fail("left behind", status, &fault) : NULL;
}

/* ---- all-gather, broadcast, barrier ---- */

/* Of different lengths, and in place. */
static const char *check_allgatherv(terse_group *handle)
{
    const uint32_t me = terse_group_rank(handle);
    const uint32_t workers = terse_group_workers(handle);
    for (uint32_t round = 60; round < 66; round++) {
        static _Thread_local uint8_t heard[MOST][20011 + GUARD];
        void *recv_at[MOST];
        size_t recv_len[MOST];
        uint8_t own[20011];
        terse_fault fault = {0};
        for (uint32_t r = 0; r < workers; r++) {
            recv_at[r] = heard[r];
            recv_len[r] = length_of(r, 0, round);
        }
        uint8_t *const send = round % 2 ? own : heard[me]; /* in place every other time */
        memset(heard, 0xa5, sizeof heard);
        fill_bytes(send, recv_len[me], me, 0, round);
        const terse_status status =
            terse_group_allgatherv(handle, send, recv_len[me], recv_at, recv_len, &fault);
        if (status)
            return fail("allgatherv", status, &fault);
        for (uint32_t r = 0; r < workers; r++)
            if (!are_bytes(heard[r], recv_len[r], r, 0, round) || heard[r][recv_len[r]] != 0xa5)
                return "allgatherv: other bytes";
    }
    return NULL;
}

/* From every root, of any length. */
static const char *check_broadcast(terse_group *handle)
{
    for (uint32_t root = 0; root < terse_group_workers(handle); root++) {
        uint8_t bytes[3000];
        terse_fault fault = {0};
        const size_t len = root % 4 == 3 ? 0 : sizeof bytes - root;
        memset(bytes, 0xa5, sizeof bytes);
        if (terse_group_rank(handle) == root)
            fill_bytes(bytes, len, root, 0, 70);
        const terse_status status = terse_group_broadcast(handle, root, bytes, len, &fault);
        if (status)
            return fail("broadcast", status, &fault);
        if (!are_bytes(bytes, len, root, 0, 70))
            return "broadcast: other bytes";
        for (size_t i = len; i < sizeof bytes; i++)
            if (bytes[i] != 0xa5)
                return "broadcast: a byte too many";
    }
    return NULL;
}

static const char *check_barrier(terse_group *handle)
{
    for (int i = 0; i < 50; i++) {
        terse_fault fault = {0};
        const terse_status status = terse_group_barrier(handle, &fault);
        if (status)
            return fail("barrier", status, &fault);
    }
    return NULL;
}

/* ---- sum ---- */

void fill_floats(float *floats, size_t count, uint32_t rank)
{
    uint32_t x = rank * 0x9e3779b9u + 1;
    for (size_t i = 0; i < count; i++) {
        x = x * 1664525u + 1013904223u;
        const float size = (float)(1u << (x >> 27)); /* 1 .. 2^31 */
        floats[i] = (float)(int32_t)(x << 5) * 0x1p-31f * size;
    }
}

static const char *sum_of(terse_group *handle, size_t count)
{
    const size_t scratch_count = terse_group_allreduce_scratch(handle, count);
    float *const floats = malloc((2 * count + scratch_count + 2) * sizeof *floats);
    terse_fault fault = {0};
    if (!floats)
        return "out of memory";
    float *const expected = floats + count + 1;
    float *const scratch = expected + count + 1; /* rarely aligned to more than a float */
    fill_floats(floats, count, terse_group_rank(handle));
    floats[count] = expected[count] = 7;
    const terse_status status = terse_group_allreduce(handle, floats, count, scratch, &fault);
    fill_floats(expected, count, 0);
    for (uint32_t r = 1; r < terse_group_workers(handle) && !status; r++) {
        float *const next = malloc((count + 1) * sizeof *next);
        if (!next)
            break;
        fill_floats(next, count, r);
        for (size_t i = 0; i < count; i++)
            expected[i] += next[i];
        free(next);
    }
    const int right = memcmp(floats, expected, (count + 1) * sizeof *floats) == 0;
    free(floats);
    if (status)
        return fail("sum", status, &fault);
    return right ? NULL : "sum: other bits than adding in rank order gives";
}

/* Bit for bit the sum in rank order. */
static const char *check_sum(terse_group *handle)
{
    /* Around the 16 floats that slices are made of, and a slice of several segments. */
    static const size_t counts[] = {0, 1, 15, 16, 17, 63, 64, 65, 1000, 4099, 20000};
    const char *bad = NULL;
    for (size_t i = 0; i < sizeof counts / sizeof *counts && !bad; i++)
        bad = sum_of(handle, counts[i]);
    if (!bad && terse_group_workers(handle) <= 4)
        bad = sum_of(handle, (size_t)terse_group_workers(handle) * 600000 + 5);
    return bad;
}

static const char *check_traffic(terse_group *handle)
{
    uint64_t before[2];
    uint64_t after[2];
    struct exchange x;
    terse_fault fault = {0};
    uint64_t said = 0;
    uint64_t heard = 0;
    terse_group_traffic(handle, &before[0], &before[1]);
    const char *const bad = post_round(handle, &x, 81);
    if (bad)
        return bad;
    const terse_status status = terse_group_wait(handle, x.request, &fault);
    if (status)
        return fail("wait", status, &fault);
    terse_group_traffic(handle, &after[0], &after[1]);
    for (uint32_t r = 0; r < terse_group_workers(handle); r++)
        if (r != terse_group_rank(handle)) {
            said += x.send_len[r];
            heard += x.recv_len[r];
        }
    free(x.memory);
    const int right = after[0] - before[0] == said && after[1] - before[1] == heard;
    return right ? NULL : "traffic: not the bytes that were said and heard";
}

const struct named_check all_checks[] = {
    {"alltoallv", check_alltoallv},
    {"allgatherv", check_allgatherv},
    {"broadcast", check_broadcast},
    {"barrier", check_barrier},
    {"out of order", check_out_of_order},
    {"run ahead", check_run_ahead},
    {"left behind", check_left_behind},
    {"testing", check_testing},
    {"sum", check_sum},
    {"traffic", check_traffic},
};
const unsigned all_checks_count = sizeof all_checks / sizeof *all_checks;
