/* The parts of DEF's analysis: xt = x - mean e, the SGD-like sequence behind the weights. */
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "def.h"

void rpr_def_mean_residual(struct rpr_team *team, double *out)
{
    memset(out, 0, team->count * sizeof *out);
    for (uint32_t k = 0; k < team->workers; k++) {
        const float *const memory = rpr_team_state(team, k, "residual");
        for (size_t i = 0; i < team->count && memory; i++)
            out[i] += (double)memory[i] / team->workers;
    }
}

/* ---- the trade-off ---- */

enum { LAMBDAS = 6, TRADE_STEPS = 400, TRADE_EVERY = 20 };

static const double lambdas[LAMBDAS] = {0, 0.2, 0.4, 0.6, 0.8, 1};

struct trade {
    double mean[RPR_DEF_DIM];
    double lambda;
    double measured; /* mean over steps of mean_k |w_k - xt|^2 */
    double formula;  /* (1-lambda)^2 |ebar|^2 + lambda^2 mean_k |e_k - ebar|^2 */
    double shared;   /* |ebar|^2 */
    double apart;    /* mean_k |e_k - ebar|^2 */
    double worst;    /* relative difference of a step */
};

static void look_trade(struct rpr_descent *descent, struct rpr_team *team, uint64_t step)
{
    struct trade *const trade = descent->context;
    double measured = 0;
    double shared = 0;
    double apart = 0;
    if (step % TRADE_EVERY != 0)
        return;
    rpr_def_mean_residual(team, trade->mean);
    for (uint32_t k = 0; k < team->workers; k++) {
        const float *const memory = rpr_team_state(team, k, "residual");
        const float *const point = terse_method_point(team->method[k]);
        for (size_t i = 0; i < team->count; i++) {
            const double mean = trade->mean[i];
            const double off = (double)point[i] - ((double)team->weights[k][i] - mean);
            measured += off * off / team->workers;
            shared += mean * mean / team->workers;
            apart += ((double)memory[i] - mean) * ((double)memory[i] - mean) / team->workers;
        }
    }
    const double lambda = trade->lambda;
    const double formula = (1 - lambda) * (1 - lambda) * shared + lambda * lambda * apart;
    const double share = (double)TRADE_EVERY / TRADE_STEPS;
    trade->measured += share * measured;
    trade->formula += share * formula;
    trade->shared += share * shared;
    trade->apart += share * apart;
    trade->worst = fmax(trade->worst, fabs(measured / formula - 1));
}

static void show_trade(struct rpr_sheet *sheet, const struct trade *trade)
{
    double measured[LAMBDAS];
    double formula[LAMBDAS];
    double worst = 0;
    double best = INFINITY;
    for (size_t i = 0; i < LAMBDAS; i++) {
        best = i > 0 && i < LAMBDAS - 1 ? fmin(best, trade[i].measured) : best;
        measured[i] = trade[i].measured;
        formula[i] = trade[i].formula;
        worst = fmax(worst, trade[i].worst);
    }
    rpr_claim(sheet, "trade-off", worst, RPR_AT_MOST, 1e-5,
              "mean |w_k - xt|^2 = (1-lambda)^2 |mean e|^2 + lambda^2 mean |e_k - mean e|^2: "
              "relative difference, the worst step of any lambda");
    rpr_claim_within(
        sheet, "trade-off-inside", best / fmin(measured[0], measured[LAMBDAS - 1]), 0.72, 0.95,
        "between the ends: the least mean |w_k - xt|^2 of lambda 0.2 .. 0.8, over the less "
        "of those of 0 and 1");
    rpr_chart(sheet,
              &(struct rpr_axes){"trade-off", "How far from xt gradients are taken", "lambda",
                                 "mean |w_k - xt|^2", RPR_MARKS, LAMBDAS, lambdas, 0});
    rpr_line(sheet, measured, "measured");
    rpr_line(sheet, formula, "formula");
}

