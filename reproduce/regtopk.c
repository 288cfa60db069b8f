/* RegTop-k (Bereyhi, Liang, Boudreau, Afana, IEEE TSP 2025): the toy of two workers, and linear
 * regression. */
#include <math.h>
#include <stdio.h>
#include <stdlib.h>

#include "regression.h"
#include "sheet.h"
#include "team.h"

/* ---- two workers that cancel each other ---- */

enum { TOY_STEPS = 150, TOY_METHODS = 4 };

/* Mean of -log sigma(w.x) for x = (100, 1) and (-100, 1). */
static double toy_loss(const float *w)
{
    double sum = 0;
    for (int k = 0; k < 2; k++) {
        const double z = (k == 0 ? 100 : -100) * (double)w[0] + (double)w[1];
        sum += z > 0 ? log1p(exp(-z)) : log1p(exp(z)) - z;
    }
    return sum / 2;
}

static void toy_gradient(const float *w, int worker, float *out)
{
    const double x0 = worker == 0 ? 100 : -100;
    const double z = x0 * (double)w[0] + (double)w[1];
    const double slope = -1 / (1 + exp(z));
    out[0] = (float)(slope * x0);
    out[1] = (float)slope;
}

static void run_toy(struct rpr_sheet *sheet, const char *spec, double *loss)
{
    struct rpr_team team;
    const float start[2] = {0, 1};
    rpr_team_open(&team, &(struct rpr_setup){.spec = spec,
                                             .workers = 2,
                                             .count = 2,
                                             .start = start,
                                             .seed = sheet->seed,
                                             .steps = TOY_STEPS});
    loss[0] = toy_loss(start);
    for (int step = 1; step <= TOY_STEPS && team.status == TERSE_OK; step++) {
        for (int k = 0; k < 2; k++)
            toy_gradient(team.weights[k], k, team.gradient[k]);
        rpr_team_step(&team);
        loss[step] = toy_loss(team.weights[0]);
    }
    rpr_fail(sheet, team.status, &team.fault);
    rpr_team_close(&team);
}

static void toy(struct rpr_sheet *sheet)
{
    static const char *const spec[TOY_METHODS] = {"dense:momentum=0,lr=0.9", "topk:keep=0.5,lr=0.9",
                                                  "regtopk:keep=0.5,mu=1,lr=0.9",
                                                  "regtopk:keep=0.5,mu=1,form=cur,lr=0.9"};
    static const char *const name[TOY_METHODS] = {"dense", "Top-1", "RegTop-1 (prev)",
                                                  "RegTop-1 (cur)"};
    double loss[TOY_METHODS][TOY_STEPS + 1] = {{0}};
    double still = 0;
    double off[2] = {0, 0};
    for (size_t i = 0; i < TOY_METHODS; i++)
        run_toy(sheet, spec[i], loss[i]);
    for (size_t i = 0; i <= TOY_STEPS; i++) {
        still = i <= 80 ? fmax(still, fabs(loss[1][i] / loss[1][0] - 1)) : still;
        for (size_t form = 0; form < 2; form++)
            off[form] = i >= 10 ? fmax(off[form], loss[2 + form][i] / loss[0][i]) : off[form];
    }
    rpr_claim(sheet, "toy-top1", still, RPR_AT_MOST, 0.02,
              "two workers, Top-1: how far the loss moves in 80 steps, relative");
    rpr_claim(sheet, "toy-regtop1", off[0], RPR_AT_MOST, 1.3,
              "two workers, RegTop-1 (prev): loss over dense descent's from step 10 on, the "
              "worst");
    rpr_claim(sheet, "toy-regtop1-cur", off[1], RPR_AT_MOST, 1.3,
              "two workers, RegTop-1 (cur): the same");
    rpr_chart(sheet, &(struct rpr_axes){"toy", "Two workers that cancel each other", "step", "loss",
                                        RPR_LOG_Y, TOY_STEPS + 1, NULL, 1});
    for (size_t i = 0; i < TOY_METHODS; i++)
        rpr_line(sheet, loss[i], "%s", name[i]);
}

