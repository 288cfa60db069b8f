/* One suite over every method: what all of them promise. */
#include <math.h>
#include <stdio.h>

#include "method/subjects.h"

static const uint32_t crowds[] = {1, 2, 3, 8};

static float *start_of(size_t count)
{
    struct test_random random = {test_seed() * 13 + 5};
    float *const start = test_floats(count);
    test_fill(&random, TEST_NORMAL, start, count);
    return start;
}

static void expect_finite(const struct crew *crew, const char *spec)
{
    for (size_t i = 0; i < crew->count; i++)
        if (!isfinite(crew->weights[0][i]))
            fail_msg("%s, %u workers: weight %zu is not finite", spec, crew->workers, i);
}

/* Shared parts of the state are equal on all workers, like the weights. */
static void shares(const struct crew *crew, const char *spec)
{
    terse_state first;
    terse_state other;
    crew_agrees(crew, spec);
    for (uint32_t i = 0; terse_method_state(crew->method[0], i, &first) == TERSE_OK; i++) {
        for (uint32_t r = 1; r < crew->workers && first.kind == TERSE_STATE_SHARED; r++) {
            assert_int_equal(terse_method_state(crew->method[r], i, &other), TERSE_OK);
            if (first.len != other.len || memcmp(first.bytes, other.bytes, first.len) != 0)
                fail_msg("%s: '%s' differs between workers", spec, first.name);
        }
    }
}

static void everybody_holds_the_same_weights(void **unused)
{
    terse_layout *const layout = subject_layout();
    float *const start = start_of((size_t)terse_layout_count(layout));
    const char *spec;
    (void)unused;
    for (uint32_t s = 0; (spec = subject(s)) != NULL; s++) {
        for (size_t c = 0; c < 4; c++) {
            struct crew_plan plan = subject_plan(spec, crowds[c], layout);
            plan.start = start;
            struct crew crew = crew_new(&plan);
            for (uint64_t step = 0; step < 9; step++) {
                crew_gradients(&crew, (enum test_kind)(step % TEST_KINDS), step);
                crew_step(&crew);
                shares(&crew, spec);
            }
            expect_finite(&crew, spec);
            crew_free(&crew);
        }
    }
    free(start);
    terse_layout_destroy(layout);
}

/* ---- conservation ---- */

/* Without momentum and decay, x - unit * (mean e + the owners' residuals) moves by exactly
 * -lr * mean g, whatever was encoded: over all steps, in double. */
static void expect_conserved(const char *spec, double lr, int inside, uint32_t workers)
{
    terse_layout *const layout = subject_layout();
    const struct crew_plan plan = subject_plan(spec, workers, layout);
    struct crew crew = crew_new(&plan);
    double *const ahead = test_alloc(crew.count * sizeof(double));
    const double unit = inside ? 1 : lr;
    for (uint64_t step = 0; step < 24; step++) {
        crew_gradients(&crew, TEST_NORMAL, step);
        crew_step(&crew);
        for (size_t i = 0; i < crew.count; i++)
            ahead[i] -= lr * crew_mean(&crew, NULL, i);
        for (size_t i = 0; i < crew.count && crew.report[0].exchanged; i++) {
            const double kept =
                crew_mean(&crew, "residual", i) + crew_sum(&crew, "owner residual", i);
            close_to((double)crew.weights[0][i] - unit * kept, ahead[i], 2e-4, spec, i);
        }
    }
    free(ahead);
    crew_free(&crew);
    terse_layout_destroy(layout);
}