void rpr_def_trade_off(struct rpr_sheet *sheet)
{
    struct rpr_def_toy *const toy = rpr_room(sheet, 1, sizeof *toy);
    struct trade *const trade = rpr_room(sheet, LAMBDAS, sizeof *trade);
    struct rpr_descent run[LAMBDAS];
    if (toy && trade) {
        rpr_def_problem(sheet, "def/trade", toy);
        for (size_t i = 0; i < LAMBDAS; i++) {
            trade[i].lambda = lambdas[i];
            run[i] = rpr_def_run(sheet, "def/trade", 0, toy, TRADE_STEPS);
            (void)snprintf(run[i].spec, sizeof run[i].spec, "def:ratio=64,lambda=%g,lr=0.001",
                           lambdas[i]);
            run[i].together = i > 0;
            run[i].look = look_trade;
            run[i].context = &trade[i];
        }
        rpr_descend(sheet, run, LAMBDAS);
        show_trade(sheet, trade);
    }
    free(toy);
    free(trade);
}

/* ---- the moving average ---- */

enum { AVERAGE_STEPS = 4000, AVERAGE_EVERY = 20, AVERAGE_POINTS = 201 };

struct average {
    double mean[RPR_DEF_DIM];
    double before[RPR_DEF_DIM]; /* x a step ago */
    double smooth[RPR_DEF_DIM]; /* moving average of xt in doubles */
    double slope;               /* mean over steps of (x' - x).(xt' - x) / |xt' - x|^2 */
    double x[AVERAGE_POINTS];
    double xt[AVERAGE_POINTS];
    double smoothed[AVERAGE_POINTS];
};

#define BLOCK_SHARE (1.0 / 64)

static void look_average(struct rpr_descent *descent, struct rpr_team *team, uint64_t step)
{
    struct average *const average = descent->context;
    double loss[3] = {0, 0, 0};
    double over = 0;
    double under = 0;
    rpr_def_mean_residual(team, average->mean);
    for (size_t i = 0; i < team->count; i++) {
        const double x = (double)team->weights[0][i];
        const double xt = x - average->mean[i];
        const double a = (double)descent->curvature[i] / 2;
        over += (x - average->before[i]) * (xt - average->before[i]);
        under += (xt - average->before[i]) * (xt - average->before[i]);
        average->smooth[i] += BLOCK_SHARE * (xt - average->smooth[i]);
        average->before[i] = x;
        loss[0] += a * x * x;
        loss[1] += a * xt * xt;
        loss[2] += a * average->smooth[i] * average->smooth[i];
    }
    average->slope += over / under / AVERAGE_STEPS;
    if (step % AVERAGE_EVERY != 0)
        return;
    average->x[step / AVERAGE_EVERY] = loss[0];
    average->xt[step / AVERAGE_EVERY] = loss[1];
    average->smoothed[step / AVERAGE_EVERY] = loss[2];
}

static void show_average(struct rpr_sheet *sheet, const struct average *average)
{
    const double slope = average->slope / BLOCK_SHARE;
    rpr_claim(sheet, "moving-average", fabs(slope - 1), RPR_AT_MOST, 0.12,
              "E[x' - x] = q (xt' - x), so x is a moving average of xt: the slope over q = 1/64 is "
              "off 1 by");
    rpr_chart(sheet, &(struct rpr_axes){
                         "moving-average", "x is a moving average of xt over 64 steps (DEF 0.3)",
                         "step", "loss", RPR_LOG_Y, AVERAGE_POINTS, NULL, AVERAGE_EVERY});
    rpr_line(sheet, average->x, "at x");
    rpr_line(sheet, average->xt, "at xt");
    rpr_line(sheet, average->smoothed, "at the average of xt");
}

