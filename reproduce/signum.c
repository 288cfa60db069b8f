/* Signum, ties and decay; the laws of the vote and of signSGD's rate. */
#include <math.h>
#include <stdio.h>
#include <stdlib.h>

#include "descent.h"
#include "signsgd.h"

/* ---- the rule, beside the same in doubles ---- */

enum { RULE_DIM = 2000, RULE_WORKERS = 3, RULE_STEPS = 300 };

#define RULE_LR 0.01
#define RULE_BETA 0.9
#define RULE_DECAY 0.1

struct rule {
    double m[RULE_WORKERS][RULE_DIM];
    double x[RULE_DIM];
};

/* m_k = beta m_k + (1-beta) g_k; x -= lr (sgn(sum sgn m_k) + wd x), with the team's gradients. */
static void look_rule(struct rpr_descent *descent, struct rpr_team *team, uint64_t step)
{
    struct rule *const rule = descent->context;
    (void)step;
    for (size_t i = 0; i < team->count; i++) {
        int votes = 0;
        for (uint32_t k = 0; k < team->workers; k++) {
            double *const m = &rule->m[k][i];
            *m = RULE_BETA * *m + (1 - RULE_BETA) * (double)team->gradient[k][i];
            votes += *m > 0 ? 1 : -1;
        }
        rule->x[i] -= RULE_LR * ((votes > 0 ? 1 : -1) + RULE_DECAY * rule->x[i]);
    }
    if (step == RULE_STEPS)
        for (size_t i = 0; i < team->count; i++)
            rule->x[i] -= (double)team->weights[0][i];
}

void rpr_signum_rule(struct rpr_sheet *sheet)
{
    struct rule *const rule = rpr_room(sheet, 1, sizeof *rule);
    float *const start = rpr_room(sheet, RULE_DIM, sizeof *start);
    if (rule && start) {
        struct rpr_random random = rpr_random(sheet->seed, "signsgd/rule", 1);
        struct rpr_descent run = {.workers = RULE_WORKERS,
                                  .count = RULE_DIM,
                                  .deviation = 1,
                                  .start = start,
                                  .steps = RULE_STEPS,
                                  .random = rpr_random(sheet->seed, "signsgd/rule", 0),
                                  .seed = sheet->seed,
                                  .look = look_rule,
                                  .context = rule};
        size_t apart = 0;
        rpr_normals(&random, RULE_DIM, start);
        for (size_t i = 0; i < RULE_DIM; i++)
            rule->x[i] = (double)start[i];
        (void)snprintf(run.spec, sizeof run.spec, "signum:lr=%g,beta=%g,wd=%g", RULE_LR, RULE_BETA,
                       RULE_DECAY);
        rpr_descend(sheet, &run, 1);
        for (size_t i = 0; i < RULE_DIM; i++)
            apart += fabs(rule->x[i]) < RULE_LR / 2 ? 0 : 1;
        rpr_claim(sheet, "signum-rule", (double)apart / RULE_DIM, RPR_AT_MOST, 0.01,
                  "Signum, 3 workers, beta 0.9, wd 0.1: share of weights that are elsewhere than "
                  "the rule in doubles says, after %d steps",
                  RULE_STEPS);
    }
    free(rule);
    free(start);
}

/* ---- Signum, signSGD and Adam on a noisy problem ---- */

enum { NOISY_DIM = 200, NOISY_STEPS = 2000, NOISY_RATES = 7, NOISY_REPEATS = 8, NOISY_METHODS = 3 };

static const char *const noisy_spec[NOISY_METHODS] = {"signum:beta=0.9", "signsgd:wd=0",
                                                      "adam:beta2=0.99"};
static const char *const noisy_name[NOISY_METHODS] = {"Signum", "signSGD", "Adam"};

struct noisy {
    float curvature[NOISY_DIM];
    float start[NOISY_DIM];
    struct rpr_descent run[NOISY_METHODS][NOISY_RATES][NOISY_REPEATS];
    double loss[NOISY_METHODS][NOISY_RATES];
};

