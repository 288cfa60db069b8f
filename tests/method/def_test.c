/* Error feedback with random blocks: EF, SAEF, DEF, DEF-A against their paper. */
#include <math.h>
#include <stdio.h>

#include "method/crew.h"

static const uint32_t crowds[] = {1, 2, 3, 8};

/* The elements that were sent: those whose residual is exactly zero on all workers. */
static size_t sent_of(const struct crew *crew, unsigned char *sent)
{
    size_t total = 0;
    for (size_t i = 0; i < crew->count; i++) {
        sent[i] = 1;
        for (uint32_t r = 0; r < crew->workers; r++)
            sent[i] &= crew_floats(crew, r, "residual")[i] == 0;
        total += sent[i];
    }
    return total;
}

/* ---- the golden step ---- */

static const float golden_start[5] = {1, 2, 3, 4, 5};

static struct crew golden_crew(const char *spec, uint64_t seed)
{
    static const float g[2][5] = {{1, 1, 1, 1, 1}, {3, -1, 1, 0, 2}};
    struct crew crew = crew_new(&(struct crew_plan){
        .spec = spec, .workers = 2, .count = 5, .start = golden_start, .seed = seed});
    memcpy(crew.gradient[0], g[0], sizeof g[0]);
    memcpy(crew.gradient[1], g[1], sizeof g[1]);
    crew_step(&crew);
    return crew;
}

/* A seed whose first block starts at 4 and wraps: S = {4, 0}. Worker 0 keeps .1 elsewhere. */
static struct crew golden(const char *spec)
{
    for (uint64_t seed = 0; seed < 1000; seed++) {
        struct crew crew = golden_crew(spec, seed);
        const float *const e = crew_floats(&crew, 0, "residual");
        if (e[0] == 0 && e[4] == 0)
            return crew;
        crew_free(&crew);
    }
    fail_msg("no seed below 1000 starts the block at 4");
    return (struct crew){0};
}

static void the_golden_step(void **unused)
{
    static const double x[5] = {.8, 2, 3, 4, 4.85};
    static const double e[2][5] = {{0, .1, .1, .1, 0}, {0, -.1, .1, 0, 0}};
    static const double w[2][5] = {{.8, 1.97, 2.97, 3.97, 4.85}, {.8, 2.03, 2.97, 4, 4.85}};
    static const double deployed[5] = {.8, 2, 2.9, 3.95, 4.85};
    static const char *const specs[] = {"def:ratio=2.5,lambda=0.3,lr=0.1,momentum=0.9",
                                        "def-a:ratio=2.5,lambda=0.3,lr=0.1,momentum=0.9"};
    (void)unused;
    for (int s = 0; s < 2; s++) {
        struct crew crew = golden(specs[s]);
        float out[5];
        assert_int_equal(terse_method_has_eval_weights(crew.method[0]), s);
        assert_int_equal(terse_method_eval_weights_all(crew.method, out, NULL), TERSE_OK);
        for (size_t i = 0; i < 5; i++) {
            close_to((double)crew.weights[0][i], x[i], 1e-6, "x", i);
            close_to((double)out[i], s ? deployed[i] : x[i], 1e-6, "deployed", i);
            for (uint32_t r = 0; r < 2; r++) {
                close_to((double)crew_floats(&crew, r, "residual")[i], e[r][i], 1e-7, "e", i);
                close_to((double)terse_method_point(crew.method[r])[i], w[r][i], 1e-6, "w", i);
            }
        }
        crew_free(&crew);
    }
}

/* ---- against a reference in double ---- */

struct reference {
    size_t count;
    uint32_t workers;
    double lambda, lr, mu, wd;
    double *x, *m[8], *e[8], *w[8];
};

static struct reference reference_new(const struct crew *crew, double lambda, double wd)
{
    struct reference ref = {crew->count, crew->workers, lambda, 0.05, 0.9, wd, NULL, {0}, {0}, {0}};
    ref.x = test_alloc(ref.count * sizeof(double));
    for (size_t i = 0; i < ref.count; i++)
        ref.x[i] = (double)crew->weights[0][i];
    for (uint32_t k = 0; k < ref.workers; k++) {
        ref.m[k] = test_alloc(ref.count * sizeof(double));
        ref.e[k] = test_alloc(ref.count * sizeof(double));
        ref.w[k] = test_alloc(ref.count * sizeof(double));
        memcpy(ref.w[k], ref.x, ref.count * sizeof(double));
    }
    return ref;
}

