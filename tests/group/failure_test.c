/* A failure is a status with a rank, within the timeout, on every handle. */
#include <pthread.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

#include <cmocka.h>

#include "group/crew.h"

enum { WORKERS = 4 };

static double seconds_now(void)
{
    struct timespec now;
    assert_int_equal(clock_gettime(CLOCK_MONOTONIC, &now), 0);
    return (double)now.tv_sec + (double)now.tv_nsec * 1e-9;
}

static void open_handles(terse_group **handles, double timeout)
{
    assert_int_equal(terse_group_local(WORKERS, handles), TERSE_OK);
    for (int r = 0; r < WORKERS; r++)
        assert_int_equal(terse_group_set_timeout(handles[r], timeout), TERSE_OK);
}

static void close_handles(terse_group **handles)
{
    for (int r = 0; r < WORKERS; r++)
        terse_group_destroy(handles[r]);
}

static void is_dead(terse_group *handle, int32_t rank)
{
    terse_fault fault = {0};
    terse_request request = {0};
    terse_allreduce sum;
    float one = 1;
    float scratch[64];
    int done;
    assert_int_equal(terse_group_barrier(handle, &fault), TERSE_PEER_LOST);
    assert_int_equal(fault.rank, rank);
    assert_non_null(strstr(fault.text, "dead"));
    assert_int_equal(terse_group_wait(handle, request, NULL), TERSE_PEER_LOST);
    assert_int_equal(terse_group_test(handle, request, &done, NULL), TERSE_PEER_LOST);
    assert_int_equal(terse_group_allreduce(handle, &one, 1, scratch, NULL), TERSE_PEER_LOST);
    assert_int_equal(terse_group_allreduce_post(handle, &one, 1, scratch, &sum, NULL),
                     TERSE_PEER_LOST);
}

/* ---- late ---- */

static void who_never_posts_is_named(void **state)
{
    terse_group *handles[WORKERS];
    terse_request requests[WORKERS];
    terse_fault fault = {0};
    (void)state;
    open_handles(handles, 0.2);
    for (int r = 0; r < WORKERS; r++)
        if (r != 2)
            assert_int_equal(terse_group_post_barrier(handles[r], &requests[r], NULL), TERSE_OK);
    const double start = seconds_now();
    assert_int_equal(terse_group_wait(handles[0], requests[0], &fault), TERSE_TIMEOUT);
    const double took = seconds_now() - start;
    assert_true(took >= 0.19 && took < 2);
    assert_int_equal(fault.rank, 2);
    assert_non_null(strstr(fault.text, "rank 2"));
    is_dead(handles[0], 2);
    /* The others fail at once and name the same rank. */
    assert_int_equal(terse_group_wait(handles[1], requests[1], &fault), TERSE_PEER_LOST);
    assert_int_equal(fault.rank, 2);
    assert_int_equal(terse_group_barrier(handles[2], &fault), TERSE_PEER_LOST);
    assert_int_equal(fault.rank, 2);
    is_dead(handles[1], 2);
    close_handles(handles);
}

static const char *late_in_a_thread(terse_group *handle)
{
    terse_fault fault = {0};
    if (terse_group_barrier(handle, &fault) != TERSE_OK) /* all threads have started */
        return "nobody is late yet";
    if (terse_group_set_timeout(handle, 0.3) != TERSE_OK)
        return "no timeout";
    if (terse_group_rank(handle) == 3)
        return NULL;
    const terse_status status = terse_group_barrier(handle, &fault);
    if (status != TERSE_TIMEOUT && status != TERSE_PEER_LOST)
        return terse_status_text(status);
    return fault.rank == 3 ? NULL : "another rank is named";
}

static void threads_name_who_is_late(void **state)
{
    terse_group *handles[WORKERS];
    (void)state;
    for (int i = 0; i < 3; i++) {
        open_handles(handles, 60);
        assert_null(crew_run(handles, WORKERS, late_in_a_thread));
        close_handles(handles);
    }
}

/* Ranks post 0.2 s after one another: the first waits for 0.6 s with a timeout of 0.4 s. */
static const char *post_one_by_one(terse_group *handle)
{
    const uint32_t rank = terse_group_rank(handle);
    terse_fault fault = {0};
    if (terse_group_barrier(handle, &fault) != TERSE_OK)
        return "not even at the start";
    if (terse_group_set_timeout(handle, 0.4) != TERSE_OK)
        return "no timeout";
    (void)usleep(rank * 200000u);
    return terse_group_barrier(handle, &fault) == TERSE_OK ? NULL : "a rank is called late";
}

