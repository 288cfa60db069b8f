/* What goes wrong becomes a status with a rank, within the deadline, on every seat. */
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

static void open_seats(terse_group **seats, double deadline)
{
    assert_int_equal(terse_group_local(WORKERS, seats), TERSE_OK);
    for (int r = 0; r < WORKERS; r++)
        assert_int_equal(terse_group_deadline(seats[r], deadline), TERSE_OK);
}

static void close_seats(terse_group **seats)
{
    for (int r = 0; r < WORKERS; r++)
        terse_group_destroy(seats[r]);
}

static void is_dead(terse_group *seat, int32_t rank)
{
    terse_fault fault = {0};
    terse_request request = {0};
    terse_sum sum;
    float one = 1;
    float scratch[64];
    int done;
    assert_int_equal(terse_group_barrier(seat, &fault), TERSE_BROKEN);
    assert_int_equal(fault.rank, rank);
    assert_non_null(strstr(fault.text, "dead"));
    assert_int_equal(terse_group_wait(seat, request, NULL), TERSE_BROKEN);
    assert_int_equal(terse_group_test(seat, request, &done, NULL), TERSE_BROKEN);
    assert_int_equal(terse_group_sum(seat, &one, 1, scratch, NULL), TERSE_BROKEN);
    assert_int_equal(terse_group_sum_post(seat, &one, 1, scratch, &sum, NULL), TERSE_BROKEN);
}

/* ---- late ---- */

static void who_never_posts_is_named(void **state)
{
    terse_group *seats[WORKERS];
    terse_request requests[WORKERS];
    terse_fault fault = {0};
    (void)state;
    open_seats(seats, 0.2);
    for (int r = 0; r < WORKERS; r++)
        if (r != 2)
            assert_int_equal(terse_group_post_barrier(seats[r], &requests[r], NULL), TERSE_OK);
    const double start = seconds_now();
    assert_int_equal(terse_group_wait(seats[0], requests[0], &fault), TERSE_LATE);
    const double took = seconds_now() - start;
    assert_true(took >= 0.19 && took < 2);
    assert_int_equal(fault.rank, 2);
    assert_non_null(strstr(fault.text, "rank 2"));
    is_dead(seats[0], 2);
    /* The others know at once, each by the same name. */
    assert_int_equal(terse_group_wait(seats[1], requests[1], &fault), TERSE_BROKEN);
    assert_int_equal(fault.rank, 2);
    assert_int_equal(terse_group_barrier(seats[2], &fault), TERSE_BROKEN);
    assert_int_equal(fault.rank, 2);
    is_dead(seats[1], 2);
    close_seats(seats);
}

static const char *late_in_a_thread(terse_group *seat)
{
    terse_fault fault = {0};
    if (terse_group_barrier(seat, &fault) != TERSE_OK) /* all threads have started */
        return "nobody is late yet";
    if (terse_group_deadline(seat, 0.3) != TERSE_OK)
        return "no deadline";
    if (terse_group_rank(seat) == 3)
        return NULL;
    const terse_status status = terse_group_barrier(seat, &fault);
    if (status != TERSE_LATE && status != TERSE_BROKEN)
        return terse_status_text(status);
    return fault.rank == 3 ? NULL : "another rank is named";
}

static void threads_name_who_is_late(void **state)
{
    terse_group *seats[WORKERS];
    (void)state;
    for (int i = 0; i < 3; i++) {
        open_seats(seats, 60);
        assert_null(crew_run(seats, WORKERS, late_in_a_thread));
        close_seats(seats);
    }
}

/* ---- gone ---- */

static void who_left_is_named(void **state)
{
    terse_group *seats[WORKERS];
    terse_fault fault = {0};
    (void)state;
    open_seats(seats, 60);
    terse_group_destroy(seats[1]);
    seats[1] = NULL;
    const double start = seconds_now();
    assert_int_equal(terse_group_barrier(seats[0], &fault), TERSE_BROKEN);
    assert_int_equal(fault.rank, 1);
    assert_int_equal(terse_group_barrier(seats[3], &fault), TERSE_BROKEN);
    assert_int_equal(fault.rank, 1);
    assert_true(seconds_now() - start < 10);
    close_seats(seats);
}

