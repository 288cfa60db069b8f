/* DQ-SGD (Yan, Huang, Lan, Song, MASS 2021): bits that follow the gradient's norm. */
#include <math.h>
#include <stdio.h>
#include <stdlib.h>

#include "descent.h"

/* F = 1/2 sum lam_i x_i^2, lam from 0.1 to 1, x0 = 1, eta 0.5, so alpha = 0.925; noise 0.05. One
 * worker and allgather: one quantization per step. */
enum { DIM = 200, STEPS = 400 };

#define ETA 0.5
#define ALPHA 0.925
#define NOISE 0.05
#define SMOOTHNESS 1.0
#define OVERHEAD (40.0 / DIM) /* bits per element that are not levels: norm, number of bits */

struct problem {
    float curvature[DIM];
    float start[DIM];
};

static void make_problem(struct problem *problem)
{
    for (size_t i = 0; i < DIM; i++) {
        problem->curvature[i] = (float)(0.1 + 0.9 * (double)i / (DIM - 1));
        problem->start[i] = 1;
    }
}

/* ---- error against bits ---- */

enum { RULES = 4, TARGETS = 6, REPEATS = 12, NORMS = 2, NOISES = 2 };
enum { FIXED, DYNAMIC, RMS, MEANSTD };

static const double target_of[TARGETS] = {3, 4, 5, 6, 7, 8};
static const char *const rule_name[RULES] = {"fixed", "dynamic", "rms", "meanstd"};
static const char *const norm_name[NORMS] = {"2", "inf"};

struct sweep {
    struct problem problem;
    struct rpr_descent run[NOISES][NORMS][RULES][TARGETS][REPEATS];
    double error[NOISES][NORMS][RULES][TARGETS];
    double bits[NOISES][NORMS][RULES][TARGETS];
};

static void write_spec(char *out, size_t cap, size_t rule, size_t norm, double target)
{
    static const char *const bits[RULES] = {"", "average", "rms", "meanstd"};
    if (rule == FIXED)
        (void)snprintf(out, cap, "qsgd:bits=%g,norm=%s,lr=%g,combine=allgather", target,
                       norm_name[norm], ETA);
    else
        (void)snprintf(out, cap, "dqsgd:bits=%s,target=%g,alpha=%g,norm=%s,lr=%g,combine=allgather",
                       bits[rule], target, ALPHA, norm_name[norm], ETA);
}

static void plan_sweep(struct rpr_sheet *sheet, struct sweep *all, size_t index)
{
    struct rpr_descent *const run = &all->run[0][0][0][0][0] + index;
    const size_t target = index / REPEATS % TARGETS;
    const size_t rule = index / REPEATS / TARGETS % RULES;
    const size_t norm = index / REPEATS / TARGETS / RULES % NORMS;
    const size_t noisy = index / REPEATS / TARGETS / RULES / NORMS;
    *run = (struct rpr_descent){.workers = 1,
                                .count = DIM,
                                .curvature = all->problem.curvature,
                                .deviation = noisy ? (float)NOISE : 0,
                                .start = all->problem.start,
                                .steps = STEPS,
                                .random = rpr_random(sheet->seed, "dqsgd/sweep", index),
                                .seed = sheet->seed + index};
    write_spec(run->spec, sizeof run->spec, rule, norm, target_of[target]);
}

static void gather_sweep(struct sweep *all)
{
    double *const error = &all->error[0][0][0][0];
    double *const bits = &all->bits[0][0][0][0];
    const struct rpr_descent *const run = &all->run[0][0][0][0][0];
    for (size_t i = 0; i < NOISES * NORMS * RULES * TARGETS; i++)
        for (size_t r = 0; r < REPEATS; r++) {
            error[i] += run[i * REPEATS + r].final / REPEATS;
            bits[i] += (run[i * REPEATS + r].bits - OVERHEAD) / REPEATS;
        }
}