/* lr / sqrt t in every run: the noise averages out, as in training that converges. */
static double noisy_rate(size_t rate)
{
    return 0.02 * pow(2, (double)rate);
}

static void plan_noisy(struct rpr_sheet *sheet, struct noisy *all, size_t index)
{
    const size_t repeat = index % NOISY_REPEATS;
    const size_t rate = index / NOISY_REPEATS % NOISY_RATES;
    const size_t method = index / NOISY_REPEATS / NOISY_RATES;
    struct rpr_descent *const run = &all->run[method][rate][repeat];
    *run = (struct rpr_descent){.workers = 1,
                                .count = NOISY_DIM,
                                .curvature = all->curvature,
                                .deviation = 1,
                                .start = all->start,
                                .steps = NOISY_STEPS,
                                .tail = NOISY_STEPS / 10,
                                .random = rpr_random(sheet->seed, "signsgd/noisy", index),
                                .seed = sheet->seed + index};
    (void)snprintf(run->spec, sizeof run->spec, "%s,lr=%g,schedule=sqrt", noisy_spec[method],
                   noisy_rate(rate));
}

static void show_noisy(struct rpr_sheet *sheet, struct noisy *all)
{
    double rates[NOISY_RATES];
    double best[NOISY_METHODS] = {INFINITY, INFINITY, INFINITY};
    for (size_t i = 0; i < NOISY_METHODS * NOISY_RATES; i++) {
        const size_t method = i / NOISY_RATES;
        const size_t rate = i % NOISY_RATES;
        rates[rate] = noisy_rate(rate);
        for (size_t r = 0; r < NOISY_REPEATS; r++)
            all->loss[method][rate] += all->run[method][rate][r].final / NOISY_REPEATS;
        best[method] = fmin(best[method], all->loss[method][rate]);
    }
    rpr_claim_within(sheet, "signum-adam", best[0] / best[2], 0.8, 1.4,
                     "noise 1 in every coordinate, curvatures 1 to 0.01, lr / sqrt t, both at "
                     "their best lr: Signum's loss over Adam's");
    rpr_claim_within(sheet, "signum-signsgd", best[0] / best[1], 0.58, 0.98,
                     "the same: Signum's loss over signSGD's");
    rpr_chart(sheet, &(struct rpr_axes){"noisy", "Signum, signSGD and Adam on a noisy quadratic",
                                        "lr at step 1", "loss", RPR_LOG_X | RPR_LOG_Y | RPR_MARKS,
                                        NOISY_RATES, rates, 0});
    for (size_t i = 0; i < NOISY_METHODS; i++)
        rpr_line(sheet, all->loss[i], "%s", noisy_name[i]);
}

void rpr_signum_noisy(struct rpr_sheet *sheet)
{
    struct noisy *const all = rpr_room(sheet, 1, sizeof *all);
    if (!all)
        return;
    for (size_t i = 0; i < NOISY_DIM; i++) {
        all->curvature[i] = (float)(1 - 0.99 * (double)i / (NOISY_DIM - 1));
        all->start[i] = i % 2 == 0 ? 1 : -1;
    }
    for (size_t i = 0; i < NOISY_METHODS * NOISY_RATES * NOISY_REPEATS; i++)
        plan_noisy(sheet, all, i);
    rpr_descend(sheet, &all->run[0][0][0], NOISY_METHODS * NOISY_RATES * NOISY_REPEATS);
    if (sheet->status == TERSE_OK)
        show_noisy(sheet, all);
    free(all);
}

/* ---- ties ---- */

enum { TIE_DIM = 1000, TIE_STEPS = 400, TIES = 200000 };