static void reference_free(struct reference *ref)
{
    free(ref->x);
    for (uint32_t k = 0; k < ref->workers; k++) {
        free(ref->m[k]);
        free(ref->e[k]);
        free(ref->w[k]);
    }
}

/* e += lr m; a local step also moves w. */
static void reference_direct(struct reference *ref, const struct crew *crew)
{
    for (uint32_t k = 0; k < ref->workers; k++) {
        for (size_t i = 0; i < ref->count; i++) {
            const double g = (double)crew->gradient[k][i] + ref->wd * ref->w[k][i];
            ref->m[k][i] = ref->mu * ref->m[k][i] + g;
            ref->e[k][i] += ref->lr * ref->m[k][i];
            ref->w[k][i] -= ref->lr * ref->m[k][i];
        }
    }
}

/* x -= mean C(e); e -= C(e); w = x - lambda e. */
static void reference_send(struct reference *ref, const unsigned char *sent)
{
    for (size_t i = 0; i < ref->count; i++) {
        for (uint32_t k = 0; k < ref->workers && sent[i]; k++) {
            ref->x[i] -= ref->e[k][i] / ref->workers;
            ref->e[k][i] = 0;
        }
        for (uint32_t k = 0; k < ref->workers; k++)
            ref->w[k][i] = ref->x[i] - ref->lambda * ref->e[k][i];
    }
}

static void compare(const struct crew *crew, const struct reference *ref, int exchanged)
{
    for (size_t i = 0; i < ref->count; i++) {
        close_to((double)crew->weights[0][i], ref->x[i], 1e-5, "x", i);
        for (uint32_t k = 0; k < ref->workers; k++) {
            close_to((double)crew_floats(crew, k, "residual")[i], ref->e[k][i], 1e-5, "e", i);
            close_to((double)terse_method_point(crew->method[k])[i],
                     exchanged || terse_method_point(crew->method[k]) != crew->weights[k]
                         ? ref->w[k][i]
                         : ref->x[i],
                     1e-5, "point", i);
        }
    }
}

#define COUNT 210u
#define BLOCK 30u /* ratio 7 */

static void follow(const char *method, double lambda, double wd, uint32_t workers, uint64_t every)
{
    char spec[160];
    float start[COUNT];
    unsigned char sent[COUNT];
    struct test_random random = {test_seed() + workers};
    (void)snprintf(spec, sizeof spec, "%s:ratio=7,lr=0.05,momentum=0.9,wd=%g,every=%u", method, wd,
                   (unsigned)every);
    if (strcmp(method, "ef") != 0)
        (void)snprintf(spec + strlen(spec), sizeof spec - strlen(spec), ",lambda=%g", lambda);
    test_fill(&random, TEST_NORMAL, start, COUNT);
    struct crew crew = crew_new(&(struct crew_plan){
        .spec = spec, .workers = workers, .count = COUNT, .start = start, .seed = test_seed()});
    struct reference ref = reference_new(&crew, lambda, wd);
    for (uint64_t step = 0; step < 18; step++) {
        const int exchanges = (step + 1) % every == 0;
        float before[COUNT];
        memcpy(before, crew.weights[0], sizeof before);
        crew_gradients(&crew, TEST_NORMAL, step);
        crew_step(&crew);
        assert_int_equal(crew.report[0].exchanged, exchanges);
        reference_direct(&ref, &crew);
        if (exchanges) {
            assert_int_equal(sent_of(&crew, sent), BLOCK);
            reference_send(&ref, sent);
        }
        for (size_t i = 0; i < COUNT; i++) /* bit for bit the same where nothing was sent */
            assert_true((exchanges && sent[i]) || crew.weights[0][i] == before[i]);
        compare(&crew, &ref, exchanges);
        crew_agrees(&crew, spec);
    }
    reference_free(&ref);
    crew_free(&crew);
}

static void methods_follow_their_rules(void **unused)
{
    (void)unused;
    for (size_t c = 0; c < 4; c++) {
        follow("ef", 0, 0, crowds[c], 1);
        follow("ef", 0, 0.1, crowds[c], 1);
        follow("saef", 1, 0.1, crowds[c], 1);
        follow("def", 0.3, 0, crowds[c], 1);
        follow("def", 0.3, 0.1, crowds[c], 1);
        follow("def-a", 0.7, 0.1, crowds[c], 1);
    }
}

