/* DQ-SGD with several workers and owners that encode again; its bit rules one by one. */
#include <math.h>
#include <stdio.h>
#include <stdlib.h>

#include "dqsgd.h"

enum { DIM = RPR_DQSGD_DIM, STEPS = RPR_DQSGD_STEPS };

#define ETA RPR_DQSGD_ETA
#define ALPHA RPR_DQSGD_ALPHA

/* ---- without noise ---- */

enum { HALVINGS = 14, REPEATS = 4 };

/* Error (log10) and bits of a spec on the toy without noise, means of REPEATS. */
struct outcome {
    double error;
    double bits;
};

static struct outcome run_exact(struct rpr_sheet *sheet, const struct rpr_dqsgd_toy *toy,
                                const char *spec)
{
    struct rpr_descent run[REPEATS];
    struct outcome outcome = {0, 0};
    for (size_t i = 0; i < REPEATS; i++) {
        run[i] = (struct rpr_descent){.workers = 1,
                                      .count = DIM,
                                      .curvature = toy->curvature,
                                      .start = toy->start,
                                      .steps = STEPS,
                                      .random = rpr_random(sheet->seed, "dqsgd/exact", i),
                                      .seed = sheet->seed + i};
        (void)snprintf(run[i].spec, sizeof run[i].spec, "%s,norm=2,lr=%g,combine=allgather", spec,
                       ETA);
    }
    rpr_descend(sheet, run, REPEATS);
    for (size_t i = 0; i < REPEATS; i++) {
        outcome.error += log10(run[i].final) / REPEATS;
        outcome.bits += (run[i].bits - RPR_DQSGD_OVERHEAD) / REPEATS;
    }
    return outcome;
}

/* The kappa that spends 4 bits is found in hindsight: no online rule can be expected to beat it. */
void rpr_dqsgd_hindsight(struct rpr_sheet *sheet)
{
    struct rpr_dqsgd_toy toy;
    char spec[100];
    double low = -3;
    double high = 12;
    struct outcome best = {0, 0};
    rpr_dqsgd_problem(&toy);
    const struct outcome fixed = run_exact(sheet, &toy, "qsgd:bits=4");
    (void)snprintf(spec, sizeof spec, "dqsgd:bits=average,target=4,alpha=%g", ALPHA);
    const struct outcome average = run_exact(sheet, &toy, spec);
    for (int halving = 0; halving < HALVINGS; halving++) {
        const double middle = (low + high) / 2;
        (void)snprintf(spec, sizeof spec, "dqsgd:bits=kappa,kappa=%.9g,alpha=%g", pow(10, middle),
                       ALPHA);
        const struct outcome outcome = run_exact(sheet, &toy, spec);
        if (outcome.bits <= 4) {
            low = middle;
            best = outcome;
        } else {
            high = middle;
        }
    }
    rpr_claim_within(sheet, "no-noise-no-gain", best.error - fixed.error, -1, 2,
                     "p = 2, exact gradients: error of the rule with the kappa that spends 4 bits, "
                     "found in hindsight, over that of 4 fixed bits, log10");
    rpr_claim_within(sheet, "no-noise-average", average.error - best.error, -1.5, 1,
                     "the same: error of bits=average, target 4, over that of this kappa, log10");
}

/* ---- rms and meanstd ---- */

enum { RULE_DIM = 4000, RULE_STEPS = 60 };

/* Gradients of two kinds in turn; the bits of the second above those of the first, means over the
 * steps after the first ten. */
static double extra_bits(struct rpr_sheet *sheet, const char *spec,
                         void (*fill)(struct rpr_random *random, int second, float *out))
{
    struct rpr_team team;
    struct rpr_random random = rpr_random(sheet->seed, "dqsgd/rules", 0);
    const float zeros[RULE_DIM] = {0};
    double bits[2] = {0, 0};
    rpr_team_open(&team, &(struct rpr_setup){.spec = spec,
                                             .workers = 1,
                                             .count = RULE_DIM,
                                             .start = zeros,
                                             .seed = sheet->seed,
                                             .steps = RULE_STEPS});
    for (int step = 0; step < RULE_STEPS && team.status == TERSE_OK; step++) {
        fill(&random, step % 2, team.gradient[0]);
        rpr_team_step(&team);
        if (step >= 10)
            bits[step % 2] += team.report[0].bits * 2 / (RULE_STEPS - 10);
    }
    rpr_fail(sheet, team.status, &team.fault);
    rpr_team_close(&team);
    return bits[1] - bits[0];
}

