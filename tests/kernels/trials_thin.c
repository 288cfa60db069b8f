/* Thin products of matrices of many shapes. */
#include "kernels/trials.h"

struct thin {
    struct tsk_matrix_shape shape;
    size_t rank;
};

/* The count as columns, and rows and ranks that go through all their remainders with it. */
static struct thin thin_of(const struct trial *trial)
{
    static const size_t ranks[] = {1, 2, 3, 4, 5, 7, 8, 16, 31, 32, 33};
    const size_t rank = ranks[(trial->count + trial->place) % 11];
    if (trial->count > 1000) /* one long row in ten; the outputs must fit into the lab */
        return (struct thin){{10, trial->count / 40}, rank};
    return (struct thin){{trial->place % 11, trial->count}, rank};
}

/* Sums of huge numbers overflow in all orders alike: what is compared is the order itself. */
static enum fill fill_of(const struct trial *trial)
{
    return trial->fill == FILL_ANY ? FILL_NORMAL : trial->fill;
}

size_t trial_thin_dot(struct lab *lab, const struct trial *trial)
{
    const struct thin thin = thin_of(trial);
    const size_t cols = thin.shape.cols;
    const float *matrix = lab_floats(lab, 0, trial, thin.shape.rows * cols, fill_of(trial));
    const float *right = lab_floats(lab, 1, trial, thin.rank * cols, FILL_NORMAL);
    const struct pair out = lab_output(lab, 0, trial, thin.shape.rows * thin.rank, sizeof(float));
    tsk_ref.thin_dot_f32(matrix, thin.shape, right, thin.rank, (float *)(void *)out.ref);
    trial->set->thin_dot_f32(matrix, thin.shape, right, thin.rank, (float *)(void *)out.set);
    return pair_floats_differ(&out) + (size_t)pair_around_differs(&out);
}

size_t trial_thin_sum(struct lab *lab, const struct trial *trial)
{
    const struct thin thin = thin_of(trial);
    const size_t cols = thin.shape.cols;
    const float *matrix = lab_floats(lab, 0, trial, thin.shape.rows * cols, fill_of(trial));
    const float *left = lab_floats(lab, 1, trial, thin.shape.rows * thin.rank, FILL_NORMAL);
    const struct pair acc = lab_output_floats(lab, 0, trial, thin.rank * cols, FILL_NORMAL);
    tsk_ref.thin_sum_f32(matrix, thin.shape, left, thin.rank, (float *)(void *)acc.ref);
    trial->set->thin_sum_f32(matrix, thin.shape, left, thin.rank, (float *)(void *)acc.set);
    return pair_floats_differ(&acc) + (size_t)pair_around_differs(&acc);
}

size_t trial_thin_add(struct lab *lab, const struct trial *trial)
{
    const struct thin thin = thin_of(trial);
    const size_t cols = thin.shape.cols;
    const float *left = lab_floats(lab, 0, trial, thin.shape.rows * thin.rank, fill_of(trial));
    const float *right = lab_floats(lab, 1, trial, thin.rank * cols, FILL_NORMAL);
    const struct pair matrix =
        lab_output_floats(lab, 0, trial, thin.shape.rows * cols, FILL_FINITE);
    tsk_ref.thin_add_f32((float *)(void *)matrix.ref, thin.shape, left, right, thin.rank);
    trial->set->thin_add_f32((float *)(void *)matrix.set, thin.shape, left, right, thin.rank);
    return pair_floats_differ(&matrix) + (size_t)pair_around_differs(&matrix);
}
