/* signSGD, Signum, the majority vote and EF-sign: what their papers promise. */
#include <math.h>
#include <stdio.h>

#include "method/crew.h"

static const uint32_t crowds[] = {1, 2, 3, 8};
static const char *const signed_methods[] = {"signsgd:lr=0.125", "signum:lr=0.125"};

/* All sums of multiples of an eighth are exact, so |x' - x| is exactly lr, whatever the kind. */
static void every_coordinate_moves_by_lr(void **unused)
{
    (void)unused;
    for (size_t m = 0; m < 2; m++) {
        for (size_t c = 0; c < 4; c++) {
            struct crew crew = crew_new(&(struct crew_plan){
                .spec = signed_methods[m], .workers = crowds[c], .count = 1000});
            float *const before = test_floats(crew.count);
            for (uint64_t step = 0; step < 12; step++) {
                memcpy(before, crew.weights[0], crew.count * sizeof(float));
                crew_gradients(&crew, (enum test_kind)(step % TEST_KINDS), step);
                crew_step(&crew);
                for (size_t i = 0; i < crew.count; i++)
                    assert_true(fabsf(crew.weights[0][i] - before[i]) == 0.125f);
                crew_agrees(&crew, signed_methods[m]);
            }
            free(before);
            crew_free(&crew);
        }
    }
}

/* Weights after a few steps on normal gradients, worker r's times scale[r % 4] and taken from
 * the random numbers of worker (r + turn) % K. */
static float *after(const char *spec, uint32_t workers, const float scale[4], uint32_t turn)
{
    struct crew crew =
        crew_new(&(struct crew_plan){.spec = spec, .workers = workers, .count = 700});
    float *const out = test_floats(crew.count);
    float *row[TERSE_MAX_LOCAL_WORKERS];
    for (uint64_t step = 0; step < 6; step++) {
        crew_gradients(&crew, TEST_NORMAL, step);
        for (uint32_t r = 0; r < workers; r++)
            for (size_t i = 0; i < crew.count; i++)
                crew.gradient[r][i] *= scale[r % 4];
        memcpy(row, crew.gradient, sizeof row);
        for (uint32_t r = 0; r < workers; r++)
            crew.gradient[r] = row[(r + turn) % workers];
        crew_step(&crew);
        memcpy(crew.gradient, row, sizeof row);
    }
    memcpy(out, crew.weights[0], crew.count * sizeof(float));
    crew_free(&crew);
    return out;
}

static const float ones[4] = {1, 1, 1, 1};

static void expect_equal(float *a, float *b, float sign, const char *what)
{
    for (size_t i = 0; i < 700; i++)
        if (a[i] != sign * b[i])
            fail_msg("%s: element %zu: %g and %g", what, i, (double)a[i], (double)b[i]);
    free(a);
    free(b);
}

/* Powers of two scale a momentum exactly; signs of gradients do not depend on c > 0. */
static void scale_changes_nothing(void **unused)
{
    static const float scales[][4] = {
        {4, 4, 4, 4}, {0x1p-60f, 1, 0x1p60f, 2}, {3, 1e-20f, 7e19f, 1}};
    (void)unused;
    for (size_t c = 0; c < 4; c++) {
        for (size_t s = 0; s < 3; s++)
            expect_equal(after(signed_methods[0], crowds[c], ones, 0),
                         after(signed_methods[0], crowds[c], scales[s], 0), 1, "g -> c g");
        for (size_t s = 0; s < 2; s++)
            expect_equal(after(signed_methods[1], crowds[c], ones, 0),
                         after(signed_methods[1], crowds[c], scales[s], 0), 1, "m -> c m");
    }
}

/* Coins of ties belong to the element, not to a worker: order changes nothing for even K either. */
static void workers_may_change_handles(void **unused)
{
    (void)unused;
    for (size_t c = 1; c < 4; c++)
        expect_equal(after(signed_methods[0], crowds[c], ones, 0),
                     after(signed_methods[0], crowds[c], ones, 1), 1, "another order");
}

static void the_vote_is_odd(void **unused)
{
    static const float minus[4] = {-1, -1, -1, -1};
    (void)unused;
    for (size_t m = 0; m < 2; m++)
        for (uint32_t workers = 1; workers <= 27; workers += 2)
            expect_equal(after(signed_methods[m], workers, ones, 0),
                         after(signed_methods[m], workers, minus, 0), -1, "g -> -g");
}

