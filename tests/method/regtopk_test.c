/* RegTop-k against its paper; Top-k is its step 0. */
#include <math.h>
#include <stdio.h>
#include <sys/mman.h>
#include <unistd.h>

#include "feedback/posterior.h"
#include "method/crew.h"

static const uint32_t crowds[] = {1, 2, 3, 8};
static const char *const forms[] = {"prev", "cur"};

/* ---- the worked vector: w = .5, mu = 1 ---- */

static void scores_of_the_worked_vector(void **unused)
{
    static const float a[4] = {4, -1, 1.5f, 1.1f};
    static const double expected[2] = {.870061662, .964027580};
    struct tsi_posterior posterior;
    (void)unused;
    for (int form = 0; form < 2; form++) {
        assert_true(tsi_posterior_create(&posterior, 4));
        posterior.count = 2;
        for (size_t i = 0; i < 2; i++) {
            posterior.index[i] = i;
            posterior.before[i] = (float[]){4, -3}[i];
            posterior.sum[i] = (float[]){0, -4}[i]; /* G / w */
        }
        tsi_posterior_score(&posterior, (enum tsi_posterior_form)form, 1, a, 0, 2);
        assert_true(posterior.score[0] == 0);
        close_to((double)posterior.score[1], expected[form], 1e-6, forms[form], 1);
        tsi_posterior_destroy(&posterior);
    }
}

/* Indices that fill a page between two that cannot be read: nothing beside them is looked at, for
 * prefetching neither. */
