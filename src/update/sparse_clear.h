/* An answer that is 0 but in places, in a buffer that nobody else writes to: the next one need not
 * clear all of it, only the places of the last. */
#ifndef TSI_SPARSE_CLEAR_H
#define TSI_SPARSE_CLEAR_H

#include <stddef.h>
#include <stdint.h>

struct tsi_sparse_clear {
    uint64_t *place; /* where the buffer may not be 0, some more than once */
    size_t count;
    size_t cap;
    int known; /* 0: anywhere */
};

/* For a buffer of `floats`; 0 without memory. Nothing is known of it at first. */
int tsi_sparse_clear_create(struct tsi_sparse_clear *clear, size_t floats);
void tsi_sparse_clear_destroy(struct tsi_sparse_clear *clear);

/* Makes all of the buffer 0. */
void tsi_sparse_clear_clear(struct tsi_sparse_clear *clear, float *buffer, size_t floats);

/* Something is written at base + index[0 .. count-1]; index NULL: base .. base + count-1. */
void tsi_sparse_clear_mark(struct tsi_sparse_clear *clear, uint64_t base, const uint32_t *index,
                           size_t count);

#endif
