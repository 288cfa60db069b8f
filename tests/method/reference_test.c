/* Optimizers against rules written out in doubles here: momentum, moments, decay, local steps. The
 * gradients are drawn, so that a wrong step is not made good by later ones. */
#include <math.h>
#include <stdio.h>

#include "method/crew.h"

enum { COUNT = 400, STEPS = 40, MOST = 5 };

static const uint32_t crowds[] = {1, 3, 4, 5};

/* A rule in doubles: one step of all workers with the gradients of the crew. */
struct rule {
    double x[COUNT];
    double m[MOST][COUNT]; /* of a worker; [0] where the update has it */
    double v[COUNT];
    double v_most[COUNT];
    double w[MOST][COUNT]; /* local weights */
    double outer[COUNT];
    int close[COUNT]; /* a sign that rounding may turn */
};

static void start_at(struct rule *rule, float *start)
{
    struct test_random random = {test_seed() * 17 + 3};
    test_fill(&random, TEST_NORMAL, start, COUNT);
    memset(rule, 0, sizeof *rule);
    for (size_t i = 0; i < COUNT; i++) {
        rule->x[i] = (double)start[i];
        for (size_t k = 0; k < MOST; k++)
            rule->w[k][i] = rule->x[i];
    }
}

static struct crew new_crew(const char *spec, uint32_t workers, const float *start)
{
    return crew_new(&(struct crew_plan){.spec = spec,
                                        .workers = workers,
                                        .count = COUNT,
                                        .start = start,
                                        .seed = test_seed(),
                                        .steps = STEPS});
}

static void expect_weights(const struct crew *crew, const struct rule *rule, double tolerance)
{
    for (size_t i = 0; i < COUNT; i++)
        if (!rule->close[i])
            close_to((double)crew->weights[0][i], rule->x[i], tolerance,
                     terse_method_spec(crew->method[0]), i);
}

/* ---- Signum ---- */

#define SIGNUM_LR 0.01

struct signum {
    double beta;
    double wd;
    int in_momentum; /* decay=momentum */
    uint64_t warmup; /* sign_warmup */
};

/* m_k = beta m_k + (1-beta) g_k; x -= lr (sgn(sum sgn m_k) + wd x); a tie is +1. wd x is part of
 * g_k instead where decay is in the momentum. The first votes are the signs of g_k, without decay.
 */
static void vote_of_momenta(struct rule *rule, const struct crew *crew, const struct signum *signum,
                            uint64_t step)
{
    const double beta = signum->beta;
    const double inner = signum->in_momentum ? signum->wd : 0;
    const double outer = signum->in_momentum ? 0 : signum->wd;
    for (size_t i = 0; i < COUNT; i++) {
        int votes = 0;
        for (uint32_t k = 0; k < crew->workers; k++) {
            double *const m = &rule->m[k][i];
            const double g = (double)crew->gradient[k][i];
            *m = beta * *m + (1 - beta) * (g + inner * rule->x[i]);
            const double voter = step < signum->warmup ? g : *m;
            votes += voter < 0 ? -1 : 1;
            rule->close[i] |= fabs(voter) < 1e-6;
        }
        rule->x[i] -= SIGNUM_LR * ((votes < 0 ? -1 : 1) + outer * rule->x[i]);
    }
}

static void signum_votes_with_its_momenta(void **unused)
{
    static const struct signum cases[] = {
        {0, 0, 0, 0},     {0.5, 0.2, 0, 0}, {0.9, 0, 0, 0},    {0.99, 0.2, 0, 0},
        {0, 0.9, 1, 0},   {0.5, 0.9, 1, 0}, {0.9, 0.9, 1, 0},  {0.9, 0, 1, 0},
        {0.9, 0.2, 0, 1}, {0.99, 0, 0, 15}, {0.9, 0.9, 1, 15}, {0.5, 0, 0, STEPS},
    };
    static struct rule rule;
    float start[COUNT];
    (void)unused;
    for (size_t c = 0; c < 4; c++) {
        for (size_t s = 0; s < sizeof cases / sizeof cases[0]; s++) {
            char spec[120];
            (void)snprintf(spec, sizeof spec,
                           "signum:lr=%g,beta=%g,wd=%g,decay=%s,sign_warmup=%d,tie=plus", SIGNUM_LR,
                           cases[s].beta, cases[s].wd,
                           cases[s].in_momentum ? "momentum" : "decoupled", (int)cases[s].warmup);
            start_at(&rule, start);
            struct crew crew = new_crew(spec, crowds[c], start);
            for (uint64_t step = 0; step < STEPS; step++) {
                crew_gradients(&crew, TEST_NORMAL, step);
                crew_step(&crew);
                vote_of_momenta(&rule, &crew, &cases[s], step);
                expect_weights(&crew, &rule, 1e-5);
            }
            size_t close = 0;
            for (size_t i = 0; i < COUNT; i++)
                close += rule.close[i] != 0;
            assert_true(close < COUNT / 20); /* what is left out is little */
            crew_free(&crew);
        }
    }
}