/* Two workers that disagree everywhere: how often the coin is +1. */
static void toss(struct rpr_sheet *sheet)
{
    struct rpr_team team;
    float *const zeros = rpr_room(sheet, TIES, sizeof *zeros);
    double plus = 0;
    if (!zeros)
        return;
    rpr_team_open(&team, &(struct rpr_setup){.spec = "signsgd:lr=1",
                                             .workers = 2,
                                             .count = TIES,
                                             .start = zeros,
                                             .seed = sheet->seed,
                                             .steps = 1});
    for (size_t i = 0; i < TIES && team.status == TERSE_OK; i++) {
        team.gradient[0][i] = 1;
        team.gradient[1][i] = -1;
    }
    rpr_team_step(&team);
    for (size_t i = 0; i < TIES && team.status == TERSE_OK; i++)
        plus += team.weights[0][i] < 0;
    rpr_fail(sheet, team.status, &team.fault);
    rpr_team_close(&team);
    rpr_claim_within(sheet, "tie-coin", (plus / TIES - 0.5) / sqrt(0.25 / TIES), -5.5, 5.5,
                     "two workers of opposite signs, tie=coin: share of votes that are +1, off 1/2 "
                     "in standard errors of %d",
                     TIES);
    free(zeros);
}

void rpr_ties(struct rpr_sheet *sheet)
{
    static const char *const spec[4] = {"signsgd:lr=0.02", "signsgd:lr=0.02,tie=plus",
                                        "signsgd:lr=0.02", "signsgd:lr=0.02,tie=plus"};
    static const uint32_t workers[4] = {2, 2, 3, 3};
    float *const start = rpr_room(sheet, TIE_DIM, sizeof *start);
    struct rpr_descent run[4];
    toss(sheet);
    if (!start)
        return;
    for (size_t i = 0; i < 4; i++) {
        run[i] = (struct rpr_descent){.workers = workers[i],
                                      .count = TIE_DIM,
                                      .deviation = 1,
                                      .start = start,
                                      .steps = TIE_STEPS,
                                      .tail = TIE_STEPS / 4,
                                      .random = rpr_random(sheet->seed, "signsgd/ties", i / 2),
                                      .seed = sheet->seed,
                                      .together = i % 2 == 1};
        (void)snprintf(run[i].spec, sizeof run[i].spec, "%s", spec[i]);
    }
    rpr_descend(sheet, run, 4);
    rpr_claim_within(sheet, "tie-plus", run[1].final / run[0].final, 19.5, 29,
                     "two workers on |x|^2/2 with noise 1: the loss at the end if ties are +1, "
                     "over that of a coin");
    rpr_claim_within(sheet, "tie-odd", run[3].final / run[2].final, 1, 1,
                     "three workers cannot tie: the same ratio");
    free(start);
}

/* ---- decay ---- */

enum { DECAY_STEPS = 3000 };

/* A gradient that never changes sign: x goes to 1/wd, where decay and step are equal. */
void rpr_signum_decay(struct rpr_sheet *sheet)
{
    static const char *const spec[2] = {"signsgd:lr=0.01,wd=0.5", "signum:lr=0.01,wd=0.5"};
    double worst = 0;
    for (size_t i = 0; i < 2; i++) {
        struct rpr_team team;
        const float zero[2] = {0, 0};
        rpr_team_open(&team, &(struct rpr_setup){.spec = spec[i],
                                                 .workers = 3,
                                                 .count = 2,
                                                 .start = zero,
                                                 .seed = sheet->seed,
                                                 .steps = DECAY_STEPS});
        for (size_t step = 0; step < DECAY_STEPS && team.status == TERSE_OK; step++) {
            for (uint32_t k = 0; k < 3; k++) {
                team.gradient[k][0] = -1;
                team.gradient[k][1] = 1;
            }
            rpr_team_step(&team);
        }
        rpr_fail(sheet, team.status, &team.fault);
        for (size_t j = 0; j < 2 && team.status == TERSE_OK; j++)
            worst = fmax(worst, fabs(fabs((double)team.weights[0][j]) * 0.5 - 1));
        rpr_team_close(&team);
    }
    rpr_claim(sheet, "decay", worst, RPR_AT_MOST, 1e-3,
              "signSGD and Signum under a constant gradient with wd 0.5 stop at 1/wd: relative "
              "distance from it after %d steps, the worst",
              DECAY_STEPS);
}

