/* Specs of methods: errors, what is refused and why, the complete spec. */
#include <math.h>
#include <stdio.h>

#include "method/crew.h"

static terse_status create_with(const char *spec, const terse_method_options *options,
                                terse_fault *fault)
{
    terse_layout *layout = NULL;
    terse_method *method = NULL;
    float weights[10] = {0};
    float *const one = weights;
    assert_int_equal(terse_layout_vector(10, &layout), TERSE_OK);
    const terse_status status =
        terse_method_create_all(spec, 1, layout, &one, options, &method, fault);
    if (status == TERSE_OK)
        terse_method_destroy(method);
    terse_layout_destroy(layout);
    return status;
}

static terse_status create_one(const char *spec, terse_fault *fault)
{
    return create_with(spec, NULL, fault);
}

/* What hands out its aggregate is no optimizer; the fault is of the spec as a whole. */
static void optimizers_hand_out_no_gradient(void **unused)
{
    static const struct {
        const char *spec;
        const char *why;
    } cases[] = {
        {"def", "def is an optimizer of its own"},
        {"qadam", "qadam is an optimizer of its own"},
        {"adam", "adam is an optimizer of its own"},
        {"direction=adam,codec=f32", "composed is an optimizer of its own"},
        {"dense:every=2", "exchanged in every step"},
        {"dense:wd=0.1", "decay belongs to the optimizer"},
        {"topk:reject=yes", "the optimizer takes the step"},
    };
    const terse_method_options options = {.size = sizeof options, .aggregate_out = 1};
    (void)unused;
    for (size_t k = 0; k < sizeof cases / sizeof cases[0]; k++) {
        terse_fault fault = {.offset = 77};
        assert_int_equal(create_with(cases[k].spec, &options, &fault), TERSE_BAD_SPEC);
        assert_int_equal(fault.offset, 0);
        if (!strstr(fault.text, cases[k].why))
            fail_msg("%s: '%s' does not say '%s'", cases[k].spec, fault.text, cases[k].why);
    }
    assert_int_equal(create_with("dense", &options, NULL), TERSE_OK);
}

/* Every key of every method refuses a value with the value, the range and an example; and the
 * example is one. */
static void every_key_has_an_example(void **unused)
{
    terse_method_about method;
    (void)unused;
    for (uint32_t m = 0; terse_method_list(m, &method) == TERSE_OK; m++) {
        terse_option option;
        for (uint32_t i = 0; terse_method_option(m, i, &option) == TERSE_OK; i++) {
            static const char *const wrong[] = {"?", "-1"};
            for (size_t w = 0; w < 2; w++) {
                char spec[128];
                char expected[256];
                terse_fault fault = {0};
                (void)snprintf(spec, sizeof spec, "%s:%s=%s", method.name, option.name, wrong[w]);
                (void)snprintf(expected, sizeof expected, "%s, not '%s'; for example %s=%s",
                               option.range, wrong[w], option.name, option.initial);
                assert_int_equal(terse_method_check(spec, &fault), TERSE_BAD_SPEC);
                if (!strstr(fault.text, expected))
                    fail_msg("%s: '%s' has no '%s'", spec, fault.text, expected);
                (void)snprintf(spec, sizeof spec, "%s:%s=%s", method.name, option.name,
                               option.initial);
                assert_int_equal(terse_method_check(spec, &fault), TERSE_OK);
            }
        }
    }
}

