/* Over every method: saved and restored it continues bit for bit; threads and kernel sets change no
 * bit; later steps allocate nothing, and nothing is left when it is destroyed. */
#include <math.h>
#include <stdio.h>

#include "method/subjects.h"
#include "support/allocations.h"

/* The first of each kind: a local step, an exchange; with warm-up one of both exchanges. */
static void steps_do_not_allocate(void **unused)
{
    terse_layout *const layout = subject_layout();
    const char *spec;
    (void)unused;
    for (uint32_t s = 0; (spec = subject(s)) != NULL; s++) {
        struct crew_plan plan = subject_plan(spec, 3, layout);
        plan.threads = 2;
        plan.measure_every = 2;
        struct crew crew = crew_new(&plan);
        crew_train(&crew, TEST_NORMAL, 0, subject_every(spec) + (strstr(spec, "warmup") ? 5 : 0));
        const long before = test_allocations();
        crew_train(&crew, TEST_NORMAL, 20, 6);
        if (test_allocations() != before)
            fail_msg("%s: %ld allocations in six steps", spec, test_allocations() - before);
        crew_free(&crew);
    }
    terse_layout_destroy(layout);
}

/* What a method allocated is freed with it: the second of two lives leaves no more than the first,
 * after which libraries may keep something. */
static void nothing_is_left_behind(void **unused)
{
    terse_layout *const layout = subject_layout();
    const char *spec;
    (void)unused;
    for (uint32_t s = 0; (spec = subject(s)) != NULL; s++) {
        const struct crew_plan plan = subject_plan(spec, 2, layout);
        long left = 0;
        for (int life = 0; life < 2; life++) {
            const long before = test_blocks();
            struct crew crew = crew_new(&plan);
            crew_train(&crew, TEST_NORMAL, 0, subject_every(spec));
            crew_free(&crew);
            left = test_blocks() - before;
        }
        if (left != 0)
            fail_msg("%s: %ld blocks are not freed", spec, left);
    }
    terse_layout_destroy(layout);
}

/* Parts that say so hold one float for each element, and those alone. */
static void floats_are_one_for_each_element(void **unused)
{
    terse_layout *const layout = subject_layout();
    const char *spec;
    (void)unused;
    for (uint32_t s = 0; (spec = subject(s)) != NULL; s++) {
        const struct crew_plan plan = subject_plan(spec, 2, layout);
        struct crew crew = crew_new(&plan);
        terse_state state;
        for (uint32_t i = 0; terse_method_state(crew.method[1], i, &state) == TERSE_OK; i++)
            if (state.floats != (state.len == crew.count * sizeof(float)))
                fail_msg("%s: %s has %zu bytes, floats is %u", spec, state.name, state.len,
                         state.floats);
        crew_free(&crew);
    }
    terse_layout_destroy(layout);
}

/* After `at` steps, also in the middle of a round of local ones, all state is copied to a new crew.
 */
static void expect_resumed(const char *spec, const terse_layout *layout, uint32_t workers,
                           uint64_t at)
{
    struct crew_plan plan = subject_plan(spec, workers, layout);
    struct crew crew = crew_new(&plan);
    crew_train(&crew, TEST_NORMAL, 0, at);
    struct crew fresh = crew_new(&plan);
    crew_copy(&crew, &fresh);
    for (uint64_t step = at; step < at + 5; step++) {
        for (uint32_t r = 0; r < workers; r++)
            if (!test_same_bits(terse_method_point(crew.method[r]),
                                terse_method_point(fresh.method[r]), crew.count))
                fail_msg("%s, %u workers: resumed after %u, another point before step %u", spec,
                         workers, (unsigned)at, (unsigned)step);
        crew_train(&crew, TEST_NORMAL, step, 1);
        crew_train(&fresh, TEST_NORMAL, step, 1);
        if (crew_hash(&crew) != crew_hash(&fresh))
            fail_msg("%s, %u workers: resumed after %u, other bits in step %u", spec, workers,
                     (unsigned)at, (unsigned)step);
    }
    crew_free(&crew);
    crew_free(&fresh);
}

static void a_restored_method_continues(void **unused)
{
    terse_layout *const layout = subject_layout();
    const char *spec;
    (void)unused;
    for (uint32_t s = 0; (spec = subject(s)) != NULL; s++) {
        expect_resumed(spec, layout, 1, 4);
        expect_resumed(spec, layout, 3, 1);
        expect_resumed(spec, layout, 3, 4);
        expect_resumed(spec, layout, 2, 6);
    }
    terse_layout_destroy(layout);
}

