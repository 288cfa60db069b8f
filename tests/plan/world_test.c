/* The world of a recording: how many ranks work at the same time. */
#include <setjmp.h>
#include <stdarg.h>
#include <stdatomic.h>
#include <stddef.h>
#include <stdint.h>
#include <time.h>

#include <cmocka.h>

#include "plan/record.h"

struct turn {
    struct pln_member member;
    pthread_barrier_t *both;
    atomic_int *at_work; /* ranks between two calls of the engine */
    atomic_int *most;
};

static void *work_at_once(void *context)
{
    struct turn *const turn = context;
    const struct timespec a_while = {.tv_nsec = 20000000};
    terse_group *group = NULL;
    if (pln_member_enter(&turn->member, &group) != TERSE_OK)
        return NULL;
    if (atomic_fetch_add(turn->at_work, 1) > 0)
        atomic_store(turn->most, 2);
    (void)nanosleep(&a_while, NULL);
    if (turn->both)
        (void)pthread_barrier_wait(turn->both); /* comes back if both work at the same time */
    (void)atomic_fetch_sub(turn->at_work, 1);
    terse_group_destroy(group);
    pln_member_leave(&turn->member, 0);
    return context;
}

/* So that CPU times are those of cores that share the memory, or of a core alone. */
static void so_many_ranks_work_at_once(void **state)
{
    (void)state;
    for (uint32_t at_once = 1; at_once <= 2; at_once++) {
        struct pln_world world;
        struct turn turn[2];
        pthread_barrier_t both;
        pthread_t thread[2];
        atomic_int at_work = 0;
        atomic_int most = 1;
        assert_int_equal(pln_world_create(&world, 2, at_once), TERSE_OK);
        assert_int_equal(pthread_barrier_init(&both, NULL, 2), 0);
        for (uint32_t i = 0; i < 2; i++) {
            turn[i] = (struct turn){.member = {.world = &world, .rank = i},
                                    .both = at_once == 2 ? &both : NULL,
                                    .at_work = &at_work,
                                    .most = &most};
            assert_int_equal(pthread_create(&thread[i], NULL, work_at_once, &turn[i]), 0);
        }
        for (uint32_t i = 0; i < 2; i++) {
            void *done = NULL;
            assert_int_equal(pthread_join(thread[i], &done), 0);
            assert_non_null(done);
        }
        assert_int_equal(atomic_load(&most), at_once);
        (void)pthread_barrier_destroy(&both);
        pln_world_destroy(&world);
    }
}

/* The bytes do not depend on who works at the same time. */
static void a_trace_is_the_same_with_many_at_once(void **state)
{
    static const char *const specs[] = {"dense", "signum", "topk", "dqsgd", "ef:ratio=16"};
    terse_layout *layout = NULL;
    const struct pln_place place = {.bits_per_second = 1e6};
    terse_fault fault = {0};
    (void)state;
    assert_int_equal(pln_layout_parse("96x64,96,17x96,17,10x31x3", &layout, &fault), TERSE_OK);
    for (size_t i = 0; i < sizeof specs / sizeof specs[0]; i++) {
        struct pln_job job = {.spec = specs[i], .workers = 5, .layout = layout, .threads = 1};
        struct pln_cost cost[2];
        for (uint32_t n = 0; n < 2; n++) {
            struct pln_trace *trace = NULL;
            job.at_once = 1 + 3 * n;
            assert_int_equal(pln_record(&job, &trace, &fault), TERSE_OK);
            cost[n] = pln_simulate(trace, &place);
            pln_trace_free(trace);
        }
        assert_true(cost[1].bytes_sent == cost[0].bytes_sent && cost[0].bytes_sent > 0);
    }
    terse_layout_destroy(layout);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(so_many_ranks_work_at_once),
        cmocka_unit_test(a_trace_is_the_same_with_many_at_once),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
