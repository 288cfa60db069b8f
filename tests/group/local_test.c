/* The local group: every collective with one thread per handle and with one thread for all handles.
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stdatomic.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

#include <cmocka.h>

#include "group/crew.h"

static const uint32_t sizes[] = {1, 2, 3, 4, 7, 8, 16, 64};
enum { SIZES = sizeof sizes / sizeof *sizes, MOST = TERSE_MAX_LOCAL_WORKERS };

static void open_handles(uint32_t workers, terse_group **handles)
{
    assert_int_equal(terse_group_local(workers, handles), TERSE_OK);
    for (uint32_t r = 0; r < workers; r++) {
        assert_int_equal(terse_group_rank(handles[r]), r);
        assert_int_equal(terse_group_workers(handles[r]), workers);
    }
}

static void close_handles(uint32_t workers, terse_group **handles)
{
    for (uint32_t r = 0; r < workers; r++)
        terse_group_destroy(handles[r]);
}

static void threads_do_every_check(void **state)
{
    terse_group *handles[MOST];
    (void)state;
    for (int i = 0; i < SIZES; i++) {
        open_handles(sizes[i], handles);
        for (unsigned c = 0; c < all_checks_count; c++) {
            const char *const bad = crew_run(handles, sizes[i], all_checks[c].run);
            if (bad)
                fail_msg("%u workers, %s: %s", (unsigned)sizes[i], all_checks[c].name, bad);
        }
        close_handles(sizes[i], handles);
    }
}

/* ---- a barrier holds everybody until the last has come ---- */

static atomic_uint arrivals;

static const char *arrive(terse_group *handle)
{
    const unsigned workers = terse_group_workers(handle);
    for (unsigned turn = 1; turn <= 20; turn++) {
        atomic_fetch_add(&arrivals, 1);
        if (terse_group_barrier(handle, NULL) != TERSE_OK)
            return "barrier failed";
        if (atomic_load(&arrivals) < turn * workers)
            return "left before all had come";
        if (terse_group_barrier(handle, NULL) != TERSE_OK)
            return "barrier failed";
    }
    return NULL;
}

static void barrier_holds(void **state)
{
    terse_group *handles[MOST];
    (void)state;
    for (int i = 0; i < SIZES; i++) {
        atomic_store(&arrivals, 0);
        open_handles(sizes[i], handles);
        assert_null(crew_run(handles, sizes[i], arrive));
        close_handles(sizes[i], handles);
    }
}

/* ---- one thread drives all ---- */

static void one_thread_alltoallv(void **state)
{
    enum { LEN = 1500 };
    terse_group *handles[MOST];
    (void)state;
    for (int i = 0; i < SIZES; i++) {
        const uint32_t workers = sizes[i];
        terse_request requests[MOST];
        uint8_t *const said = malloc((size_t)workers * LEN);
        uint8_t *const heard = calloc((size_t)workers * workers, LEN);
        assert_true(said && heard);
        open_handles(workers, handles);
        for (uint32_t r = 0; r < workers; r++) {
            void *recv_at[MOST];
            size_t recv_len[MOST];
            memset(said + r * LEN, (int)(r + 1), LEN);
            for (uint32_t s = 0; s < workers; s++) {
                recv_at[s] = heard + ((size_t)r * workers + s) * LEN;
                recv_len[s] = LEN;
            }
            assert_int_equal(terse_group_post_allgatherv(handles[r], said + r * LEN, LEN, recv_at,
                                                         recv_len, &requests[r], NULL),
                             TERSE_OK);
        }
        for (uint32_t r = workers; r-- > 0;)
            assert_int_equal(terse_group_wait(handles[r], requests[r], NULL), TERSE_OK);
        for (uint32_t r = 0; r < workers; r++)
            assert_memory_equal(heard + (size_t)r * workers * LEN, said, workers * LEN);
        close_handles(workers, handles);
        free(said);
        free(heard);
    }
}

static void one_thread_tests(void **state)
{
    terse_group *handles[4];
    terse_request requests[4];
    uint8_t big[4][40000]; /* together too much to be copied by post */
    int done = 1;
    (void)state;
    open_handles(4, handles);
    memset(big, 0, sizeof big);
    memset(big[2], 9, sizeof big[2]);
    for (uint32_t r = 0; r < 4; r++) {
        if (r == 3) /* not before all have posted */
            assert_int_equal(terse_group_test(handles[0], requests[0], &done, NULL), TERSE_OK);
        assert_int_equal(
            terse_group_post_broadcast(handles[r], 2, big[r], sizeof big[r], &requests[r], NULL),
            TERSE_OK);
    }
    assert_int_equal(done, 0);
    for (uint32_t r = 0; r < 4; r++) {
        done = 0;
        for (int tries = 0; !done; tries++) {
            assert_true(tries < 4); /* each test serves a receiver */
            assert_int_equal(terse_group_test(handles[r], requests[r], &done, NULL), TERSE_OK);
        }
        assert_memory_equal(big[r], big[2], sizeof big[r]);
    }
    close_handles(4, handles);
}

