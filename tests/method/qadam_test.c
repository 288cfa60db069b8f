/* Quantized Adam with error feedback against its paper. */
#include <float.h>
#include <math.h>
#include <stdio.h>

#include "method/crew.h"

static const uint32_t crowds[] = {1, 2, 3, 8};

/* With zero gradients from the start m = 0, so u is the residual. */
static struct crew encode(const char *spec, const float *u, size_t count)
{
    struct crew crew = crew_new(&(struct crew_plan){.spec = spec, .workers = 1, .count = count});
    memcpy(crew_floats(&crew, 0, "residual"), u, count * sizeof(float));
    assert_int_equal(terse_method_restored(crew.method[0], NULL), TERSE_OK);
    crew_step(&crew);
    return crew;
}

static void golden_values(void **unused)
{
    static const float u[4] = {.8f, -.32f, .11f, .05f};
    static const double expected[4] = {.8, -.4, .2, 0};
    static const double kept[4] = {0, .08, -.09, .05};
    static const float ties[7] = {1, .75f, .375f, .125f, .76f, .38f, .126f};
    static const float rounded[7] = {1, .5f, .25f, 0, 1, .5f, .25f};
    struct crew crew = encode("qadam:kg=2,kx=0", u, 4);
    (void)unused;
    for (size_t i = 0; i < 4; i++) {
        close_to((double)-crew.weights[0][i], expected[i], 1e-7, "expected", i);
        close_to((double)crew_floats(&crew, 0, "residual")[i], kept[i], 1e-7, "kept", i);
    }
    assert_true(crew_floats(&crew, 0, "residual")[0] == 0); /* the largest is exact */
    crew_free(&crew);
    crew = encode("qadam:kg=2,kx=0", ties, 7);
    for (size_t i = 0; i < 7; i++)
        assert_true(-crew.weights[0][i] == rounded[i]);
    crew_free(&crew);
}

/* ---- against a reference in double ---- */

struct rates {
    const char *spec; /* beside kg and kx */
    int theory;       /* beta2 = 1 - 1/(t+9), lr = .05/sqrt t; else constants */
    int corrected;    /* m / (1 - beta1^t) and v / (1 - beta2^t) */
};

static const struct rates constant = {"lr=0.01,v0=1e-4", 0, 0};
static const struct rates theory = {"lr=0.05,v0=1e-5,rates=theory,theta=1,shift=9,schedule=sqrt", 1,
                                    0};
static const struct rates corrected = {"lr=0.01,v0=1e-4,bias=yes", 0, 1};

/* xt' = xt - mean alpha m_k / sqrt v_k, with xt = x - mean e_k and x in full precision. */
static void check_ahead(const struct rates *rates, const char *grids, uint32_t workers)
{
    enum { N = 60 };
    char spec[200];
    static double m[8][N];
    static double v[8][N];
    double ahead[N] = {0};
    (void)snprintf(spec, sizeof spec, "qadam:%s,%s", rates->spec, grids);
    struct crew crew = crew_new(&(struct crew_plan){.spec = spec, .workers = workers, .count = N});
    const int owned = crew_floats(&crew, 0, "owner weights") != NULL;
    assert_int_equal(crew_floats(&crew, 0, "residual") == NULL, strstr(grids, "kg=off") != NULL);
    for (uint32_t k = 0; k < workers; k++)
        for (size_t i = 0; i < N; i++) {
            m[k][i] = 0;
            v[k][i] = rates->theory ? 1e-5 : 1e-4;
        }
    for (uint64_t step = 0; step < 30; step++) {
        const double t = (double)step + 1;
        const double decay = rates->theory ? 1 - 1 / (t + 9) : 0.999;
        const double lr = rates->theory ? 0.05 / sqrt(t) : 0.01;
        const double of_m = rates->corrected ? 1 - pow(0.9, t) : 1;
        const double of_v = rates->corrected ? 1 - pow(0.999, t) : 1;
        crew_train(&crew, TEST_NORMAL, step, 1);
        crew_agrees(&crew, spec);
        for (size_t i = 0; i < N; i++) {
            for (uint32_t k = 0; k < workers; k++) {
                const double g = (double)crew.gradient[k][i];
                v[k][i] = decay * v[k][i] + (1 - decay) * g * g;
                m[k][i] = 0.9 * m[k][i] + 0.1 * g;
                ahead[i] -= lr * (m[k][i] / of_m) / sqrt(v[k][i] / of_v) / workers;
            }
            const double x =
                owned ? crew_sum(&crew, "owner weights", i) : (double)crew.weights[0][i];
            close_to(x - crew_mean(&crew, "residual", i), ahead[i], 2e-5, spec, i);
        }
    }
    crew_free(&crew);
}