/* What was posted by all before somebody left is still delivered. */
static void leaving_after_the_end_breaks_nothing(void **state)
{
    terse_group *seats[WORKERS];
    terse_request requests[WORKERS];
    terse_fault fault = {0};
    uint8_t bytes[WORKERS] = {1, 2, 3, 4};
    (void)state;
    open_seats(seats, 60);
    for (int r = 0; r < WORKERS; r++)
        assert_int_equal(terse_group_post_broadcast(seats[r], 3, &bytes[r], 1, &requests[r], NULL),
                         TERSE_OK);
    assert_int_equal(terse_group_wait(seats[3], requests[3], NULL), TERSE_OK);
    terse_group_destroy(seats[3]);
    seats[3] = NULL;
    for (int r = 0; r < 3; r++) {
        assert_int_equal(terse_group_wait(seats[r], requests[r], NULL), TERSE_OK);
        assert_int_equal(bytes[r], 4);
    }
    assert_int_equal(terse_group_barrier(seats[0], &fault), TERSE_BROKEN);
    assert_int_equal(fault.rank, 3);
    close_seats(seats);
}

/* Its bytes are gone with it, though it had posted. */
static void leaving_before_the_end_breaks_the_group(void **state)
{
    terse_group *seats[WORKERS];
    terse_request request;
    terse_fault fault = {0};
    uint8_t byte = 1;
    (void)state;
    open_seats(seats, 60);
    assert_int_equal(terse_group_post_broadcast(seats[3], 3, &byte, 1, &request, NULL), TERSE_OK);
    terse_group_destroy(seats[3]);
    seats[3] = NULL;
    for (int r = 0; r < 3; r++) {
        assert_int_equal(terse_group_broadcast(seats[r], 3, &byte, 1, &fault), TERSE_BROKEN);
        assert_int_equal(fault.rank, 3);
    }
    close_seats(seats);
}

/* Each leaves in the middle of swaps that others copy, with buffers that go with it. */
static const char *leave_with_work_under_way(terse_group *seat)
{
    uint8_t said[30000] = {1};
    static _Thread_local uint8_t heard[WORKERS][30000];
    void *recv_at[WORKERS];
    size_t recv_len[WORKERS];
    terse_request request;
    terse_status status = TERSE_OK;
    for (int r = 0; r < WORKERS; r++) {
        recv_at[r] = heard[r];
        recv_len[r] = sizeof heard[r];
    }
    const uint32_t turns = 3 + 2 * terse_group_rank(seat);
    for (uint32_t i = 0; i < turns && !status; i++)
        status =
            terse_group_post_gather(seat, said, sizeof said, recv_at, recv_len, &request, NULL);
    if (!status && terse_group_rank(seat) % 2)
        status = terse_group_wait(seat, request, NULL);
    if (status && status != TERSE_BROKEN)
        return "something else than a worker that left";
    terse_group_destroy(seat);
    memset(said, 0xff, sizeof said); /* nobody may read it any more: the thread sanitizer looks */
    memset(heard, 0xff, sizeof heard);
    return NULL;
}

static void leaving_takes_the_buffers(void **state)
{
    terse_group *seats[WORKERS];
    (void)state;
    for (int i = 0; i < 50; i++) {
        open_seats(seats, 60);
        /* crew_run asks the seat for its rank only when something went wrong */
        assert_null(crew_run(seats, WORKERS, leave_with_work_under_way));
    }
}

/* ---- mismatch ---- */

