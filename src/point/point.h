/* The point where the gradient is taken: the weights x, or x - lambda * residual. */
#ifndef TSI_POINT_H
#define TSI_POINT_H

#include <stddef.h>

/* out = weights - lambda * residual (DEF, Xu & Huang, ICML 2022). */
struct tsk_table;
void tsi_point_detach(const struct tsk_table *kernel, unsigned threads, const float *weights,
                      const float *residual, float lambda, size_t count, float *out);

#endif
