/* The link of a group that is measured: threads of this process, whose link is memory. */
#include <math.h>
#include <pthread.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdint.h>
#include <string.h>

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
        cmocka_unit_test(one_rank_has_no_link),
        cmocka_unit_test(a_lost_rank_is_named),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