static void beta_0_is_signsgd(void **unused)
{
    (void)unused;
    for (size_t c = 0; c < 4; c++)
        expect_equal(after("signsgd:lr=0.01", crowds[c], ones, 0),
                     after("signum:lr=0.01,beta=0", crowds[c], ones, 0), 1, "beta=0");
}

static void identical_workers_are_one(void **unused)
{
    (void)unused;
    for (size_t m = 0; m < 2; m++) {
        for (size_t c = 1; c < 4; c++) {
            struct crew one = crew_new(
                &(struct crew_plan){.spec = signed_methods[m], .workers = 1, .count = 500});
            struct crew all = crew_new(
                &(struct crew_plan){.spec = signed_methods[m], .workers = crowds[c], .count = 500});
            for (uint64_t step = 0; step < 5; step++) {
                crew_gradients(&one, TEST_NORMAL, step);
                for (uint32_t r = 0; r < all.workers; r++)
                    memcpy(all.gradient[r], one.gradient[0], 500 * sizeof(float));
                crew_step(&one);
                crew_step(&all);
            }
            assert_true(test_same_bits(one.weights[0], all.weights[0], 500));
            crew_free(&one);
            crew_free(&all);
        }
    }
}

static void one_loud_worker_moves_nothing(void **unused)
{
    struct crew crew =
        crew_new(&(struct crew_plan){.spec = "signsgd:lr=0.5", .workers = 3, .count = 256});
    (void)unused;
    for (size_t i = 0; i < 256; i++) {
        crew.gradient[0][i] = i % 2 ? 1e-30f : -1e-30f;
        crew.gradient[1][i] = i % 2 ? 2.0f : -0.1f;
        crew.gradient[2][i] = i % 2 ? -1e30f : 1e30f;
    }
    crew_step(&crew);
    for (size_t i = 0; i < 256; i++)
        assert_true(crew.weights[0][i] == (i % 2 ? -0.5f : 0.5f));
    crew_free(&crew);
}

/* x' = x - lr (s + wd x), and the decay does not enter the momentum. */
static void decay_is_decoupled(void **unused)
{
    float start[300];
    struct test_random random = {test_seed()};
    (void)unused;
    test_fill(&random, TEST_NORMAL, start, 300);
    struct crew with = crew_new(&(struct crew_plan){
        .spec = "signum:lr=0.1,wd=0.2", .workers = 3, .count = 300, .start = start});
    struct crew without = crew_new(
        &(struct crew_plan){.spec = "signum:lr=0.1", .workers = 3, .count = 300, .start = start});
    for (uint64_t step = 0; step < 4; step++) {
        float before[300];
        float plain[300];
        memcpy(before, with.weights[0], sizeof before);
        memcpy(plain, without.weights[0], sizeof plain);
        crew_train(&with, TEST_NORMAL, step, 1);
        crew_train(&without, TEST_NORMAL, step, 1);
        for (size_t i = 0; i < 300; i++) {
            const double vote = without.weights[0][i] < plain[i] ? 1 : -1;
            const double x = (double)before[i];
            close_to((double)with.weights[0][i], x - 0.1 * (vote + 0.2 * x), 1e-6, "decay", i);
        }
        for (uint32_t r = 0; r < 3; r++)
            assert_true(test_same_bits(crew_floats(&with, r, "momentum"),
                                       crew_floats(&without, r, "momentum"), 300));
    }
    crew_free(&with);
    crew_free(&without);
}

/* ---- ties, zeros, votes: frequencies ---- */

#define MANY 100000u

/* How many of MANY coordinates moved down, i.e. had a vote of +1. */
static double plus_share(struct crew *crew)
{
    double plus = 0;
    memset(crew->weights[0], 0, MANY * sizeof(float));
    for (uint32_t r = 1; r < crew->workers; r++)
        memset(crew->weights[r], 0, MANY * sizeof(float));
    crew_step(crew);
    crew_agrees(crew, "votes");
    for (size_t i = 0; i < MANY; i++)
        plus += crew->weights[0][i] < 0;
    return plus / MANY;
}

