#include "kernels/ref/ref.h"

static float dot(const float *a, const float *b, size_t count)
{
    float lane[TSK_LANES] = {0};
    for (size_t i = 0; i < count; i++)
        lane[i % TSK_LANES] += a[i] * b[i];
    for (size_t width = TSK_LANES / 2; width > 0; width /= 2)
        for (size_t j = 0; j < width; j++)
            lane[j] += lane[j + width];
    return lane[0];
}

void tsk_ref_thin_dot_f32(const float *matrix, struct tsk_matrix_shape shape, const float *right,
                          size_t rank, float *out)
{
    for (size_t i = 0; i < shape.rows; i++)
        for (size_t c = 0; c < rank; c++)
            out[i * rank + c] = dot(matrix + i * shape.cols, right + c * shape.cols, shape.cols);
}

void tsk_ref_thin_sum_f32(const float *matrix, struct tsk_matrix_shape shape, const float *left,
                          size_t rank, float *acc)
{
    for (size_t i = 0; i < shape.rows; i++)
        for (size_t c = 0; c < rank; c++)
            for (size_t j = 0; j < shape.cols; j++)
                acc[c * shape.cols + j] += matrix[i * shape.cols + j] * left[i * rank + c];
}

void tsk_ref_thin_add_f32(float *matrix, struct tsk_matrix_shape shape, const float *left,
                          const float *right, size_t rank)
{
    for (size_t i = 0; i < shape.rows; i++) {
        for (size_t j = 0; j < shape.cols; j++) {
            float sum = left[i * rank] * right[j];
            for (size_t c = 1; c < rank; c++)
                sum += left[i * rank + c] * right[c * shape.cols + j];
            matrix[i * shape.cols + j] += sum;
        }
    }
}