static void nothing_is_lost(void **unused)
{
    static const struct {
        const char *spec;
        double lr;
        int inside; /* the residual includes lr */
    } cases[] = {
        {"ef:lr=0.1,ratio=9,momentum=0", 0.1, 1},
        {"def:lr=0.1,ratio=9,momentum=0", 0.1, 1},
        {"saef:lr=0.1,ratio=9,momentum=0,every=3", 0.1, 1},
        {"def-a:lr=0.1,ratio=9,momentum=0,warmup=5", 0.1, 1},
        {"ef-sign:lr=0.1", 0.1, 1},
        {"ef-sign:lr=0.1,combine=parameter-server,every=2", 0.1, 1},
        {"ef-sign:lr=0.1,warmup=5,min=50", 0.1, 1},
        {"topk:lr=0.1,keep=0.05", 0.1, 0},
        {"topk:lr=0.1,keep=0.05,values=f16", 0.1, 0},
        {"topk:lr=0.1,keep=0.05,combine=sparse-allreduce", 0.1, 0},
        {"topk:lr=0.1,keep=0.05,combine=shard", 0.1, 0},
        {"topk:lr=0.1,keep=0.05,min=100,plain=tail", 0.1, 0},
        {"topk:lr=0.1,keep=0.05,every=3", 0.1, 1},
        {"regtopk:lr=0.1,keep=0.05", 0.1, 0},
        {"regtopk:lr=0.1,keep=0.05,warmup=5", 0.1, 0},
        {"regtopk:lr=0.1,keep=0.05,every=2", 0.1, 1},
        {"powersgd:lr=0.1,momentum=0,rank=2", 0.1, 0},
        {"powersgd:lr=0.1,momentum=0,rank=2,every=4", 0.1, 1},
        {"dense:lr=0.1,momentum=0", 0.1, 0},
        {"dense:lr=0.1,momentum=0,every=3", 0.1, 1},
        {"codec=log,feedback=residual,lr=0.1,momentum=0", 0.1, 0},
        {"codec=f16,feedback=residual,lr=0.1,momentum=0", 0.1, 0},
        {"codec=low-rank,feedback=residual,lr=0.1,momentum=0,update=subtract", 0.1, 1},
        {"codec=topk:keep=0.1,feedback=residual,lr=0.1,momentum=0,every=6,outer_lr=1", 0.1, 1},
    };
    (void)unused;
    for (size_t k = 0; k < sizeof cases / sizeof cases[0]; k++)
        for (size_t c = 0; c < 4; c++)
            expect_conserved(cases[k].spec, cases[k].lr, cases[k].inside, crowds[c]);
}

/* ---- laws ---- */

/* Not RegTop-k: 1 + Delta = G / (w a_prev) is K where K workers agree. */
static void identical_workers_are_one(void **unused)
{
    static const char *const specs[] = {
        "dense",
        "median",
        "adam",
        "bf16",
        "fp16",
        "topk:keep=0.05",
        "ef:ratio=8",
        "def:ratio=8",
        "saef:ratio=8,every=2",
        "powersgd:rank=2",
        "ef-sign:combine=parameter-server",
        "signum",
        "codec=log,feedback=residual",
        "dense:clip=1,warmup=3",
    };
    terse_layout *const layout = subject_layout();
    (void)unused;
    for (size_t s = 0; s < sizeof specs / sizeof specs[0]; s++) {
        for (uint32_t workers = 2; workers <= 4; workers *= 2) {
            const struct crew_plan lonely = subject_plan(specs[s], 1, layout);
            const struct crew_plan many = subject_plan(specs[s], workers, layout);
            struct crew one = crew_new(&lonely);
            struct crew all = crew_new(&many);
            for (uint64_t step = 0; step < 8; step++) {
                crew_gradients(&one, TEST_NORMAL, step);
                for (uint32_t r = 0; r < workers; r++)
                    memcpy(all.gradient[r], one.gradient[0], one.count * sizeof(float));
                crew_step(&one);
                crew_step(&all);
                if (!test_same_bits(one.weights[0], all.weights[0], one.count))
                    fail_msg("%s: %u equal workers are not one, step %u", specs[s], workers,
                             (unsigned)step);
            }
            crew_free(&one);
            crew_free(&all);
        }
    }
    terse_layout_destroy(layout);
}

/* From weights 0 and without decay, gradients four times as large move weights four times as far:
 * powers of two round nothing. */
static void scale_laws(void **unused)
{
    static const char *const specs[] = {
        "dense",
        "median",
        "bf16",
        "topk:keep=0.05,momentum=0.9",
        "regtopk:keep=0.05",
        "ef:ratio=8",
        "def:ratio=8",
        "saef:ratio=8,every=2",
        "ef-sign",
        "qsgd",
        "qsgd:norm=2,combine=allgather",
        "terngrad",
        "natural",
        "codec=log,feedback=residual",
        "dense:every=3,outer_momentum=0.5",
    };
    terse_layout *const layout = subject_layout();
    (void)unused;
    for (size_t s = 0; s < sizeof specs / sizeof specs[0]; s++) {
        const struct crew_plan plan = subject_plan(specs[s], 3, layout);
        struct crew one = crew_new(&plan);
        struct crew four = crew_new(&plan);
        for (uint64_t step = 0; step < 6; step++) {
            crew_gradients(&one, TEST_NORMAL, step);
            for (uint32_t r = 0; r < 3; r++)
                for (size_t i = 0; i < one.count; i++)
                    four.gradient[r][i] = 4 * one.gradient[r][i];
            crew_step(&one);
            crew_step(&four);
        }
        for (size_t i = 0; i < one.count; i++)
            if (four.weights[0][i] != 4 * one.weights[0][i])
                fail_msg("%s: element %zu: %.9g is not four times %.9g", specs[s], i,
                         (double)four.weights[0][i], (double)one.weights[0][i]);
        crew_free(&one);
        crew_free(&four);
    }
    terse_layout_destroy(layout);
}

/* ---- awkward sizes and gradients ---- */