void rpr_def_average(struct rpr_sheet *sheet)
{
    struct rpr_def_toy *const toy = rpr_room(sheet, 1, sizeof *toy);
    struct average *const average = rpr_room(sheet, 1, sizeof *average);
    if (toy && average) {
        rpr_def_problem(sheet, "def/average", toy);
        for (size_t i = 0; i < RPR_DEF_DIM; i++)
            average->before[i] = average->smooth[i] = (double)toy->start[i];
        const double first = rpr_loss(toy->curvature, NULL, toy->start, RPR_DEF_DIM);
        average->x[0] = average->xt[0] = average->smoothed[0] = first;
        struct rpr_descent run = rpr_def_run(sheet, "def/average", 0, toy, AVERAGE_STEPS);
        (void)snprintf(run.spec, sizeof run.spec, "def:ratio=64,lambda=0.3,lr=0.001");
        run.look = look_average;
        run.context = average;
        rpr_descend(sheet, &run, 1);
        show_average(sheet, average);
    }
    free(toy);
    free(average);
}

/* ---- lambda = 1 ---- */

enum { FOLLOW_STEPS = 1000, FOLLOW_EVERY = 10, FOLLOW_POINTS = 101 };

struct follow {
    double mean[RPR_DEF_DIM];
    double at[FOLLOW_POINTS][RPR_DEF_DIM]; /* x - mean e */
};

static void look_follow(struct rpr_descent *descent, struct rpr_team *team, uint64_t step)
{
    struct follow *const follow = descent->context;
    if (step % FOLLOW_EVERY != 0)
        return;
    rpr_def_mean_residual(team, follow->mean);
    for (size_t i = 0; i < team->count; i++)
        follow->at[step / FOLLOW_EVERY][i] = (double)team->weights[0][i] - follow->mean[i];
}

static double distance(const double *a, const double *b)
{
    double sum = 0;
    for (size_t i = 0; i < RPR_DEF_DIM; i++)
        sum += (a[i] - b[i]) * (a[i] - b[i]);
    return sqrt(sum);
}

static void show_follow(struct rpr_sheet *sheet, const struct follow *follow)
{
    static const double origin[RPR_DEF_DIM];
    double off[2][FOLLOW_POINTS] = {{0}};
    double worst = 0;
    for (size_t p = 1; p < FOLLOW_POINTS; p++) {
        const double norm = distance(follow[0].at[p], origin);
        for (size_t arm = 0; arm < 2; arm++)
            off[arm][p] = distance(follow[arm + 1].at[p], follow[0].at[p]) / norm;
        worst = fmax(worst, off[0][p]);
    }
    rpr_claim(sheet, "saef-follows-sgd", worst, RPR_AT_MOST, 1e-5,
              "same noise, wd 0.2, lambda = 1: xt follows uncompressed momentum SGD, relative "
              "distance, the worst step");
    rpr_chart(sheet, &(struct rpr_axes){"follows", "Distance of xt from uncompressed SGD", "step",
                                        "relative distance", RPR_LOG_Y, FOLLOW_POINTS, NULL,
                                        FOLLOW_EVERY});
    rpr_line(sheet, off[0], "SAEF (lambda 1)");
    rpr_line(sheet, off[1], "DEF 0.3");
}

void rpr_def_follows(struct rpr_sheet *sheet)
{
    static const char *const spec[3] = {"ef:ratio=1,lr=0.001,wd=0.2",
                                        "saef:ratio=64,lr=0.001,wd=0.2",
                                        "def:ratio=64,lambda=0.3,lr=0.001,wd=0.2"};
    struct rpr_def_toy *const toy = rpr_room(sheet, 1, sizeof *toy);
    struct follow *const follow = rpr_room(sheet, 3, sizeof *follow);
    struct rpr_descent run[3];
    if (toy && follow) {
        rpr_def_problem(sheet, "def/follows", toy);
        for (size_t i = 0; i < 3; i++) {
            run[i] = rpr_def_run(sheet, "def/follows", 0, toy, FOLLOW_STEPS);
            (void)snprintf(run[i].spec, sizeof run[i].spec, "%s", spec[i]);
            run[i].together = i > 0;
            run[i].look = look_follow;
            run[i].context = &follow[i];
        }
        rpr_descend(sheet, run, 3);
        show_follow(sheet, follow);
    }
    free(toy);
    free(follow);
}
