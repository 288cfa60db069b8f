/* DQ-SGD and the stochastic grids: unbiased, with the variance of the formula; and the rules of
 * bits.
 */
#include <math.h>
#include <stdio.h>

#include "method/crew.h"
#include "method/method.h"

static const uint32_t crowds[] = {1, 2, 3, 8};

/* ---- the quantizer ---- */

enum { N = 200, DRAWS = 4000 };

static double norm_of(const float *g, size_t count, int two)
{
    double most = 0;
    double square = 0;
    for (size_t i = 0; i < count; i++) {
        most = fmax(most, fabs((double)g[i]));
        square += (double)g[i] * (double)g[i];
    }
    return two ? sqrt(square) : most;
}

/* One gradient, decoded many times with different keys: lr=1 from weights 0. */
static void draw_many(struct crew *crew, double *sum, double *square)
{
    memset(sum, 0, N * sizeof *sum);
    memset(square, 0, N * sizeof *square);
    for (int draw = 0; draw < DRAWS; draw++) {
        for (uint32_t r = 0; r < crew->workers; r++)
            memset(crew->weights[r], 0, N * sizeof(float));
        crew_step(crew);
        for (size_t i = 0; i < N; i++) {
            const double decoded = -(double)crew->weights[0][i];
            sum[i] += decoded;
            square[i] += decoded * decoded;
        }
    }
}

/* A grid to be tested: the distance of its levels is at most norm / levels (0: at most |g|). */
struct grid {
    const char *spec;
    int two;
    double levels;
};

/* E[Q] = g per coordinate: 5.5 standard deviations of what was seen over 200 coordinates, and what
 * a level that was never drawn may hide (20 draws expected, none seen: e^-20). */
static void expect_unbiased(const struct grid *grid, uint32_t workers)
{
    double sum[N];
    double square[N];
    double norm = 0;
    struct crew crew = crew_new(&(struct crew_plan){
        .spec = grid->spec, .workers = workers, .count = N, .seed = test_seed(), .steps = DRAWS});
    crew_gradients(&crew, TEST_NORMAL, 3);
    for (uint32_t r = 0; r < workers; r++)
        norm = fmax(norm, norm_of(crew.gradient[r], N, grid->two));
    draw_many(&crew, sum, square);
    for (size_t i = 0; i < N; i++) {
        const double mean = sum[i] / DRAWS;
        const double deviation = sqrt(fmax(square[i] / DRAWS - mean * mean, 0) / DRAWS);
        const double g = crew_mean(&crew, NULL, i);
        double most = 0;
        for (uint32_t r = 0; r < workers; r++)
            most = fmax(most, fabs((double)crew.gradient[r][i]));
        const double unseen = 20.0 / DRAWS * (grid->levels > 0 ? norm / grid->levels : most);
        if (fabs(mean - g) > 5.5 * deviation + unseen)
            fail_msg("%s, %u workers, element %zu: mean %.6g of %.6g, deviation %.3g", grid->spec,
                     workers, i, mean, g, deviation);
    }
    crew_free(&crew);
}

static void grids_are_unbiased(void **unused)
{
    static const struct grid grids[] = {
        {"dqsgd:lr=1,bits=kappa,kappa=3,combine=allgather", 0, 7},
        {"dqsgd:lr=1,bits=kappa,kappa=3,norm=2,combine=allgather", 1, 31},
        {"dqsgd:lr=1,bits=kappa,kappa=2", 0, 3},
        {"qsgd:lr=1,bits=3", 0, 3},
        {"qsgd:lr=1,bits=4,norm=2,combine=allgather", 1, 7},
        {"terngrad:lr=1", 0, 1},
        {"natural:lr=1", 0, 0},
    };
    (void)unused;
    for (size_t s = 0; s < sizeof grids / sizeof grids[0]; s++)
        for (size_t c = 0; c < 3; c += 2)
            expect_unbiased(&grids[s], crowds[c]);
}

/* Variance of a coordinate is (|g|_p/s)^2 f (1-f), f = frac(s |g| / |g|_p); of a mean of K draws
 * that are not each other's, a K-th: workers that all hold g would show it if they drew alike. */
static void expect_variance(const char *spec, int two, double bits, uint32_t workers)
{
    double sum[N];
    double square[N];
    double measured = 0;
    double exact = 0;
    const double s = pow(2, bits - 1) - 1;
    struct crew crew = crew_new(&(struct crew_plan){
        .spec = spec, .workers = workers, .count = N, .seed = test_seed(), .steps = DRAWS});
    crew_gradients(&crew, TEST_NORMAL, 4);
    for (uint32_t r = 1; r < workers; r++)
        memcpy(crew.gradient[r], crew.gradient[0], N * sizeof(float));
    const double norm = norm_of(crew.gradient[0], N, two);
    draw_many(&crew, sum, square);
    for (size_t i = 0; i < N; i++) {
        const double r = s * fabs((double)crew.gradient[0][i]) / norm;
        const double f = r - floor(r);
        const double mean = sum[i] / DRAWS;
        measured += square[i] / DRAWS - mean * mean;
        exact += pow(norm / s, 2) * f * (1 - f) / workers;
    }
    assert_true(exact <= N * norm * norm / (4 * s * s));
    if (fabs(measured / exact - 1) > 0.03)
        fail_msg("%s, %u workers: variance %.6g, exact %.6g", spec, workers, measured, exact);
    crew_free(&crew);
}