/* ---- linear regression ---- */

enum { REPEATS = 10, FEW = 4, STEPS = 600, POINTS = 121, EVERY = 5, KEEPS = 4, MUS = 4 };

/* The arms of an experiment; all repeats run the first four, FEW the others. */
enum {
    DENSE,
    TOPK,
    PREV,
    CUR,
    ALWAYS,
    TOPK_KEEP = ALWAYS,
    PREV_KEEP = TOPK_KEEP + 3,
    PREV_MU = PREV_KEEP + 3,
    ARMS = PREV_MU + 3
};

static const double keep_of[KEEPS] = {0.4, 0.55, 0.6, 0.8};
static const double mu_of[MUS] = {1, 2, 4, 8};

static void write_spec(char *out, size_t cap, size_t arm)
{
    /* sparse-allreduce has the same aggregate as allgather, in less time with 20 workers */
    static const double other_keep[3] = {0.4, 0.55, 0.8};
    static const double other_mu[3] = {1, 2, 8};
    const char *const tail = "lr=0.01,combine=sparse-allreduce";
    if (arm == DENSE)
        (void)snprintf(out, cap, "dense:momentum=0,lr=0.01");
    else if (arm == TOPK)
        (void)snprintf(out, cap, "topk:keep=0.6,%s", tail);
    else if (arm == PREV || arm == CUR)
        (void)snprintf(out, cap, "regtopk:keep=0.6,mu=4,form=%s,%s", arm == PREV ? "prev" : "cur",
                       tail);
    else if (arm < PREV_KEEP)
        (void)snprintf(out, cap, "topk:keep=%g,%s", other_keep[arm - TOPK_KEEP], tail);
    else if (arm < PREV_MU)
        (void)snprintf(out, cap, "regtopk:keep=%g,mu=4,%s", other_keep[arm - PREV_KEEP], tail);
    else
        (void)snprintf(out, cap, "regtopk:keep=0.6,mu=%g,%s", other_mu[arm - PREV_MU], tail);
}

/* [1]: heterogeneous, [0]: homogeneous */
struct regressions {
    struct rpr_sheet *sheet;
    double path[2][REPEATS][ARMS][POINTS]; /* log10 |x - x*|^2 */
    terse_status status[2][REPEATS];
    terse_fault fault[2][REPEATS];
};

static terse_status descend(const struct rpr_regression *problem, const char *spec, uint64_t seed,
                            double *path, terse_fault *fault)
{
    struct rpr_team team;
    rpr_team_open(&team, &(struct rpr_setup){.spec = spec,
                                             .workers = RPR_REG_WORKERS,
                                             .count = RPR_REG_DIM,
                                             .start = problem->start,
                                             .seed = seed,
                                             .steps = STEPS});
    path[0] = rpr_regression_distance(problem, problem->start);
    for (size_t step = 1; step <= STEPS && team.status == TERSE_OK; step++) {
        for (uint32_t k = 0; k < RPR_REG_WORKERS; k++)
            rpr_regression_gradient(problem, k, team.weights[k], team.gradient[k]);
        rpr_team_step(&team);
        if (step % EVERY == 0)
            path[step / EVERY] = rpr_regression_distance(problem, team.weights[0]);
    }
    const terse_status status = team.status;
    *fault = team.fault;
    rpr_team_close(&team);
    return status;
}