static void local_steps_follow_their_rule(void **unused)
{
    (void)unused;
    for (size_t c = 0; c < 4; c++) {
        follow("ef", 0, 0, crowds[c], 3);
        follow("def", 0.3, 0, crowds[c], 2);
        follow("def", 0.3, 0.1, crowds[c], 6);
        follow("saef", 1, 0, crowds[c], 3);
    }
}

/* ---- oracles ---- */

/* 1: x - mean e moves by lr * mean m. 2: at elements that were sent, x is x - mean e.
 * 4: mean |w_k - xt|^2 = (1-lambda)^2 |ebar|^2 + lambda^2 mean |e_k - ebar|^2. */
static void check_oracles(const char *spec, double lambda, uint32_t workers)
{
    unsigned char sent[COUNT];
    double ahead[COUNT] = {0};
    double m[COUNT] = {0}; /* the mean of momenta is the momentum of means */
    struct crew crew = crew_new(
        &(struct crew_plan){.spec = spec, .workers = workers, .count = COUNT, .seed = test_seed()});
    for (uint64_t step = 0; step < 25; step++) {
        double left = 0;
        double mean_part = 0;
        double spread = 0;
        crew_train(&crew, TEST_NORMAL, step, 1);
        assert_int_equal(sent_of(&crew, sent), BLOCK);
        for (size_t i = 0; i < COUNT; i++) {
            const double x = (double)crew.weights[0][i];
            const double ebar = crew_mean(&crew, "residual", i);
            m[i] = 0.9 * m[i] + crew_mean(&crew, NULL, i);
            ahead[i] -= 0.05 * m[i];
            close_to(x - ebar, ahead[i], 1e-5, "xt", i);
            if (sent[i])
                assert_true(x == x - ebar);
            for (uint32_t k = 0; k < workers; k++) {
                const double e = (double)crew_floats(&crew, k, "residual")[i];
                const double w = (double)terse_method_point(crew.method[k])[i];
                left += pow(w - (x - ebar), 2) / workers;
                spread += pow(e - ebar, 2) / workers;
            }
            mean_part += ebar * ebar;
        }
        close_to(left, pow(1 - lambda, 2) * mean_part + lambda * lambda * spread, 1e-4,
                 "the trade-off", step);
    }
    crew_free(&crew);
}

static void conservation_and_trade_off(void **unused)
{
    (void)unused;
    for (size_t c = 0; c < 4; c++) {
        check_oracles("ef:ratio=7,lr=0.05", 0, crowds[c]);
        check_oracles("def:ratio=7,lr=0.05", 0.3, crowds[c]);
        check_oracles("def:ratio=7,lr=0.05,lambda=0.8", 0.8, crowds[c]);
        check_oracles("saef:ratio=7,lr=0.05", 1, crowds[c]);
    }
}

/* 3: over the random blocks of a step E[x'] = (1-q) x + q xt'. Each coordinate is x or xt', so q is
 * measured: one state, continued with many seeds. */
static void x_is_a_moving_average(void **unused)
{
    enum { N = 40, SEEDS = 3000 };
    const double q = 0.25;
    const char *const spec = "def:ratio=4,lr=0.1";
    struct crew base =
        crew_new(&(struct crew_plan){.spec = spec, .workers = 2, .count = N, .seed = test_seed()});
    unsigned moved[N] = {0};
    (void)unused;
    crew_train(&base, TEST_NORMAL, 0, 5);
    for (uint64_t seed = 0; seed < SEEDS; seed++) {
        struct crew next = crew_new(
            &(struct crew_plan){.spec = spec, .workers = 2, .count = N, .seed = seed + 1000});
        crew_copy(&base, &next);
        crew_train(&next, TEST_NORMAL, 5, 1);
        for (size_t i = 0; i < N; i++)
            moved[i] += next.weights[0][i] != base.weights[0][i];
        crew_free(&next);
    }
    for (size_t i = 0; i < N; i++)
        if (fabs(moved[i] / (double)SEEDS - q) > 5 * sqrt(q * (1 - q) / SEEDS))
            fail_msg("element %zu is sent with frequency %.4f", i, moved[i] / (double)SEEDS);
    crew_free(&base);
}

/* 5: on a quadratic with the same noise lambda=1 makes xt follow momentum SGD without compression.
 */