static void nothing_is_lost(void **unused)
{
    (void)unused;
    for (size_t c = 0; c < 4; c++) {
        check_ahead(&constant, "kg=2,kx=0", crowds[c]);
        check_ahead(&constant, "kg=0,kx=4", crowds[c]);
        check_ahead(&constant, "kg=3,kx=8,combine=parameter-server", crowds[c]);
        check_ahead(&theory, "kg=1,kx=0", crowds[c]);
        check_ahead(&theory, "kg=2,kx=6", crowds[c]);
        check_ahead(&corrected, "kg=2,kx=0", crowds[c]);
        check_ahead(&corrected, "kg=1,kx=8", crowds[c]);
        check_ahead(&constant, "kg=off,kx=0", crowds[c]);
        check_ahead(&constant, "kg=off,kx=4", crowds[c]);
        check_ahead(&corrected, "kg=off,kx=2,combine=parameter-server", crowds[c]);
    }
}

/* With both grids the identity (min: every tensor is sent as f32; or off) it is generic Adam, bit
 * for bit. With kg=off alone the owner's weights are. */
static void plain_is_generic_adam(void **unused)
{
    enum { N = 333 };
    static const char *const specs[] = {
        "qadam:lr=0.01,v0=0.0001,kx=0,min=1000", "qadam:lr=0.01,v0=0.0001,kx=6,min=1000",
        "qadam:lr=0.01,v0=0.0001,kx=0,kg=off", "qadam:lr=0.01,v0=0.0001,kx=3,kg=off"};
    (void)unused;
    for (int s = 0; s < 4; s++) {
        float x[N] = {0};
        float m[N] = {0};
        float v[N];
        struct crew crew =
            crew_new(&(struct crew_plan){.spec = specs[s], .workers = 1, .count = N});
        const float beta1 = 0.9f;
        const float beta2 = 0.999f;
        for (size_t i = 0; i < N; i++)
            v[i] = 0.0001f;
        for (uint64_t step = 0; step < 50; step++) {
            crew_train(&crew, TEST_NORMAL, step, 1);
            for (size_t i = 0; i < N; i++) {
                const float g = crew.gradient[0][i];
                v[i] = beta2 * v[i] + (1 - beta2) * (g * g);
                m[i] = beta1 * m[i] + (1 - beta1) * g;
                x[i] -= 0.01f * m[i] / sqrtf(v[i]);
            }
            const float *const owned = crew_floats(&crew, 0, "owner weights");
            const float *const residual = crew_floats(&crew, 0, "residual");
            assert_true(test_same_bits(x, owned ? owned : crew.weights[0], N));
            assert_int_equal(test_same_bits(x, crew.weights[0], N), s < 3);
            assert_int_equal(residual != NULL, s < 2);
            for (size_t i = 0; i < N && residual; i++)
                assert_true(residual[i] == 0);
        }
        crew_free(&crew);
    }
}

/* Two and four equal numbers add up exactly; the sum of eight in rank order is rounded on the way.
 * One server, as in the paper: slices of several owners would have scales of their own. */
static void identical_workers_are_one(void **unused)
{
    static const char *const specs[] = {"qadam:lr=0.01,kx=0",
                                        "qadam:lr=0.01,kx=5,combine=parameter-server"};
    (void)unused;
    for (int s = 0; s < 2; s++) {
        for (uint32_t workers = 2; workers <= (s ? 4 : 8); workers *= 2) {
            struct crew one =
                crew_new(&(struct crew_plan){.spec = specs[s], .workers = 1, .count = 400});
            struct crew all =
                crew_new(&(struct crew_plan){.spec = specs[s], .workers = workers, .count = 400});
            for (uint64_t step = 0; step < 12; step++) {
                crew_gradients(&one, TEST_NORMAL, step);
                for (uint32_t r = 0; r < workers; r++)
                    memcpy(all.gradient[r], one.gradient[0], 400 * sizeof(float));
                crew_step(&one);
                crew_step(&all);
                assert_true(workers == 8 || test_same_bits(one.weights[0], all.weights[0], 400));
                for (size_t i = 0; i < 400; i++)
                    close_to((double)all.weights[0][i], (double)one.weights[0][i], 1e-6, "x", i);
                assert_true(test_same_bits(crew_floats(&one, 0, "residual"),
                                           crew_floats(&all, workers - 1, "residual"), 400));
            }
            crew_free(&one);
            crew_free(&all);
        }
    }
}

