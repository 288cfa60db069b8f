/* Weights that an update would make infinite: the step is skipped on all ranks, weights and state
 * stay as they were. */
#include <math.h>

#include "method/subjects.h"

static const uint32_t crowds[] = {1, 2, 3};

static void fill(struct crew *crew, float gradient)
{
    for (uint32_t r = 0; r < crew->workers; r++)
        for (size_t i = 0; i < crew->count; i++)
            crew->gradient[r][i] = gradient;
}

static int all_finite(const float *floats, size_t count)
{
    int finite = 1;
    for (size_t i = 0; floats && i < count; i++)
        finite &= isfinite(floats[i]) != 0;
    return finite;
}

/* One step of all. 1 if it was skipped: everywhere, for the same reason, without a trace. */
static int skips(struct crew *crew, const char *spec)
{
    const uint64_t before = crew_hash(crew);
    terse_fault fault = {0};
    if (terse_method_step_all(crew->method, (const float *const *)crew->gradient, crew->report,
                              &fault) != TERSE_OK)
        fail_msg("%s: %s", spec, fault.text);
    const terse_status skipped = crew->report[0].exchange.skipped;
    for (uint32_t r = 0; r < crew->workers; r++) {
        if (crew->report[r].exchange.skipped != skipped)
            fail_msg("%s: rank %u does not skip as rank 0 does", spec, r);
        if (!all_finite(crew->weights[r], crew->count))
            fail_msg("%s: rank %u of %u has weights that are not finite", spec, r, crew->workers);
    }
    crew_agrees(crew, spec);
    if (skipped != TERSE_OK && crew_hash(crew) != before)
        fail_msg("%s: a skipped step has left a trace", spec);
    /* lr * wd * x is beyond all floats: where both are inside, a worker finds it in its direction
     */
    if (skipped != TERSE_OK && skipped != TERSE_OUT_OF_RANGE && !strstr(spec, "wd="))
        fail_msg("%s: skipped for '%s'", spec, terse_status_text(skipped));
    return skipped != TERSE_OK;
}

/* Weights near the largest float, 3.403e38, and steps of about 1e37 away from zero. */
static void check(const char *spec, uint32_t workers)
{
    terse_layout *layout = subject_layout();
    const struct crew_plan none = subject_plan(spec, workers, layout);
    const size_t count = (size_t)terse_layout_count(layout);
    float *const start = calloc(count, sizeof *start);
    struct crew_plan plan = none;
    int skipped = 0;
    assert_non_null(start);
    for (size_t i = 0; i < count; i++)
        start[i] = 3.39e38f;
    plan.start = start;
    struct crew crew = crew_new(&plan);
    for (uint32_t r = 0; r < workers; r++)
        assert_int_equal(terse_method_set_lr(crew.method[r], 1e37), TERSE_OK);
    fill(&crew, -1);
    for (int step = 0; step < 60 && !skipped; step++)
        skipped = skips(&crew, spec);
    /* a decay that takes part in the vote draws such weights back, whatever the gradient */
    if (skipped == (strstr(spec, "decay=momentum") != NULL))
        fail_msg("%s, %u workers: the weights %s", spec, workers,
                 skipped ? "overflow" : "never overflow");
    if (!crew_floats(&crew, 0, "residual") && !crew_floats(&crew, 0, "local change")) {
        for (uint32_t r = 0; r < workers; r++)
            assert_int_equal(terse_method_set_lr(crew.method[r], 0), TERSE_OK);
        if (skips(&crew, spec))
            fail_msg("%s, %u workers: a step of length 0 is skipped as well", spec, workers);
    }
    crew_free(&crew);
    free(start);
    terse_layout_destroy(layout);
}

static void every_update_is_skipped(void **unused)
{
    const char *spec;
    (void)unused;
    for (uint32_t s = 0; (spec = subject(s)) != NULL; s++)
        for (size_t c = 0; c < 3; c++)
            check(spec, crowds[c]);
}

/* m is 1e38, 1.9e38, 2.71e38, and would be 3.44e38: large steps are made as long as they are
 * finite. */
static void large_steps_are_made(void **unused)
{
    (void)unused;
    for (size_t c = 0; c < 3; c++) {
        struct crew crew = crew_new(&(struct crew_plan){
            .spec = "dense:lr=0.5,momentum=0.9", .workers = crowds[c], .count = 5000});
        fill(&crew, 1e38f);
        for (int step = 0; step < 6; step++)
            assert_int_equal(skips(&crew, "dense"), step >= 3);
        for (size_t i = 0; i < crew.count; i++)
            assert_true(fabsf(crew.weights[0][i] / 2.805e38f + 1) < 1e-5f);
        crew_free(&crew);
    }
}

/* One element of many, whose sum is finite and whose step is not. */
static void one_element_is_found(void **unused)
{
    static const char *const specs[] = {"dense:lr=100,momentum=0",
                                        "dense:lr=100",
                                        "topk:lr=100,keep=0.01",
                                        "topk:lr=100,momentum=0.5",
                                        "qsgd:lr=100",
                                        "fp16:lr=1000",
                                        "bf16:lr=100",
                                        "topk:lr=100,combine=sparse-allreduce",
                                        "qsgd:lr=100,combine=allgather",
                                        "median:lr=100"};
    (void)unused;
    for (size_t s = 0; s < sizeof specs / sizeof specs[0]; s++)
        for (size_t c = 0; c < 3; c++)
            for (size_t at = 0; at < 5000; at += 4999) {
                struct crew crew = crew_new(
                    &(struct crew_plan){.spec = specs[s], .workers = crowds[c], .count = 5000});
                crew_train(&crew, TEST_NORMAL, 0, 2);
                crew_gradients(&crew, TEST_NORMAL, 2);
                for (uint32_t r = 0; r < crew.workers; r++) {
                    crew.gradient[r][at] = s == 5 ? 6e4f : 3e37f;
                    if (s == 5) /* f16 ends at 65504 */
                        assert_int_equal(terse_method_set_lr(crew.method[r], 1e34), TERSE_OK);
                }
                assert_true(skips(&crew, specs[s]));
                crew_free(&crew);
            }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(every_update_is_skipped),
        cmocka_unit_test(large_steps_are_made),
        cmocka_unit_test(one_element_is_found),
    };
    return cmocka_run_group_tests_name("overflow", tests, NULL, NULL);
}