static void one_step_ahead_is_sgd(void **unused)
{
    enum { N = 128 };
    float start[N];
    double x[N];
    double m[N] = {0};
    (void)unused;
    for (size_t i = 0; i < N; i++)
        x[i] = (double)(start[i] = 1);
    struct crew crew = crew_new(&(struct crew_plan){.spec = "saef:ratio=16,lr=0.02",
                                                    .workers = 3,
                                                    .count = N,
                                                    .start = start,
                                                    .seed = test_seed()});
    for (uint64_t step = 0; step < 300; step++) {
        crew_gradients(&crew, TEST_NORMAL, step); /* the noise */
        for (size_t i = 0; i < N; i++) {
            const double a = 0.01 + 0.99 * (double)i / N;
            m[i] = 0.9 * m[i] + a * x[i] + crew_mean(&crew, NULL, i);
            x[i] -= 0.02 * m[i];
            for (uint32_t k = 0; k < 3; k++)
                crew.gradient[k][i] += (float)(a * (double)terse_method_point(crew.method[k])[i]);
        }
        crew_step(&crew);
    }
    for (size_t i = 0; i < N; i++)
        close_to((double)crew.weights[0][i] - crew_mean(&crew, "residual", i), x[i], 1e-4, "xt", i);
    crew_free(&crew);
}

/* 6: the exact mean square of a coordinate with curvature 1 that is sent w.p. q, after so many
 * steps from 1: second moments of (x, e) obey a linear recursion. */
static double expected_square(double lr, double lambda, double q, int steps)
{
    double xx = 1;
    double xe = 0;
    double ee = 0;
    for (int step = 0; step < steps; step++) {
        const double keep = 1 - lr * lambda; /* d = e + lr (x - lambda e) */
        const double sent_square =
            pow(1 - lr, 2) * xx - 2 * (1 - lr) * keep * xe + keep * keep * ee;
        const double kept = lr * lr * xx + 2 * lr * keep * xe + keep * keep * ee;
        const double mixed = lr * xx + keep * xe;
        xx = q * sent_square + (1 - q) * xx;
        xe = (1 - q) * mixed;
        ee = (1 - q) * kept;
    }
    return xx;
}

#define GROWTH_STEPS 384

/* The mean square of many such coordinates, as the method moves them; q = 1/64. */
static double growth(const char *method, double lr)
{
    enum { TENSORS = 800, EACH = 64 };
    char spec[100];
    terse_layout *layout = NULL;
    float *const start = test_floats((size_t)TENSORS * EACH);
    double square = 0;
    (void)snprintf(spec, sizeof spec, "%s,lr=%.9g,momentum=0", method, lr);
    assert_int_equal(terse_layout_create(&layout), TERSE_OK);
    for (int t = 0; t < TENSORS; t++)
        assert_int_equal(terse_layout_add(layout, "t", 1, (const uint64_t[]){EACH}), TERSE_OK);
    for (size_t i = 0; i < (size_t)TENSORS * EACH; i++)
        start[i] = 1;
    struct crew crew = crew_new(&(struct crew_plan){
        .spec = spec, .workers = 1, .layout = layout, .start = start, .seed = test_seed()});
    for (int step = 0; step < GROWTH_STEPS; step++) {
        memcpy(crew.gradient[0], terse_method_point(crew.method[0]), crew.count * sizeof(float));
        crew_step(&crew);
    }
    for (size_t i = 0; i < crew.count; i++)
        square += pow((double)crew.weights[0][i], 2) / (double)crew.count;
    crew_free(&crew);
    terse_layout_destroy(layout);
    free(start);
    return square;
}

/* The limits of lr: below, the mean square falls for ever; above, it rises. */
static void expect_limit(double limit, double lambda, double q)
{
    assert_true(expected_square(0.97 * limit, lambda, q, 6000) <
                expected_square(0.97 * limit, lambda, q, 2000));
    assert_true(expected_square(1.03 * limit, lambda, q, 6000) >
                expected_square(1.03 * limit, lambda, q, 2000));
}

