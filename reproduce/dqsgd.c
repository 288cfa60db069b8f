/* DQ-SGD (Yan, Huang, Lan, Song, MASS 2021): bits that follow the gradient's norm. */
#include <math.h>
#include <stdio.h>
#include <stdlib.h>

#include "dqsgd.h"

/* One worker and allgather: one quantization per step. */
enum { DIM = RPR_DQSGD_DIM, STEPS = RPR_DQSGD_STEPS };

#define ETA RPR_DQSGD_ETA
#define ALPHA RPR_DQSGD_ALPHA
#define NOISE RPR_DQSGD_NOISE
#define SMOOTHNESS RPR_DQSGD_SMOOTHNESS
#define OVERHEAD RPR_DQSGD_OVERHEAD /* norm, number of bits */

void rpr_dqsgd_problem(struct rpr_dqsgd_toy *toy)
{
    for (size_t i = 0; i < DIM; i++) {
        toy->curvature[i] = (float)(0.1 + 0.9 * (double)i / (DIM - 1));
        toy->start[i] = 1;
    }
}

/* ---- error against bits ---- */

enum { RULES = 4, TARGETS = 6, REPEATS = 12, NORMS = 2, NOISES = 2 };
enum { FIXED, DYNAMIC, RMS, MEANSTD };

static const double target_of[TARGETS] = {3, 4, 5, 6, 7, 8};
static const char *const rule_name[RULES] = {"fixed", "dynamic", "rms", "meanstd"};
static const char *const norm_name[NORMS] = {"2", "inf"};

struct sweep {
    struct rpr_dqsgd_toy problem;
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
    double off = 0; /* of what was asked for, the furthest */
    for (size_t i = 1; i < TARGETS; i += 2)
        for (size_t j = 0; j < NOISES * NORMS; j++) {
            const double share = all->bits[j / NORMS][j % NORMS][DYNAMIC][i] / target_of[i] - 1;
            off = fabs(share) > fabs(off) ? share : off;
        }
    rpr_claim_within(sheet, "bits-saved", all->error[1][0][DYNAMIC][1] / all->error[1][0][FIXED][3],
                     0.8, 1.25,
                     "p = 2, noise: error of 4 dynamic bits on average over that of 6 fixed bits");
    rpr_claim_within(sheet, "same-bits", all->error[1][0][FIXED][1] / all->error[1][0][DYNAMIC][1],
                     1.4, 2.5,
                     "p = 2, noise: error of 4 fixed bits over that of 4 dynamic bits on average");
    rpr_claim_within(sheet, "bits-kept", off, -0.03, 0.03,
                     "4, 6, 8 bits asked for, p = 2 and inf, with noise and without: bits spent "
                     "relative to that, minus 1, the one furthest from 0");
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
    rpr_dqsgd_problem(&all->problem);
    for (size_t i = 0; i < RUNS; i++)
        plan_sweep(sheet, all, i);
    rpr_descend(sheet, &all->run[0][0][0][0][0], RUNS);
    gather_sweep(all);
    claim_sweep(sheet, all);
    show_sweep(sheet, all);
    free(all);
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
    rpr_claim(sheet, "bound-tight", worst, RPR_AT_MOST, 0.05,
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

static rpr_experiment *const experiments[] = {
    error_against_bits, rpr_dqsgd_hindsight, rpr_dqsgd_rules, rpr_dqsgd_spending,
    tightness,          rpr_dqsgd_rounding,  rpr_dqsgd_kept,  NULL};

const struct rpr_plan rpr_dqsgd = {
    .paper = "dqsgd",
    .title = "DQ-SGD: bits that follow the gradient's norm",
    .citation = "Yan, Huang, Lan, Song, DQ-SGD: Dynamic Quantization in SGD for "
                "Communication-Efficient Distributed Learning, MASS 2021",
    .experiments = experiments,
};
