/* Thin products: a large matrix, read once, times a few vectors that stay in the cache. Four rows
 * share the loads of the vectors, and few vectors are used at a time: where the length of a row is
 * a power of two, all vectors map to the same sets of the first-level cache. Each sum has the order
 * of ref. */
#ifndef TSK_LANES_THIN_H
#define TSK_LANES_THIN_H

#define THIN_ROWS 4u
#define THIN_RANKS 4u  /* vectors used at a time */
#define THIN_COLS 512u /* columns of a tile: THIN_ROWS rows of it stay in the first-level cache */
#define DOT_SUMS 32u   /* sums per row that are stored between tiles */

LANE size_t at_most(size_t count, size_t limit)
{
    return count < limit ? count : limit;
}

/* n is the constant TSK_LANES in all but the last columns. */
LANE vf load_cols(const float *at, size_t n)
{
    return n == TSK_LANES ? vf_load(at) : vf_load_first(at, n);
}

LANE void store_cols(float *at, vf a, size_t n)
{
    if (n == TSK_LANES)
        vf_store(at, a);
    else
        vf_store_first(at, a, n);
}

/* A tile of the product: `cols` columns of rows and vectors that are `stride` floats apart. Every
 * caller of the functions below passes constants for `rows` and `ranks`. */
struct thin_tile {
    size_t cols;
    size_t stride;
};

/* ---- dot ---- */

typedef float dot_sums[DOT_SUMS][TSK_LANES]; /* the sums of one row */

LANE void dot_cols(const float *matrix, const float *right, size_t stride, size_t n, size_t rows,
                   size_t ranks, vf sum[THIN_ROWS][DOT_RANKS])
{
    vf q[DOT_RANKS];
    for (size_t c = 0; c < ranks; c++)
        q[c] = load_cols(right + c * stride, n);
    for (size_t r = 0; r < rows; r++) {
        const vf m = load_cols(matrix + r * stride, n);
        for (size_t c = 0; c < ranks; c++)
            sum[r][c] = vf_add(sum[r][c], vf_mul(m, q[c]));
    }
}

/* Computes sums 0 .. ranks - 1 of each row. */
LANE void dot_tile(const float *matrix, const float *right, struct thin_tile tile, size_t rows,
                   size_t ranks, dot_sums *sums, size_t first)
{
    vf sum[THIN_ROWS][DOT_RANKS];
    for (size_t r = 0; r < rows; r++)
        for (size_t c = 0; c < ranks; c++)
            sum[r][c] = vf_load(sums[r][first + c]);
    size_t j = 0;
    for (; j + TSK_LANES <= tile.cols; j += TSK_LANES)
        dot_cols(matrix + j, right + j, tile.stride, TSK_LANES, rows, ranks, sum);
    if (j < tile.cols)
        dot_cols(matrix + j, right + j, tile.stride, tile.cols - j, rows, ranks, sum);
    for (size_t r = 0; r < rows; r++)
        for (size_t c = 0; c < ranks; c++)
            vf_store(sums[r][first + c], sum[r][c]);
}

/* Handles at most DOT_SUMS vectors. */
LANE void dot_rows(const float *matrix, const float *right, size_t cols, size_t rows, size_t ranks,
                   float *out, size_t rank)
{
    dot_sums sums[THIN_ROWS];
    memset(sums, 0, rows * sizeof sums[0]);
    for (size_t j = 0; j < cols; j += THIN_COLS) {
        const struct thin_tile tile = {at_most(cols - j, THIN_COLS), cols};
        size_t c = 0;
        for (; c + DOT_RANKS <= ranks; c += DOT_RANKS)
            dot_tile(matrix + j, right + c * cols + j, tile, rows, DOT_RANKS, sums, c);
        for (; c < ranks; c++)
            dot_tile(matrix + j, right + c * cols + j, tile, rows, 1, sums, c);
    }
    for (size_t r = 0; r < rows; r++)
        for (size_t c = 0; c < ranks; c++)
            out[r * rank + c] = vf_sum(vf_load(sums[r][c]));
}

static void thin_dot_f32(const float *matrix, struct tsk_matrix_shape shape, const float *right,
                         size_t rank, float *out)
{
    for (size_t c = 0; c < rank; c += DOT_SUMS) {
        const float *some = right + c * shape.cols;
        const size_t ranks = at_most(rank - c, DOT_SUMS);
        size_t i = 0;
        for (; i + THIN_ROWS <= shape.rows; i += THIN_ROWS)
            dot_rows(matrix + i * shape.cols, some, shape.cols, THIN_ROWS, ranks,
                     out + i * rank + c, rank);
        for (; i < shape.rows; i++)
            dot_rows(matrix + i * shape.cols, some, shape.cols, 1, ranks, out + i * rank + c, rank);
    }
}

/* ---- sum ---- */