/* ---- how the vote grows with the voters ---- */

enum { LAW_CROWDS = 4, LAW_VOTES = 400000 };

static const uint32_t law_crowd[LAW_CROWDS] = {1, 7, 21, 63};

struct law {
    struct rpr_sheet *sheet;
    const float *zeros;
    double excess[LAW_CROWDS];
    terse_status status[LAW_CROWDS];
};

/* S = |g| / sigma = 0.05: far in the noise, where the law holds. */
static void vote_in_noise(void *context, size_t index)
{
    struct law *const law = context;
    struct rpr_team team;
    struct rpr_random random = rpr_random(law->sheet->seed, "signsgd/law", index);
    double right = 0;
    rpr_team_open(&team, &(struct rpr_setup){.spec = "signsgd:lr=1",
                                             .workers = law_crowd[index],
                                             .count = LAW_VOTES,
                                             .start = law->zeros,
                                             .seed = law->sheet->seed,
                                             .steps = 1});
    for (uint32_t k = 0; k < law_crowd[index] && team.status == TERSE_OK; k++) {
        rpr_normals(&random, LAW_VOTES, team.gradient[k]);
        for (size_t i = 0; i < LAW_VOTES; i++)
            team.gradient[k][i] += 0.05f;
    }
    rpr_team_step(&team);
    for (size_t i = 0; i < LAW_VOTES && team.status == TERSE_OK; i++)
        right += team.weights[0][i] < 0;
    law->status[index] = team.status;
    law->excess[index] = right / LAW_VOTES - 0.5;
    rpr_team_close(&team);
}

void rpr_vote_law(struct rpr_sheet *sheet)
{
    double crowd[LAW_CROWDS];
    double law_line[LAW_CROWDS];
    float *const zeros = rpr_room(sheet, LAW_VOTES, sizeof *zeros);
    struct law law = {.sheet = sheet, .zeros = zeros};
    if (zeros)
        rpr_each(sheet->threads, LAW_CROWDS, vote_in_noise, &law);
    for (size_t i = 0; i < LAW_CROWDS; i++) {
        rpr_fail(sheet, law.status[i], NULL);
        crowd[i] = law_crowd[i];
        /* 2/pi of the variance is what a sign costs where there are many voters */
        law_line[i] = 0.05 * sqrt(crowd[i]) / M_PI;
    }
    rpr_claim_within(sheet, "vote-law", (log(law.excess[3]) - log(law.excess[1])) / log(9), 0.43,
                     0.525,
                     "signal 0.05 of the noise, 7 and 63 voters: how often the vote is right above "
                     "1/2 grows as M to the power of (1/2: as averaging does)");
    rpr_chart(sheet, &(struct rpr_axes){"vote-law", "Votes that are right, above 1/2", "workers",
                                        "share of votes - 1/2", RPR_LOG_X | RPR_LOG_Y | RPR_MARKS,
                                        LAW_CROWDS, crowd, 0});
    rpr_line(sheet, law.excess, "measured");
    rpr_line(sheet, law_line, "S sqrt(M) / pi");
    free(zeros);
}

/* ---- the rate ---- */

enum { RATE_DIM = 100, RATE_RUNS = 4, RATE_REPEATS = 8, RATE_POINTS = RATE_RUNS };

#define RATE_NOISE 0.002 /* of one gradient in each coordinate */

static const uint64_t rate_steps[RATE_RUNS] = {100, 400, 1600, 6400};