static void a_timeout_counts_from_the_last_post(void **state)
{
    terse_group *handles[WORKERS];
    (void)state;
    open_handles(handles, 60);
    assert_null(crew_run(handles, WORKERS, post_one_by_one));
    close_handles(handles);
}

/* ---- gone ---- */

static void who_left_is_named(void **state)
{
    terse_group *handles[WORKERS];
    terse_fault fault = {0};
    (void)state;
    open_handles(handles, 60);
    terse_group_destroy(handles[1]);
    handles[1] = NULL;
    const double start = seconds_now();
    assert_int_equal(terse_group_barrier(handles[0], &fault), TERSE_PEER_LOST);
    assert_int_equal(fault.rank, 1);
    assert_int_equal(terse_group_barrier(handles[3], &fault), TERSE_PEER_LOST);
    assert_int_equal(fault.rank, 1);
    assert_true(seconds_now() - start < 10);
    close_handles(handles);
}

/* An all-to-all that all posted before a handle left is still delivered. */
static void leaving_after_the_end_breaks_nothing(void **state)
{
    terse_group *handles[WORKERS];
    terse_request requests[WORKERS];
    terse_fault fault = {0};
    uint8_t bytes[WORKERS] = {1, 2, 3, 4};
    (void)state;
    open_handles(handles, 60);
    for (int r = 0; r < WORKERS; r++)
        assert_int_equal(
            terse_group_post_broadcast(handles[r], 3, &bytes[r], 1, &requests[r], NULL), TERSE_OK);
    assert_int_equal(terse_group_wait(handles[3], requests[3], NULL), TERSE_OK);
    terse_group_destroy(handles[3]);
    handles[3] = NULL;
    for (int r = 0; r < 3; r++) {
        assert_int_equal(terse_group_wait(handles[r], requests[r], NULL), TERSE_OK);
        assert_int_equal(bytes[r], 4);
    }
    assert_int_equal(terse_group_barrier(handles[0], &fault), TERSE_PEER_LOST);
    assert_int_equal(fault.rank, 3);
    close_handles(handles);
}

/* A handle that leaves takes its buffers along, although it has posted. */
static void leaving_before_the_end_breaks_the_group(void **state)
{
    terse_group *handles[WORKERS];
    terse_request request;
    terse_fault fault = {0};
    uint8_t byte = 1;
    (void)state;
    open_handles(handles, 60);
    assert_int_equal(terse_group_post_broadcast(handles[3], 3, &byte, 1, &request, NULL), TERSE_OK);
    terse_group_destroy(handles[3]);
    handles[3] = NULL;
    for (int r = 0; r < 3; r++) {
        assert_int_equal(terse_group_broadcast(handles[r], 3, &byte, 1, &fault), TERSE_PEER_LOST);
        assert_int_equal(fault.rank, 3);
    }
    close_handles(handles);
}

/* Each leaves during all-to-alls that others copy, and its buffers end with it. */
static const char *leave_with_work_under_way(terse_group *handle)
{
    uint8_t bytes[30000] = {1};
    static _Thread_local uint8_t received[WORKERS][30000];
    void *recv_at[WORKERS];
    size_t recv_len[WORKERS];
    terse_request request;
    terse_status status = TERSE_OK;
    for (int r = 0; r < WORKERS; r++) {
        recv_at[r] = received[r];
        recv_len[r] = sizeof received[r];
    }
    const uint32_t turns = 3 + 2 * terse_group_rank(handle);
    for (uint32_t i = 0; i < turns && !status; i++)
        status = terse_group_post_allgatherv(handle, bytes, sizeof bytes, recv_at, recv_len,
                                             &request, NULL);
    if (!status && terse_group_rank(handle) % 2)
        status = terse_group_wait(handle, request, NULL);
    if (status && status != TERSE_PEER_LOST)
        return "not the status of a worker that left";
    terse_group_destroy(handle);
    memset(bytes, 0xff,
           sizeof bytes); /* no thread may read it any more: the thread sanitizer checks */
    memset(received, 0xff, sizeof received);
    return NULL;
}

static void leaving_takes_the_buffers(void **state)
{
    terse_group *handles[WORKERS];
    (void)state;
    for (int i = 0; i < 50; i++) {
        open_handles(handles, 60);
        /* crew_run reads the handle's rank only after a failure */
        assert_null(crew_run(handles, WORKERS, leave_with_work_under_way));
    }
}

/* ---- mismatch ---- */