LANE void sum_cols(const float *matrix, const float *left, size_t rank, size_t stride, size_t n,
                   size_t rows, size_t ranks, float *acc)
{
    vf m[THIN_ROWS];
    for (size_t r = 0; r < rows; r++)
        m[r] = load_cols(matrix + r * stride, n);
    for (size_t c = 0; c < ranks; c++) {
        vf sum = load_cols(acc + c * stride, n);
        for (size_t r = 0; r < rows; r++)
            sum = vf_add(sum, vf_mul(m[r], vf_of(left[r * rank + c])));
        store_cols(acc + c * stride, sum, n);
    }
}

LANE void sum_tile(const float *matrix, const float *left, size_t rank, struct thin_tile tile,
                   size_t rows, size_t ranks, float *acc)
{
    size_t j = 0;
    for (; j + TSK_LANES <= tile.cols; j += TSK_LANES)
        sum_cols(matrix + j, left, rank, tile.stride, TSK_LANES, rows, ranks, acc + j);
    if (j < tile.cols)
        sum_cols(matrix + j, left, rank, tile.stride, tile.cols - j, rows, ranks, acc + j);
}

LANE void sum_rows(const float *matrix, const float *left, size_t rank, size_t cols, size_t rows,
                   float *acc)
{
    for (size_t j = 0; j < cols; j += THIN_COLS) {
        const struct thin_tile tile = {at_most(cols - j, THIN_COLS), cols};
        size_t c = 0;
        for (; c + THIN_RANKS <= rank; c += THIN_RANKS)
            sum_tile(matrix + j, left + c, rank, tile, rows, THIN_RANKS, acc + c * cols + j);
        for (; c < rank; c++)
            sum_tile(matrix + j, left + c, rank, tile, rows, 1, acc + c * cols + j);
    }
}

static void thin_sum_f32(const float *matrix, struct tsk_matrix_shape shape, const float *left,
                         size_t rank, float *acc)
{
    size_t i = 0;
    for (; i + THIN_ROWS <= shape.rows; i += THIN_ROWS)
        sum_rows(matrix + i * shape.cols, left + i * rank, rank, shape.cols, THIN_ROWS, acc);
    for (; i < shape.rows; i++)
        sum_rows(matrix + i * shape.cols, left + i * rank, rank, shape.cols, 1, acc);
}

/* ---- add ---- */

/* Adds vectors first .. end - 1 of `rank`. Unless they are the last, their sums stay in `sums`. */
struct add_part {
    const float *left;
    size_t rank;
    size_t first;
    size_t end;
};

LANE void add_cols(float *matrix, struct add_part part, const float *right, size_t stride, size_t n,
                   size_t rows, float *sums)
{
    vf sum[THIN_ROWS];
    for (size_t r = 0; r < rows; r++)
        sum[r] = part.first == 0 ? vf_mul(vf_of(part.left[r * part.rank]), load_cols(right, n))
                                 : vf_load(sums + r * THIN_COLS);
    for (size_t c = part.first == 0 ? 1 : part.first; c < part.end; c++) {
        const vf q = load_cols(right + c * stride, n);
        for (size_t r = 0; r < rows; r++)
            sum[r] = vf_add(sum[r], vf_mul(vf_of(part.left[r * part.rank + c]), q));
    }
    for (size_t r = 0; r < rows; r++) {
        float *at = matrix + r * stride;
        if (part.end == part.rank)
            store_cols(at, vf_add(load_cols(at, n), sum[r]), n);
        else
            vf_store(sums + r * THIN_COLS, sum[r]);
    }
}

LANE void add_tile(float *matrix, struct add_part part, const float *right, struct thin_tile tile,
                   size_t rows, float *sums)
{
    size_t j = 0;
    for (; j + TSK_LANES <= tile.cols; j += TSK_LANES)
        add_cols(matrix + j, part, right + j, tile.stride, TSK_LANES, rows, sums + j);
    if (j < tile.cols)
        add_cols(matrix + j, part, right + j, tile.stride, tile.cols - j, rows, sums + j);
}

LANE void add_rows(float *matrix, const float *left, const float *right, size_t rank, size_t cols,
                   size_t rows)
{
    float sums[THIN_ROWS * THIN_COLS];
    for (size_t j = 0; j < cols; j += THIN_COLS) {
        const struct thin_tile tile = {at_most(cols - j, THIN_COLS), cols};
        for (size_t c = 0; c < rank; c += THIN_RANKS) {
            const struct add_part part = {left, rank, c, c + at_most(rank - c, THIN_RANKS)};
            add_tile(matrix + j, part, right + j, tile, rows, sums);
        }
    }
}

static void thin_add_f32(float *matrix, struct tsk_matrix_shape shape, const float *left,
                         const float *right, size_t rank)
{
    size_t i = 0;
    for (; i + THIN_ROWS <= shape.rows; i += THIN_ROWS)
        add_rows(matrix + i * shape.cols, left + i * rank, right, rank, shape.cols, THIN_ROWS);
    for (; i < shape.rows; i++)
        add_rows(matrix + i * shape.cols, left + i * rank, right, rank, shape.cols, 1);
}

#endif