static void variance_is_the_formula(void **unused)
{
    (void)unused;
    for (size_t c = 0; c < 3; c++) {
        expect_variance("qsgd:lr=1,bits=3,combine=allgather", 0, 3, crowds[c]);
        expect_variance("qsgd:lr=1,bits=5,norm=2,combine=allgather", 1, 5, crowds[c]);
        expect_variance("terngrad:lr=1,combine=allgather", 0, 2, crowds[c]);
    }
}

/* ---- rules of bits ---- */

/* Bits that worker 0 chose in its last step: what they added to the sum of its record. */
static double bits_of(const struct crew *crew, double *spent)
{
    const struct tsi_bit_record *const record = crew_state(crew, 0, "bits").bytes;
    const double bits = record[0].spent - *spent;
    *spent = record[0].spent;
    return bits;
}

/* A gradient with largest magnitude `norm`. */
static void gradient_of_norm(struct crew *crew, double norm, uint64_t step)
{
    crew_gradients(crew, TEST_NORMAL, step);
    for (uint32_t r = 0; r < crew->workers; r++) {
        const double scale = norm / norm_of(crew->gradient[r], crew->count, 0);
        for (size_t i = 0; i < crew->count; i++)
            crew->gradient[r][i] = (float)((double)crew->gradient[r][i] * scale);
    }
}

static double whole_bits(double s)
{
    return fmax(2, fmin(16, ceil(log2(s + 1) + 1 - 1e-5)));
}

/* Within what rounding may do to a number of levels at a border. */
static void expect_bits(double bits, double s, const char *what, size_t step)
{
    if (bits != whole_bits(s) && bits != whole_bits(s * (1 + 1e-4)) &&
        bits != whole_bits(s * (1 - 1e-4)))
        fail_msg("%s, step %zu: %g bits, expected %g for %g levels", what, step, bits,
                 whole_bits(s), s);
}

/* s_n = kappa alpha^((N-1-n)/2) |g_n|; alpha = 1 is the rule for problems that are not convex. */
static void levels_follow_the_norm(void **unused)
{
    static const double alphas[] = {1, 0.9};
    (void)unused;
    for (int a = 0; a < 2; a++) {
        enum { STEPS = 40 };
        char spec[96];
        double spent = 0;
        struct test_random random = {test_seed()};
        (void)snprintf(spec, sizeof spec, "dqsgd:bits=kappa,kappa=50,combine=allgather,alpha=%g",
                       alphas[a]);
        struct crew crew =
            crew_new(&(struct crew_plan){.spec = spec, .workers = 2, .count = N, .steps = STEPS});
        for (uint64_t step = 0; step < STEPS; step++) {
            const double norm = exp(2 * test_normal(&random));
            gradient_of_norm(&crew, norm, step);
            crew_step(&crew);
            const double s = 50 * pow(alphas[a], (STEPS - 1 - (double)step) / 2) * norm;
            const double bits = bits_of(&crew, &spent);
            expect_bits(bits, s, spec, step);
            /* and so many are on the wire, beside the norm and the frame */
            assert_true(crew.report[0].bits >= bits && crew.report[0].bits <= bits + 8);
        }
        crew_free(&crew);
    }
}

static void doubling_the_norm_adds_a_bit(void **unused)
{
    double spent = 0;
    double before = 0;
    struct crew crew = crew_new(&(struct crew_plan){
        .spec = "dqsgd:bits=kappa,kappa=70,combine=allgather", .workers = 1, .count = N});
    (void)unused;
    for (int doubled = 0; doubled < 6; doubled++) {
        gradient_of_norm(&crew, pow(2, doubled), 1);
        crew_step(&crew);
        const double bits = bits_of(&crew, &spent);
        assert_true(doubled == 0 || bits == before + 1);
        before = bits;
    }
    crew_free(&crew);
}

/* Every step may spend A/N of the error: kappa is such that real levels spend exactly A in all,
 * whole bits (at most twice the levels, and one) no more than A and no less than a fifth. */