static void claim_sweep(struct rpr_sheet *sheet, const struct sweep *all)
{
    double over = -INFINITY;
    double gain = INFINITY;
    for (size_t i = 0; i < TARGETS; i++) {
        for (size_t norm = 0; norm < NORMS; norm++)
            over = fmax(over, all->bits[1][norm][DYNAMIC][i] - target_of[i]);
        gain = fmin(gain, all->error[0][0][DYNAMIC][i] / all->error[0][0][FIXED][i]);
    }
    rpr_claim(sheet, "bits-saved", all->error[1][0][DYNAMIC][1] / all->error[1][0][FIXED][3],
              RPR_AT_MOST, 1.25,
              "p = 2, noise: error of 4 dynamic bits on average over that of 6 fixed bits");
    rpr_claim(sheet, "same-bits", all->error[1][0][FIXED][1] / all->error[1][0][DYNAMIC][1],
              RPR_AT_LEAST, 1.4,
              "p = 2, noise: error of 4 fixed bits over that of 4 dynamic bits on average");
    rpr_claim(sheet, "no-noise-no-gain", gain, RPR_AT_LEAST, 1,
              "p = 2, exact gradients, 3 to 8 bits: error of dynamic bits over that of fixed "
              "bits, the least");
    rpr_claim(sheet, "bits-kept", over, RPR_AT_MOST, 0.05,
              "the requested average is kept: bits spent above it, the worst");
}

static void show_sweep(struct rpr_sheet *sheet, const struct sweep *all)
{
    for (size_t i = 0; i < NOISES * NORMS; i++) {
        const size_t noisy = 1 - i / NORMS;
        const size_t norm = i % NORMS;
        char id[32];
        char title[120];
        (void)snprintf(id, sizeof id, "bits-%s-%s", norm_name[norm], noisy ? "noise" : "exact");
        (void)snprintf(title, sizeof title, "Error after 400 steps, p = %s, %s", norm_name[norm],
                       noisy ? "noisy gradients" : "exact gradients");
        rpr_chart(sheet, &(struct rpr_axes){id, title, "bits asked for", "F", RPR_LOG_Y | RPR_MARKS,
                                            TARGETS, target_of, 0});
        for (size_t rule = 0; rule < RULES; rule++)
            rpr_line(sheet, all->error[noisy][norm][rule], "%s", rule_name[rule]);
    }
    rpr_chart(sheet, &(struct rpr_axes){"bits-spent", "Bits spent, p = 2, noisy gradients",
                                        "bits asked for", "bits on average", RPR_MARKS, TARGETS,
                                        target_of, 0});
    for (size_t rule = 0; rule < RULES; rule++)
        rpr_line(sheet, all->bits[1][0][rule], "%s", rule_name[rule]);
}

static void error_against_bits(struct rpr_sheet *sheet)
{
    enum { RUNS = NOISES * NORMS * RULES * TARGETS * REPEATS };
    struct sweep *const all = rpr_room(sheet, 1, sizeof *all);
    if (!all)
        return;
    make_problem(&all->problem);
    for (size_t i = 0; i < RUNS; i++)
        plan_sweep(sheet, all, i);
    rpr_descend(sheet, &all->run[0][0][0][0][0], RUNS);
    gather_sweep(all);
    claim_sweep(sheet, all);
    show_sweep(sheet, all);
    free(all);
}

/* ---- every step spends the same ---- */

#define EPSILON 1.0

struct spending {
    double share; /* A / N */
    double kappa; /* levels per unit of norm in the last step */
    double most;  /* the largest error of a step over its share */
    double least; /* the least, over steps with at least 8 levels */
    double total; /* the error of all steps over A */
    double bits[STEPS + 1];
    double spent[STEPS + 1];
};

static void look_spending(struct rpr_descent *descent, struct rpr_team *team, uint64_t step)
{
    struct spending *const spending = descent->context;
    const double bits = round(team->report[0].bits - OVERHEAD);
    const double levels = exp2(bits - 1) - 1;
    const double weight = pow(ALPHA, (double)(STEPS - step));
    double square = 0;
    for (size_t i = 0; i < team->count; i++)
        square += (double)team->gradient[0][i] * (double)team->gradient[0][i];
    const double spent =
        SMOOTHNESS * DIM * ETA * ETA / 12 * weight * square / (levels * levels) / spending->share;
    const double wanted = spending->kappa * sqrt(weight * square);
    spending->most = fmax(spending->most, spent);
    spending->least = wanted >= 8 ? fmin(spending->least, spent) : spending->least;
    spending->total += spent / STEPS;
    spending->bits[step - 1] = bits;
    spending->spent[step - 1] = spent;
}