static void nothing_and_one(void **unused)
{
    const char *spec;
    (void)unused;
    for (uint32_t s = 0; (spec = subject(s)) != NULL; s++) {
        for (size_t c = 0; c < 4; c++) {
            for (size_t count = 0; count < 3; count++) {
                struct crew_plan plan = subject_plan(spec, crowds[c], NULL);
                plan.count = count;
                struct crew crew = crew_new(&plan);
                crew_train(&crew, TEST_NORMAL, 0, 6);
                crew_agrees(&crew, spec);
                expect_finite(&crew, spec);
                crew_free(&crew);
            }
        }
    }
}

/* With gradients of zero the weights stay, coins move them by at most lr per step, and no state
 * decays into NaN. */
static void expect_still(const char *spec, uint32_t workers, uint64_t steps)
{
    struct crew_plan plan = subject_plan(spec, workers, NULL);
    float *const start = start_of(5);
    plan.count = 5;
    plan.start = start;
    plan.steps = steps;
    struct crew crew = crew_new(&plan);
    float first[5];
    memcpy(first, crew.weights[0], sizeof first);
    for (uint64_t step = 0; step < steps; step++)
        crew_step(&crew);
    expect_finite(&crew, spec);
    crew_agrees(&crew, spec);
    for (size_t i = 0; i < 5; i++) {
        const float far = fabsf(crew.weights[0][i] - first[i]);
        if (far != 0 && !subject_tosses(spec) && !strstr(spec, "wd="))
            fail_msg("%s: weight %zu has moved by %g", spec, i, (double)far);
    }
    assert_int_equal(terse_method_steps_done(crew.method[0]), steps);
    free(start);
    crew_free(&crew);
}

static void zeros_for_ever(void **unused)
{
    static const char *const longest[] = {"signsgd",    "signum",  "def",  "qadam",
                                          "qadam:kx=0", "regtopk", "adam", "topk"};
    const char *spec;
    (void)unused;
    for (uint32_t s = 0; (spec = subject(s)) != NULL; s++)
        expect_still(spec, 2, 1000);
    for (size_t s = 0; s < sizeof longest / sizeof longest[0]; s++)
        expect_still(longest[s], 1, 100000);
    expect_still("dqsgd", 1, 20000);
}

/* ---- skipping ---- */

/* A gradient that is not finite on one worker: the step is skipped on all, all state is unchanged,
 * and later steps are those of a training without it. */
static void expect_skipped(const char *spec, uint32_t workers, float poison)
{
    terse_layout *const layout = subject_layout();
    const struct crew_plan plan = subject_plan(spec, workers, layout);
    struct crew crew = crew_new(&plan);
    struct crew clean = crew_new(&plan);
    const uint64_t at = 2 * subject_every(spec) - 1; /* an exchange */
    const uint32_t culprit = workers - 1;
    crew_train(&crew, TEST_NORMAL, 0, at);
    crew_train(&clean, TEST_NORMAL, 0, at);
    for (int times = 0; times < 2; times++) {
        const uint64_t before = crew_hash(&crew);
        crew_gradients(&crew, TEST_NORMAL, 900);
        crew.gradient[culprit][crew.count - 1] = poison;
        assert_int_equal(terse_method_step_all(crew.method, (const float *const *)crew.gradient,
                                               crew.report, NULL),
                         TERSE_OK);
        for (uint32_t r = 0; r < workers; r++)
            if (crew.report[r].exchange.skipped != TERSE_NOT_FINITE ||
                crew.report[r].exchange.skipped_by != (int32_t)culprit)
                fail_msg("%s: %u workers: rank %u names another rank as the cause", spec, workers,
                         r);
        if (crew_hash(&crew) != before)
            fail_msg("%s, %u workers: a skipped step has left a trace", spec, workers);
        assert_int_equal(terse_method_steps_done(crew.method[0]), at);
    }
    crew_train(&crew, TEST_NORMAL, at, 4);
    crew_train(&clean, TEST_NORMAL, at, 4);
    if (crew_hash(&crew) != crew_hash(&clean))
        fail_msg("%s, %u workers: other bits after a skipped step", spec, workers);
    crew_free(&crew);
    crew_free(&clean);
    terse_layout_destroy(layout);
}

static void a_nonfinite_gradient_skips_the_step(void **unused)
{
    const char *spec;
    (void)unused;
    for (uint32_t s = 0; (spec = subject(s)) != NULL; s++) {
        expect_skipped(spec, 1, NAN);
        expect_skipped(spec, 3, INFINITY);
    }
}

/* A value outside the range of the codec, or a sum that overflows, is found late: the step is
 * skipped and leaves no trace, bit for bit, and later steps work. (Adam skips such a gradient
 * before it is sent, see qadam_test.c.) */