/* Wrong specs are refused with offset and reason, by check and by create alike. */
static void wrong_specs_have_a_reason(void **unused)
{
    static const struct {
        const char *spec;
        uint64_t offset;
        const char *why;
    } cases[] = {
        {"signsdg", 0, "did you mean 'signsgd'"},
        {"regtopk:keeq=0.1", 8, "keep"},
        {"regtopk:keep=2", 13, "0.000001..1"},
        {"def:lambda=0.3,ratio=0", 21, "1..1e9"},
        {"def:lambda=0.3,lambda=0.4", 15, "twice"},
        {"def:", 0, NULL},
        {"def:lr=0.1,", 11, "after the comma"},
        {"def,lr=0.1", 3, "expected ':'"},
        {"regtopk:form=preb", 13, "prev"},
        {"qadam:kg=1.5", 9, "kg is 0|1|2|3|4|5|6|7|8|9|10|11|12|13|14|off, not '1.5'"},
        {"qadam:kg=15", 9, "14|off"},
        {"adam:amsgrad=1", 13, "amsgrad is no|yes, not '1'"},
        {"adam:amsgrad=yes,every=2", 0, "every=1"},
        {"codec=f32,amsgrad=yes", 0, "update=adam"},
        {"qadam:bias=true", 11, "no|yes"},
        {"qadam:bias=yes,rates=theory", 0, "use rates=constant"},
        {"signsgd:lr=nan", 11, "lr"},
        {"", 0, "no method"},
        {"direction=adam", 0, "needs codec=SPEC"},
        {"direction=adan,codec=f32", 10, "did you mean 'adam'"},
        {"codec=f32,update=sdg", 17, "did you mean 'sgd'"},
        {"lr=0.1,codec=topkk", 13, "did you mean 'topk'"},
        {"codec=topk:keep=2", 16, "keep"},
        {"feedback=some,codec=f32", 9, "residual or none"},
    };
    (void)unused;
    for (size_t k = 0; k < sizeof cases / sizeof cases[0]; k++) {
        terse_fault fault = {0};
        terse_fault again = {0};
        const terse_status status = terse_method_check(cases[k].spec, &fault);
        assert_int_equal(create_one(cases[k].spec, &again), status);
        if (!cases[k].why) {
            assert_int_equal(status, TERSE_OK);
            continue;
        }
        assert_string_equal(fault.text, again.text);
        assert_int_equal(fault.offset, again.offset);
        if (status != TERSE_BAD_SPEC || fault.offset != cases[k].offset ||
            !strstr(fault.text, cases[k].why))
            fail_msg("'%s': %s at %u: %s", cases[k].spec, terse_status_text(status),
                     (unsigned)fault.offset, fault.text);
    }
}

static void expect_refused(const char *spec, const char *why)
{
    terse_layout *layout = NULL;
    terse_method *method[2] = {NULL, NULL};
    float weights[2][10] = {{0}};
    float *const both[2] = {weights[0], weights[1]};
    const terse_method_options options = {.size = sizeof options, .steps = 10};
    terse_fault fault = {0};
    assert_int_equal(terse_layout_vector(10, &layout), TERSE_OK);
    const terse_status status =
        terse_method_create_all(spec, 2, layout, both, &options, method, &fault);
    if (status != TERSE_BAD_SPEC || !strstr(fault.text, why))
        fail_msg("%s: %s: '%s', expected '%s'", spec, terse_status_text(status), fault.text, why);
    terse_layout_destroy(layout);
}

/* A residual with an unbiased grid grows without bound. */
static void a_residual_needs_a_contraction(void **unused)
{
    (void)unused;
    expect_refused("qsgd:feedback=residual", "grow without bound");
    expect_refused("dqsgd:feedback=residual", "grow without bound");
    expect_refused("terngrad:feedback=residual", "grow without bound");
    expect_refused("natural:feedback=residual", "grow without bound");
    expect_refused("codec=uniform:bits=4,feedback=residual", "grow without bound");
    expect_refused("direction=adam,codec=natural,feedback=residual", "grow without bound");
}

static void local_steps_are_refused_where_they_make_no_sense(void **unused)
{
    (void)unused;
    expect_refused("signsgd:every=2", "a sign has no magnitude");
    expect_refused("signum:every=10", "a sign has no magnitude");
    expect_refused("qadam:every=2", "moments need gradients");
    expect_refused("codec=sign,combine=vote,every=2", "majority vote");
}

static void a_missing_number_of_steps_is_refused(void **unused)
{
    static const char *const specs[] = {"dense:schedule=cosine", "def:schedule=step", "dqsgd",
                                        "dqsgd:bits=error", "dqsgd:bits=kappa,alpha=0.9"};
    terse_layout *layout = NULL;
    float weights[10] = {0};
    float *const one = weights;
    (void)unused;
    assert_int_equal(terse_layout_vector(10, &layout), TERSE_OK);
    for (size_t s = 0; s < 5; s++) {
        terse_method *method = NULL;
        terse_fault fault = {0};
        assert_int_equal(terse_method_create_all(specs[s], 1, layout, &one, NULL, &method, &fault),
                         TERSE_BAD_SPEC);
        assert_non_null(strstr(fault.text, "number of steps"));
    }
    terse_layout_destroy(layout);
}