static void one_thread_sums(void **state)
{
    enum { COUNT = 1003 };
    terse_group *handles[MOST];
    static float floats[MOST][COUNT];
    static float scratch[MOST][COUNT + 16 * MOST];
    (void)state;
    for (int i = 0; i < SIZES; i++) {
        const uint32_t workers = sizes[i];
        terse_allreduce sums[MOST];
        float expected[COUNT];
        open_handles(workers, handles);
        for (uint32_t r = 0; r < workers; r++) {
            fill_floats(floats[r], COUNT, r);
            for (int j = 0; j < COUNT; j++)
                expected[j] = r ? expected[j] + floats[r][j] : floats[r][j];
        }
        assert_true(terse_group_allreduce_scratch(handles[0], COUNT) <= COUNT + 16 * MOST);
        for (uint32_t r = 0; r < workers; r++)
            assert_int_equal(terse_group_allreduce_post(handles[r], floats[r], COUNT, scratch[r],
                                                        &sums[r], NULL),
                             0);
        for (uint32_t r = 0; r < workers; r++)
            assert_int_equal(terse_group_allreduce_advance(handles[r], &sums[r], NULL), TERSE_OK);
        for (uint32_t r = 0; r < workers; r++)
            assert_int_equal(terse_group_allreduce_wait(handles[r], &sums[r], NULL), TERSE_OK);
        for (uint32_t r = 0; r < workers; r++)
            assert_memory_equal(floats[r], expected, sizeof expected);
        close_handles(workers, handles);
    }
}

/* ---- resources ---- */

static void many_rounds(void **state)
{
    (void)state;
    for (int i = 0; i < 1000; i++) {
        terse_group *handles[3];
        terse_allreduce sums[3];
        float floats[3][40];
        float scratch[3][64];
        open_handles(3, handles);
        for (uint32_t r = 0; r < 3; r++) {
            fill_floats(floats[r], 40, r);
            assert_int_equal(
                terse_group_allreduce_post(handles[r], floats[r], 40, scratch[r], &sums[r], NULL),
                0);
        }
        for (uint32_t r = 0; r < 3; r++)
            assert_int_equal(terse_group_allreduce_advance(handles[r], &sums[r], NULL), TERSE_OK);
        if (i % 2) /* every other time without waiting for the end */
            for (uint32_t r = 0; r < 3; r++)
                assert_int_equal(terse_group_allreduce_wait(handles[r], &sums[r], NULL), TERSE_OK);
        close_handles(3, handles);
    }
}

static double cpu_seconds(void)
{
    struct timespec now;
    assert_int_equal(clock_gettime(CLOCK_PROCESS_CPUTIME_ID, &now), 0);
    return (double)now.tv_sec + (double)now.tv_nsec * 1e-9;
}

static const char *last_one_sleeps(terse_group *handle)
{
    if (terse_group_rank(handle) + 1 == terse_group_workers(handle))
        (void)usleep(400000);
    return terse_group_barrier(handle, NULL) == TERSE_OK ? NULL : "barrier failed";
}

static void waiting_costs_nothing(void **state)
{
    terse_group *handles[16];
    (void)state;
    open_handles(16, handles);
    const double before = cpu_seconds();
    assert_null(crew_run(handles, 16, last_one_sleeps));
    assert_true(cpu_seconds() - before < 0.2); /* 15 threads wait 0.4 s each */
    close_handles(16, handles);
}

static void sizes_are_checked(void **state)
{
    terse_group *handles[MOST + 1];
    (void)state;
    assert_int_equal(terse_group_local(0, handles), TERSE_BAD_ARGUMENT);
    assert_int_equal(terse_group_local(MOST + 1, handles), TERSE_BAD_ARGUMENT);
    assert_int_equal(terse_group_local(2, NULL), TERSE_BAD_ARGUMENT);
    terse_group_destroy(NULL);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(threads_do_every_check), cmocka_unit_test(barrier_holds),
        cmocka_unit_test(one_thread_alltoallv),   cmocka_unit_test(one_thread_tests),
        cmocka_unit_test(one_thread_sums),        cmocka_unit_test(many_rounds),
        cmocka_unit_test(waiting_costs_nothing),  cmocka_unit_test(sizes_are_checked),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