/* Normal values, the second kind eight times as large. */
static void fill_sizes(struct rpr_random *random, int second, float *out)
{
    rpr_normals(random, RULE_DIM, out);
    for (size_t i = 0; i < RULE_DIM && second; i++)
        out[i] *= 8;
}

/* Magnitudes in [0.9, 1.1], and normal ones: mean over deviation is 17.3 and 1.32. */
static void fill_shapes(struct rpr_random *random, int second, float *out)
{
    if (second)
        rpr_normals(random, RULE_DIM, out);
    for (size_t i = 0; i < RULE_DIM && !second; i++)
        out[i] = (float)((i % 2 == 0 ? 1 : -1) * (0.9 + 0.2 * rpr_uniform(random)));
}

void rpr_dqsgd_rules(struct rpr_sheet *sheet)
{
    const double rms =
        extra_bits(sheet, "dqsgd:bits=rms,target=8,combine=allgather,lr=0.1", fill_sizes);
    const double meanstd =
        extra_bits(sheet, "dqsgd:bits=meanstd,target=8,combine=allgather,lr=0.1", fill_shapes);
    rpr_claim_within(sheet, "rms-bits", rms, 2.5, 3.5,
                     "bits=rms: a gradient eight times as large has so many bits more (3)");
    rpr_claim_within(sheet, "meanstd-bits", meanstd, 2.7, 4.2,
                     "bits=meanstd: mean over deviation of the magnitudes 1.32 instead of 17.3 has "
                     "so many bits more (3.7)");
}

/* ---- rounding ---- */

enum { WIDE = 50000, CROWDS = 3 };

static const uint32_t crowd[CROWDS] = {1, 4, 16};

/* All workers have one gradient, so that their mean errs by their rounding alone. */
static void round_once(struct rpr_sheet *sheet, uint32_t workers, double *spread, double *bias)
{
    struct rpr_team team;
    float *const zeros = rpr_room(sheet, WIDE, sizeof *zeros);
    double square = 0;
    double toward = 0;
    double exact = 0;
    float largest = 0;
    if (!zeros)
        return;
    rpr_team_open(&team, &(struct rpr_setup){.spec = "qsgd:bits=4,norm=inf,lr=1,combine=allgather",
                                             .workers = workers,
                                             .count = WIDE,
                                             .start = zeros,
                                             .seed = sheet->seed,
                                             .steps = 1});
    for (uint32_t k = 0; k < workers && team.status == TERSE_OK; k++) {
        struct rpr_random random = rpr_random(sheet->seed, "dqsgd/rounding", 0);
        rpr_normals(&random, WIDE, team.gradient[k]);
    }
    rpr_team_step(&team);
    for (size_t i = 0; i < WIDE && team.status == TERSE_OK; i++)
        largest = fmaxf(largest, fabsf(team.gradient[0][i]));
    for (size_t i = 0; i < WIDE && team.status == TERSE_OK; i++) {
        const double g = (double)team.gradient[0][i];
        const double off = -(double)team.weights[0][i] - g;
        const double share = fabs(g) / (double)largest * 7 - floor(fabs(g) / (double)largest * 7);
        square += off * off;
        toward += g < 0 ? -off : off;
        exact += share * (1 - share) * pow((double)largest / 7, 2);
    }
    *spread = square * workers / exact;
    *bias = toward / sqrt(exact / workers);
    rpr_fail(sheet, team.status, &team.fault);
    rpr_team_close(&team);
    free(zeros);
}

void rpr_dqsgd_rounding(struct rpr_sheet *sheet)
{
    double worst = 1;
    double most = 0;
    for (size_t i = 0; i < CROWDS; i++) {
        double spread = NAN;
        double bias = NAN;
        round_once(sheet, crowd[i], &spread, &bias);
        worst = fabs(spread - 1) > fabs(worst - 1) ? spread : worst;
        most = fmax(most, fabs(bias));
    }
    rpr_claim_within(sheet, "rounding-variance", worst, 0.95, 1.05,
                     "4 bits, 1, 4, 16 workers of equal gradients: variance of the mean over the "
                     "exact one of independent rounding, the one furthest from 1");
    rpr_claim(sheet, "rounding-bias", most, RPR_AT_MOST, 5.5,
              "the same: mean error towards larger magnitudes in standard errors, the worst");
}

