/* Detached error feedback (Xu & Huang, ICML 2022) on a diagonal quadratic. */
#include <math.h>
#include <stdio.h>
#include <stdlib.h>

#include "def.h"

/* d = 2048, curvatures log-uniform in [0.01, 1], x0 = 1, 8 workers, N(0, 1) noise each. */
void rpr_def_problem(struct rpr_sheet *sheet, const char *experiment, struct rpr_def_toy *toy)
{
    struct rpr_random random = rpr_random(sheet->seed, experiment, 1000000);
    for (size_t i = 0; i < RPR_DEF_DIM; i++) {
        toy->curvature[i] = (float)pow(10, -2 * rpr_uniform(&random));
        toy->start[i] = 1;
    }
}

struct rpr_descent rpr_def_run(struct rpr_sheet *sheet, const char *experiment, uint64_t repeat,
                               const struct rpr_def_toy *toy, uint64_t steps)
{
    return (struct rpr_descent){.workers = RPR_DEF_WORKERS,
                                .count = RPR_DEF_DIM,
                                .curvature = toy->curvature,
                                .deviation = 1,
                                .start = toy->start,
                                .steps = steps,
                                .random = rpr_random(sheet->seed, experiment, repeat),
                                .seed = sheet->seed + repeat};
}

/* ---- a range of lr ---- */

enum { METHODS = 5, RATES = 6, SWEEP_STEPS = 2000 };

static const char *const method_name[METHODS] = {"SGD", "EF", "DEF 0.3", "DEF 0.6", "SAEF"};
enum { SGD, EF, DEF, DEF_HIGH, SAEF };

static const char *const method_spec[METHODS] = {"ef:ratio=1", "ef:ratio=64",
                                                 "def:ratio=64,lambda=0.3",
                                                 "def:ratio=64,lambda=0.6", "saef:ratio=64"};

struct sweep {
    struct rpr_def_toy toy;
    struct rpr_descent run[RATES][METHODS];
    double loss[METHODS][RATES][SWEEP_STEPS + 1];
    double final[METHODS][RATES]; /* NaN where it diverged */
};

/* Loss at the end over loss at the start. */
static double left(const struct sweep *all, size_t rate, size_t method)
{
    return all->run[rate][method].final / all->run[rate][method].loss[0];
}

enum { LR_0005, LR_001, LR_002, LR_003, LR_004, LR_008 };

static const double rate_of[RATES] = {0.0005, 0.001, 0.002, 0.003, 0.004, 0.008};

static void claim_sweep(struct rpr_sheet *sheet, const struct sweep *all)
{
    rpr_claim(sheet, "ef-diverges", log10(left(all, LR_004, EF)), RPR_AT_LEAST, 1.5,
              "lr 0.004 is too much for EF: its loss at the end over that at the start, log10");
    rpr_claim(sheet, "def-stable", log10(left(all, LR_003, EF) / left(all, LR_003, DEF)),
              RPR_AT_LEAST, 0.3,
              "lr 0.003 is too much for EF and not for DEF 0.3: EF's loss at the end over "
              "DEF's, log10");
    rpr_claim_within(sheet, "def-near-sgd", left(all, LR_002, DEF) / left(all, LR_002, SGD), 0.9, 2,
                     "lr 0.002, near EF's limit: DEF 0.3's loss over that of uncompressed SGD");
    rpr_claim_within(sheet, "lambda-stable",
                     fmax(left(all, LR_008, DEF_HIGH), left(all, LR_008, SAEF)), 0.022, 0.045,
                     "DEF 0.6 and SAEF are stable at lr 0.008: loss at the end over that at the "
                     "start, the worse");
    rpr_claim_within(sheet, "def-equal", left(all, LR_0005, DEF) / left(all, LR_0005, EF), 0.97,
                     1.05, "lr 0.0005, well inside EF's limit: DEF 0.3's loss over EF's");
    rpr_claim_within(sheet, "saef-near-sgd", left(all, LR_002, SAEF) / left(all, LR_002, SGD), 1.02,
                     1.08, "lr 0.002: SAEF's loss over that of uncompressed SGD");
}

static void show_rounds(struct rpr_sheet *sheet, const struct sweep *all)
{
    enum { POINTS = 201, EVERY = SWEEP_STEPS / (POINTS - 1) };
    rpr_chart(sheet, &(struct rpr_axes){"steps", "lr 0.002, ratio 64, momentum 0.9, 8 workers",
                                        "step", "loss", RPR_LOG_Y, POINTS, NULL, EVERY});
    for (size_t i = 0; i < METHODS; i++) {
        double thin[POINTS];
        rpr_thin(all->loss[i][LR_002], SWEEP_STEPS, EVERY, thin);
        for (size_t j = 0; j < POINTS; j++)
            thin[j] = thin[j] < 1e4 ? thin[j] : NAN;
        rpr_line(sheet, thin, "%s", method_name[i]);
    }
}

