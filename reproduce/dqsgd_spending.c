/* bits=error on the toy: how every step spends its share of the allowed error. */
#include <math.h>
#include <stdio.h>
#include <stdlib.h>

#include "dqsgd.h"

enum { DIM = RPR_DQSGD_DIM, STEPS = RPR_DQSGD_STEPS, CROWDS = 2 };

#define ETA RPR_DQSGD_ETA
#define ALPHA RPR_DQSGD_ALPHA
#define SMOOTHNESS RPR_DQSGD_SMOOTHNESS
#define EPSILON 1.0

struct spending {
    double share; /* A / N */
    double kappa; /* levels per unit of norm in the last step */
    double over;  /* steps that spend more than their share */
    double least; /* the least error over its share, of steps with at least 8 levels */
    double bits[STEPS + 1];
    double spent[STEPS + 1];
};

/* The mean of W independent quantizations has a W-th of their mean error. */
static void look_spending(struct rpr_descent *descent, struct rpr_team *team, uint64_t step)
{
    struct spending *const spending = descent->context;
    const double weight = pow(ALPHA, (double)(STEPS - step));
    double spent = 0;
    double wanted = INFINITY;
    for (uint32_t k = 0; k < team->workers; k++) {
        const double bits = round(team->report[k].bits - RPR_DQSGD_OVERHEAD);
        const double levels = exp2(bits - 1) - 1;
        double square = 0;
        for (size_t i = 0; i < team->count; i++)
            square += (double)team->gradient[k][i] * (double)team->gradient[k][i];
        spent += SMOOTHNESS * DIM * ETA * ETA / 12 * weight * square / (levels * levels) /
                 spending->share / (team->workers * team->workers);
        wanted = fmin(wanted, spending->kappa * sqrt(weight * square));
        spending->bits[step - 1] = bits;
    }
    spending->over += spent > 1.0001 ? 1 : 0;
    spending->least = wanted >= 8 ? fmin(spending->least, spent) : spending->least;
    spending->spent[step - 1] = spent;
}

/* allgather: nothing is quantized again. */
static void plan(struct rpr_sheet *sheet, const struct rpr_dqsgd_toy *toy,
                 struct spending *spending, uint32_t workers, struct rpr_descent *run)
{
    const double sigma = RPR_DQSGD_NOISE * sqrt(DIM);
    const double gap = rpr_loss(toy->curvature, NULL, toy->start, DIM);
    const double fallen = pow(ALPHA, STEPS);
    const double allowed =
        EPSILON - fallen * gap -
        SMOOTHNESS * ETA * ETA * sigma * sigma * (1 - fallen) / (2 * workers * (1 - ALPHA));
    *spending =
        (struct spending){.share = allowed / STEPS,
                          .kappa = ETA * sqrt(STEPS * SMOOTHNESS * DIM / (12 * allowed * workers)),
                          .least = INFINITY};
    *run = (struct rpr_descent){.workers = workers,
                                .count = DIM,
                                .curvature = toy->curvature,
                                .deviation = (float)RPR_DQSGD_NOISE,
                                .start = toy->start,
                                .steps = STEPS,
                                .random = rpr_random(sheet->seed, "dqsgd/spending", workers),
                                .seed = sheet->seed,
                                .look = look_spending,
                                .context = spending};
    (void)snprintf(run->spec, sizeof run->spec,
                   "dqsgd:bits=error,epsilon=%g,smoothness=%g,noise=%.9g,gap=%.9g,alpha=%g,norm=2,"
                   "lr=%g,combine=allgather",
                   EPSILON, SMOOTHNESS, sigma, gap, ALPHA, ETA);
}

void rpr_dqsgd_spending(struct rpr_sheet *sheet)
{
    static const uint32_t crowd[CROWDS] = {1, 4};
    struct rpr_dqsgd_toy toy;
    struct rpr_descent run[CROWDS];
    struct spending *const spending = rpr_room(sheet, CROWDS, sizeof *spending);
    if (!spending)
        return;
    rpr_dqsgd_problem(&toy);
    for (size_t i = 0; i < CROWDS; i++)
        plan(sheet, &toy, &spending[i], crowd[i], &run[i]);
    rpr_descend(sheet, run, CROWDS);
    rpr_claim(sheet, "spending-most", spending[0].over + spending[1].over, RPR_AT_MOST, 0,
              "1 and 4 workers: steps of 800 that spend more than their share A/N of the allowed "
              "error");
    rpr_claim_within(sheet, "spending-least", fmin(spending[0].least, spending[1].least), 0.21, 1,
                     "nor much less, whole bits being the reason (8 levels and more): the least, "
                     "in shares");
    rpr_chart(sheet, &(struct rpr_axes){"spending", "Bits of each step, bits=error, epsilon 1",
                                        "step", "bits", 0, STEPS, NULL, 1});
    for (size_t i = 0; i < CROWDS; i++)
        rpr_line(sheet, spending[i].bits, "%u workers", crowd[i]);
    rpr_chart(sheet, &(struct rpr_axes){"shares", "Error spent by each step, bits=error", "step",
                                        "shares of A/N", 0, STEPS, NULL, 1});
    for (size_t i = 0; i < CROWDS; i++)
        rpr_line(sheet, spending[i].spent, "%u workers", crowd[i]);
    free(spending);
}
