/* Quantized Adam with error feedback (Chen, Shen, Huang, Liu, ACM TIST 2021). */
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "qadam.h"

/* d = 200, curvatures from 1 to 0.01, 8 workers, noise 0.1, alpha_t = 0.05 / sqrt t,
 * theta_t = 1 - 1/(t+9), v0 = 1e-5. The optimum is N(0, I): near 0 a grid as wide as the largest
 * weight would shrink with the weights, and there would be no floor. */
enum { DIM = RPR_QADAM_DIM, WORKERS = 8, TAIL = 400, POINTS = 201, EVERY = 20 };
enum { STEPS = RPR_QADAM_STEPS };

#define COMMON RPR_QADAM_SPEC

/* Runs: full precision; with error feedback kg 0..3; without it kg 0..3; kx 1, 2, 4, ... 12 at
 * kg 2. All have the same noise.
 */
enum { FULL, WITH, WITHOUT = WITH + 4, GRIDS = WITHOUT + 4, KX_COUNT = 7, RUNS = GRIDS + KX_COUNT };

void rpr_qadam_curvature(float *out)
{
    for (size_t i = 0; i < DIM; i++)
        out[i] = (float)(1 - 0.99 * (double)i / (DIM - 1));
}

static const unsigned kx_of[KX_COUNT] = {1, 2, 4, 6, 8, 10, 12};

struct bench {
    float curvature[DIM];
    float optimum[DIM];
    float start[DIM]; /* 0 */
    struct rpr_descent run[RUNS];
    double loss[RUNS][STEPS + 1];
};

static void write_spec(char *out, size_t cap, size_t index)
{
    if (index == FULL) /* every step a warm-up step: nothing is quantized */
        (void)snprintf(out, cap, "qadam:%s,kx=0,warmup=%d", COMMON, STEPS);
    else if (index < WITHOUT)
        (void)snprintf(out, cap, "qadam:%s,kx=0,kg=%zu", COMMON, index - WITH);
    else if (index < GRIDS)
        (void)snprintf(out, cap, "qadam:%s,kx=0,kg=%zu,feedback=none", COMMON, index - WITHOUT);
    else
        (void)snprintf(out, cap, "qadam:%s,kg=2,kx=%u", COMMON, kx_of[index - GRIDS]);
}

static void plan(struct rpr_sheet *sheet, struct bench *bench)
{
    struct rpr_random random = rpr_random(sheet->seed, "qadam/optimum", 0);
    rpr_normals(&random, DIM, bench->optimum);
    rpr_qadam_curvature(bench->curvature);
    for (size_t i = 0; i < RUNS; i++) {
        bench->run[i] = (struct rpr_descent){.workers = WORKERS,
                                             .count = DIM,
                                             .curvature = bench->curvature,
                                             .optimum = bench->optimum,
                                             .deviation = 0.1f,
                                             .start = bench->start,
                                             .steps = STEPS,
                                             .tail = TAIL,
                                             .random = rpr_random(sheet->seed, "qadam/run", 0),
                                             .seed = sheet->seed,
                                             .together = i != FULL && i != GRIDS,
                                             .loss = bench->loss[i]};
        write_spec(bench->run[i].spec, sizeof bench->run[i].spec, i);
    }
}

static void claim_memory(struct rpr_sheet *sheet, const struct bench *bench)
{
    double worst = 1;
    for (size_t kg = 0; kg < 4; kg++) {
        const double ratio = bench->run[WITH + kg].final / bench->run[FULL].final;
        worst = fabs(log(ratio)) > fabs(log(worst)) ? ratio : worst;
    }
    rpr_claim_within(sheet, "ef-full", worst, 0.99, 1.01,
                     "with error feedback kg = 0..3 (2 to 4 bits) ends where full precision ends: "
                     "loss over its, the one furthest from 1");
}

static void claim_floor(struct rpr_sheet *sheet, const struct bench *bench)
{
    const struct rpr_descent *const grid = &bench->run[GRIDS];
    double fine = 1;
    for (size_t i = 5; i < KX_COUNT; i++) {
        const double ratio = grid[i].final / bench->run[FULL].final;
        fine = fabs(log(ratio)) > fabs(log(fine)) ? ratio : fine;
    }
    rpr_claim_within(sheet, "floor-falls", pow(grid[0].final / grid[3].final, 0.2), 2.7, 4.9,
                     "weights on a grid of kx = 1 to 6: each bit divides the floor by (4: it is "
                     "the square of the grid's distance)");
    rpr_claim_within(sheet, "floor-gone", fine, 0.97, 1.05,
                     "weights on a grid of kx = 10, 12: loss over full precision's, the one "
                     "furthest from 1");
}