/* ---- grids ---- */

/* From weights 0 a step leaves minus the decoded value: s * {0, +-2^-k, ..., +-1}, exactly. */
static void steps_are_on_the_grid(void **unused)
{
    (void)unused;
    for (int kg = 0; kg <= 14; kg++) {
        char spec[64];
        (void)snprintf(spec, sizeof spec, "qadam:lr=0.01,kx=0,kg=%d", kg);
        struct crew crew = crew_new(&(struct crew_plan){.spec = spec, .workers = 1, .count = 500});
        for (uint64_t step = 0; step < 20; step++) {
            memset(crew.weights[0], 0, crew.count * sizeof(float));
            crew_train(&crew, (enum test_kind)(step % 4), step, 1);
            float scale = 0;
            for (size_t i = 0; i < crew.count; i++)
                scale = fmaxf(scale, fabsf(crew.weights[0][i]));
            for (size_t i = 0; i < crew.count; i++) {
                int exponent = 0;
                const float part = fabsf(crew.weights[0][i]) / scale;
                assert_true(part == 0 || (frexpf(part, &exponent) == 0.5f && exponent <= 1 &&
                                          exponent >= 1 - kg));
            }
        }
        crew_free(&crew);
    }
}

/* Is it range * j / 2^kx, and none is nearer to x? Float rounding of a unit is allowed for. */
static void expect_nearest(double held, double x, double range, int kx, const char *what, size_t i)
{
    const double unit = range / pow(2, kx);
    const double steps = unit > 0 ? held / unit : 0;
    const double clipped = fmax(-range, fmin(range, x));
    close_to(steps, nearbyint(steps), 1e-6, what, i);
    if (!(fabs(held - clipped) <= unit / 2 + 1e-6 * range))
        fail_msg("%s, element %zu: %.9g for %.9g, unit %.9g", what, i, held, x, unit);
}

static void weights_round_as_worked_out(void **unused)
{
    static const float x[8] = {1, .25f, -.25f, .26f, .75f, .76f, -.5f, 0};
    static const float q[8] = {1, 0, 0, .5f, .5f, 1, -.5f, 0}; /* ties toward zero */
    static const float clipped[8] = {.5f, .25f, -.25f, .25f, .5f, .5f, -.5f, 0};
    struct crew own =
        crew_new(&(struct crew_plan){.spec = "qadam:kx=1", .workers = 1, .count = 8, .start = x});
    struct crew given = crew_new(
        &(struct crew_plan){.spec = "qadam:kx=1,range=0.5", .workers = 1, .count = 8, .start = x});
    (void)unused;
    for (size_t i = 0; i < 8; i++)
        assert_true(own.weights[0][i] == q[i] && given.weights[0][i] == clipped[i]);
    crew_free(&own);
    crew_free(&given);
}

/* Workers hold exactly Q_x of what the owner holds, and the owner's is never rounded. */
static void workers_hold_quantized_weights(void **unused)
{
    static const int kxs[] = {1, 2, 4, 8, 14};
    static const char *const kgs[] = {"0", "off", "2", "14", "off"};
    (void)unused;
    for (size_t c = 0; c < 4; c++) {
        for (size_t k = 0; k < 5; k++) {
            char spec[96];
            float start[150];
            struct test_random random = {test_seed() + k};
            const int fixed = k == 1; /* a range that clips */
            test_fill(&random, TEST_NORMAL, start, 150);
            (void)snprintf(spec, sizeof spec,
                           "qadam:lr=0.02,kg=%s,kx=%d,combine=parameter-server,range=%s", kgs[k],
                           kxs[k], fixed ? "0.5" : "0");
            struct crew crew = crew_new(&(struct crew_plan){
                .spec = spec, .workers = crowds[c], .count = 150, .start = start});
            const float *x = crew_floats(&crew, 0, "owner weights");
            assert_true(test_same_bits(x, start, 150));
            for (uint64_t step = 0; step < 10; step++) {
                x = crew_floats(&crew, 0, "owner weights");
                double range = fixed ? 0.5 : 0;
                for (size_t i = 0; i < 150 && !fixed; i++)
                    range = fmax(range, fabs((double)x[i]));
                for (size_t i = 0; i < 150; i++)
                    expect_nearest((double)crew.weights[0][i], (double)x[i], range, kxs[k], spec,
                                   i);
                crew_agrees(&crew, spec);
                for (uint32_t r = 1; r < crew.workers;
                     r++) /* the parameter server holds them all */
                    for (size_t i = 0; i < 150; i++)
                        assert_true(crew_floats(&crew, r, "owner weights")[i] == 0);
                crew_train(&crew, TEST_NORMAL, step, 1);
            }
            crew_free(&crew);
        }
    }
}