/* Five standard deviations: a right implementation fails once in a million. */
static void expect_share(double share, double p, const char *what)
{
    if (fabs(share - p) > 5 * sqrt(p * (1 - p) / MANY) + 1e-12)
        fail_msg("%s: %.5f of all votes are plus, expected %.5f", what, share, p);
}

static void fill_all(struct crew *crew, uint32_t rank, float value)
{
    for (size_t i = 0; i < crew->count; i++)
        crew->gradient[rank][i] = value;
}

/* zero=keep: the sign of the sum of the signs; zeros and ties move nothing. */
static void kept_zeros_move_nothing(void **unused)
{
    enum { VALUES = 81 }; /* all of -1, 0, +1 of four workers */
    static const char *const specs[] = {"signsgd:lr=0.5,zero=keep", "signum:lr=0.5,zero=keep",
                                        "codec=sign:zero=keep,lr=0.5",
                                        "signum:lr=0.5,zero=keep,combine=parameter-server"};
    (void)unused;
    for (size_t s = 0; s < sizeof specs / sizeof specs[0]; s++) {
        for (uint32_t workers = 1; workers <= 4; workers++) {
            struct crew crew = crew_new(
                &(struct crew_plan){.spec = specs[s], .workers = workers, .count = VALUES});
            int sum[VALUES] = {0};
            for (int i = 0; i < VALUES; i++)
                for (int r = 0, left = i; r < (int)workers; r++, left /= 3) {
                    crew.gradient[r][i] = (float)(left % 3 - 1) * (float)(r + 1);
                    sum[i] += left % 3 - 1;
                }
            crew_step(&crew);
            for (int i = 0; i < VALUES; i++)
                assert_true(crew.weights[0][i] == (float)((sum[i] < 0) - (sum[i] > 0)) * 0.5f);
            crew_free(&crew);
        }
    }
}

static void ties_and_zeros(void **unused)
{
    static const struct {
        const char *spec;
        uint32_t workers;
        float value[4];
        double plus;
    } cases[] = {
        {"signsgd:tie=plus", 2, {1, -1}, 1},
        {"signsgd:tie=coin", 2, {1, -1}, 0.5},
        {"signum:tie=plus", 4, {1, -1, 3, -2}, 1},
        {"signum", 4, {1, -1, 3, -2}, 0.5},
        {"signsgd:zero=plus", 1, {0}, 1},
        {"signsgd:zero=plus", 3, {0, -1, 0}, 1},
        {"signsgd:zero=coin", 1, {0}, 0.5},
        {"signsgd", 3, {0, 0, 0}, 0.5},
        {"signsgd", 3, {0, 1, 0}, 0.75}, /* two coins that are not one */
        {"signsgd", 2, {0, 1}, 0.75},    /* a coin, and a tie in half of the cases */
        {"signsgd:tie=plus", 2, {0, -1}, 0.5},
    };
    (void)unused;
    for (size_t k = 0; k < sizeof cases / sizeof cases[0]; k++) {
        struct crew crew = crew_new(&(struct crew_plan){.spec = cases[k].spec,
                                                        .workers = cases[k].workers,
                                                        .count = MANY,
                                                        .seed = test_seed() + k});
        for (uint32_t r = 0; r < crew.workers; r++)
            fill_all(&crew, r, cases[k].value[r]);
        expect_share(plus_share(&crew), cases[k].plus, cases[k].spec);
        float *const first = test_floats(MANY);
        memcpy(first, crew.weights[0], MANY * sizeof(float));
        expect_share(plus_share(&crew), cases[k].plus, "and the next step");
        if (cases[k].plus < 1) /* other coins in every step */
            assert_false(test_same_bits(first, crew.weights[0], MANY));
        free(first);
        crew_free(&crew);
    }
}

static double binomial(unsigned n, unsigned k, double p)
{
    return exp(lgamma(n + 1.0) - lgamma(k + 1.0) - lgamma(n - k + 1.0)) * pow(p, k) *
           pow(1 - p, n - k);
}

/* P[Bin(M-a, p) + Bin(a, 1-p) > M/2] */
static double vote_probability(unsigned workers, unsigned inverters, double p)
{
    double sum = 0;
    for (unsigned right = 0; right <= workers - inverters; right++)
        for (unsigned turned = 0; turned <= inverters; turned++)
            if (2 * (right + turned) > workers)
                sum += binomial(workers - inverters, right, p) * binomial(inverters, turned, 1 - p);
    return sum;
}

