/* What the gradient becomes before it is said. Each direction is one pass over its buffers, which
 * adds rate * direction straight into `out`: the error memory, where it meets what earlier steps
 * left unsaid; or a buffer of zeros. */
#ifndef TSI_DIRECTION_H
#define TSI_DIRECTION_H

#include <stddef.h>

/* All buffers start at the same element; `count` of them. g = scale * gradient + decay * at. */
struct tsi_direct {
    const float *gradient;
    const float *at; /* where the gradient was taken; read only if decay is not 0 */
    float scale;     /* of clipping; 1 */
    float decay;     /* weight decay that is part of the gradient */
    float rate;      /* lr where it is inside, else 1 */
    float keep;      /* of the momentum: mu or beta1 */
    float add;       /* of the gradient into it: 1 or 1 - beta1 */
    float keep_v;    /* beta2 */
    float eps;       /* beside the root */
    float *m;
    float *v;
    float *out;   /* NULL: the direction stays in m */
    float *local; /* local weights, from which the step is taken at once; NULL for none */
    size_t count;
    unsigned threads;
};

/* out += rate * g */
void tsi_direct_gradient(const struct tsi_direct *direct);

/* m = keep * m + add * g;  out += rate * m */
void tsi_direct_momentum(const struct tsi_direct *direct);

/* v = keep_v * v + (1 - keep_v) * g^2;  m = keep * m + add * g;  out += rate * m / (sqrt(v) + eps)
 * v stays between the smallest normal float, so that a coordinate that is dead stays at 0, and the
 * largest. */
void tsi_direct_adam(const struct tsi_direct *direct);

/* Each of them back, to rounding: what it added to `out` is taken out, the moments are as before.
 * Where rounding left nothing to go back to they are 0 (v: the smallest normal float). */
void tsi_undirect_gradient(const struct tsi_direct *direct);
void tsi_undirect_momentum(const struct tsi_direct *direct);
void tsi_undirect_adam(const struct tsi_direct *direct);

#endif
