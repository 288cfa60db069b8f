/* The quadratic of the experiments on DQ-SGD, and the experiments of dqsgd_parts.c. */
#ifndef RPR_DQSGD_H
#define RPR_DQSGD_H

#include "descent.h"

/* F = 1/2 sum lam_i x_i^2, lam from 0.1 to 1, x0 = 1, eta 0.5, so alpha = 0.925; noise 0.05. */
enum { RPR_DQSGD_DIM = 200, RPR_DQSGD_STEPS = 400 };

#define RPR_DQSGD_ETA 0.5
#define RPR_DQSGD_ALPHA 0.925
#define RPR_DQSGD_NOISE 0.05
#define RPR_DQSGD_SMOOTHNESS 1.0
#define RPR_DQSGD_OVERHEAD (40.0 / RPR_DQSGD_DIM) /* bits per element that are not levels */

struct rpr_dqsgd_toy {
    float curvature[RPR_DQSGD_DIM];
    float start[RPR_DQSGD_DIM];
};

void rpr_dqsgd_problem(struct rpr_dqsgd_toy *toy);

rpr_experiment rpr_dqsgd_spending;  /* every step spends its share of the allowed error */
rpr_experiment rpr_dqsgd_hindsight; /* bits=average against the best kappa, without noise */
rpr_experiment rpr_dqsgd_rules;     /* where rms and meanstd spend their bits */
rpr_experiment rpr_dqsgd_rounding;  /* workers round independently */
rpr_experiment rpr_dqsgd_kept;      /* bits=error keeps its error with every combine */

#endif
