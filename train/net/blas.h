/* Products of row-major matrices, single precision, on OpenBLAS with one thread. */
#ifndef TRN_BLAS_H
#define TRN_BLAS_H

#include <stdbool.h>
#include <stdint.h>

struct trn_product {
    int64_t rows;    /* of the result */
    int64_t columns; /* of the result */
    int64_t inner;
    bool transpose_left;  /* the left factor is stored as inner x rows */
    bool transpose_right; /* the right factor is stored as columns x inner */
    bool add;             /* add to the result instead of overwriting it */
};

/* result (+)= left * right. Nothing happens when a side is 0, except that a result is cleared. */
void trn_multiply(const struct trn_product *product, const float *left, const float *right,
                  float *result);

const char *trn_blas_version(void); /* with the CPU that it chose its kernels for */

#endif