/* ---- guards ---- */

static void zero_encodes_zero(void **unused)
{
    static const char *const specs[] = {"qadam:kx=0", "qadam:kx=4", "qadam:kx=4,range=0.5",
                                        "qadam:rates=theory,schedule=sqrt,kx=0"};
    (void)unused;
    for (int s = 0; s < 4; s++) {
        struct crew crew =
            crew_new(&(struct crew_plan){.spec = specs[s], .workers = 3, .count = 70});
        for (int step = 0; step < 100; step++)
            crew_step(&crew);
        for (uint32_t r = 0; r < 3; r++)
            for (size_t i = 0; i < 70; i++)
                assert_true(crew.weights[r][i] == 0 && crew_floats(&crew, r, "residual")[i] == 0);
        crew_free(&crew);
    }
}

/* 0.999^t underflows near t = 85000; v keeps a floor, so 0/0 never comes. */
static void a_dead_coordinate_stays_dead(void **unused)
{
    static const float start[3] = {1, 2, 3};
    static const char *const specs[] = {"qadam:lr=1e-6,kx=0",
                                        "qadam:lr=1e-6,kx=0,rates=theory,schedule=sqrt"};
    (void)unused;
    for (int s = 0; s < 2; s++) {
        struct crew crew = crew_new(
            &(struct crew_plan){.spec = specs[s], .workers = 1, .count = 3, .start = start});
        for (int step = 0; step < 100000; step++) {
            crew.gradient[0][0] = step % 2 ? 1.0f : -0.5f;
            crew_step(&crew);
        }
        const float *const v = crew_floats(&crew, 0, "second moment");
        assert_true(crew.weights[0][1] == 2 && crew.weights[0][2] == 3);
        assert_true(isfinite(crew.weights[0][0]) && v[0] > 0.1f);
        assert_true(v[1] >= FLT_MIN && v[2] >= FLT_MIN && v[1] < 1e-8f);
        crew.gradient[0][1] = 1e-3f; /* and it recovers without a jump to infinity */
        crew_step(&crew);
        assert_true(isfinite(crew.weights[0][1]) && fabsf(crew.weights[0][1] - 2) < 1e-3f);
        crew_free(&crew);
    }
}

/* One finite gradient whose square overflows would make a second moment infinite, and its element
 * would never move again. The step is skipped instead, by the worker that has it. */
static void a_spike_is_skipped(void **unused)
{
    static const char *const specs[] = {"adam:lr=0.01", "qadam:lr=0.01,kx=0", "qadam:lr=0.01",
                                        "codec=f32,update=adam,lr=0.01"};
    (void)unused;
    for (size_t s = 0; s < sizeof specs / sizeof specs[0]; s++) {
        struct crew crew =
            crew_new(&(struct crew_plan){.spec = specs[s], .workers = 2, .count = 2});
        for (int step = 0; step < 60; step++) {
            const int spike = step == 30;
            for (uint32_t r = 0; r < 2; r++)
                for (size_t i = 0; i < 2; i++)
                    crew.gradient[r][i] = spike && r == 1 && i == 0 ? 2e19f : 1.0f;
            const uint64_t before = crew_hash(&crew);
            assert_int_equal(terse_method_step_all(crew.method, (const float *const *)crew.gradient,
                                                   crew.report, NULL),
                             TERSE_OK);
            assert_int_equal(crew.report[0].exchange.skipped, spike ? TERSE_NOT_FINITE : TERSE_OK);
            assert_int_equal(crew.report[0].exchange.skipped_by, spike ? 1 : -1);
            assert_int_equal(crew_hash(&crew) == before, spike);
        }
        assert_true(crew.weights[0][0] < -0.3f); /* 59 steps of about lr */
        assert_true(crew.weights[0][0] == crew.weights[0][1]);
        crew_free(&crew);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(golden_values),
        cmocka_unit_test(nothing_is_lost),
        cmocka_unit_test(plain_is_generic_adam),
        cmocka_unit_test(identical_workers_are_one),
        cmocka_unit_test(steps_are_on_the_grid),
        cmocka_unit_test(weights_round_as_worked_out),
        cmocka_unit_test(workers_hold_quantized_weights),
        cmocka_unit_test(zero_encodes_zero),
        cmocka_unit_test(a_dead_coordinate_stays_dead),
        cmocka_unit_test(a_spike_is_skipped),
    };
    return cmocka_run_group_tests_name("qadam", tests, NULL, NULL);
}
