/* The diagonal quadratic of the experiments on DEF, and the experiments of def_parts.c. */
#ifndef RPR_DEF_H
#define RPR_DEF_H

#include "descent.h"

enum { RPR_DEF_DIM = 2048, RPR_DEF_WORKERS = 8 };

struct rpr_def_toy {
    float curvature[RPR_DEF_DIM];
    float start[RPR_DEF_DIM];
};

void rpr_def_problem(struct rpr_sheet *sheet, const char *experiment, struct rpr_def_toy *toy);

/* A run on it, without the spec. */
struct rpr_descent rpr_def_run(struct rpr_sheet *sheet, const char *experiment, uint64_t repeat,
                               const struct rpr_def_toy *toy, uint64_t steps);

/* out = mean_k e_k */
void rpr_def_mean_residual(struct rpr_team *team, double *out);

rpr_experiment rpr_def_trade_off; /* how far gradients are taken from x - mean e */
rpr_experiment rpr_def_average;   /* x is a moving average of x - mean e */
rpr_experiment rpr_def_follows;   /* with lambda = 1 that follows SGD exactly */
rpr_experiment rpr_def_local;     /* local steps lose nothing */
rpr_experiment rpr_def_moments;   /* beyond EF's largest lr */
rpr_experiment rpr_def_decay;     /* where decay and gradient are equal */

#endif
