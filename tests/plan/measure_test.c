/* The link of a group that is measured: threads of this process, whose link is memory. */
#include <math.h>
#include <pthread.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdint.h>
#include <string.h>
#include <time.h>

#include <cmocka.h>

#include "plan/plan.h"

enum { WORKERS = 3 };

struct worker {
    terse_group *group;
    struct pln_measured measured;
    terse_status status;
    terse_fault fault;
};

static void *measure(void *context)
{
    struct worker *const worker = context;
    worker->status = pln_measure(worker->group, &worker->measured, &worker->fault);
    return NULL;
}

static void ranks_measure_the_same(void **state)
{
    terse_group *groups[WORKERS];
    struct worker workers[WORKERS];
    pthread_t threads[WORKERS];
    (void)state;
    assert_int_equal(terse_group_local(WORKERS, groups), TERSE_OK);
    for (int i = 0; i < WORKERS; i++) {
        workers[i] = (struct worker){.group = groups[i]};
        assert_int_equal(pthread_create(&threads[i], NULL, measure, &workers[i]), 0);
    }
    for (int i = 0; i < WORKERS; i++)
        (void)pthread_join(threads[i], NULL);
    for (int i = 0; i < WORKERS; i++) {
        const struct pln_measured *const measured = &workers[i].measured;
        assert_int_equal(workers[i].status, TERSE_OK);
        assert_memory_equal(measured, &workers[0].measured, sizeof *measured);
        assert_true(measured->latency > 0 && measured->latency < 1);
        assert_true(measured->one_way > 1e7 && measured->one_way < 1e13);
        assert_true(measured->both_way > 1e7 && measured->both_way < 1e13);
        assert_true(measured->loaded > 1e7 && measured->loaded < 1e13);
        terse_group_destroy(groups[i]);
    }
}

/* A group whose link is slow and has a burst: the engine of another group, and whoever has sent
 * waits until a token bucket would have let it out. */
struct slow_link {
    terse_group *inner;
    double seconds_per_byte;
    double burst;
    double full; /* the bucket is, from then on */
    double out[TERSE_MAX_REQUESTS];
    terse_request request[TERSE_MAX_REQUESTS];
    terse_fault fault;
};

static double now(void)
{
    struct timespec time;
    (void)clock_gettime(CLOCK_MONOTONIC, &time);
    return (double)time.tv_sec + 1e-9 * (double)time.tv_nsec;
}

static terse_status slow_post(void *context, uint32_t slot, const terse_alltoallv *alltoallv,
                              int32_t *rank)
{
    struct slow_link *const link = context;
    size_t bytes = 0;
    for (uint32_t r = 0; r < terse_group_workers(link->inner); r++)
        bytes += alltoallv->send_len[r];
    link->full = fmax(link->full, now()) + (double)bytes * link->seconds_per_byte;
    link->out[slot] = bytes > 0 ? link->full - link->burst : 0;
    const terse_status status =
        terse_group_post_alltoallv(link->inner, alltoallv, &link->request[slot], &link->fault);
    *rank = link->fault.rank;
    return status;
}

static terse_status slow_wait(void *context, uint32_t slot, uint64_t nanoseconds, int32_t *rank)
{
    struct slow_link *const link = context;
    const double left = link->out[slot] - now();
    (void)nanoseconds;
    if (left > 0) {
        const struct timespec pause = {(time_t)left, (long)(1e9 * (left - floor(left)))};
        (void)nanosleep(&pause, NULL);
    }
    const terse_status status = terse_group_wait(link->inner, link->request[slot], &link->fault);
    *rank = link->fault.rank;
    return status;
}

static terse_status slow_test(void *context, uint32_t slot, int *done, int32_t *rank)
{
    struct slow_link *const link = context;
    *done = 0;
    if (now() < link->out[slot])
        return TERSE_OK;
    const terse_status status =
        terse_group_test(link->inner, link->request[slot], done, &link->fault);
    *rank = link->fault.rank;
    return status;
}

static void measure_slow_links(double burst, struct pln_measured *out)
{
    static const terse_group_ops ops = {
        .size = sizeof ops, .post = slow_post, .test = slow_test, .wait = slow_wait};
    terse_group *groups[2];
    struct slow_link links[2];
    struct worker workers[2];
    pthread_t threads[2];
    assert_int_equal(terse_group_local(2, groups), TERSE_OK);
    for (uint32_t i = 0; i < 2; i++) {
        links[i] =
            (struct slow_link){.inner = groups[i], .seconds_per_byte = 8 / 2e7, .burst = burst};
        workers[i] = (struct worker){0};
        assert_int_equal(terse_group_callbacks(&ops, &links[i], i, 2, &workers[i].group), TERSE_OK);
        assert_int_equal(pthread_create(&threads[i], NULL, measure, &workers[i]), 0);
    }
    for (int i = 0; i < 2; i++)
        (void)pthread_join(threads[i], NULL);
    for (int i = 0; i < 2; i++) {
        assert_int_equal(workers[i].status, TERSE_OK);
        terse_group_destroy(workers[i].group);
        terse_group_destroy(groups[i]);
    }
    *out = workers[0].measured;
}

/* 20 Mbit/s, ahead of that by 20 ms or not at all; bounds for a machine that is busy. */
static void a_burst_is_measured(void **state)
{
    struct pln_measured measured;
    (void)state;
    measure_slow_links(0.02, &measured);
    assert_true(measured.one_way > 1.4e7 && measured.one_way < 2.4e7);
    if (!(measured.burst > 0.01 && measured.burst < 0.03))
        fail_msg("a burst of 20 ms was measured as %.1f ms", 1e3 * measured.burst);
    measure_slow_links(0, &measured);
    if (!(measured.burst < 0.003))
        fail_msg("no burst was measured as %.1f ms", 1e3 * measured.burst);
}

static void one_rank_has_no_link(void **state)
{
    struct worker worker = {0};
    (void)state;
    assert_int_equal(terse_group_local(1, &worker.group), TERSE_OK);
    (void)measure(&worker);
    assert_int_equal(worker.status, TERSE_BAD_ARGUMENT);
    assert_non_null(strstr(worker.fault.text, "mpirun -n 2"));
    terse_group_destroy(worker.group);
}

/* A peer that leaves is named; nobody waits for ever. */
static void a_lost_rank_is_named(void **state)
{
    terse_group *groups[2];
    struct worker worker;
    (void)state;
    assert_int_equal(terse_group_local(2, groups), TERSE_OK);
    worker = (struct worker){.group = groups[0]};
    terse_group_destroy(groups[1]);
    (void)measure(&worker);
    assert_int_equal(worker.status, TERSE_PEER_LOST);
    assert_int_equal(worker.fault.rank, 1);
    terse_group_destroy(groups[0]);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(ranks_measure_the_same),
        cmocka_unit_test(a_burst_is_measured),
        cmocka_unit_test(one_rank_has_no_link),
        cmocka_unit_test(a_lost_rank_is_named),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