/* The complete spec makes the same method, and is its own complete spec. */
static void complete_specs_are_complete(void **unused)
{
    static const char *const more[] = {
        "def:ratio=7,lambda=0.25,lr=0.3,every=4,outer_momentum=0.5,nesterov=yes,min=5,plain=*.bias",
        "direction=momentum,feedback=residual,codec=topk:keep=0.3,values=f16,update=subtract,lr=1",
        "codec=sign:zero=coin,combine=vote,lr=0.001,tie=plus",
        "qadam:kx=0,rates=theory,theta=0.5,shift=3,schedule=sqrt,ramp=4,clip=2,warmup=3",
    };
    terse_method_about about;
    (void)unused;
    for (uint32_t i = 0; i < 4 || terse_method_list(i - 4, &about) == TERSE_OK; i++) {
        const char *const spec = i < 4 ? more[i] : about.name;
        struct crew_plan plan = {.spec = spec, .workers = 2, .count = 30, .steps = 9};
        struct crew first = crew_new(&plan);
        plan.spec = terse_method_spec(first.method[0]);
        struct crew second = crew_new(&plan);
        assert_string_equal(terse_method_spec(first.method[0]),
                            terse_method_spec(second.method[0]));
        assert_string_equal(terse_method_settings(first.method[0]),
                            terse_method_settings(second.method[0]));
        crew_train(&first, TEST_NORMAL, 0, 9);
        crew_train(&second, TEST_NORMAL, 0, 9);
        assert_true(crew_hash(&first) == crew_hash(&second));
        crew_free(&second);
        crew_free(&first);
    }
}

/* Every row has all its texts; every option a default that can be given. */
static void the_table_explains_itself(void **unused)
{
    terse_method_about about;
    uint32_t methods = 0;
    (void)unused;
    for (; terse_method_list(methods, &about) == TERSE_OK; methods++) {
        const char *const texts[] = {about.name,  about.summary,  about.formula,
                                     about.bytes, about.citation, about.verified};
        terse_option option;
        for (size_t t = 0; t < sizeof texts / sizeof texts[0]; t++)
            assert_true(texts[t] && texts[t][0] != '\0');
        for (uint32_t p = 0; p < about.option_count; p++) {
            char spec[128];
            assert_int_equal(terse_method_option(methods, p, &option), TERSE_OK);
            assert_true(option.help && option.range);
            (void)snprintf(spec, sizeof spec, "%s:%s=%s", about.name, option.name, option.initial);
            assert_int_equal(terse_method_check(spec, NULL), TERSE_OK);
        }
        assert_int_equal(terse_method_option(methods, about.option_count, &option),
                         TERSE_BAD_ARGUMENT);
    }
    assert_true(methods >= 19);
}

/* A composed average is Signum's momentum: with a vote on its signs it is Signum, bit for bit. */
static void composed_is_the_same_as_named(void **unused)
{
    static const char *const pairs[][2] = {
        {"signum:lr=0.01,beta=0.8",
         "direction=average,beta=0.8,codec=sign:zero=coin,combine=vote,lr=0.01"},
        {"ef:ratio=9,lr=0.1",
         "direction=momentum,feedback=residual,codec=block:ratio=9,update=subtract,lr=0.1"},
        {"topk:keep=0.1,momentum=0.9", "codec=topk:keep=0.1,feedback=residual,lr=0.1"},
        {"dense:lr=0.1", "codec=f32,lr=0.1"},
    };
    (void)unused;
    for (size_t p = 0; p < sizeof pairs / sizeof pairs[0]; p++) {
        struct crew_plan plan = {.spec = pairs[p][0], .workers = 3, .count = 90};
        struct crew named = crew_new(&plan);
        plan.spec = pairs[p][1];
        struct crew composed = crew_new(&plan);
        crew_train(&named, TEST_NORMAL, 0, 8);
        crew_train(&composed, TEST_NORMAL, 0, 8);
        if (crew_hash(&named) != crew_hash(&composed))
            fail_msg("%s is not %s", pairs[p][1], pairs[p][0]);
        crew_free(&named);
        crew_free(&composed);
    }
}