static void equal_spending(struct rpr_sheet *sheet)
{
    struct problem *const problem = rpr_room(sheet, 1, sizeof *problem);
    struct spending *const spending = rpr_room(sheet, 1, sizeof *spending);
    const double sigma = NOISE * sqrt(DIM);
    if (!problem || !spending) {
        free(problem);
        free(spending);
        return;
    }
    make_problem(problem);
    const double gap = rpr_loss(problem->curvature, NULL, problem->start, DIM);
    const double fallen = pow(ALPHA, STEPS);
    const double allowed = EPSILON - fallen * gap -
                           SMOOTHNESS * ETA * ETA * sigma * sigma * (1 - fallen) / (2 - 2 * ALPHA);
    *spending = (struct spending){.share = allowed / STEPS,
                                  .kappa = ETA * sqrt(STEPS * SMOOTHNESS * DIM / (12 * allowed)),
                                  .least = INFINITY};
    struct rpr_descent run = {.workers = 1,
                              .count = DIM,
                              .curvature = problem->curvature,
                              .deviation = (float)NOISE,
                              .start = problem->start,
                              .steps = STEPS,
                              .random = rpr_random(sheet->seed, "dqsgd/spending", 0),
                              .seed = sheet->seed,
                              .look = look_spending,
                              .context = spending};
    (void)snprintf(run.spec, sizeof run.spec,
                   "dqsgd:bits=error,epsilon=%g,smoothness=%g,noise=%.9g,gap=%.9g,alpha=%g,norm=2,"
                   "lr=%g,combine=allgather",
                   EPSILON, SMOOTHNESS, sigma, gap, ALPHA, ETA);
    rpr_descend(sheet, &run, 1);
    rpr_claim(sheet, "spending-most", spending->most, RPR_AT_MOST, 1.001,
              "no step spends more than its share A/N of the allowed error: the most, in shares");
    rpr_claim(sheet, "spending-least", spending->least, RPR_AT_LEAST, 0.2,
              "nor much less, whole bits being the reason (8 levels and more): the least, in "
              "shares");
    rpr_claim(sheet, "error-kept", run.final, RPR_AT_MOST, EPSILON,
              "the requested error is kept: F at the end, epsilon = 1");
    rpr_chart(sheet, &(struct rpr_axes){"spending", "Bits of each step, bits=error, epsilon 1",
                                        "step", "bits", 0, STEPS, NULL, 1});
    rpr_line(sheet, spending->bits, "bits");
    rpr_chart(sheet, &(struct rpr_axes){"shares", "Error spent by each step, bits=error", "step",
                                        "shares of A/N", 0, STEPS, NULL, 1});
    rpr_line(sheet, spending->spent, "spent");
    free(problem);
    free(spending);
}

/* ---- how tight the bound is where L = mu ---- */

enum { TIGHT_STEPS = 100, TIGHT_REPEATS = 96, TIGHT_BITS = 4 };

#define TIGHT_ETA 0.1

static const double tight_bits[TIGHT_BITS] = {4, 5, 6, 7};

struct bound {
    double levels;
    double value; /* sum of the steps so far */
    double quantization;
};

/* alpha = (1 - eta)^2 on F = 1/2 |x|^2; the bound's sum, step by step. */
static void look_bound(struct rpr_descent *descent, struct rpr_team *team, uint64_t step)
{
    struct bound *const bound = descent->context;
    const double alpha = (1 - TIGHT_ETA) * (1 - TIGHT_ETA);
    const double noise = TIGHT_ETA * TIGHT_ETA * DIM * NOISE * NOISE / 2;
    double square = 0;
    (void)step;
    for (size_t i = 0; i < team->count; i++)
        square += (double)team->gradient[0][i] * (double)team->gradient[0][i];
    const double added =
        DIM * TIGHT_ETA * TIGHT_ETA / 12 * square / (bound->levels * bound->levels);
    bound->value = alpha * bound->value + noise + added;
    bound->quantization = alpha * bound->quantization + added;
}