/* The root sends 100 bytes and rank 2 expects another number. */
static void other_lengths_are_found(void **state)
{
    static const int32_t named[WORKERS] = {2, 0, 0, 0};
    static const terse_status said[WORKERS] = {TERSE_MISMATCH, TERSE_BROKEN, TERSE_MISMATCH,
                                               TERSE_BROKEN};
    static const size_t lens[] = {99, 101, 0};
    (void)state;
    for (int i = 0; i < 3; i++) {
        terse_group *seats[WORKERS];
        terse_request requests[WORKERS];
        uint8_t bytes[WORKERS][101];
        open_seats(seats, 60);
        memset(bytes, 7, sizeof bytes);
        for (uint32_t r = 0; r < WORKERS; r++)
            assert_int_equal(terse_group_post_broadcast(seats[r], 0, bytes[r],
                                                        r == 2 ? lens[i] : 100, &requests[r], NULL),
                             TERSE_OK);
        for (uint32_t r = 0; r < WORKERS; r++) {
            terse_fault fault = {0};
            assert_int_equal(terse_group_wait(seats[r], requests[r], &fault), said[r]);
            assert_int_equal(fault.rank, named[r]);
            is_dead(seats[r], named[r]);
        }
        close_seats(seats);
    }
}

/* ---- calls that are refused and change nothing ---- */

static void bad_calls_are_refused(void **state)
{
    terse_group *seats[1];
    const void *send_at[1] = {NULL};
    void *recv_at[1] = {NULL};
    size_t one[1] = {1};
    size_t none[1] = {0};
    terse_request request = {0};
    terse_fault fault;
    float number = 1;
    (void)state;
    assert_int_equal(terse_group_local(1, seats), TERSE_OK);
    const terse_swap no_address = {send_at, one, recv_at, one};
    const terse_swap other_lengths = {(const void *[]){&number}, one, (void *[]){&number}, none};
    assert_int_equal(terse_group_swap(seats[0], &no_address, &fault), TERSE_BAD_ARGUMENT);
    assert_int_equal(terse_group_swap(seats[0], &other_lengths, &fault), TERSE_BAD_ARGUMENT);
    assert_int_equal(terse_group_swap(seats[0], NULL, NULL), TERSE_BAD_ARGUMENT);
    assert_int_equal(terse_group_swap(NULL, &no_address, NULL), TERSE_BAD_ARGUMENT);
    assert_int_equal(terse_group_broadcast(seats[0], 1, &number, 4, NULL), TERSE_BAD_ARGUMENT);
    assert_int_equal(terse_group_wait(seats[0], request, NULL), TERSE_BAD_ARGUMENT);
    request.slot = TERSE_MAX_REQUESTS;
    assert_int_equal(terse_group_wait(seats[0], request, NULL), TERSE_BAD_ARGUMENT);
    assert_int_equal(terse_group_deadline(seats[0], 0.0001), TERSE_BAD_ARGUMENT);
    assert_int_equal(terse_group_deadline(seats[0], 0.0 / 0.0), TERSE_BAD_ARGUMENT);
    assert_int_equal(terse_group_sum(seats[0], NULL, 1, NULL, NULL), TERSE_BAD_ARGUMENT);
    terse_request older;
    assert_int_equal(terse_group_post_barrier(seats[0], &older, NULL), TERSE_OK);
    assert_int_equal(terse_group_wait(seats[0], older, NULL), TERSE_OK);
    assert_int_equal(terse_group_post_barrier(seats[0], &request, NULL), TERSE_OK);
    assert_int_equal(request.slot, older.slot); /* used again, yet another request */
    assert_int_equal(terse_group_wait(seats[0], older, NULL), TERSE_BAD_ARGUMENT);
    assert_int_equal(terse_group_wait(seats[0], request, NULL), TERSE_OK);
    assert_int_equal(terse_group_sum(seats[0], &number, 1, NULL, NULL), TERSE_OK);
    terse_group_destroy(seats[0]);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(who_never_posts_is_named),
        cmocka_unit_test(threads_name_who_is_late),
        cmocka_unit_test(who_left_is_named),
        cmocka_unit_test(leaving_after_the_end_breaks_nothing),
        cmocka_unit_test(leaving_before_the_end_breaks_the_group),
        cmocka_unit_test(leaving_takes_the_buffers),
        cmocka_unit_test(other_lengths_are_found),
        cmocka_unit_test(bad_calls_are_refused),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