/* ---- Adam ---- */

/* Moments of the mean gradient, both corrected for their start at 0; decoupled decay. AMSGrad
 * divides by the largest v before its correction. */
static void adam_step(struct rule *rule, const struct crew *crew, double wd, int amsgrad, double t)
{
    const double beta1 = 0.8;
    const double beta2 = 0.95;
    for (size_t i = 0; i < COUNT; i++) {
        const double g = crew_mean(crew, NULL, i);
        rule->m[0][i] = beta1 * rule->m[0][i] + (1 - beta1) * g;
        rule->v[i] = beta2 * rule->v[i] + (1 - beta2) * g * g;
        const double m = rule->m[0][i] / (1 - pow(beta1, t));
        rule->v_most[i] = fmax(rule->v_most[i], rule->v[i]);
        const double v = (amsgrad ? rule->v_most[i] : rule->v[i]) / (1 - pow(beta2, t));
        rule->x[i] -= 0.02 * (m / (sqrt(v) + 0.01) + wd * rule->x[i]);
    }
}

static void adam_corrects_its_bias(void **unused)
{
    static const double decays[] = {0, 0.3, 0.3};
    static const char *const amsgrad[] = {"no", "no", "yes"};
    static struct rule rule;
    float start[COUNT];
    (void)unused;
    for (size_t c = 0; c < 4; c++) {
        for (size_t d = 0; d < 3; d++) {
            char spec[96];
            (void)snprintf(spec, sizeof spec,
                           "adam:lr=0.02,beta1=0.8,beta2=0.95,eps=0.01,wd=%g,amsgrad=%s", decays[d],
                           amsgrad[d]);
            start_at(&rule, start);
            struct crew crew = new_crew(spec, crowds[c], start);
            for (uint64_t step = 0; step < STEPS; step++) {
                crew_gradients(&crew, TEST_NORMAL, step);
                crew_step(&crew);
                adam_step(&rule, &crew, decays[d], d == 2, (double)step + 1);
                expect_weights(&crew, &rule, 1e-5);
            }
            crew_free(&crew);
        }
    }
}

/* ---- SGD with momentum ---- */

/* m = momentum m + mean g + wd x; x -= lr m */
static void sgd_step(struct rule *rule, const struct crew *crew, double momentum, double wd)
{
    for (size_t i = 0; i < COUNT; i++) {
        double *const m = &rule->m[0][i];
        *m = momentum * *m + crew_mean(crew, NULL, i) + wd * rule->x[i];
        rule->x[i] -= 0.05 * *m;
    }
}

/* Whatever loses nothing, or little, is SGD: with momentum, with decay, with both, with neither. */
static void updates_have_momentum_and_decay(void **unused)
{
    static const struct {
        const char *method;
        double tolerance;
    } cases[] = {
        {"dense", 1e-5},
        {"topk:keep=1", 1e-5},
        {"regtopk:keep=1", 1e-5},
        {"powersgd", 1e-5},
        {"qsgd:bits=16", 2e-3},
        {"dqsgd:bits=kappa,kappa=1e9", 2e-3},
        {"codec=f32", 1e-5},
        {"fp16", 1e-2},
        {"bf16", 5e-2},
        {"ef:ratio=1", 1e-5},
        {"def:ratio=1", 1e-5},
        {"saef:ratio=1", 1e-5},
        {"topk:keep=1,min=9", 1e-5},
    };
    static const double momenta[] = {0, 0.7};
    static const double decays[] = {0, 0.4};
    static struct rule rule;
    float start[COUNT];
    (void)unused;
    for (size_t k = 0; k < sizeof cases / sizeof cases[0]; k++) {
        for (size_t i = 0; i < 16; i++) {
            char spec[120];
            const double momentum = momenta[i % 2];
            const double wd = decays[i / 2 % 2];
            (void)snprintf(spec, sizeof spec, "%s%clr=0.05,momentum=%g,wd=%g", cases[k].method,
                           strpbrk(cases[k].method, ":=") ? ',' : ':', momentum, wd);
            start_at(&rule, start);
            struct crew crew = new_crew(spec, crowds[i / 4], start);
            for (uint64_t step = 0; step < STEPS; step++) {
                crew_gradients(&crew, TEST_NORMAL, step);
                crew_step(&crew);
                sgd_step(&rule, &crew, momentum, wd);
                expect_weights(&crew, &rule, cases[k].tolerance);
            }
            crew_free(&crew);
        }
    }
}

