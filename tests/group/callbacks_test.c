/* Groups over engines of the caller: one over sockets, one whose post blocks until done. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include <cmocka.h>

#include "group/crew.h"
#include "group/sockets.h"

static const uint32_t sizes[] = {1, 2, 3, 4, 7, 8};
enum { SIZES = sizeof sizes / sizeof *sizes, MOST = 8 };

static void do_every_check(terse_group **handles, uint32_t workers)
{
    for (unsigned c = 0; c < all_checks_count; c++) {
        const char *const bad = crew_run(handles, workers, all_checks[c].run);
        if (bad)
            fail_msg("%u workers, %s: %s", (unsigned)workers, all_checks[c].name, bad);
    }
}

static void sockets_do_every_check(void **state)
{
    terse_group *handles[MOST];
    (void)state;
    for (int i = 0; i < SIZES; i++) {
        assert_true(sockets_open(sizes[i], handles));
        do_every_check(handles, sizes[i]);
        for (uint32_t r = 0; r < sizes[i]; r++)
            terse_group_destroy(handles[r]);
    }
}

static void sockets_name_who_is_late_or_gone(void **state)
{
    terse_group *handles[3];
    terse_request request;
    terse_fault fault = {0};
    (void)state;
    assert_true(sockets_open(3, handles));
    assert_int_equal(terse_group_set_timeout(handles[0], 0.1), TERSE_OK);
    assert_int_equal(terse_group_post_barrier(handles[1], &request, NULL), TERSE_OK);
    int done = 1;
    assert_int_equal(terse_group_test(handles[1], request, &done, NULL), TERSE_OK);
    assert_int_equal(done, 0);
    assert_int_equal(terse_group_barrier(handles[0], &fault), TERSE_TIMEOUT);
    assert_int_equal(fault.rank, 2);
    terse_group_destroy(handles[2]);
    assert_int_equal(terse_group_wait(handles[1], request, &fault), TERSE_PEER_LOST);
    assert_int_equal(fault.rank, 2);
    terse_group_destroy(handles[0]);
    terse_group_destroy(handles[1]);
}

/* ---- a timeout counts from the last byte ---- */

enum { SLOW_LEN = 6000, BURST = 100 }; /* 60 bursts, 10 ms apart: 0.6 s at least */

static double slow_seconds[MOST]; /* of the wait, by rank */
static terse_fault slow_faults[MOST];

/* Nothing arrives at rank 0, the root: it waits for as long as the others need. */
static const char *broadcast_slowly(terse_group *handle)
{
    static uint8_t bytes[MOST][SLOW_LEN];
    const uint32_t rank = terse_group_rank(handle);
    struct timespec start;
    struct timespec end;
    if (terse_group_set_timeout(handle, rank == 0 ? 3 : 0.3) != TERSE_OK)
        return "no timeout";
    (void)clock_gettime(CLOCK_MONOTONIC, &start);
    const terse_status status =
        terse_group_broadcast(handle, 0, bytes[rank], SLOW_LEN, &slow_faults[rank]);
    (void)clock_gettime(CLOCK_MONOTONIC, &end);
    slow_seconds[rank] =
        difftime(end.tv_sec, start.tv_sec) + (double)(end.tv_nsec - start.tv_nsec) * 1e-9;
    return status == TERSE_OK ? NULL : terse_status_text(status);
}

static void slow_but_steady_is_no_timeout(void **state)
{
    terse_group *handles[MOST];
    (void)state;
    assert_true(sockets_open_slow(3, BURST, SIZE_MAX, handles));
    assert_null(crew_run(handles, 3, broadcast_slowly));
    for (uint32_t r = 1; r < 3; r++)
        assert_true(slow_seconds[r] > 0.5); /* longer than the timeout */
    for (uint32_t r = 0; r < 3; r++)
        terse_group_destroy(handles[r]);
}