static void vote_probabilities(void **unused)
{
    static const struct {
        unsigned workers, inverters;
        double p;
    } cases[] = {{1, 0, 0.7}, {3, 0, 0.6},   {3, 1, 0.8},  {7, 3, 0.9},
                 {9, 2, 0.6}, {27, 13, 0.7}, {27, 14, 0.7}};
    (void)unused;
    for (size_t k = 0; k < sizeof cases / sizeof cases[0]; k++) {
        struct crew crew = crew_new(
            &(struct crew_plan){.spec = "signsgd", .workers = cases[k].workers, .count = MANY});
        struct test_random random = {test_seed() * 31 + k};
        for (uint32_t r = 0; r < crew.workers; r++)
            for (size_t i = 0; i < MANY; i++)
                crew.gradient[r][i] =
                    (test_uniform(&random) < cases[k].p) == (r >= cases[k].inverters) ? 1 : -1;
        expect_share(plus_share(&crew),
                     vote_probability(cases[k].workers, cases[k].inverters, cases[k].p), "vote");
        crew_free(&crew);
    }
}

/* Gauss: P[wrong sign] <= (2/9)/S^2 if S > 2/sqrt 3, else 1/2 - S/(2 sqrt 3). */
static double gauss_bound(double s)
{
    return s > 2 / sqrt(3) ? 2.0 / 9 / (s * s) : 0.5 - s / (2 * sqrt(3));
}

static void wrong_signs_stay_below_the_bound(void **unused)
{
    static const double cases[][3] = {
        {0.5, 0.355662, 0.308538}, {1, 0.211325, 0.158655}, {2, 0.055556, 0.022750}};
    struct crew crew =
        crew_new(&(struct crew_plan){.spec = "signsgd", .workers = 1, .count = MANY});
    struct test_random random = {test_seed() * 77};
    (void)unused;
    for (size_t k = 0; k < 3; k++) {
        close_to(gauss_bound(cases[k][0]), cases[k][1], 1e-6, "bound", k);
        for (size_t i = 0; i < MANY; i++)
            crew.gradient[0][i] = (float)(test_normal(&random) - cases[k][0]);
        const double wrong = plus_share(&crew);
        expect_share(wrong, cases[k][2], "wrong signs of Gaussian noise");
        assert_true(wrong < cases[k][1]);
    }
    crew_free(&crew);
}

/* ---- EF-sign ---- */

enum form { PLAIN, MOMENTUM, NESTEROV };

/* p = lr d + e; D = mean |p| sgn p; x -= D; e = p - D. The owner encodes D again, which gives D.
 * d is g; or m = 0.8 m + g; or in Nesterov's form g + 0.8 m. */
static void expect_ef_sign(const char *spec, enum form form)
{
    struct crew crew =
        crew_new(&(struct crew_plan){.spec = spec, .workers = 1, .count = 50, .measure_every = 1});
    double x[50] = {0};
    double e[50] = {0};
    double m[50] = {0};
    for (uint64_t step = 0; step < 20; step++) {
        double size = 0;
        double kept = 0;
        double given = 0;
        crew_gradients(&crew, TEST_NORMAL, step);
        for (size_t i = 0; i < 50; i++) {
            const double g = (double)crew.gradient[0][i];
            m[i] = 0.8 * m[i] + g;
            e[i] += 0.1 * (form == PLAIN ? g : form == MOMENTUM ? m[i] : g + 0.8 * m[i]);
            size += fabs(e[i]) / 50;
            given += e[i] * e[i];
        }
        crew_step(&crew);
        for (size_t i = 0; i < 50; i++) {
            const double sent = e[i] < 0 ? -size : size;
            x[i] -= sent;
            e[i] -= sent;
            kept += e[i] * e[i];
            close_to((double)crew.weights[0][i], x[i], 1e-5, "x", i);
            close_to((double)crew_floats(&crew, 0, "residual")[i], e[i], 1e-5, "e", i);
        }
        close_to(crew.report[0].residual_norm, sqrt(kept), 1e-4, "|e|", 0);
        close_to(crew.report[0].compression_error, sqrt(kept / given), 1e-4, "error", 0);
    }
    crew_free(&crew);
}

