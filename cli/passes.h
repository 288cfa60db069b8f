/* Passes over memory that no codec can avoid, as fast as this CPU can make them: the reference of
 * `terse bench`. Buffers start on a cache line. */
#ifndef CLI_PASSES_H
#define CLI_PASSES_H

#include <stddef.h>
#include <stdint.h>

void pass_read(float *values, size_t count, unsigned threads);   /* R */
void pass_write(float *values, size_t count, unsigned threads);  /* W */
void pass_update(float *values, size_t count, unsigned threads); /* RW: x[i] += c */

/* The cost of a block: it is copied out and zeroed. */
void pass_move(float *from, float *to, size_t count);

/* The least cost of a sparse payload: to[index[i]] += value[i]. */
void pass_scatter(float *to, const uint32_t *index, const float *value, size_t count);

#endif
