/* Descent on f = 1/2 sum a_i (x_i - c_i)^2 with noisy gradients: most experiments use it. */
#ifndef RPR_DESCENT_H
#define RPR_DESCENT_H

#include "sheet.h"
#include "team.h"

struct rpr_descent {
    /* the problem */
    char spec[200];
    uint32_t workers;
    uint32_t inverters; /* workers that contribute -g */
    size_t count;
    const float *curvature; /* a; NULL: 1 everywhere */
    const float *optimum;   /* c; NULL: 0 */
    const float *noise;     /* standard deviation of each coordinate's gradient; NULL: deviation */
    float deviation;
    const float *start;
    uint64_t steps;
    struct rpr_random random; /* stream of the noise */
    int together;             /* 1: has the noise of the descent before it, which has as many
                                 workers, coordinates and steps */
    uint64_t seed;            /* seed of the method */

    /* called after each step unless NULL; step counts from 1 */
    void (*look)(struct rpr_descent *descent, struct rpr_team *team, uint64_t step);
    void *context;

    /* the outcome */
    double *loss;  /* the caller's buffer of steps + 1 losses, or NULL */
    double final;  /* mean loss of the last `tail` steps */
    uint64_t tail; /* 0: only the last */
    double bits;   /* bits per element of worker 0, mean over the steps */
    uint64_t bytes_sent;
    uint64_t bytes_received;
    uint64_t dense_bytes;
    int diverged; /* the loss passed RPR_DIVERGED, which replaces all later losses */
    terse_status status;
    terse_fault fault;
};

#define RPR_DIVERGED 1e12

/* Runs all of them on the sheet's threads; failures are recorded in the sheet. */
void rpr_descend(struct rpr_sheet *sheet, struct rpr_descent *list, size_t count);

/* f at x; the problem's arrays as above. */
double rpr_loss(const float *curvature, const float *optimum, const float *x, size_t count);

/* Every `every`-th of steps + 1 losses, from 0. */
void rpr_thin(const double *loss, uint64_t steps, uint64_t every, double *out);

/* out[i] += in[i] * scale */
void rpr_add(double *out, const double *in, size_t count, double scale);

#endif