static void ef_sign_is_its_rule(void **unused)
{
    (void)unused;
    expect_ef_sign("ef-sign:lr=0.1", PLAIN);
    expect_ef_sign("ef-sign:lr=0.1,momentum=0.8", MOMENTUM);
    expect_ef_sign("ef-sign:lr=0.1,momentum=0.8,nesterov=yes", NESTEROV);
    expect_ef_sign("ef-sign:lr=0.1,nesterov=yes", PLAIN);
}

/* min x/4 with g = 4 w.p. 1/4, else -1: the sign climbs, its remembered error falls. */
static void the_counter_example(void **unused)
{
    struct crew sign =
        crew_new(&(struct crew_plan){.spec = "signsgd:lr=0.01", .workers = 1, .count = 1});
    struct crew cured =
        crew_new(&(struct crew_plan){.spec = "ef-sign:lr=0.01", .workers = 1, .count = 1});
    struct test_random random = {test_seed()};
    double plain = 0;
    (void)unused;
    for (int step = 0; step < 4000; step++) {
        const float g = test_uniform(&random) < 0.25 ? 4.0f : -1.0f;
        sign.gradient[0][0] = cured.gradient[0][0] = g;
        plain -= 0.01 * (double)g;
        crew_step(&sign);
        crew_step(&cured);
    }
    assert_true((double)sign.weights[0][0] > 15); /* 4000 * lr / 2 = 20 */
    /* in one dimension it is the identity */
    close_to((double)cured.weights[0][0], plain, 1e-4, "ef-sign in one dimension", 0);
    assert_true(crew_floats(&cured, 0, "residual")[0] == 0);
    crew_free(&sign);
    crew_free(&cured);
}

static double squares(const float *x)
{
    const double first = 1.3 * (double)x[0] - 0.7 * (double)x[1];
    const double second = -0.7 * (double)x[0] + 1.3 * (double)x[1];
    return first * first + second * second;
}

/* Rows (1,-1) + .3(1,1) and its mirror from (1,1): signs move along (1,-1) only. */
static void the_cure_in_two_dimensions(void **unused)
{
    static const float start[2] = {1, 1};
    struct crew sign = crew_new(
        &(struct crew_plan){.spec = "signsgd:lr=0.01", .workers = 1, .count = 2, .start = start});
    struct crew cured = crew_new(
        &(struct crew_plan){.spec = "ef-sign:lr=0.01", .workers = 1, .count = 2, .start = start});
    struct crew *const both[] = {&sign, &cured};
    struct test_random random = {test_seed()};
    (void)unused;
    for (int step = 0; step < 5000; step++) {
        const int mirror = test_next(&random) % 2 != 0;
        const float row[2] = {mirror ? -0.7f : 1.3f, mirror ? 1.3f : -0.7f};
        for (int m = 0; m < 2; m++) {
            const float *const x = both[m]->weights[0];
            const float twice = 2 * (row[0] * x[0] + row[1] * x[1]);
            both[m]->gradient[0][0] = twice * row[0];
            both[m]->gradient[0][1] = twice * row[1];
            crew_step(both[m]);
        }
    }
    assert_true(squares(sign.weights[0]) > 0.7);
    assert_true(squares(cured.weights[0]) < 0.01);
    crew_free(&sign);
    crew_free(&cured);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(every_coordinate_moves_by_lr),
        cmocka_unit_test(scale_changes_nothing),
        cmocka_unit_test(workers_may_change_handles),
        cmocka_unit_test(the_vote_is_odd),
        cmocka_unit_test(beta_0_is_signsgd),
        cmocka_unit_test(identical_workers_are_one),
        cmocka_unit_test(one_loud_worker_moves_nothing),
        cmocka_unit_test(decay_is_decoupled),
        cmocka_unit_test(ties_and_zeros),
        cmocka_unit_test(kept_zeros_move_nothing),
        cmocka_unit_test(vote_probabilities),
        cmocka_unit_test(wrong_signs_stay_below_the_bound),
        cmocka_unit_test(ef_sign_is_its_rule),
        cmocka_unit_test(the_counter_example),
        cmocka_unit_test(the_cure_in_two_dimensions),
    };
    return cmocka_run_group_tests_name("sign", tests, NULL, NULL);
}