/* The root sends 100 bytes and rank 2 expects another number. */
static void other_lengths_are_found(void **state)
{
    static const int32_t named[WORKERS] = {2, 0, 0, 0};
    static const terse_status expected[WORKERS] = {TERSE_MISMATCH, TERSE_PEER_LOST, TERSE_MISMATCH,
                                                   TERSE_PEER_LOST};
    static const size_t lens[] = {99, 101, 0};
    (void)state;
    for (int i = 0; i < 3; i++) {
        terse_group *handles[WORKERS];
        terse_request requests[WORKERS];
        uint8_t bytes[WORKERS][101];
        open_handles(handles, 60);
        memset(bytes, 7, sizeof bytes);
        for (uint32_t r = 0; r < WORKERS; r++)
            assert_int_equal(terse_group_post_broadcast(handles[r], 0, bytes[r],
                                                        r == 2 ? lens[i] : 100, &requests[r], NULL),
                             TERSE_OK);
        for (uint32_t r = 0; r < WORKERS; r++) {
            terse_fault fault = {0};
            assert_int_equal(terse_group_wait(handles[r], requests[r], &fault), expected[r]);
            assert_int_equal(fault.rank, named[r]);
            is_dead(handles[r], named[r]);
        }
        close_handles(handles);
    }
}

/* ---- calls that are refused and change nothing ---- */

static void bad_calls_are_refused(void **state)
{
    terse_group *handles[1];
    const void *send_at[1] = {NULL};
    void *recv_at[1] = {NULL};
    size_t one[1] = {1};
    size_t none[1] = {0};
    terse_request request = {0};
    terse_fault fault;
    float number = 1;
    (void)state;
    assert_int_equal(terse_group_local(1, handles), TERSE_OK);
    const terse_alltoallv no_address = {send_at, one, recv_at, one};
    const terse_alltoallv other_lengths = {(const void *[]){&number}, one, (void *[]){&number},
                                           none};
    assert_int_equal(terse_group_alltoallv(handles[0], &no_address, &fault), TERSE_BAD_ARGUMENT);
    assert_int_equal(terse_group_alltoallv(handles[0], &other_lengths, &fault), TERSE_BAD_ARGUMENT);
    assert_int_equal(terse_group_alltoallv(handles[0], NULL, NULL), TERSE_BAD_ARGUMENT);
    assert_int_equal(terse_group_alltoallv(NULL, &no_address, NULL), TERSE_BAD_ARGUMENT);
    assert_int_equal(terse_group_broadcast(handles[0], 1, &number, 4, NULL), TERSE_BAD_ARGUMENT);
    assert_int_equal(terse_group_wait(handles[0], request, NULL), TERSE_BAD_ARGUMENT);
    request.slot = TERSE_MAX_REQUESTS;
    assert_int_equal(terse_group_wait(handles[0], request, NULL), TERSE_BAD_ARGUMENT);
    assert_int_equal(terse_group_set_timeout(handles[0], 0.0001), TERSE_BAD_ARGUMENT);
    assert_int_equal(terse_group_set_timeout(handles[0], 0.0 / 0.0), TERSE_BAD_ARGUMENT);
    assert_int_equal(terse_group_allreduce(handles[0], NULL, 1, NULL, NULL), TERSE_BAD_ARGUMENT);
    terse_request older;
    assert_int_equal(terse_group_post_barrier(handles[0], &older, NULL), TERSE_OK);
    assert_int_equal(terse_group_wait(handles[0], older, NULL), TERSE_OK);
    assert_int_equal(terse_group_post_barrier(handles[0], &request, NULL), TERSE_OK);
    assert_int_equal(request.slot, older.slot); /* used again, yet another request */
    assert_int_equal(terse_group_wait(handles[0], older, NULL), TERSE_BAD_ARGUMENT);
    assert_int_equal(terse_group_wait(handles[0], request, NULL), TERSE_OK);
    assert_int_equal(terse_group_allreduce(handles[0], &number, 1, NULL, NULL), TERSE_OK);
    terse_group_destroy(handles[0]);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(who_never_posts_is_named),
        cmocka_unit_test(threads_name_who_is_late),
        cmocka_unit_test(a_timeout_counts_from_the_last_post),
        cmocka_unit_test(who_left_is_named),
        cmocka_unit_test(leaving_after_the_end_breaks_nothing),
        cmocka_unit_test(leaving_before_the_end_breaks_the_group),
        cmocka_unit_test(leaving_takes_the_buffers),
        cmocka_unit_test(other_lengths_are_found),
        cmocka_unit_test(bad_calls_are_refused),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
