/* Steps of DEF beside the same in doubles: local steps, weights to evaluate, decay. */
#include <math.h>
#include <stdio.h>
#include <stdlib.h>

#include "def.h"

/* ---- local steps ---- */

enum { LOCAL_METHODS = 3, LOCAL_STEPS = 400, EVERY = 4 };

#define LOCAL_LR 0.001
#define MOMENTUM 0.9

static const char *const local_spec[LOCAL_METHODS] = {"ef:ratio=64,every=4", "def:ratio=64,every=4",
                                                      "def:ratio=64"};

struct local {
    double m[RPR_DEF_WORKERS][RPR_DEF_DIM];
    double xt[RPR_DEF_DIM]; /* start - sum over steps of lr mean m_k */
    double mean[RPR_DEF_DIM];
    double worst; /* of all exchanges: |x - mean e - xt| / |xt - start| */
    uint64_t exchanges;
};

/* Whatever is sent when, x - mean e has made every step of every worker. */
static void look_local(struct rpr_descent *descent, struct rpr_team *team, uint64_t step)
{
    struct local *const local = descent->context;
    double off = 0;
    double way = 0;
    (void)step;
    for (size_t i = 0; i < team->count; i++)
        for (uint32_t k = 0; k < team->workers; k++) {
            double *const m = &local->m[k][i];
            *m = MOMENTUM * *m + (double)team->gradient[k][i];
            local->xt[i] -= LOCAL_LR * *m / team->workers;
        }
    if (!team->report[0].exchanged)
        return;
    rpr_def_mean_residual(team, local->mean);
    for (size_t i = 0; i < team->count; i++) {
        const double here = (double)team->weights[0][i] - local->mean[i];
        off += (here - local->xt[i]) * (here - local->xt[i]);
        way +=
            (local->xt[i] - (double)descent->start[i]) * (local->xt[i] - (double)descent->start[i]);
    }
    local->exchanges++;
    local->worst = fmax(local->worst, sqrt(off / way));
}

void rpr_def_local(struct rpr_sheet *sheet)
{
    struct rpr_def_toy *const toy = rpr_room(sheet, 1, sizeof *toy);
    struct local *const local = rpr_room(sheet, LOCAL_METHODS, sizeof *local);
    struct rpr_descent run[LOCAL_METHODS];
    double worst = 0;
    if (toy && local) {
        rpr_def_problem(sheet, "def/local", toy);
        for (size_t i = 0; i < LOCAL_METHODS; i++) {
            run[i] = rpr_def_run(sheet, "def/local", 0, toy, LOCAL_STEPS);
            (void)snprintf(run[i].spec, sizeof run[i].spec, "%s,momentum=%g,lr=%g", local_spec[i],
                           MOMENTUM, LOCAL_LR);
            run[i].together = i > 0;
            run[i].look = look_local;
            run[i].context = &local[i];
            for (size_t j = 0; j < RPR_DEF_DIM; j++)
                local[i].xt[j] = (double)toy->start[j];
        }
        rpr_descend(sheet, run, LOCAL_METHODS);
        for (size_t i = 0; i < LOCAL_METHODS; i++)
            worst = fmax(worst, local[i].worst);
        rpr_claim(sheet, "local-steps", worst, RPR_AT_MOST, 1e-4,
                  "EF and DEF, an exchange in every step and in every fourth: x - mean e is the "
                  "start minus lr times the sum of all mean momenta, relative difference, the "
                  "worst");
        rpr_claim_within(sheet, "local-exchanges",
                         (double)local[1].exchanges / (double)local[2].exchanges, 0.25, 0.25,
                         "every=4: exchanges over those of every=1");
        rpr_claim_within(sheet, "local-traffic",
                         (double)run[1].bytes_sent / (double)run[2].bytes_sent, 0.25, 0.25,
                         "every=4: bytes sent over those of every=1");
    }
    free(toy);
    free(local);
}

/* ---- decay ---- */

enum { DECAYS = 7, DECAY_DIM = 64, DECAY_STEPS = 3000, DECAY_WORKERS = 3 };

static const char *const decay_spec[DECAYS] = {
    "dense:momentum=0",          "dense:momentum=0.5", "topk:keep=0.5",
    "regtopk:keep=0.6",          "ef:ratio=4",         "def:ratio=4",
    "topk:keep=0.5,momentum=0.5"};

/* f = |x - 1|^2 / 2 with decay 0.25: every method stops where x - 1 + 0.25 x = 0. */
void rpr_def_decay(struct rpr_sheet *sheet)
{
    struct rpr_descent run[DECAYS];
    float ones[DECAY_DIM];
    const float zeros[DECAY_DIM] = {0};
    double worst = 0;
    const double optimum = DECAY_DIM * 0.2 * 0.2 / 2; /* f at x = 0.8 */
    for (size_t i = 0; i < DECAY_DIM; i++)
        ones[i] = 1;
    for (size_t i = 0; i < DECAYS; i++) {
        run[i] = (struct rpr_descent){.workers = DECAY_WORKERS,
                                      .count = DECAY_DIM,
                                      .optimum = ones,
                                      .start = zeros,
                                      .steps = DECAY_STEPS,
                                      .random = rpr_random(sheet->seed, "def/decay", 0),
                                      .seed = sheet->seed};
        (void)snprintf(run[i].spec, sizeof run[i].spec, "%s,lr=0.02,wd=0.25", decay_spec[i]);
    }
    rpr_descend(sheet, run, DECAYS);
    for (size_t i = 0; i < DECAYS; i++)
        worst = fmax(worst, fabs(run[i].final / optimum - 1));
    rpr_claim(sheet, "decay", worst, RPR_AT_MOST, 1e-3,
              "|x - 1|^2/2 with wd 0.25, SGD, Top-k, RegTop-k, EF and DEF, with momentum and "
              "without: the loss where they stop, relative to that at x = 1/1.25, the worst");
}

