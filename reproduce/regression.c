#include "regression.h"

#include <math.h>
#include <string.h>

enum { DIM = RPR_REG_DIM, ROWS = RPR_REG_ROWS, WORKERS = RPR_REG_WORKERS };

/* The true weights of a worker. */
static void draw_truth(struct rpr_random *random, double *out)
{
    const double middle = sqrt(5) * rpr_normal(random);
    for (size_t i = 0; i < DIM; i++)
        out[i] = middle + rpr_normal(random);
}

/* One row of data at a time, added to H and b. */
static void draw_worker(struct rpr_regression *out, uint32_t worker, struct rpr_random *random,
                        const double *truth)
{
    for (int row = 0; row < ROWS; row++) {
        float a[DIM];
        rpr_normals(random, DIM, a);
        double y = sqrt(0.5) * rpr_normal(random);
        for (size_t i = 0; i < DIM; i++)
            y += (double)a[i] * truth[i];
        for (size_t i = 0; i < DIM; i++) {
            const float scaled = a[i] * (2.0f / ROWS);
            for (size_t j = 0; j < DIM; j++)
                out->h[worker][i][j] += scaled * a[j];
            out->b[worker][i] += scaled * (float)y;
        }
    }
}

/* The weights at which the sum of all gradients is zero: Cholesky, in doubles, of the very floats
 * that the gradients are made of. */
static void solve(struct rpr_regression *problem)
{
    static _Thread_local double l[DIM][DIM];
    double *const x = problem->optimum;
    memset(l, 0, sizeof l);
    memset(x, 0, DIM * sizeof *x);
    for (size_t k = 0; k < WORKERS; k++)
        for (size_t i = 0; i < DIM; i++) {
            x[i] += (double)problem->b[k][i];
            for (size_t j = 0; j < DIM; j++)
                l[i][j] += (double)problem->h[k][j][i];
        }
    for (size_t j = 0; j < DIM; j++) {
        for (size_t k = 0; k < j; k++)
            for (size_t i = j; i < DIM; i++)
                l[i][j] -= l[i][k] * l[j][k];
        const double root = sqrt(l[j][j]);
        for (size_t i = j; i < DIM; i++)
            l[i][j] /= root;
    }
    for (size_t i = 0; i < DIM; i++) {
        for (size_t j = 0; j < i; j++)
            x[i] -= l[i][j] * x[j];
        x[i] /= l[i][i];
    }
    for (size_t i = DIM; i-- > 0;) {
        for (size_t j = i + 1; j < DIM; j++)
            x[i] -= l[j][i] * x[j];
        x[i] /= l[i][i];
    }
}

void rpr_regression_draw(struct rpr_regression *out, struct rpr_random *random, int heterogeneous)
{
    double truth[DIM];
    memset(out, 0, sizeof *out);
    for (size_t i = 0; i < DIM; i++)
        out->start[i] = (float)(0.2 * rpr_uniform(random) - 0.1);
    for (uint32_t k = 0; k < WORKERS; k++) {
        if (k == 0 || heterogeneous)
            draw_truth(random, truth);
        draw_worker(out, k, random, truth);
    }
    solve(out);
}

/* H is symmetric: its rows are its columns, and sums of rows go several at a time. */
void rpr_regression_gradient(const struct rpr_regression *problem, uint32_t worker, const float *x,
                             float *out)
{
    for (size_t i = 0; i < DIM; i++)
        out[i] = -problem->b[worker][i];
    for (size_t j = 0; j < DIM; j++)
        for (size_t i = 0; i < DIM; i++)
            out[i] += problem->h[worker][j][i] * x[j];
}

double rpr_regression_distance(const struct rpr_regression *problem, const float *x)
{
    double sum = 0;
    for (size_t i = 0; i < DIM; i++) {
        const double off = (double)x[i] - problem->optimum[i];
        sum += off * off;
    }
    return log10(sum);
}

/* The mean of the workers' matrices is summed once; the right side is that matrix times x*. */
void rpr_regression_descend(const struct rpr_regression *problem, double lr, size_t steps,
                            size_t every, double *out)
{
    static _Thread_local double h[DIM][DIM];
    double off[DIM];
    memset(h, 0, sizeof h);
    for (size_t k = 0; k < WORKERS; k++)
        for (size_t i = 0; i < DIM; i++)
            for (size_t j = 0; j < DIM; j++)
                h[i][j] += (double)problem->h[k][i][j] / WORKERS;
    for (size_t i = 0; i < DIM; i++)
        off[i] = (double)problem->start[i] - problem->optimum[i];
    for (size_t step = 0; step <= steps; step++) {
        double next[DIM];
        double sum = 0;
        for (size_t i = 0; i < DIM; i++) {
            next[i] = off[i];
            sum += off[i] * off[i];
            for (size_t j = 0; j < DIM; j++)
                next[i] -= lr * h[i][j] * off[j];
        }
        if (step % every == 0)
            out[step / every] = log10(sum);
        memcpy(off, next, sizeof off);
    }
}