/* Every worker's d_k = g_k + momentum m_k, m_k = momentum m_k + g_k, decay in g_k;
 * x -= lr mean d_k. */
static void workers_have_nesterov_momentum(void **unused)
{
    static struct rule rule;
    float start[COUNT];
    (void)unused;
    for (size_t c = 0; c < 4; c++) {
        start_at(&rule, start);
        struct crew crew =
            new_crew("direction=nesterov,codec=f32,update=subtract,lr=0.05,momentum=0.7,wd=0.4",
                     crowds[c], start);
        for (uint64_t step = 0; step < STEPS; step++) {
            crew_gradients(&crew, TEST_NORMAL, step);
            crew_step(&crew);
            for (size_t i = 0; i < COUNT; i++) {
                double change = 0;
                for (uint32_t k = 0; k < crew.workers; k++) {
                    const double g = (double)crew.gradient[k][i] + 0.4 * rule.x[i];
                    rule.m[k][i] = 0.7 * rule.m[k][i] + g;
                    change += (g + 0.7 * rule.m[k][i]) / crew.workers;
                }
                rule.x[i] -= 0.05 * change;
            }
            expect_weights(&crew, &rule, 1e-5);
        }
        crew_free(&crew);
    }
}

/* ---- local steps ---- */

struct local {
    double momentum; /* of a worker's own steps */
    double wd;
    uint64_t every;
    double outer_lr;
    double outer_momentum;
    int nesterov;
};

/* m_k = momentum m_k + g_k + wd w_k; w_k -= lr m_k; every so many steps the mean of x - w_k is a
 * step of the outer momentum, and all go on from x. */
static void local_step(struct rule *rule, const struct crew *crew, const struct local *local,
                       uint64_t step)
{
    for (size_t i = 0; i < COUNT; i++) {
        double change = 0;
        for (uint32_t k = 0; k < crew->workers; k++) {
            double *const m = &rule->m[k][i];
            double *const w = &rule->w[k][i];
            *m = local->momentum * *m + (double)crew->gradient[k][i] + local->wd * *w;
            *w -= 0.05 * *m;
            change += (rule->x[i] - *w) / crew->workers;
        }
        if ((step + 1) % local->every != 0)
            continue;
        rule->outer[i] = local->outer_momentum * rule->outer[i] + change;
        rule->x[i] -=
            local->outer_lr *
            (local->nesterov ? local->outer_momentum * rule->outer[i] + change : rule->outer[i]);
        for (uint32_t k = 0; k < crew->workers; k++)
            rule->w[k][i] = rule->x[i];
    }
}

static void local_steps_have_an_outer_step(void **unused)
{
    static const struct local cases[] = {
        {0, 0, 4, 1, 0, 0},       {0.7, 0.1, 4, 1, 0, 0},     {0.7, 0, 3, 0.6, 0.8, 0},
        {0, 0.2, 2, 0.5, 0.8, 1}, {0.7, 0.1, 5, 0.9, 0.3, 1},
    };
    static struct rule rule;
    float start[COUNT];
    (void)unused;
    for (size_t c = 0; c < 4; c++) {
        for (size_t k = 0; k < sizeof cases / sizeof cases[0]; k++) {
            const struct local *const local = &cases[k];
            char spec[160];
            (void)snprintf(spec, sizeof spec,
                           "dense:lr=0.05,momentum=%g,wd=%g,every=%d,outer_lr=%g,"
                           "outer_momentum=%g,nesterov=%s",
                           local->momentum, local->wd, (int)local->every, local->outer_lr,
                           local->outer_momentum, local->nesterov ? "yes" : "no");
            start_at(&rule, start);
            struct crew crew = new_crew(spec, crowds[c], start);
            for (uint64_t step = 0; step < STEPS; step++) {
                crew_gradients(&crew, TEST_NORMAL, step);
                crew_step(&crew);
                local_step(&rule, &crew, local, step);
                assert_int_equal(crew.report[0].exchanged, (step + 1) % local->every == 0);
                expect_weights(&crew, &rule, 1e-5);
            }
            crew_free(&crew);
        }
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(signum_votes_with_its_momenta),
        cmocka_unit_test(adam_corrects_its_bias),
        cmocka_unit_test(updates_have_momentum_and_decay),
        cmocka_unit_test(workers_have_nesterov_momentum),
        cmocka_unit_test(local_steps_have_an_outer_step),
    };
    return cmocka_run_group_tests_name("reference", tests, NULL, NULL);
}