static void indices_are_read_within_their_list(void **unused)
{
    const size_t page = (size_t)sysconf(_SC_PAGESIZE);
    const size_t count = page / sizeof(uint64_t);
    char *const pages = mmap(NULL, 3 * page, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    float *const a = test_floats(count);
    struct tsi_posterior posterior;
    (void)unused;
    assert_true(pages != MAP_FAILED && mprotect(pages + page, page, PROT_READ | PROT_WRITE) == 0);
    assert_true(tsi_posterior_create(&posterior, count));
    uint64_t *const own = posterior.index;
    posterior.index = (uint64_t *)(void *)(pages + page);
    for (size_t i = 0; i < count; i++) {
        posterior.index[i] = i;
        posterior.before[i] = 1;
        posterior.sum[i] = 1e6f; /* the factor is 1 */
        a[i] = (float)(i + 1);
    }
    tsi_posterior_score(&posterior, TSI_FORM_PREV, 1, a, 0, count);
    for (size_t i = 0; i < count; i++)
        assert_true(posterior.score[i] == a[i]);
    posterior.index = own;
    tsi_posterior_destroy(&posterior);
    free(a);
    assert_int_equal(munmap(pages, 3 * page), 0);
}

/* Worker 0 sent a_prev in the step before; worker 1 cancels its 4 and sends -1 where it sends -3.
 */
static void the_worked_vector_end_to_end(void **unused)
{
    static const float first[2][4] = {{4, -3, 1, .5f}, {-4, -1, .5f, 0}};
    static const float kept[4] = {4, -1, 0, 0};
    (void)unused;
    for (int form = 0; form < 2; form++) {
        char spec[64];
        (void)snprintf(spec, sizeof spec, "regtopk:keep=0.5,mu=1,lr=0.1,form=%s", forms[form]);
        struct crew crew = crew_new(&(struct crew_plan){.spec = spec, .workers = 2, .count = 4});
        memcpy(crew.gradient[0], first[0], sizeof first[0]);
        memcpy(crew.gradient[1], first[1], sizeof first[1]);
        crew_step(&crew);
        close_to((double)crew.weights[0][1], .2, 1e-7, "x", 1); /* G = -2 */
        assert_true(crew.weights[0][0] == 0);
        memcpy(crew.gradient[0], (float[]){4, -1, .5f, .6f}, 4 * sizeof(float));
        memset(crew.gradient[1], 0, 4 * sizeof(float));
        crew_step(&crew);
        for (size_t i = 0; i < 4; i++) /* sent {2, 3} */
            assert_true(crew_floats(&crew, 0, "residual")[i] == kept[i]);
        crew_free(&crew);
    }
}

static void unknown_counts_as_not_sent(void **unused)
{
    static const float a[4] = {0, 2, -3, 1};
    struct tsi_posterior posterior;
    (void)unused;
    assert_true(tsi_posterior_create(&posterior, 4));
    posterior.count = 4;
    for (size_t i = 0; i < 4; i++) {
        posterior.index[i] = i;
        posterior.before[i] = (float[]){1, 0, 1e-38f, -1}[i];
        posterior.sum[i] = (float[]){1, 5, 1e30f, 1e-3f}[i];
    }
    for (int form = 0; form < 2; form++) {
        for (int power = -6; power < 7; power += 2) {
            const double mu = pow(10, power);
            tsi_posterior_score(&posterior, (enum tsi_posterior_form)form, (float)mu, a, 0, 4);
            assert_true(posterior.score[0] == 0); /* a = 0 */
            for (size_t i = 0; i < 4; i++)        /* a factor is within 0..1, never NaN */
                assert_true(posterior.score[i] >= 0 && posterior.score[i] <= fabsf(a[i]));
        }
    }
    tsi_posterior_score(&posterior, TSI_FORM_PREV, 1, a, 0, 4);
    assert_true(posterior.score[1] == 2 && posterior.score[2] == 3); /* a_prev = 0, overflow */
    tsi_posterior_destroy(&posterior);
}

/* The library's tanh against the one of libm, over all that matters. */
static void the_factor_is_tanh(void **unused)
{
    struct tsi_posterior posterior;
    const float one = 1;
    (void)unused;
    assert_true(tsi_posterior_create(&posterior, 1));
    posterior.count = 1;
    posterior.index[0] = 0;
    posterior.before[0] = 1;
    for (int i = 0; i < 2400; i++) {
        const float y = (float)(1e-9 * pow(1.01, i)); /* to about 24 */
        posterior.sum[0] = y;
        tsi_posterior_score(&posterior, TSI_FORM_PREV, 1, &one, 0, 1);
        const double right = tanh((double)y);
        close_to((double)posterior.score[0] / right, 1, 1e-6, "tanh", 0);
    }
    tsi_posterior_destroy(&posterior);
}

/* ---- steps against a reference in double ---- */

enum { N = 400, KEEP = 40 };

struct past {
    double a[8][N];
    double g[N];
    unsigned char sent[8][N];
};

/* |1 + Delta| of an element that was sent. */
static double balance(const struct past *past, int cur, uint32_t k, uint32_t workers, size_t i,
                      double a)
{
    const double mine = past->a[k][i] / workers;
    return fabs(cur ? 1 + (past->g[i] - mine) / (a / workers) : past->g[i] / mine);
}

/* Elements that worker k sent are 0 in its residual, the others are a, bit for bit; those sent have
 * the k largest metrics. */
static void check_worker(const struct crew *crew, uint32_t k, const float *a, struct past *past,
                         double mu, int cur)
{
    const float *const e = crew_floats(crew, k, "residual");
    double least = INFINITY;
    double most = 0;
    size_t sent = 0;
    for (size_t i = 0; i < N; i++) {
        double metric = fabs((double)a[i]);
        if (past->sent[k][i])
            metric *= tanh(balance(past, cur, k, crew->workers, i, (double)a[i]) / mu);
        const int here = e[i] == 0 && a[i] != 0;
        assert_true(here || e[i] == a[i]); /* sent + kept = given */
        sent += here != 0;
        if (here)
            least = fmin(least, metric);
        else
            most = fmax(most, metric);
        past->a[k][i] = (double)a[i];
        past->sent[k][i] = here != 0;
    }
    assert_int_equal(sent, KEEP);
    if (!(most <= least * (1 + 1e-5)))
        fail_msg("worker %u kept a metric of %.9g and sent one of %.9g", k, most, least);
}

static void check_rounds(const char *spec, uint32_t workers, double mu, int cur)
{
    static struct past past;
    static float a[8][N];
    struct crew crew = crew_new(&(struct crew_plan){.spec = spec, .workers = workers, .count = N});
    memset(&past, 0, sizeof past);
    for (uint64_t step = 0; step < 15; step++) {
        float before[N];
        memcpy(before, crew.weights[0], sizeof before);
        crew_gradients(&crew, TEST_NORMAL, step);
        for (uint32_t k = 0; k < workers; k++)
            for (size_t i = 0; i < N; i++)
                a[k][i] = crew.gradient[k][i] + crew_floats(&crew, k, "residual")[i];
        crew_step(&crew);
        for (uint32_t k = 0; k < workers; k++)
            check_worker(&crew, k, a[k], &past, mu, cur);
        for (size_t i = 0; i < N; i++) {
            past.g[i] = 0;
            for (uint32_t k = 0; k < workers; k++)
                past.g[i] += past.sent[k][i] ? (double)a[k][i] / workers : 0;
            close_to((double)crew.weights[0][i], (double)before[i] - 0.1 * past.g[i], 1e-6, "x", i);
        }
        crew_agrees(&crew, spec);
    }
    crew_free(&crew);
}

static void rounds_follow_the_rule(void **unused)
{
    (void)unused;
    for (size_t c = 0; c < 4; c++) {
        check_rounds("regtopk:keep=0.1,mu=1", crowds[c], 1, 0);
        check_rounds("regtopk:keep=0.1,mu=4", crowds[c], 4, 0);
        check_rounds("regtopk:keep=0.1,mu=0.3,combine=sparse-allreduce", crowds[c], 0.3, 0);
        check_rounds("regtopk:keep=0.1,mu=1,form=cur", crowds[c], 1, 1);
        check_rounds("topk:keep=0.1", crowds[c], 1e-300, 0);
        check_rounds("topk:keep=0.1,combine=sparse-allreduce", crowds[c], 1e-300, 0);
    }
}

/* ---- its relation to Top-k ---- */

/* Weights and residuals after `steps`, gradients times c. */
static void run(const char *spec, uint32_t workers, enum test_kind kind, uint64_t steps, float c,
                float *weights, float *residual)
{
    struct crew crew = crew_new(&(struct crew_plan){.spec = spec, .workers = workers, .count = N});
    for (uint64_t step = 0; step < steps; step++) {
        crew_gradients(&crew, kind, step);
        for (uint32_t k = 0; k < workers; k++)
            for (size_t i = 0; i < N; i++)
                crew.gradient[k][i] *= c;
        crew_step(&crew);
    }
    memcpy(weights, crew.weights[0], N * sizeof(float));
    for (uint32_t k = 0; k < workers; k++)
        memcpy(residual + k * N, crew_floats(&crew, k, "residual"), N * sizeof(float));
    crew_free(&crew);
}

static void expect_same(const char *a, const char *b, uint32_t workers, enum test_kind kind,
                        uint64_t steps)
{
    static float weights[2][N];
    static float residual[2][8 * N];
    run(a, workers, kind, steps, 1, weights[0], residual[0]);
    run(b, workers, kind, steps, 1, weights[1], residual[1]);
    if (!test_same_bits(weights[0], weights[1], N) ||
        !test_same_bits(residual[0], residual[1], workers * N))
        fail_msg("%s and %s differ after %u steps of %u workers", a, b, (unsigned)steps, workers);
}

static void round_0_is_topk(void **unused)
{
    (void)unused;
    for (size_t c = 0; c < 4; c++)
        for (int kind = 0; kind < TEST_KINDS; kind++)
            for (int form = 0; form < 2; form++)
                expect_same(form ? "regtopk:keep=0.07,form=cur" : "regtopk:keep=0.07",
                            "topk:keep=0.07", crowds[c], (enum test_kind)kind, 1);
}

static void small_mu_is_topk(void **unused)
{
    (void)unused;
    for (size_t c = 0; c < 4; c++)
        expect_same("regtopk:keep=0.05,mu=1e-6", "topk:keep=0.05", crowds[c], TEST_NORMAL, 12);
}

static void scale_keeps_the_masks(void **unused)
{
    static float weights[2][N];
    static float residual[2][8 * N];
    static const float scales[] = {4, 0x1p-40f, 3};
    (void)unused;
    for (int form = 0; form < 2; form++) {
        char spec[64];
        (void)snprintf(spec, sizeof spec, "regtopk:keep=0.1,mu=2,form=%s", forms[form]);
        run(spec, 3, TEST_NORMAL, 10, 1, weights[0], residual[0]);
        for (int s = 0; s < 3; s++) {
            run(spec, 3, TEST_NORMAL, 10, scales[s], weights[1], residual[1]);
            for (size_t i = 0; i < 3 * N; i++) {
                assert_true((residual[0][i] == 0) == (residual[1][i] == 0));
                assert_true(s == 2 || residual[1][i] == scales[s] * residual[0][i]);
            }
        }
    }
}

static void exactly_k_of_every_tensor(void **unused)
{
    static const double keeps[] = {0.01, 0.1, 0.5, 1};
    (void)unused;
    for (int k = 0; k < 4; k++) {
        char spec[64];
        terse_layout *layout = test_layout(300);
        (void)snprintf(spec, sizeof spec, "regtopk:keep=%g", keeps[k]);
        struct crew crew =
            crew_new(&(struct crew_plan){.spec = spec, .workers = 2, .layout = layout});
        for (uint64_t step = 0; step < 4; step++) {
            crew_train(&crew, TEST_NORMAL, step, 1);
            for (uint32_t t = 0; t < terse_layout_tensors(layout); t++) {
                terse_tensor tensor;
                assert_int_equal(terse_layout_tensor(layout, t, &tensor), TERSE_OK);
                const double part = floor(keeps[k] * (double)tensor.count);
                const double expected = tensor.count == 0 ? 0 : fmax(1, part);
                for (uint32_t r = 0; r < 2; r++) {
                    const float *const e = crew_floats(&crew, r, "residual") + tensor.offset;
                    double sent = 0;
                    for (uint64_t i = 0; i < tensor.count; i++)
                        sent += e[i] == 0;
                    close_to(sent, expected, 0, tensor.name, step);
                }
            }
        }
        crew_free(&crew);
        terse_layout_destroy(layout);
    }
}

/* Toy: two workers with x1=(100,1), x2=(-100,1); the first coordinates cancel and Top-1 sends
 * nothing else for about 100 steps, RegTop-1 follows dense descent. */
static double toy(const char *spec, int rounds)
{
    static const float start[2] = {0, 1};
    struct crew crew =
        crew_new(&(struct crew_plan){.spec = spec, .workers = 2, .count = 2, .start = start});
    for (int round = 0; round < rounds; round++) {
        for (uint32_t k = 0; k < 2; k++) {
            const double row[2] = {k ? -100 : 100, 1};
            const double z = row[0] * (double)crew.weights[0][0] + (double)crew.weights[0][1];
            const double slope = -1 / (1 + exp(z));
            for (int i = 0; i < 2; i++)
                crew.gradient[k][i] = (float)(slope * row[i]);
        }
        crew_step(&crew);
    }
    const double x = (double)crew.weights[0][1];
    crew_free(&crew);
    return x;
}

static void the_toy(void **unused)
{
    (void)unused;
    for (int rounds = 10; rounds <= 50; rounds += 20) {
        const double dense = toy("dense:lr=0.9,momentum=0", rounds);
        close_to(toy("topk:keep=0.5,lr=0.9", rounds), 1, 1e-6, "Top-1 stalls", 0);
        assert_true(dense > 2);
        close_to(toy("regtopk:keep=0.5,lr=0.9,mu=1", rounds), dense, 0.1, "RegTop-1", 0);
    }
}

static void refused(void **unused)
{
    static const char *const specs[] = {"regtopk:combine=shard", "regtopk:combine=parameter-server",
                                        "regtopk:feedback=none"};
    static const char *const reasons[] = {"exact combine", "exact combine", "feedback=residual"};
    (void)unused;
    for (int s = 0; s < 3; s++) {
        terse_fault fault = {0};
        assert_int_equal(terse_method_check(specs[s], &fault), TERSE_BAD_SPEC);
        assert_non_null(strstr(fault.text, reasons[s]));
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(scores_of_the_worked_vector),
        cmocka_unit_test(indices_are_read_within_their_list),
        cmocka_unit_test(the_worked_vector_end_to_end),
        cmocka_unit_test(unknown_counts_as_not_sent),
        cmocka_unit_test(the_factor_is_tanh),
        cmocka_unit_test(rounds_follow_the_rule),
        cmocka_unit_test(round_0_is_topk),
        cmocka_unit_test(small_mu_is_topk),
        cmocka_unit_test(scale_keeps_the_masks),
        cmocka_unit_test(exactly_k_of_every_tensor),
        cmocka_unit_test(the_toy),
        cmocka_unit_test(refused),
    };
    return cmocka_run_group_tests_name("regtopk", tests, NULL, NULL);
}