/* ---- the largest lr ---- */

/* One coordinate of curvature 1, sent with probability q = 1/64, no momentum, no noise:
 *     d = e + lr (x - lambda e);  sent: x' = x - d, e' = 0;  else: x' = x, e' = d.
 * So the second moments of (x, e) are known exactly. lr = 0.03 lies between the limits of
 * lambda = 0 (2q/(2-q) = 0.016 for the mean) and of lambda = 0.3 (0.039). */
enum {
    MOMENT_DIM = 4096,
    MOMENT_REPEATS = 32,
    MOMENT_STEPS = 256,
    MOMENT_POINTS = 65,
    LAMBDAS = 4
};

#define MOMENT_LR 0.03

static const double moment_lambda[LAMBDAS] = {0, 0.3, 0.6, 1};

struct moments {
    float start[MOMENT_DIM];
    struct rpr_descent run[LAMBDAS][MOMENT_REPEATS];
    double loss[LAMBDAS][MOMENT_REPEATS][MOMENT_STEPS + 1];
    double measured[LAMBDAS][MOMENT_POINTS]; /* mean x^2 */
    double expected[LAMBDAS][MOMENT_POINTS];
};

static void expect_moments(double lambda, double *out)
{
    const double q = 1.0 / 64;
    const double lr = MOMENT_LR;
    const double keep = 1 - lr * lambda; /* d = keep e + lr x */
    double xx = 1;
    double xe = 0;
    double ee = 0;
    for (size_t step = 0; step <= MOMENT_STEPS; step++) {
        if (step % (MOMENT_STEPS / (MOMENT_POINTS - 1)) == 0)
            out[step / (MOMENT_STEPS / (MOMENT_POINTS - 1))] = xx;
        const double xd = keep * xe + lr * xx;
        const double dd = keep * keep * ee + 2 * keep * lr * xe + lr * lr * xx;
        xx = q * (xx - 2 * xd + dd) + (1 - q) * xx;
        xe = (1 - q) * xd;
        ee = (1 - q) * dd;
    }
}

static void plan_moments(struct rpr_sheet *sheet, struct moments *all, size_t index)
{
    const size_t repeat = index % MOMENT_REPEATS;
    const size_t arm = index / MOMENT_REPEATS;
    struct rpr_descent *const run = &all->run[arm][repeat];
    *run = (struct rpr_descent){.workers = 1,
                                .count = MOMENT_DIM,
                                .start = all->start,
                                .steps = MOMENT_STEPS,
                                .random = rpr_random(sheet->seed, "def/moments", index),
                                .seed = sheet->seed * MOMENT_REPEATS + repeat,
                                .loss = all->loss[arm][repeat]};
    (void)snprintf(run->spec, sizeof run->spec, "def:ratio=64,momentum=0,lr=%g,lambda=%g",
                   MOMENT_LR, moment_lambda[arm]);
}

static void show_moments(struct rpr_sheet *sheet, struct moments *all)
{
    enum { EACH = MOMENT_STEPS / (MOMENT_POINTS - 1), LAST = MOMENT_POINTS - 1 };
    double worst = 0;
    for (size_t i = 0; i < LAMBDAS; i++) {
        for (size_t r = 0; r < MOMENT_REPEATS; r++)
            for (size_t p = 0; p < MOMENT_POINTS; p++)
                all->measured[i][p] += all->loss[i][r][p * EACH] * 2 / MOMENT_DIM / MOMENT_REPEATS;
        expect_moments(moment_lambda[i], all->expected[i]);
        for (size_t p = 0; p <= LAST / 2; p++)
            worst = fmax(worst, fabs(all->measured[i][p] / all->expected[i][p] - 1));
    }
    rpr_claim(sheet, "moments", worst, RPR_AT_MOST, 0.15,
              "one curvature, lr between the limits of EF and DEF 0.3, lambda 0, 0.3, 0.6, 1: mean "
              "x^2 off its exact expectation in the first %d steps, relative, the worst",
              MOMENT_STEPS / 2);
    rpr_claim_within(sheet, "def-better", all->measured[0][LAST] / all->measured[1][LAST], 9, 12,
                     "the same lr for both: mean x^2 of EF over that of DEF 0.3 after %d steps",
                     MOMENT_STEPS);
    rpr_chart(sheet, &(struct rpr_axes){"moments", "One curvature, lr 0.03: mean x^2", "step",
                                        "mean x^2", RPR_LOG_Y, MOMENT_POINTS, NULL, EACH});
    for (size_t i = 0; i < LAMBDAS; i++) {
        rpr_line(sheet, all->measured[i], "lambda %g", moment_lambda[i]);
        rpr_line(sheet, all->expected[i], "expected, %g", moment_lambda[i]);
    }
}

void rpr_def_moments(struct rpr_sheet *sheet)
{
    struct moments *const all = rpr_room(sheet, 1, sizeof *all);
    if (!all)
        return;
    for (size_t i = 0; i < MOMENT_DIM; i++)
        all->start[i] = 1;
    for (size_t i = 0; i < LAMBDAS * MOMENT_REPEATS; i++)
        plan_moments(sheet, all, i);
    rpr_descend(sheet, &all->run[0][0], LAMBDAS * MOMENT_REPEATS);
    if (sheet->status == TERSE_OK)
        show_moments(sheet, all);
    free(all);
}