struct rate {
    float curvature[RATE_DIM];
    float start[RATE_DIM];
    struct rpr_descent run[RATE_RUNS][RATE_REPEATS];
    double sum[RATE_RUNS][RATE_REPEATS]; /* of |g|_1 over the steps, g without noise */
};

static void look_rate(struct rpr_descent *descent, struct rpr_team *team, uint64_t step)
{
    double *const sum = descent->context;
    (void)step;
    for (size_t i = 0; i < team->count; i++)
        *sum += (double)descent->curvature[i] * fabs((double)team->weights[0][i]);
}

static void plan_rate(struct rpr_sheet *sheet, struct rate *all, size_t index)
{
    const size_t size = index / RATE_REPEATS;
    const size_t repeat = index % RATE_REPEATS;
    const double steps = (double)rate_steps[size];
    struct rpr_descent *const run = &all->run[size][repeat];
    *run = (struct rpr_descent){.workers = 1,
                                .count = RATE_DIM,
                                .curvature = all->curvature,
                                .deviation = (float)(RATE_NOISE / sqrt(steps)),
                                .start = all->start,
                                .steps = rate_steps[size],
                                .random = rpr_random(sheet->seed, "signsgd/rate", index),
                                .seed = sheet->seed + index,
                                .look = look_rate,
                                .context = &all->sum[size][repeat]};
    (void)snprintf(run->spec, sizeof run->spec, "signsgd:lr=%.9g", 1 / sqrt(steps));
}

/* Theorem 1 of the paper: K steps with lr 1/sqrt(|L|_1 K) and batches of K, so N = K^2 gradients:
 * (mean |g|_1)^2 <= 1/sqrt N * (sqrt |L|_1 (f0 - f* + 1/2) + 2 |sigma|_1)^2. Here |L|_1 = 1. */
void rpr_sign_rate(struct rpr_sheet *sheet)
{
    struct rate *const all = rpr_room(sheet, 1, sizeof *all);
    double calls[RATE_RUNS];
    double square[RATE_RUNS] = {0};
    double bound[RATE_RUNS];
    double worst = 0;
    if (!all)
        return;
    for (size_t i = 0; i < RATE_DIM; i++) {
        all->curvature[i] = 1.0f / RATE_DIM;
        all->start[i] = 1;
    }
    for (size_t i = 0; i < RATE_RUNS * RATE_REPEATS; i++)
        plan_rate(sheet, all, i);
    rpr_descend(sheet, &all->run[0][0], RATE_RUNS * RATE_REPEATS);
    const double gap = rpr_loss(all->curvature, NULL, all->start, RATE_DIM);
    for (size_t i = 0; i < RATE_RUNS; i++) {
        const double steps = (double)rate_steps[i];
        double mean = 0;
        for (size_t r = 0; r < RATE_REPEATS; r++)
            mean += all->sum[i][r] / steps / RATE_REPEATS;
        calls[i] = steps * steps;
        square[i] = mean * mean;
        bound[i] = pow(gap + 0.5 + 2 * RATE_DIM * RATE_NOISE, 2) / steps;
        worst = fmax(worst, square[i] / bound[i]);
    }
    rpr_claim_within(sheet, "rate", log(square[3] / square[1]) / log(calls[3] / calls[1]), -0.52,
                     -0.46,
                     "N = K^2 gradients in K steps of lr 1/sqrt K: (mean |g|_1)^2 falls as N to "
                     "the power of (SGD's rate: -1/2)");
    rpr_claim_within(sheet, "rate-bound", worst, 0.4, 0.6,
                     "the same over the bound of the paper's Theorem 1, the worst");
    rpr_chart(sheet, &(struct rpr_axes){"rate", "signSGD's rate", "gradients N", "(mean |g|_1)^2",
                                        RPR_LOG_X | RPR_LOG_Y | RPR_MARKS, RATE_POINTS, calls, 0});
    rpr_line(sheet, square, "measured");
    rpr_line(sheet, bound, "Theorem 1");
    free(all);
}
