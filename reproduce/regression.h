/* Linear regression spread over workers: full-batch gradients (2/D) A^T (A x - y). */
#ifndef RPR_REGRESSION_H
#define RPR_REGRESSION_H

#include "random.h"

enum { RPR_REG_WORKERS = 20, RPR_REG_DIM = 100, RPR_REG_ROWS = 500 };

/* Gradients come from H = (2/D) A^T A and b = (2/D) A^T y: H x - b. */
struct rpr_regression {
    float h[RPR_REG_WORKERS][RPR_REG_DIM][RPR_REG_DIM];
    float b[RPR_REG_WORKERS][RPR_REG_DIM];
    float start[RPR_REG_DIM];
    double optimum[RPR_REG_DIM]; /* minimum of the mean of all workers' losses */
};

/* Workers' true weights are m + N(0, I), m ~ N(0, 5) per worker; or the same for all. */
void rpr_regression_draw(struct rpr_regression *out, struct rpr_random *random, int heterogeneous);

void rpr_regression_gradient(const struct rpr_regression *problem, uint32_t worker, const float *x,
                             float *out);

/* Gradient descent with all workers' gradients, in doubles: log10 |x - optimum|^2 at every
 * `every`-th step, from 0. */
void rpr_regression_descend(const struct rpr_regression *problem, double lr, size_t steps,
                            size_t every, double *out);

/* log10 |x - optimum|^2 */
double rpr_regression_distance(const struct rpr_regression *problem, const float *x);

#endif
