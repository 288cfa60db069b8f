/* Where the gradient is taken: at the weights x, or away from them by what was left unsaid. */
#ifndef TSI_POINT_H
#define TSI_POINT_H

#include <stddef.h>

/* out = weights - lambda * memory (DEF, Xu & Huang, ICML 2022). */
struct tsk_table;
void tsi_point_detach(const struct tsk_table *kernel, unsigned threads, const float *weights,
                      const float *memory, float lambda, size_t count, float *out);

#endif