static void an_overflow_skips_the_step(void **unused)
{
    static const struct {
        const char *spec;
        float large;
    } cases[] = {{"fp16", 1e6f},
                 {"dense", 3e38f},
                 {"qsgd", 3e38f},
                 {"natural", 3e38f},
                 {"dqsgd:bits=rms", 3e38f},
                 {"terngrad", 3e38f},
                 {"bf16", 3e38f},
                 {"topk:keep=0.2", 3e38f},
                 {"regtopk:keep=0.2", 3e38f},
                 {"ef:ratio=1,lr=1", 3e38f},
                 {"def:ratio=1,lr=1", 3e38f},
                 {"powersgd", 3e38f},
                 {"codec=f16,feedback=residual,update=sgd", 1e6f},
                 {"direction=momentum,codec=f16,feedback=none,update=sgd", 1e6f}};
    (void)unused;
    for (size_t k = 0; k < sizeof cases / sizeof cases[0]; k++) {
        struct crew crew =
            crew_new(&(struct crew_plan){.spec = cases[k].spec, .workers = 3, .count = 64});
        crew_train(&crew, TEST_NORMAL, 0, 2);
        const uint64_t before = crew_hash(&crew);
        crew_gradients(&crew, TEST_NORMAL, 2);
        for (uint32_t r = 0; r < 3; r++)
            crew.gradient[r][3] = cases[k].large;
        assert_int_equal(terse_method_step_all(crew.method, (const float *const *)crew.gradient,
                                               crew.report, NULL),
                         TERSE_OK);
        if (crew.report[0].exchange.skipped != TERSE_OUT_OF_RANGE || crew_hash(&crew) != before)
            fail_msg("%s: %s, or a trace", cases[k].spec,
                     terse_status_text(crew.report[0].exchange.skipped));
        crew_train(&crew, TEST_NORMAL, 3, 50);
        crew_agrees(&crew, cases[k].spec);
        for (size_t i = 0; i < 64; i++)
            if (fabsf(crew.weights[0][i]) > 1e7f)
                fail_msg("%s: weight %zu is %g", cases[k].spec, i, (double)crew.weights[0][i]);
        crew_free(&crew);
    }
}

/* In a local step a worker leaves out its own step; the others do not learn of it. */
static void a_nonfinite_gradient_between_exchanges(void **unused)
{
    static const char *const specs[] = {"dense:every=3", "def:ratio=4,every=3", "adam:every=3"};
    (void)unused;
    for (int s = 0; s < 3; s++) {
        struct crew crew =
            crew_new(&(struct crew_plan){.spec = specs[s], .workers = 3, .count = 64});
        crew_train(&crew, TEST_NORMAL, 0, 3);
        float before[64];
        memcpy(before, terse_method_point(crew.method[1]), sizeof before);
        crew_gradients(&crew, TEST_NORMAL, 3);
        crew.gradient[1][60] = NAN;
        assert_int_equal(terse_method_step_all(crew.method, (const float *const *)crew.gradient,
                                               crew.report, NULL),
                         TERSE_OK);
        assert_true(test_same_bits(before, terse_method_point(crew.method[1]), 64));
        assert_int_equal(crew.report[0].exchange.skipped, TERSE_OK);
        assert_int_equal(crew.report[1].exchange.skipped, TERSE_NOT_FINITE);
        assert_int_equal(crew.report[1].exchange.skipped_by, 1);
        crew_train(&crew, TEST_NORMAL, 4, 5);
        crew_agrees(&crew, specs[s]);
        expect_finite(&crew, specs[s]);
        crew_free(&crew);
    }
}

/* For the address sanitizer: a thousand methods created and destroyed must not leak. */
static void a_thousand_lives_leave_nothing(void **unused)
{
    uint32_t s = 0;
    (void)unused;
    for (int life = 0; life < 1000; life++) {
        const char *const spec = subject(s);
        struct crew crew = crew_new(&(struct crew_plan){
            .spec = spec ? spec : "dense", .workers = 2, .count = 64, .steps = 10});
        crew_train(&crew, TEST_NORMAL, 0, 1);
        crew_agrees(&crew, spec ? spec : "dense");
        crew_free(&crew);
        s = spec ? s + 1 : 0;
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_thousand_lives_leave_nothing),
        cmocka_unit_test(everybody_holds_the_same_weights),
        cmocka_unit_test(nothing_is_lost),
        cmocka_unit_test(identical_workers_are_one),
        cmocka_unit_test(scale_laws),
        cmocka_unit_test(nothing_and_one),
        cmocka_unit_test(zeros_for_ever),
        cmocka_unit_test(a_nonfinite_gradient_skips_the_step),
        cmocka_unit_test(an_overflow_skips_the_step),
        cmocka_unit_test(a_nonfinite_gradient_between_exchanges),
    };
    return cmocka_run_group_tests_name("conform", tests, NULL, NULL);
}
