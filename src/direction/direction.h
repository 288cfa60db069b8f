/* What the gradient becomes before it is encoded. Each direction is one pass over its buffers,
 * which adds rate * direction to `in`: the residual, where it meets what earlier steps dropped.
 * New state is written beside the old one (`m_out`, `v_out`, `out`), or over it where both pointers
 * are the same. */
#ifndef TSI_DIRECTION_H
#define TSI_DIRECTION_H

#include <stddef.h>

enum tsi_direction {
    TSI_DIRECTION_GRADIENT, /* g */
    TSI_DIRECTION_MOMENTUM, /* m = momentum * m + g */
    TSI_DIRECTION_AVERAGE,  /* m = beta * m + (1 - beta) * g */
    TSI_DIRECTION_ADAM,     /* m / (sqrt(v) + eps), m and v moving averages */
    TSI_DIRECTION_NESTEROV, /* g + momentum * m, m = momentum * m + g */
};

#define TSI_MAX_DIRECTIONS 16u

/* All buffers start at the same element. g = scale * gradient + decay * at. */
struct tsi_direct {
    const float *gradient;
    const float *at; /* where the gradient was taken; read only if decay is not 0 */
    float scale;     /* clipping; 1 without */
    float decay;     /* weight decay that is part of the gradient */
    float rate;      /* lr where it is inside, else 1 */
    float momentum;  /* or beta, beta1 */
    float add;       /* how much of g enters m: 1 or 1 - beta */
    float beta2;
    float eps;
    const float *m;
    float *m_out;
    const float *v;
    float *v_out;
    const float *in; /* NULL: zeros */
    float *out;      /* NULL: the direction stays in m_out */
    float *local;    /* local weights, from which the step is taken at once; NULL for none */
    unsigned threads;
};

/* Upper bounds of the magnitudes of the moments. */
struct tsi_moment_bounds {
    double m;
    double ratio; /* |m| / sqrt(v) */
};

/* One direction: a row of tsi_directions, at the place of its number. */
struct tsi_direction_row {
    const char *name; /* in a spec: direction=NAME */
    /* Elements first .. first+count-1 of the struct tsi_direct at `context`. */
    void (*chunk)(void *context, size_t chunk, size_t first, size_t count);
    /* Updates the bounds for a step whose |g| is at most `g`, and returns a bound of |direction|.
     * Roundings are the caller's. */
    double (*bound)(const struct tsi_direct *direct, double g, struct tsi_moment_bounds *bounds);
};

extern const struct tsi_direction_row tsi_directions[];
extern const size_t tsi_direction_count; /* at most TSI_MAX_DIRECTIONS */

/* The direction of elements first .. first+count-1, whose gradients start at `gradient`; `whole`
 * has the buffers of all elements. Adam keeps v between the smallest normal float, so that a
 * coordinate that is dead stays at 0, and the largest. */
void tsi_direct(enum tsi_direction direction, const struct tsi_direct *whole, const float *gradient,
                size_t first, size_t count);

#endif