static void show_runs(struct rpr_sheet *sheet, const struct bench *bench)
{
    static const struct {
        size_t run;
        const char *name;
    } shown[] = {{FULL, "full precision"},
                 {WITH, "kg 0"},
                 {WITH + 2, "kg 2"},
                 {WITHOUT, "kg 0, no residual"},
                 {WITHOUT + 2, "kg 2, no residual"}};
    rpr_chart(sheet, &(struct rpr_axes){"error-feedback", "Steps on a log grid of 2 kg + 3 levels",
                                        "step", "loss", RPR_LOG_Y, POINTS, NULL, EVERY});
    for (size_t i = 0; i < sizeof shown / sizeof shown[0]; i++) {
        double thin[POINTS];
        rpr_thin(bench->loss[shown[i].run], STEPS, EVERY, thin);
        rpr_line(sheet, thin, "%s", shown[i].name);
    }
    rpr_chart(sheet, &(struct rpr_axes){"weights", "Weights on a grid of 2^(kx+1) + 1 levels",
                                        "step", "loss", RPR_LOG_Y, POINTS, NULL, EVERY});
    for (size_t i = 0; i < KX_COUNT; i++) {
        double thin[POINTS];
        rpr_thin(bench->loss[GRIDS + i], STEPS, EVERY, thin);
        rpr_line(sheet, thin, "kx %u", kx_of[i]);
    }
}

static void show_ends(struct rpr_sheet *sheet, const struct bench *bench)
{
    const double kg[4] = {0, 1, 2, 3};
    double end[3][4];
    double kx[KX_COUNT];
    double floor_of[2][KX_COUNT];
    for (size_t i = 0; i < 4; i++) {
        end[0][i] = bench->run[FULL].final;
        end[1][i] = bench->run[WITH + i].final;
        end[2][i] = bench->run[WITHOUT + i].final;
    }
    for (size_t i = 0; i < KX_COUNT; i++) {
        kx[i] = kx_of[i];
        floor_of[0][i] = bench->run[FULL].final;
        floor_of[1][i] = bench->run[GRIDS + i].final;
    }
    rpr_chart(sheet, &(struct rpr_axes){"kg", "Where it ends, with and without error feedback",
                                        "kg", "loss", RPR_LOG_Y | RPR_MARKS, 4, kg, 0});
    rpr_line(sheet, end[0], "full precision");
    rpr_line(sheet, end[1], "with error feedback");
    rpr_line(sheet, end[2], "without");
    rpr_chart(sheet, &(struct rpr_axes){"kx", "The floor of quantized weights", "kx", "loss",
                                        RPR_LOG_Y | RPR_MARKS, KX_COUNT, kx, 0});
    rpr_line(sheet, floor_of[0], "full precision");
    rpr_line(sheet, floor_of[1], "quantized weights, kg 2");
}

static void descents(struct rpr_sheet *sheet)
{
    struct bench *const bench = rpr_room(sheet, 1, sizeof *bench);
    if (!bench)
        return;
    plan(sheet, bench);
    rpr_descend(sheet, bench->run, RUNS);
    if (sheet->status == TERSE_OK) {
        claim_memory(sheet, bench);
        claim_floor(sheet, bench);
        show_runs(sheet, bench);
        show_ends(sheet, bench);
    }
    free(bench);
}

/* ---- two bits without error feedback ---- */

enum { PAIRS = 4 };

struct pairs {
    float curvature[DIM];
    float optimum[PAIRS][DIM];
    float start[DIM]; /* 0 */
    struct rpr_descent run[PAIRS][2];
};

/* The loss without error feedback depends on the problem: the geometric mean of several, each pair
 * over one stream of noise. */