static void run_repeat(void *context, size_t index)
{
    struct regressions *const all = context;
    const size_t repeat = index / 2;
    const size_t kind = index % 2;
    struct rpr_random random = rpr_random(all->sheet->seed, "regtopk/regression", index);
    struct rpr_regression *const problem = malloc(sizeof *problem);
    terse_status *const status = &all->status[kind][repeat];
    const size_t arms = kind && repeat < FEW ? ARMS : ALWAYS;
    if (!problem) {
        *status = TERSE_NO_MEMORY;
        return;
    }
    rpr_regression_draw(problem, &random, kind == 1);
    for (size_t arm = 0; arm < arms && *status == TERSE_OK; arm++) {
        char spec[120];
        write_spec(spec, sizeof spec, arm);
        *status = descend(problem, spec, all->sheet->seed + repeat, all->path[kind][repeat][arm],
                          &all->fault[kind][repeat]);
    }
    free(problem);
}

/* Mean over the repeats that ran this arm. */
static void mean_path(const struct regressions *all, size_t kind, size_t arm, double *out)
{
    const size_t repeats = arm < ALWAYS ? REPEATS : FEW;
    for (size_t i = 0; i < POINTS; i++) {
        out[i] = 0;
        for (size_t r = 0; r < repeats; r++)
            out[i] += all->path[kind][r][arm][i] / (double)repeats;
    }
}

/* Some problems settle late, in doubles as in floats: about one in ten is not yet near dense
 * descent at step 600. So the claim counts problems and does not ask for the worst of them. */
static void claim_regressions(struct rpr_sheet *sheet, const struct regressions *all)
{
    double near = 0;   /* problems on which prev ends within 0.5 of dense */
    double behind = 0; /* prev minus dense, mean */
    double same = 0;   /* prev minus dense, homogeneous, mean */
    double flat[2] = {INFINITY, INFINITY};
    for (size_t r = 0; r < REPEATS; r++) {
        const double off = all->path[1][r][PREV][POINTS - 1] - all->path[1][r][DENSE][POINTS - 1];
        near += off <= 0.5;
        behind += off / REPEATS;
        flat[0] = fmin(flat[0], all->path[1][r][TOPK][POINTS - 1]);
        flat[1] = fmin(flat[1], all->path[1][r][CUR][POINTS - 1]);
        same += (all->path[0][r][PREV][POINTS - 1] - all->path[0][r][DENSE][POINTS - 1]) / REPEATS;
    }
    rpr_claim(sheet, "regression-prev", near, RPR_AT_LEAST, 4,
              "heterogeneous, keep 0.6, mu 4, step 600: problems of %d on which log10 |x-x*|^2 of "
              "RegTop-k (prev) is within 0.5 of dense descent's",
              REPEATS);
    rpr_claim(sheet, "regression-prev-mean", behind, RPR_AT_MOST, 1.5,
              "the same: RegTop-k (prev) above dense descent, log10, mean of %d", REPEATS);
    rpr_claim(sheet, "regression-topk", flat[0], RPR_AT_LEAST, -4,
              "the same with Top-k, which stalls: log10 |x-x*|^2, the least of %d", REPEATS);
    rpr_claim(sheet, "regression-cur", flat[1], RPR_AT_LEAST, -4,
              "the same with RegTop-k (cur), which stalls like Top-k: the least of %d", REPEATS);
    rpr_claim(sheet, "regression-homogeneous", same, RPR_AT_MOST, 0.5,
              "homogeneous: RegTop-k (prev) above dense descent, log10, mean of %d", REPEATS);
}

static void claim_sweeps(struct rpr_sheet *sheet, const double *topk, const double *prev,
                         const double *mu)
{
    double worst = -INFINITY;
    for (size_t i = 1; i < MUS; i++)
        worst = fmax(worst, mu[i]);
    rpr_claim(sheet, "threshold", prev[0] - prev[2], RPR_AT_LEAST, 1.5,
              "RegTop-k (prev) needs keep above 1/2: log10 |x-x*|^2 at keep 0.4 above that at "
              "0.6, mean of %d",
              FEW);
    rpr_claim(sheet, "keep-0.8", topk[3] - prev[3], RPR_AT_LEAST, 1,
              "keep 0.8: log10 |x-x*|^2 of Top-k above RegTop-k's (prev), mean of %d", FEW);
    rpr_claim(sheet, "mu", topk[2] - worst, RPR_AT_LEAST, 2,
              "keep 0.6, mu = 2, 4, 8: log10 |x-x*|^2 of Top-k above RegTop-k's (prev), means of "
              "%d, the least",
              FEW);
}