/* A rate that was set is part of the state. */
static void a_given_rate_is_saved(void **unused)
{
    struct crew_plan plan = subject_plan("ef:schedule=cosine", 2, NULL);
    plan.count = 64;
    struct crew crew = crew_new(&plan);
    struct crew fresh = crew_new(&plan);
    (void)unused;
    for (uint32_t r = 0; r < 2; r++)
        assert_int_equal(terse_method_set_lr(crew.method[r], 0.125), TERSE_OK);
    crew_train(&crew, TEST_NORMAL, 0, 2);
    crew_copy(&crew, &fresh);
    crew_train(&fresh, TEST_NORMAL, 2, 1);
    assert_true(fresh.report[0].lr == 0.125);
    crew_free(&crew);
    crew_free(&fresh);
}

/* A damaged posterior is dropped and not used. */
static void a_damaged_list_is_dropped(void **unused)
{
    struct crew_plan plan = subject_plan("regtopk:keep=0.1", 2, NULL);
    plan.count = 100;
    struct crew crew = crew_new(&plan);
    (void)unused;
    crew_train(&crew, TEST_NORMAL, 0, 2);
    for (uint64_t damage = 0; damage < 4; damage++) {
        const terse_state index = crew_state(&crew, 0, "sent index");
        const uint64_t bad[4] = {UINT64_MAX, 100, 0, 99};
        uint64_t *const at = index.bytes;
        at[1] = bad[damage];
        if (damage == 3) {
            const uint64_t many = UINT64_MAX;
            memcpy(crew_state(&crew, 0, "sent count").bytes, &many, sizeof many);
        }
        for (uint32_t r = 0; r < 2; r++)
            assert_int_equal(terse_method_restored(crew.method[r], NULL), TERSE_OK);
        crew_train(&crew, TEST_NORMAL, damage + 2, 1);
        crew_agrees(&crew, "after damage");
    }
    crew_free(&crew);
}

/* ---- threads and kernel sets ---- */

enum { RUNS = 2 };

/* Gradients are generated once: they are the expensive part. */
static uint64_t hash_with(const struct crew *gradients, const char *spec, uint32_t threads)
{
    struct crew_plan plan = subject_plan(spec, 2, gradients[0].layout);
    plan.threads = threads;
    struct crew crew = crew_new(&plan);
    for (int step = 0; step < RUNS; step++) {
        for (uint32_t r = 0; r < 2; r++)
            memcpy(crew.gradient[r], gradients[step].gradient[r], crew.count * sizeof(float));
        crew_step(&crew);
    }
    const uint64_t hash = crew_hash(&crew);
    crew_free(&crew);
    return hash;
}

/* Tensors of more than a chunk, so that threads have something to share. */
static void threads_and_kernel_sets_change_nothing(void **unused)
{
    struct crew gradients[RUNS];
    terse_layout *const layout = test_layout(500);
    const char *spec;
    (void)unused;
    for (int step = 0; step < RUNS; step++) {
        const struct crew_plan plan = subject_plan("dense", 2, layout);
        gradients[step] = crew_new(&plan);
        crew_gradients(&gradients[step], step == 1 ? TEST_HEAVY : TEST_NORMAL, (uint64_t)step);
    }
    for (uint32_t s = 0; (spec = subject(s)) != NULL; s++) {
        terse_kernel_set_about set;
        assert_int_equal(terse_kernel_set_select(NULL, NULL), TERSE_OK);
        const uint64_t right = hash_with(gradients, spec, 1);
        if (hash_with(gradients, spec, 2) != right)
            fail_msg("%s, 2 threads: other bits", spec);
        for (uint32_t l = 0; terse_kernel_set_list(l, &set) == TERSE_OK; l++) {
            if (!set.supported)
                continue;
            assert_int_equal(terse_kernel_set_select(set.name, NULL), TERSE_OK);
            if (hash_with(gradients, spec, 1) != right)
                fail_msg("%s, kernel set %s: other bits", spec, set.name);
        }
    }
    assert_int_equal(terse_kernel_set_select(NULL, NULL), TERSE_OK);
    for (int step = 0; step < RUNS; step++)
        crew_free(&gradients[step]);
    terse_layout_destroy(layout);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_the_counter_counts),
        cmocka_unit_test(steps_do_not_allocate),
        cmocka_unit_test(nothing_is_left_behind),
        cmocka_unit_test(floats_are_one_for_each_element),
        cmocka_unit_test(a_restored_method_continues),
        cmocka_unit_test(a_given_rate_is_saved),
        cmocka_unit_test(a_damaged_list_is_dropped),
        cmocka_unit_test(threads_and_kernel_sets_change_nothing),
    };
    return cmocka_run_group_tests_name("resume", tests, NULL, NULL);
}