static void a_transfer_that_stops_is_a_timeout(void **state)
{
    terse_group *handles[MOST];
    (void)state;
    assert_true(sockets_open_slow(3, BURST, SLOW_LEN / 2, handles));
    assert_non_null(crew_run(handles, 3, broadcast_slowly));
    for (uint32_t r = 1; r < 3; r++) {
        assert_true(slow_seconds[r] > 0.55 && slow_seconds[r] < 3); /* 0.3 s to the last byte */
        assert_int_equal(slow_faults[r].rank, 0);
        assert_non_null(strstr(slow_faults[r].text, "no message within the timeout of 0.3 s"));
    }
    for (uint32_t r = 0; r < 3; r++)
        terse_group_destroy(handles[r]);
}

/* ---- post blocks until the all-to-all is done ---- */

static terse_status alltoallv_now(void *context, uint32_t slot, const terse_alltoallv *alltoallv,
                                  int32_t *rank)
{
    terse_fault fault = {0};
    (void)slot;
    const terse_status status = terse_group_alltoallv(context, alltoallv, &fault);
    *rank = fault.rank;
    return status;
}

static terse_status always_done(void *context, uint32_t slot, int *done, int32_t *rank)
{
    (void)context;
    (void)slot;
    (void)rank;
    *done = 1;
    return TERSE_OK;
}

static terse_status no_wait(void *context, uint32_t slot, uint64_t nanoseconds, int32_t *rank)
{
    (void)context;
    (void)slot;
    (void)nanoseconds;
    (void)rank;
    return TERSE_OK;
}

static void destroy_inner(void *context)
{
    terse_group_destroy(context);
}

static void blocking_post_does_every_check(void **state)
{
    static const terse_group_ops ops = {.size = sizeof ops,
                                        .post = alltoallv_now,
                                        .test = always_done,
                                        .wait = no_wait,
                                        .destroy = destroy_inner};
    terse_group *inner[MOST];
    terse_group *handles[MOST];
    (void)state;
    for (int i = 0; i < SIZES; i++) {
        const uint32_t workers = sizes[i];
        assert_int_equal(terse_group_local(workers, inner), TERSE_OK);
        for (uint32_t r = 0; r < workers; r++)
            assert_int_equal(terse_group_callbacks(&ops, inner[r], r, workers, &handles[r]), 0);
        do_every_check(handles, workers);
        for (uint32_t r = 0; r < workers; r++)
            terse_group_destroy(handles[r]);
    }
}

/* ---- the group's reaction to results of an engine ---- */

struct moody {
    terse_status answer;
    int32_t rank;
    int abandoned;
    int destroyed;
};

static terse_status moody_post(void *context, uint32_t slot, const terse_alltoallv *alltoallv,
                               int32_t *rank)
{
    struct moody *const moody = context;
    (void)slot;
    assert_int_equal(alltoallv->send_len[1],
                     0); /* an engine never gets the message of a rank to itself */
    *rank = moody->rank;
    return moody->answer;
}

static void moody_abandon(void *context)
{
    ((struct moody *)context)->abandoned++;
}

static void moody_destroy(void *context)
{
    ((struct moody *)context)->destroyed++;
}

static const char *moody_explain(void *context)
{
    (void)context;
    return "the cable is out";
}

static const terse_group_ops moody_ops = {.size = sizeof moody_ops,
                                          .post = moody_post,
                                          .test = always_done,
                                          .wait = no_wait,
                                          .abandon = moody_abandon,
                                          .destroy = moody_destroy,
                                          .explain = moody_explain};

static void failures_end_the_group_once(void **state)
{
    static const terse_status ends[] = {TERSE_TIMEOUT, TERSE_PEER_LOST, TERSE_MISMATCH};
    (void)state;
    for (int i = 0; i < 3; i++) {
        struct moody moody = {ends[i], 2, 0, 0};
        terse_group *group;
        terse_fault fault = {0};
        assert_int_equal(terse_group_callbacks(&moody_ops, &moody, 1, 3, &group), TERSE_OK);
        assert_int_equal(terse_group_barrier(group, &fault), ends[i]);
        assert_int_equal(fault.rank, 2);
        assert_string_equal(fault.text, "rank 2: the cable is out");
        moody.answer = TERSE_OK;
        assert_int_equal(terse_group_barrier(group, &fault), TERSE_PEER_LOST);
        assert_string_equal(fault.text, "the group is dead: rank 2: the cable is out");
        assert_int_equal(moody.abandoned, 1);
        terse_group_destroy(group);
        assert_int_equal(moody.abandoned, 1);
        assert_int_equal(moody.destroyed, 1);
    }
}