static void sweep(struct rpr_sheet *sheet)
{
    struct sweep *const all = rpr_room(sheet, 1, sizeof *all);
    if (!all)
        return;
    rpr_def_problem(sheet, "def/sweep", &all->toy);
    for (size_t i = 0; i < METHODS * RATES; i++) {
        struct rpr_descent *const run = &all->run[i % RATES][i / RATES];
        *run = rpr_def_run(sheet, "def/sweep", i % RATES, &all->toy, SWEEP_STEPS);
        run->together = i >= RATES;
        run->tail = SWEEP_STEPS / 2;
        run->loss = all->loss[i / RATES][i % RATES];
        (void)snprintf(run->spec, sizeof run->spec, "%s,momentum=0.9,lr=%g", method_spec[i / RATES],
                       rate_of[i % RATES]);
    }
    rpr_descend(sheet, &all->run[0][0], METHODS * RATES);
    for (size_t i = 0; i < METHODS * RATES; i++) {
        const struct rpr_descent *const run = &all->run[i % RATES][i / RATES];
        const int fell = !run->diverged && run->final < run->loss[0];
        all->final[i / RATES][i % RATES] = fell ? run->final : NAN;
    }
    claim_sweep(sheet, all);
    rpr_chart(sheet, &(struct rpr_axes){"lr",
                                        "Loss of steps 1000 to 2000; a line ends where it "
                                        "diverges",
                                        "lr", "loss", RPR_LOG_X | RPR_LOG_Y | RPR_MARKS, RATES,
                                        rate_of, 0});
    for (size_t i = 0; i < METHODS; i++)
        rpr_line(sheet, all->final[i], "%s", method_name[i]);
    show_rounds(sheet, all);
    free(all);
}

/* ---- the point x_A = x - mean e ---- */

enum { EARLY_STEPS = 600, EARLY_EVERY = 6, EARLY_POINTS = EARLY_STEPS / EARLY_EVERY + 1 };

struct early {
    float point[RPR_DEF_DIM];
    double mean[RPR_DEF_DIM];
    double off; /* relative distance of x_A from x - mean e, the worst */
    double x[EARLY_POINTS];
    double deployed[EARLY_POINTS];
};

static void look_early(struct rpr_descent *descent, struct rpr_team *team, uint64_t step)
{
    struct early *const early = descent->context;
    if (step % EARLY_EVERY != 0)
        return;
    team->status = terse_method_eval_weights_all(team->method, early->point, &team->fault);
    rpr_def_mean_residual(team, early->mean);
    double off = 0;
    double moved = 0;
    for (size_t i = 0; i < team->count; i++) {
        const double x = (double)team->weights[0][i];
        const double at = (double)early->point[i];
        off += (at - (x - early->mean[i])) * (at - (x - early->mean[i]));
        moved += early->mean[i] * early->mean[i];
    }
    early->off = fmax(early->off, sqrt(off / moved));
    early->x[step / EARLY_EVERY] =
        rpr_loss(descent->curvature, NULL, team->weights[0], team->count);
    early->deployed[step / EARLY_EVERY] =
        rpr_loss(descent->curvature, NULL, early->point, team->count);
}

static void ahead(struct rpr_sheet *sheet)
{
    struct rpr_def_toy *const toy = rpr_room(sheet, 1, sizeof *toy);
    struct early *const early = rpr_room(sheet, 1, sizeof *early);
    if (!toy || !early) {
        free(toy);
        free(early);
        return;
    }
    rpr_def_problem(sheet, "def/ahead", toy);
    struct rpr_descent run = rpr_def_run(sheet, "def/ahead", 0, toy, EARLY_STEPS);
    (void)snprintf(run.spec, sizeof run.spec, "def-a:ratio=64,lambda=0.3,lr=0.001");
    run.look = look_early;
    run.context = early;
    early->x[0] = early->deployed[0] = rpr_loss(toy->curvature, NULL, toy->start, RPR_DEF_DIM);
    rpr_descend(sheet, &run, 1);
    double worst = 0;
    for (size_t i = 1; i <= EARLY_POINTS / 3; i++)
        worst = fmax(worst, early->deployed[i] / early->x[i]);
    rpr_claim_within(
        sheet, "x_A-ahead", worst, 0.975, 0.99,
        "def-a in its first 200 steps: loss at x_A = x - mean e over loss at x, the worst "
        "step");
    rpr_claim(sheet, "x_A-mean", early->off, RPR_AT_MOST, 1e-4,
              "x_A against x - mean e of all workers: distance over |mean e|, the worst step");
    rpr_chart(sheet, &(struct rpr_axes){"ahead", "DEF-A, lr 0.001: x_A is ahead of x early", "step",
                                        "loss", RPR_LOG_Y, EARLY_POINTS, NULL, EARLY_EVERY});
    rpr_line(sheet, early->x, "at x");
    rpr_line(sheet, early->deployed, "at x_A");
    free(toy);
    free(early);
}

static rpr_experiment *const experiments[] = {
    sweep,           ahead,           rpr_def_trade_off,
    rpr_def_average, rpr_def_follows, rpr_def_local,
    rpr_def_moments, rpr_def_decay,   NULL,
};

const struct rpr_plan rpr_def = {
    .paper = "def",
    .title = "detached error feedback with random blocks",
    .citation = "Xu, Huang, Detached Error Feedback for Distributed SGD with Random "
                "Sparsification, ICML 2022",
    .experiments = experiments,
};