struct tight {
    float start[TIGHT_REPEATS][DIM];
    struct rpr_descent run[TIGHT_BITS][TIGHT_REPEATS];
    struct bound bound[TIGHT_BITS][TIGHT_REPEATS];
};

static void plan_tight(struct rpr_sheet *sheet, struct tight *all, size_t index)
{
    const size_t repeat = index % TIGHT_REPEATS;
    const size_t bits = index / TIGHT_REPEATS;
    struct rpr_descent *const run = &all->run[bits][repeat];
    *run = (struct rpr_descent){.workers = 1,
                                .count = DIM,
                                .deviation = (float)NOISE,
                                .start = all->start[repeat],
                                .steps = TIGHT_STEPS,
                                .random = rpr_random(sheet->seed, "dqsgd/tight", index),
                                .seed = sheet->seed + index,
                                .look = look_bound,
                                .context = &all->bound[bits][repeat]};
    (void)snprintf(run->spec, sizeof run->spec, "qsgd:bits=%g,norm=2,lr=%g,combine=allgather",
                   tight_bits[bits], TIGHT_ETA);
    all->bound[bits][repeat] =
        (struct bound){.levels = exp2(tight_bits[bits] - 1) - 1,
                       .value = rpr_loss(NULL, NULL, all->start[repeat], DIM)};
}

static void show_tight(struct rpr_sheet *sheet, const struct tight *all)
{
    double measured[TIGHT_BITS] = {0};
    double bound[TIGHT_BITS] = {0};
    double quantization[TIGHT_BITS] = {0};
    double worst = 0;
    for (size_t i = 0; i < TIGHT_BITS; i++) {
        for (size_t r = 0; r < TIGHT_REPEATS; r++) {
            measured[i] += all->run[i][r].final / TIGHT_REPEATS;
            bound[i] += all->bound[i][r].value / TIGHT_REPEATS;
            quantization[i] += all->bound[i][r].quantization / TIGHT_REPEATS;
        }
        worst = fmax(worst, fabs(measured[i] / bound[i] - 1));
    }
    rpr_claim(sheet, "bound-tight", worst, RPR_AT_MOST, 0.1,
              "L = mu, p = 2, 4 to 7 bits: the mean error of %d repeats is off the bound by, "
              "relative, the worst",
              TIGHT_REPEATS);
    rpr_chart(sheet, &(struct rpr_axes){"tight", "Error and bound where L = mu", "bits", "F",
                                        RPR_LOG_Y | RPR_MARKS, TIGHT_BITS, tight_bits, 0});
    rpr_line(sheet, measured, "measured");
    rpr_line(sheet, bound, "bound");
    rpr_line(sheet, quantization, "its part of quantization");
}

static void tightness(struct rpr_sheet *sheet)
{
    struct tight *const all = rpr_room(sheet, 1, sizeof *all);
    if (!all)
        return;
    for (size_t r = 0; r < TIGHT_REPEATS; r++) {
        struct rpr_random random = rpr_random(sheet->seed, "dqsgd/start", r);
        rpr_normals(&random, DIM, all->start[r]);
    }
    for (size_t i = 0; i < TIGHT_BITS * TIGHT_REPEATS; i++)
        plan_tight(sheet, all, i);
    rpr_descend(sheet, &all->run[0][0], TIGHT_BITS * TIGHT_REPEATS);
    show_tight(sheet, all);
    free(all);
}

static rpr_experiment *const experiments[] = {error_against_bits, equal_spending, tightness, NULL};

const struct rpr_plan rpr_dqsgd = {
    .paper = "dqsgd",
    .title = "DQ-SGD: bits that follow the gradient's norm",
    .citation = "Yan, Huang, Lan, Song, DQ-SGD: Dynamic Quantization in SGD for "
                "Communication-Efficient Distributed Learning, MASS 2021",
    .experiments = experiments,
};