static void ef_diverges_first(void **unused)
{
    const double q = 1.0 / 64;
    const double ef = 2 * q / (2 - q);
    const double def = 0.0391;
    (void)unused;
    close_to(ef, 0.0157, 1e-4, "limit", 0);
    expect_limit(ef, 0, q);
    expect_limit(def, 0.3, q);
    for (int tenths = 6; tenths < 15; tenths += 4) {
        const double times = tenths / 10.0;
        const double lr = times * ef;
        const double other = times * def;
        close_to(growth("ef:ratio=64", lr) / expected_square(lr, 0, q, GROWTH_STEPS), 1, 0.3,
                 "mean square of EF", (size_t)tenths);
        close_to(growth("def:ratio=64,lambda=0.3", other) /
                     expected_square(other, 0.3, q, GROWTH_STEPS),
                 1, 0.3, "mean square of DEF", (size_t)(10 * times));
    }
    assert_true(growth("ef:ratio=64", 1.4 * ef) > 5 * growth("def:ratio=64", 1.4 * ef));
}

/* ---- special cases ---- */

static uint64_t weights_after(const char *spec, uint32_t workers, struct crew *out)
{
    *out =
        crew_new(&(struct crew_plan){.spec = spec, .workers = workers, .count = COUNT, .seed = 3});
    for (uint64_t step = 0; step < 10; step++) {
        crew_gradients(out, TEST_NORMAL, step);
        for (uint32_t k = 0; k < workers; k++)
            for (size_t i = 0; i < COUNT; i++)
                out->gradient[k][i] += terse_method_point(out->method[k])[i];
        crew_step(out);
    }
    return crew_hash(out);
}

static void lambda_0_is_ef(void **unused)
{
    (void)unused;
    for (size_t c = 0; c < 4; c++) {
        struct crew ef;
        struct crew def;
        assert_true(weights_after("ef:lr=0.05,ratio=9,wd=0.1", crowds[c], &ef) ==
                    weights_after("def:lr=0.05,ratio=9,wd=0.1,lambda=0", crowds[c], &def));
        crew_free(&ef);
        crew_free(&def);
    }
}

static void ratio_1_is_momentum_sgd(void **unused)
{
    static const char *const specs[] = {"def:lr=0.05,ratio=1,lambda=0",
                                        "def:lr=0.05,ratio=1,lambda=0.3",
                                        "def:lr=0.05,ratio=1,lambda=1"};
    (void)unused;
    for (size_t c = 0; c < 4; c++) {
        struct crew crew[3];
        struct crew dense;
        uint64_t hash[3];
        for (int s = 0; s < 3; s++)
            hash[s] = weights_after(specs[s], crowds[c], &crew[s]);
        assert_true(hash[0] == hash[1] && hash[0] == hash[2]);
        (void)weights_after("dense:lr=0.05,momentum=0.9", crowds[c], &dense);
        for (size_t i = 0; i < COUNT; i++) {
            assert_true(crew_floats(&crew[1], 0, "residual")[i] == 0);
            close_to((double)crew[1].weights[0][i], (double)dense.weights[0][i], 1e-5, "x", i);
        }
        crew_free(&dense);
        for (int s = 0; s < 3; s++)
            crew_free(&crew[s]);
    }
}

/* n < ratio sends one element, n = 1 always the only one; a ratio that does not divide n floors. */
static void small_tensors(void **unused)
{
    static const struct {
        size_t count;
        const char *spec;
        size_t sent;
    } cases[] = {{10, "ef:ratio=64", 1}, {1, "ef:ratio=64", 1},   {5, "ef:ratio=2.5", 2},
                 {7, "ef:ratio=2", 3},   {100, "ef:ratio=3", 33}, {2, "ef:ratio=1.5", 1}};
    (void)unused;
    for (size_t k = 0; k < sizeof cases / sizeof cases[0]; k++) {
        struct crew crew = crew_new(&(struct crew_plan){
            .spec = cases[k].spec, .workers = 2, .count = cases[k].count, .seed = test_seed()});
        unsigned char sent[100];
        for (uint64_t step = 0; step < 5; step++) {
            crew_train(&crew, TEST_NORMAL, step, 1);
            assert_int_equal(sent_of(&crew, sent), cases[k].sent);
        }
        crew_free(&crew);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(the_golden_step),
        cmocka_unit_test(methods_follow_their_rules),
        cmocka_unit_test(local_steps_follow_their_rule),
        cmocka_unit_test(conservation_and_trade_off),
        cmocka_unit_test(x_is_a_moving_average),
        cmocka_unit_test(one_step_ahead_is_sgd),
        cmocka_unit_test(ef_diverges_first),
        cmocka_unit_test(lambda_0_is_ef),
        cmocka_unit_test(ratio_1_is_momentum_sgd),
        cmocka_unit_test(small_tensors),
    };
    return cmocka_run_group_tests_name("def", tests, NULL, NULL);
}