static void show_sweeps(struct rpr_sheet *sheet, const struct regressions *all)
{
    static const size_t topk_arm[KEEPS] = {TOPK_KEEP, TOPK_KEEP + 1, TOPK, TOPK_KEEP + 2};
    static const size_t prev_arm[KEEPS] = {PREV_KEEP, PREV_KEEP + 1, PREV, PREV_KEEP + 2};
    static const size_t mu_arm[MUS] = {PREV_MU, PREV_MU + 1, PREV, PREV_MU + 2};
    double path[POINTS];
    double end[4][KEEPS];
    for (size_t i = 0; i < KEEPS; i++) {
        const size_t arm[4] = {topk_arm[i], prev_arm[i], DENSE, mu_arm[i]};
        for (size_t j = 0; j < 4; j++) {
            mean_path(all, 1, arm[j], path);
            end[j][i] = path[POINTS - 1];
        }
    }
    claim_sweeps(sheet, end[0], end[1], end[3]);
    rpr_chart(sheet, &(struct rpr_axes){"keep", "After 600 steps, by keep (mu 4)", "keep",
                                        "log10 |x - x*|^2", RPR_MARKS, KEEPS, keep_of, 0});
    rpr_line(sheet, end[2], "dense");
    rpr_line(sheet, end[0], "Top-k");
    rpr_line(sheet, end[1], "RegTop-k (prev)");
    rpr_chart(sheet, &(struct rpr_axes){"mu", "After 600 steps, by mu (keep 0.6)", "mu",
                                        "log10 |x - x*|^2", RPR_LOG_X | RPR_MARKS, MUS, mu_of, 0});
    rpr_line(sheet, end[2], "dense");
    rpr_line(sheet, end[3], "RegTop-k (prev)");
}

static void regression(struct rpr_sheet *sheet)
{
    static const char *const title[2] = {"Linear regression, homogeneous, keep 0.6",
                                         "Linear regression, heterogeneous, keep 0.6"};
    static const char *const id[2] = {"homogeneous", "heterogeneous"};
    static const char *const name[ALWAYS] = {"dense", "Top-k", "RegTop-k (prev)", "RegTop-k (cur)"};
    struct regressions *const all = rpr_room(sheet, 1, sizeof *all);
    if (!all)
        return;
    all->sheet = sheet;
    rpr_each(sheet->threads, 2 * REPEATS, run_repeat, all);
    for (size_t i = 0; i < 2 * REPEATS; i++)
        rpr_fail(sheet, all->status[i % 2][i / 2], &all->fault[i % 2][i / 2]);
    claim_regressions(sheet, all);
    for (size_t kind = 2; kind-- > 0;) {
        rpr_chart(sheet, &(struct rpr_axes){id[kind], title[kind], "step", "log10 |x - x*|^2", 0,
                                            POINTS, NULL, EVERY});
        for (size_t arm = 0; arm < ALWAYS; arm++) {
            double path[POINTS];
            mean_path(all, kind, arm, path);
            rpr_line(sheet, path, "%s", name[arm]);
        }
    }
    show_sweeps(sheet, all);
    free(all);
}

static rpr_experiment *const experiments[] = {toy, regression, NULL};

const struct rpr_plan rpr_regtopk = {
    .paper = "regtopk",
    .title = "RegTop-k",
    .citation = "Bereyhi, Liang, Boudreau, Afana, Regularized Top-k: A Bayesian Framework for "
                "Gradient Sparsification, IEEE TSP 2025; first MLSP 2024",
    .experiments = experiments,
};