static void misuse_is_refused(void **unused)
{
    struct crew crew = crew_new(&(struct crew_plan){.spec = "topk", .workers = 2, .count = 9});
    terse_state state;
    terse_fault fault = {0};
    const float *missing[2] = {crew.gradient[0], NULL};
    (void)unused;
    assert_int_equal(terse_method_step(crew.method[0], crew.gradient[0], NULL, &fault),
                     TERSE_BAD_ARGUMENT); /* one thread would wait for itself */
    assert_non_null(strstr(fault.text, "terse_method_step_all"));
    assert_int_equal(terse_method_post(crew.method[0], crew.gradient[0], 0, 1, NULL),
                     TERSE_BAD_ARGUMENT);
    assert_int_equal(terse_method_step(NULL, crew.gradient[0], NULL, NULL), TERSE_BAD_ARGUMENT);
    assert_int_equal(terse_method_state(crew.method[0], 99, &state), TERSE_BAD_ARGUMENT);
    assert_int_equal(terse_method_check(NULL, NULL), TERSE_BAD_ARGUMENT);
    assert_int_equal(terse_method_restored(NULL, NULL), TERSE_BAD_ARGUMENT);
    terse_method_destroy(NULL);
    assert_int_equal(terse_method_step_all(crew.method, missing, NULL, &fault), TERSE_BAD_ARGUMENT);
    assert_non_null(strstr(fault.text, "gradient is NULL"));
    crew_train(&crew, TEST_NORMAL, 0, 2); /* nothing has happened */
    crew_agrees(&crew, "misuse");
    crew_free(&crew);
}

/* ---- learning rates ---- */

static double rate_at(const char *spec, uint64_t step, uint64_t steps)
{
    struct crew crew =
        crew_new(&(struct crew_plan){.spec = spec, .workers = 1, .count = 2, .steps = steps});
    crew_train(&crew, TEST_NORMAL, 0, step + 1);
    const double lr = crew.report[0].lr;
    crew_free(&crew);
    return lr;
}

static void schedules(void **unused)
{
    static const struct {
        const char *spec;
        uint64_t step;
        double lr;
    } cases[] = {
        {"dense:lr=0.5", 70, 0.5},
        {"dense:lr=0.5,schedule=step", 49, 0.5},
        {"dense:lr=0.5,schedule=step", 50, 0.05},
        {"dense:lr=0.5,schedule=step", 75, 0.005},
        {"dense:lr=0.5,schedule=cosine", 0, 0.5},
        {"dense:lr=0.5,schedule=cosine", 50, 0.25},
        {"topk:lr=0.5,schedule=sqrt", 0, 0.5},
        {"topk:lr=0.5,schedule=sqrt", 24, 0.1},
        {"topk:lr=0.5,ramp=10", 0, 0.05},
        {"topk:lr=0.5,ramp=10", 9, 0.5},
        {"ef:lr=0.5,schedule=sqrt,every=8", 15, 0.5 / 3}, /* lr of the round's first step */
    };
    (void)unused;
    for (size_t k = 0; k < sizeof cases / sizeof cases[0]; k++)
        close_to(rate_at(cases[k].spec, cases[k].step, 100), cases[k].lr, 1e-7, cases[k].spec, k);
}

static void a_given_rate_replaces_the_schedule(void **unused)
{
    struct crew crew = crew_new(&(struct crew_plan){
        .spec = "dense:lr=0.5,momentum=0,schedule=sqrt", .workers = 2, .count = 3});
    (void)unused;
    for (uint32_t r = 0; r < 2; r++)
        for (size_t i = 0; i < 3; i++)
            crew.gradient[r][i] = 1;
    for (uint32_t r = 0; r < 2; r++) {
        assert_int_equal(terse_method_set_lr(crew.method[r], 0.25), TERSE_OK);
        assert_int_equal(terse_method_set_lr(crew.method[r], -1), TERSE_BAD_ARGUMENT);
        assert_int_equal(terse_method_set_lr(crew.method[r], NAN), TERSE_BAD_ARGUMENT);
    }
    crew_step(&crew);
    assert_true(crew.weights[0][0] == -0.25f && crew.report[0].lr == 0.25);
    assert_int_equal(terse_method_steps_done(crew.method[0]), 1);
    assert_int_equal(terse_method_workers(crew.method[0]), 2);
    crew_free(&crew);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(wrong_specs_have_a_reason),
        cmocka_unit_test(every_key_has_an_example),
        cmocka_unit_test(optimizers_hand_out_no_gradient),
        cmocka_unit_test(a_residual_needs_a_contraction),
        cmocka_unit_test(local_steps_are_refused_where_they_make_no_sense),
        cmocka_unit_test(a_missing_number_of_steps_is_refused),
        cmocka_unit_test(complete_specs_are_complete),
        cmocka_unit_test(the_table_explains_itself),
        cmocka_unit_test(composed_is_the_same_as_named),
        cmocka_unit_test(misuse_is_refused),
        cmocka_unit_test(schedules),
        cmocka_unit_test(a_given_rate_replaces_the_schedule),
    };
    return cmocka_run_group_tests_name("spec", tests, NULL, NULL);
}