static void without_memory(struct rpr_sheet *sheet)
{
    struct pairs *const pairs = rpr_room(sheet, 1, sizeof *pairs);
    double log_ratio = 0;
    if (!pairs)
        return;
    rpr_qadam_curvature(pairs->curvature);
    for (size_t i = 0; i < 2 * PAIRS; i++) {
        struct rpr_random random = rpr_random(sheet->seed, "qadam/pair", i / 2);
        rpr_normals(&random, DIM, pairs->optimum[i / 2]);
        pairs->run[i / 2][i % 2] = (struct rpr_descent){.workers = WORKERS,
                                                        .count = DIM,
                                                        .curvature = pairs->curvature,
                                                        .optimum = pairs->optimum[i / 2],
                                                        .deviation = 0.1f,
                                                        .start = pairs->start,
                                                        .steps = STEPS,
                                                        .tail = TAIL,
                                                        .random = random,
                                                        .seed = sheet->seed + i / 2,
                                                        .together = i % 2 == 1};
        write_spec(pairs->run[i / 2][i % 2].spec, sizeof pairs->run[0][0].spec,
                   i % 2 == 0 ? WITH : WITHOUT);
    }
    rpr_descend(sheet, &pairs->run[0][0], 2 * PAIRS);
    for (size_t i = 0; i < PAIRS; i++)
        log_ratio += log(pairs->run[i][1].final / pairs->run[i][0].final) / PAIRS;
    rpr_claim_within(sheet, "no-ef", exp(log_ratio), 1.2, 16,
                     "kg = 0 (2 bits): loss without error feedback over loss with it, geometric "
                     "mean of %d problems",
                     PAIRS);
    free(pairs);
}

/* ---- bytes ---- */

enum { WIDE = 100000, WIDE_STEPS = 3, WIDTHS = 6 };

static const unsigned width_kx[WIDTHS] = {2, 4, 6, 8, 10, 12};

/* Bytes that a worker sends and receives over those of dense, and (bits(kg) + kx + 2) / 64. */
static void traffic(struct rpr_sheet *sheet)
{
    struct rpr_descent run[WIDTHS];
    float *const start = rpr_room(sheet, WIDE, sizeof *start);
    double kx[WIDTHS];
    double measured[WIDTHS];
    double formula[WIDTHS];
    double worst = 0;
    if (!start)
        return;
    struct rpr_random random = rpr_random(sheet->seed, "qadam/traffic", 0);
    rpr_normals(&random, WIDE, start);
    for (size_t i = 0; i < WIDTHS; i++) {
        run[i] = (struct rpr_descent){.workers = WORKERS,
                                      .count = WIDE,
                                      .deviation = 0.1f,
                                      .start = start,
                                      .steps = WIDE_STEPS,
                                      .random = random,
                                      .seed = sheet->seed,
                                      .together = i > 0};
        (void)snprintf(run[i].spec, sizeof run[i].spec, "qadam:kg=2,kx=%u", width_kx[i]);
    }
    rpr_descend(sheet, run, WIDTHS);
    for (size_t i = 0; i < WIDTHS; i++) {
        kx[i] = width_kx[i];
        measured[i] =
            (double)(run[i].bytes_sent + run[i].bytes_received) / (2 * (double)run[i].dense_bytes);
        formula[i] = (3.0 + kx[i] + 2) / 64;
        worst = fmax(worst, fabs(measured[i] / formula[i] - 1));
    }
    rpr_claim(sheet, "traffic", worst, RPR_AT_MOST, 0.018,
              "bytes both ways over dense, d = 100,000, 8 workers, kg = 2, kx = 2..12: relative "
              "difference from (3 + kx+2) / 64");
    rpr_claim_within(sheet, "traffic-saved", 1 / measured[3], 4.85, 4.95,
                     "kg = 2, kx = 8: dense bytes over bytes sent and received");
    rpr_chart(sheet, &(struct rpr_axes){"traffic", "Bytes both ways, as a share of dense", "kx",
                                        "share of dense", RPR_MARKS, WIDTHS, kx, 0});
    rpr_line(sheet, measured, "measured");
    rpr_line(sheet, formula, "(3 + kx+2) / 64");
    free(start);
}

static rpr_experiment *const experiments[] = {descents,       without_memory, rpr_qadam_single,
                                              rpr_qadam_grid, traffic,        NULL};

const struct rpr_plan rpr_qadam = {
    .paper = "qadam",
    .title = "quantized Adam with error feedback",
    .citation = "Chen, Shen, Huang, Liu, Quantized Adam with Error Feedback, ACM TIST 2021",
    .experiments = experiments,
};
