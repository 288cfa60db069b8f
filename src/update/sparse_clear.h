/* Clearing a private output buffer: only the elements that the last sparse aggregate wrote are set
 * to 0, not the whole buffer. */
#ifndef TSI_SPARSE_CLEAR_H
#define TSI_SPARSE_CLEAR_H

#include <stddef.h>
#include <stdint.h>

struct tsi_sparse_clear {
    uint64_t *place; /* elements that may be nonzero, some listed more than once */
    size_t count;
    size_t cap;
    int known; /* 0: any element may be nonzero */
};

/* For a buffer of `floats`, any of which may be nonzero at first; 0 if out of memory. */
int tsi_sparse_clear_create(struct tsi_sparse_clear *clear, size_t floats);
void tsi_sparse_clear_destroy(struct tsi_sparse_clear *clear);

/* Sets the whole buffer to 0. */
void tsi_sparse_clear_clear(struct tsi_sparse_clear *clear, float *buffer, size_t floats);

/* Records that elements base + index[0 .. count-1] are written; index NULL: base .. base + count-1.
 */
void tsi_sparse_clear_mark(struct tsi_sparse_clear *clear, uint64_t base, const uint32_t *index,
                           size_t count);

#endif