/* ---- the allowed error ---- */

enum { KEPT_STEPS = 100, KEPT_REPEATS = 24, COMBINES = 3, ARMS = COMBINES + 1 };

#define KEPT_ETA 0.1
#define ALLOWED 1e-2

static const char *const combine_of[COMBINES] = {"allgather", "shard", "parameter-server"};

struct kept {
    float start[DIM];
    struct rpr_descent run[CROWDS][KEPT_REPEATS][ARMS]; /* the last is not quantized */
};

/* F = |x|^2 / 2, so L = mu = 1 and alpha = (1 - eta)^2. */
static void plan_kept(struct rpr_sheet *sheet, struct kept *all, size_t index)
{
    const size_t arm = index % ARMS;
    const size_t repeat = index / ARMS % KEPT_REPEATS;
    const size_t group = index / ARMS / KEPT_REPEATS;
    const double alpha = (1 - KEPT_ETA) * (1 - KEPT_ETA);
    const double fallen = pow(alpha, KEPT_STEPS);
    const double sigma = RPR_DQSGD_NOISE * sqrt(DIM);
    const double gap = rpr_loss(NULL, NULL, all->start, DIM);
    const double epsilon =
        ALLOWED + fallen * gap +
        KEPT_ETA * KEPT_ETA * sigma * sigma * (1 - fallen) / (2 * crowd[group] * (1 - alpha));
    struct rpr_descent *const run = &all->run[group][repeat][arm];
    *run = (struct rpr_descent){.workers = crowd[group],
                                .count = DIM,
                                .deviation = (float)RPR_DQSGD_NOISE,
                                .start = all->start,
                                .steps = KEPT_STEPS,
                                .random = rpr_random(sheet->seed, "dqsgd/kept", index / ARMS),
                                .seed = sheet->seed + repeat,
                                .together = arm > 0};
    if (arm == COMBINES)
        (void)snprintf(run->spec, sizeof run->spec, "dense:momentum=0,lr=%g", KEPT_ETA);
    else
        (void)snprintf(run->spec, sizeof run->spec,
                       "dqsgd:bits=error,epsilon=%.9g,smoothness=1,noise=%.9g,gap=%.9g,alpha=%.9g,"
                       "norm=2,lr=%g,combine=%s",
                       epsilon, sigma, gap, alpha, KEPT_ETA, combine_of[arm]);
}

void rpr_dqsgd_kept(struct rpr_sheet *sheet)
{
    static const char *const id[COMBINES] = {"error-kept", "error-kept-shard", "error-kept-server"};
    struct kept *const all = rpr_room(sheet, 1, sizeof *all);
    double excess[COMBINES][CROWDS] = {{0}};
    const double workers[CROWDS] = {1, 4, 16};
    if (!all)
        return;
    for (size_t i = 0; i < DIM; i++)
        all->start[i] = 1;
    for (size_t i = 0; i < CROWDS * KEPT_REPEATS * ARMS; i++)
        plan_kept(sheet, all, i);
    rpr_descend(sheet, &all->run[0][0][0], CROWDS * KEPT_REPEATS * ARMS);
    for (size_t c = 0; c < COMBINES; c++) {
        double worst = 0;
        for (size_t g = 0; g < CROWDS; g++) {
            for (size_t r = 0; r < KEPT_REPEATS; r++)
                excess[c][g] += (all->run[g][r][c].final - all->run[g][r][COMBINES].final) /
                                (ALLOWED * KEPT_REPEATS);
            worst = fmax(worst, excess[c][g]);
        }
        rpr_claim_within(sheet, id[c], worst, 0.05, 1,
                         "bits=error, A = 0.01, 1, 4, 16 workers, combine=%s: error above that "
                         "without quantization, over A, mean of %d, the worst",
                         combine_of[c], KEPT_REPEATS);
    }
    rpr_chart(sheet,
              &(struct rpr_axes){"kept", "Error above unquantized SGD, bits=error", "workers",
                                 "over A", RPR_LOG_X | RPR_MARKS, CROWDS, workers, 0});
    for (size_t c = 0; c < COMBINES; c++)
        rpr_line(sheet, excess[c], "%s", combine_of[c]);
    free(all);
}