static void an_invalid_rank_is_not_named(void **state)
{
    struct moody moody = {TERSE_PEER_LOST, 3, 0, 0};
    terse_group *group;
    terse_fault fault = {0};
    (void)state;
    assert_int_equal(terse_group_callbacks(&moody_ops, &moody, 1, 3, &group), TERSE_OK);
    assert_int_equal(terse_group_barrier(group, &fault), TERSE_PEER_LOST);
    assert_int_equal(fault.rank, -1);
    terse_group_destroy(group);
}

static void refusals_change_nothing(void **state)
{
    struct moody moody = {TERSE_UNSUPPORTED, -1, 0, 0};
    terse_group *group;
    terse_fault fault = {0};
    uint64_t sent = 1;
    (void)state;
    assert_int_equal(terse_group_callbacks(&moody_ops, &moody, 1, 3, &group), TERSE_OK);
    assert_int_equal(terse_group_barrier(group, &fault), TERSE_UNSUPPORTED);
    assert_string_equal(fault.text, "the cable is out");
    terse_group_traffic(group, &sent, NULL);
    assert_int_equal(sent, 0);
    moody.answer = TERSE_OK;
    assert_int_equal(terse_group_barrier(group, &fault), TERSE_OK);
    assert_int_equal(moody.abandoned, 0);
    terse_group_destroy(group);
}

static void leaving_with_requests_abandons_them(void **state)
{
    struct moody moody = {TERSE_OK, -1, 0, 0};
    terse_group *group;
    terse_request request;
    (void)state;
    assert_int_equal(terse_group_callbacks(&moody_ops, &moody, 1, 3, &group), TERSE_OK);
    assert_int_equal(terse_group_post_barrier(group, &request, NULL), TERSE_OK);
    terse_group_destroy(group);
    assert_int_equal(moody.abandoned, 1);
    assert_int_equal(moody.destroyed, 1);
}

static void incomplete_tables_are_refused(void **state)
{
    struct moody moody = {TERSE_OK, -1, 0, 0};
    terse_group *group;
    terse_group_ops ops = moody_ops;
    (void)state;
    ops.size = 8;
    assert_int_equal(terse_group_callbacks(&ops, &moody, 0, 1, &group), TERSE_BAD_ARGUMENT);
    ops = moody_ops;
    ops.wait = NULL;
    assert_int_equal(terse_group_callbacks(&ops, &moody, 0, 1, &group), TERSE_BAD_ARGUMENT);
    assert_int_equal(terse_group_callbacks(&moody_ops, &moody, 1, 1, &group), TERSE_BAD_ARGUMENT);
    assert_int_equal(terse_group_callbacks(&moody_ops, &moody, 0, 0, &group), TERSE_BAD_ARGUMENT);
    assert_int_equal(terse_group_callbacks(&moody_ops, &moody, 0, TERSE_MAX_WORKERS + 1, &group),
                     TERSE_BAD_ARGUMENT);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(sockets_do_every_check),
        cmocka_unit_test(sockets_name_who_is_late_or_gone),
        cmocka_unit_test(slow_but_steady_is_no_timeout),
        cmocka_unit_test(a_transfer_that_stops_is_a_timeout),
        cmocka_unit_test(blocking_post_does_every_check),
        cmocka_unit_test(failures_end_the_group_once),
        cmocka_unit_test(an_invalid_rank_is_not_named),
        cmocka_unit_test(refusals_change_nothing),
        cmocka_unit_test(leaving_with_requests_abandons_them),
        cmocka_unit_test(incomplete_tables_are_refused),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
