#include "blas.h"

#include <cblas.h>
#include <pthread.h>
#include <string.h>

static pthread_once_t once = PTHREAD_ONCE_INIT;

/* Workers are threads already; and more threads would sum in another order. */
static void use_one_thread(void)
{
    openblas_set_num_threads(1);
}

const char *trn_blas_version(void)
{
    return openblas_get_config();
}

void trn_multiply(const struct trn_product *product, const float *left, const float *right,
                  float *result)
{
    (void)pthread_once(&once, use_one_thread);
    const int rows = (int)product->rows;
    const int columns = (int)product->columns;
    const int inner = (int)product->inner;
    if (rows == 0 || columns == 0)
        return;
    if (inner == 0) {
        if (!product->add)
            memset(result, 0, (size_t)rows * (size_t)columns * sizeof *result);
        return;
    }
    cblas_sgemm(CblasRowMajor, product->transpose_left ? CblasTrans : CblasNoTrans,
                product->transpose_right ? CblasTrans : CblasNoTrans, rows, columns, inner, 1.0f,
                left, product->transpose_left ? rows : inner, right,
                product->transpose_right ? inner : columns, product->add ? 1.0f : 0.0f, result,
                columns);
}
