/* QAdam with one worker, its rule in doubles, and its grid. */
#include <math.h>
#include <stdio.h>
#include <stdlib.h>

#include "qadam.h"

enum { DIM = RPR_QADAM_DIM, STEPS = RPR_QADAM_STEPS, MOST_WORKERS = 8 };

/* ---- the rule ---- */

/* Generic Adam in doubles, with the gradients of the team: no bias correction, v0 = 1e-5,
 * theta_t = 1 - 1/(t+9), alpha_t = 0.05 / sqrt t. */
struct rule {
    double m[MOST_WORKERS][DIM];
    double v[MOST_WORKERS][DIM];
    double x[DIM]; /* start - sum over steps of mean alpha m / sqrt v */
    double worst;  /* |x - mean e - that| / |that|, from step 10 on */
};

static void look_rule(struct rpr_descent *descent, struct rpr_team *team, uint64_t step)
{
    struct rule *const rule = descent->context;
    const double t = (double)step;
    const double theta = 1 - 1 / (t + 9);
    double off = 0;
    double norm = 0;
    for (size_t i = 0; i < team->count; i++) {
        double kept = 0;
        for (uint32_t k = 0; k < team->workers; k++) {
            const float *const residual = rpr_team_state(team, k, "residual");
            const double g = (double)team->gradient[k][i];
            rule->m[k][i] = 0.9 * rule->m[k][i] + 0.1 * g;
            rule->v[k][i] = theta * rule->v[k][i] + (1 - theta) * g * g;
            rule->x[i] -= 0.05 / sqrt(t) * rule->m[k][i] / sqrt(rule->v[k][i]) / team->workers;
            kept += residual ? (double)residual[i] / team->workers : 0;
        }
        const double at = (double)team->weights[0][i] - kept - rule->x[i];
        off += at * at;
        norm += rule->x[i] * rule->x[i];
    }
    if (step >= 10)
        rule->worst = fmax(rule->worst, sqrt(off / norm));
}

/* ---- one worker ---- */

/* Full precision; kg 0..3 with error feedback; then 8 workers with kg 0. */
enum { FULL, WITH, CROWD = WITH + 4, RUNS };

struct single {
    float curvature[DIM];
    float optimum[DIM];
    float start[DIM];
    struct rpr_descent run[RUNS];
    struct rule rule[RUNS];
};

static void plan(struct rpr_sheet *sheet, struct single *all, size_t index)
{
    struct rpr_descent *const run = &all->run[index];
    *run = (struct rpr_descent){.workers = index == CROWD ? MOST_WORKERS : 1,
                                .count = DIM,
                                .curvature = all->curvature,
                                .optimum = all->optimum,
                                .deviation = 0.1f,
                                .start = all->start,
                                .steps = index == CROWD ? STEPS / 10 : STEPS,
                                .tail = index == CROWD ? 1 : STEPS / 10,
                                .random = rpr_random(sheet->seed, "qadam/single", index == CROWD),
                                .seed = sheet->seed,
                                .together = index > 0 && index < CROWD};
    if (index == FULL)
        (void)snprintf(run->spec, sizeof run->spec, "qadam:%s,kx=0,warmup=%d", RPR_QADAM_SPEC,
                       STEPS);
    else
        (void)snprintf(run->spec, sizeof run->spec, "qadam:%s,kx=0,kg=%zu", RPR_QADAM_SPEC,
                       index < CROWD ? index - WITH : 0);
    if (index == FULL || index == WITH || index == CROWD) {
        run->look = look_rule;
        run->context = &all->rule[index];
        for (size_t k = 0; k < MOST_WORKERS; k++)
            for (size_t i = 0; i < DIM; i++)
                all->rule[index].v[k][i] = 1e-5;
    }
}

void rpr_qadam_single(struct rpr_sheet *sheet)
{
    struct single *const all = rpr_room(sheet, 1, sizeof *all);
    double furthest = 1;
    if (!all)
        return;
    struct rpr_random random = rpr_random(sheet->seed, "qadam/single", 1000);
    rpr_normals(&random, DIM, all->optimum);
    rpr_qadam_curvature(all->curvature);
    for (size_t i = 0; i < RUNS; i++)
        plan(sheet, all, i);
    rpr_descend(sheet, all->run, RUNS);
    for (size_t kg = 0; kg < 4; kg++) {
        const double ratio = all->run[WITH + kg].final / all->run[FULL].final;
        furthest = fabs(log(ratio)) > fabs(log(furthest)) ? ratio : furthest;
    }
    rpr_claim(sheet, "generic-adam", all->rule[FULL].worst, RPR_AT_MOST, 1e-4,
              "one worker, full precision: distance from generic Adam in doubles, relative, the "
              "worst step");
    rpr_claim(sheet, "nothing-lost", fmax(all->rule[WITH].worst, all->rule[CROWD].worst),
              RPR_AT_MOST, 1e-4,
              "kg = 0, 1 and 8 workers: x - mean e against the start minus all mean steps "
              "alpha m / sqrt v in doubles, relative, the worst");
    rpr_claim_within(sheet, "single-ef", furthest, 0.99, 1.01,
                     "one worker with error feedback, kg = 0..3: loss over full precision's, the "
                     "one furthest from 1");
    free(all);
}

/* ---- the grid ---- */

enum { VALUES = 20000, GRIDS = 4 };

/* The nearest of s * {0, +-2^-k, ..., +-1}, ties toward zero. */
static double nearest(double value, double scale, unsigned k)
{
    double best = 0;
    for (unsigned i = 0; i <= k; i++) {
        const double point = scale * exp2(-(double)(k - i));
        if (fabs(fabs(value) - point) < fabs(fabs(value) - best))
            best = point;
    }
    return value < 0 ? -best : best;
}

/* One step of lr 1 from 0 leaves -Q(g). */
void rpr_qadam_grid(struct rpr_sheet *sheet)
{
    float *const zeros = rpr_room(sheet, VALUES, sizeof *zeros);
    double apart = 0;
    for (unsigned k = 0; k < GRIDS && zeros; k++) {
        struct rpr_team team;
        struct rpr_random random = rpr_random(sheet->seed, "qadam/grid", k);
        char spec[100];
        float scale = 0;
        (void)snprintf(spec, sizeof spec, "codec=log:k=%u,feedback=none,lr=1,momentum=0", k);
        rpr_team_open(&team, &(struct rpr_setup){.spec = spec,
                                                 .workers = 1,
                                                 .count = VALUES,
                                                 .start = zeros,
                                                 .seed = sheet->seed,
                                                 .steps = 1});
        if (team.status == TERSE_OK)
            rpr_normals(&random, VALUES, team.gradient[0]);
        rpr_team_step(&team);
        for (size_t i = 0; i < VALUES && team.status == TERSE_OK; i++)
            scale = fmaxf(scale, fabsf(team.gradient[0][i]));
        for (size_t i = 0; i < VALUES && team.status == TERSE_OK; i++) {
            const double expected = nearest((double)team.gradient[0][i], (double)scale, k);
            apart += fabs((double)team.weights[0][i] + expected) > 1e-6 * (double)scale ? 1 : 0;
        }
        rpr_fail(sheet, team.status, &team.fault);
        rpr_team_close(&team);
    }
    rpr_claim(sheet, "grid", apart / (GRIDS * VALUES), RPR_AT_MOST, 1e-4,
              "kg = 0..3, normal values: share of those that are not on the nearest point of the "
              "grid");
    free(zeros);
}