static void the_allowed_error_is_spent(void **unused)
{
    enum { STEPS = 60 };
    const double alpha = 0.95;
    const double smooth = 2;
    const double sigma = 0.01;
    const double gap = 0.3;
    const double lr = 0.1;
    const double epsilon = 0.1;
    (void)unused;
    for (size_t c = 0; c < 4; c++) {
        const double workers = crowds[c];
        const double fallen = pow(alpha, STEPS);
        const double noise =
            smooth * lr * lr * sigma * sigma * (1 - fallen) / (2 * workers * (1 - alpha));
        const double allowed = epsilon - fallen * gap - noise;
        double real = 0;
        double whole = 0;
        double with_one_kernel_set =
            0; /* what one level would spend, were it the same in all steps */
        double real_bits = 0;
        double spent = 0;
        struct test_random random = {test_seed()};
        struct crew crew = crew_new(&(struct crew_plan){
            .spec = "dqsgd:lr=0.1,bits=error,epsilon=0.1,smoothness=2,noise=0.01,gap=0.3,"
                    "alpha=0.95,combine=allgather",
            .workers = crowds[c],
            .count = N,
            .steps = STEPS});
        for (uint64_t step = 0; step < STEPS; step++) {
            const double norm = 20 * exp(test_normal(&random));
            const double worth = pow(alpha, STEPS - 1 - (double)step);
            const double s =
                lr * sqrt(STEPS * smooth * N / (12 * allowed * workers)) * sqrt(worth) * norm;
            gradient_of_norm(&crew, norm, step);
            crew_step(&crew);
            const double bits = bits_of(&crew, &spent);
            expect_bits(bits, s, "bits=error", step);
            const double factor = smooth * N * lr * lr / 12 * worth * norm * norm / workers;
            real += factor / (s * s);
            with_one_kernel_set += factor;
            real_bits += (log2(s + 1) + 1) / STEPS;
            whole += factor / pow(pow(2, bits - 1) - 1, 2);
        }
        close_to(real / allowed, 1, 1e-9, "spent by real levels", c);
        assert_true(whole <= allowed * 1.001 && whole >= allowed / 5);
        /* fixed bits with the same bound are no fewer */
        assert_true(real_bits <= log2(sqrt(with_one_kernel_set / allowed) + 1) + 1 + 0.07);
        crew_free(&crew);
    }
}

/* rms: a bit more for every doubling against the mean so far. meanstd: one fewer. */
static void relative_rules(void **unused)
{
    double spent = 0;
    struct crew rms = crew_new(&(struct crew_plan){
        .spec = "dqsgd:bits=rms,target=5,combine=allgather", .workers = 1, .count = N});
    (void)unused;
    gradient_of_norm(&rms, 1, 1);
    crew_step(&rms);
    assert_true(bits_of(&rms, &spent) == 5);
    crew_step(&rms);
    assert_true(bits_of(&rms, &spent) == 5);
    gradient_of_norm(&rms, 4, 1); /* against a mean of 1 */
    crew_step(&rms);
    assert_true(bits_of(&rms, &spent) == 7);
    gradient_of_norm(&rms, 0.25, 1); /* against a mean of 2: three bits fewer */
    crew_step(&rms);
    assert_true(bits_of(&rms, &spent) == 2);
    crew_free(&rms);

    struct crew ratio = crew_new(&(struct crew_plan){
        .spec = "dqsgd:bits=meanstd,target=5,combine=allgather", .workers = 1, .count = N});
    spent = 0;
    for (size_t i = 0; i < N; i++) /* magnitudes 1 and 3: mean / deviation = 2 */
        ratio.gradient[0][i] = i % 2 ? 1 : -3;
    crew_step(&ratio);
    assert_true(bits_of(&ratio, &spent) == 5);
    for (size_t i = 0; i < N; i++) /* 3 and 5: it is 4 */
        ratio.gradient[0][i] = i % 2 ? 3 : -5;
    crew_step(&ratio);
    assert_true(bits_of(&ratio, &spent) == 4);
    for (size_t i = 0; i < N; i++) /* and 1.5 against a mean of 3: one more */
        ratio.gradient[0][i] = i % 2 ? 1 : -5;
    crew_step(&ratio);
    assert_true(bits_of(&ratio, &spent) == 6);
    crew_free(&ratio);
}

/* Of a gradient of zeros only the norm is sent, and no rule fails. */
static void zeros_cost_the_norm(void **unused)
{
    static const char *const rules[] = {"average", "kappa", "error", "rms", "meanstd"};
    (void)unused;
    for (int r = 0; r < 5; r++) {
        char spec[64];
        (void)snprintf(spec, sizeof spec, "dqsgd:bits=%s", rules[r]);
        struct crew crew =
            crew_new(&(struct crew_plan){.spec = spec, .workers = 3, .count = 3000, .steps = 20});
        for (int step = 0; step < 5; step++)
            crew_step(&crew);
        assert_true(crew.report[0].bits < 0.5);
        for (size_t i = 0; i < crew.count; i++)
            assert_true(crew.weights[0][i] == 0);
        crew_train(&crew, TEST_NORMAL, 5, 5);
        crew_agrees(&crew, spec);
        for (size_t i = 0; i < crew.count; i++)
            assert_true(isfinite(crew.weights[0][i]));
        crew_free(&crew);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(grids_are_unbiased),
        cmocka_unit_test(variance_is_the_formula),
        cmocka_unit_test(levels_follow_the_norm),
        cmocka_unit_test(doubling_the_norm_adds_a_bit),
        cmocka_unit_test(the_allowed_error_is_spent),
        cmocka_unit_test(relative_rules),
        cmocka_unit_test(zeros_cost_the_norm),
    };
    return cmocka_run_group_tests_name("dqsgd", tests, NULL, NULL);
}
