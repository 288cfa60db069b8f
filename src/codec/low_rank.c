/* low-rank: each matrix as P Q^T with few columns, in two passes. Pass 0: P = M Q with the previous
 * step's Q; every worker orthonormalises the aggregate P. Pass 1: Q = M^T P (PowerSGD; Vogels,
 * Karimireddy, Jaggi, NeurIPS 2019). Tensors that would not shrink are sent plain in pass 1.
 * Payloads are floats that can be summed. Section: docs/wire-format.md, "low-rank".
 *
 * The thin products are kernels of terse, not BLAS calls: their sums have one order, so that every
 * kernel set, thread count and machine gives the same bits. */
#include <stdlib.h>

#include "base/parallel.h"
#include "codec/run.h"
#include "codec/section.h"
#include "codec/statistics.h"

enum { RANK };

#define BLOCKS ((size_t)16)        /* blocks of rows; their sums are added in order */
#define DEPENDENT 1e-6             /* a column this much shorter than it was is dropped */
#define HEADER_FLOATS ((size_t)16) /* the state's first cache line */

static const terse_option options[] = {
    {.name = "rank",
     .range = "1..32",
     .initial = "4",
     .help = "columns of the two factors",
     .kind = TERSE_OPTION_INTEGER,
     .low = 1,
     .high = 32},
};

/* The state of a matrix between passes and steps; P (rows x rank, row-major) and Q (rank x cols)
 * follow it. */
struct state {
    uint32_t seeded; /* Q holds the random start or the last step's aggregate */
    uint32_t agreed; /* P holds this step's orthonormal columns */
};

_Static_assert(sizeof(struct state) <= HEADER_FLOATS * sizeof(float), "the state's header");

struct factors {
    struct state *state;
    float *p;
    float *q;
    size_t rank;
    struct tsk_matrix_shape shape;
};

static size_t rank_of(const double *option)
{
    return (size_t)option[RANK];
}

static int is_low(const double *option, const struct tsi_piece *piece)
{
    const size_t rank = rank_of(option);
    return piece->cols > 1 && rank * (piece->rows + piece->cols) < piece->count;
}

static struct factors factors_of(const struct tsi_call *call)
{
    const size_t rank = rank_of(call->option);
    float *const floats = call->state;
    return (struct factors){
        .state = call->state,
        .p = floats + HEADER_FLOATS,
        .q = floats + HEADER_FLOATS + rank * call->piece->rows,
        .rank = rank,
        .shape = {call->piece->rows, call->piece->cols},
    };
}

/* ---- sizes ---- */

static size_t section_floats(const double *option, const struct tsi_piece *piece, uint32_t pass)
{
    if (!is_low(option, piece))
        return pass == 0 ? 0 : piece->count;
    return rank_of(option) * (pass == 0 ? piece->rows : piece->cols);
}

static size_t section_bound(const struct terse_codec_ops *ops, const double *option,
                            const struct tsi_piece *piece, uint32_t pass)
{
    (void)ops;
    return section_floats(option, piece, pass) * sizeof(float);
}

static size_t state_len(const double *option, const struct tsi_piece *piece)
{
    if (!is_low(option, piece))
        return 0;
    return (HEADER_FLOATS + rank_of(option) * (piece->rows + piece->cols)) * sizeof(float);
}

/* The largest of: chunk statistics, one partial Q per block of rows, P in double, P negated. */
static size_t scratch_len(const struct terse_codec_ops *ops, const double *option,
                          const struct tsi_piece *piece, unsigned threads)
{
    (void)ops;
    (void)threads;
    const size_t rank = rank_of(option);
    const size_t statistics = tsi_statistics_scratch(piece);
    const size_t partial = BLOCKS * rank * piece->cols * sizeof(float);
    const size_t column = rank * piece->rows * sizeof(double);
    size_t len = statistics;
    if (is_low(option, piece)) {
        len = partial > len ? partial : len;
        len = column > len ? column : len;
    }
    return len;
}

/* ---- thin products over blocks of rows ---- */

struct product {
    const struct tsi_call *call;
    const float *matrix;
    float *changed; /* the matrix of thin_add */
    const float *left;
    const float *right;
    float *out; /* P, or the partial sums of Q */
    size_t rank;
    size_t block; /* rows of a block; the last may be shorter */
    struct tsk_matrix_shape shape;
};

static size_t block_rows(size_t rows)
{
    return (rows + BLOCKS - 1) / BLOCKS;
}

/* Returns the shape of the part-th block of rows, and its first row in *first. */
static struct tsk_matrix_shape block_of(const struct product *product, size_t part, size_t *first)
{
    const size_t start = part * product->block;
    const size_t rows = product->shape.rows;
    *first = start < rows ? start : rows;
    const size_t left = rows - *first;
    return (struct tsk_matrix_shape){left < product->block ? left : product->block,
                                     product->shape.cols};
}

static void dot_block(void *context, size_t part)
{
    const struct product *const product = context;
    size_t first;
    const struct tsk_matrix_shape shape = block_of(product, part, &first);
    product->call->kernel->thin_dot_f32(product->matrix + first * shape.cols, shape, product->right,
                                        product->rank, product->out + first * product->rank);
}

static void sum_block(void *context, size_t part)
{
    const struct product *const product = context;
    size_t first;
    const struct tsk_matrix_shape shape = block_of(product, part, &first);
    float *const partial = product->out + part * product->rank * shape.cols;
    memset(partial, 0, product->rank * shape.cols * sizeof *partial);
    product->call->kernel->thin_sum_f32(product->matrix + first * shape.cols, shape,
                                        product->left + first * product->rank, product->rank,
                                        partial);
}

static void add_block(void *context, size_t part)
{
    const struct product *const product = context;
    size_t first;
    const struct tsk_matrix_shape shape = block_of(product, part, &first);
    product->call->kernel->thin_add_f32(product->changed + first * shape.cols, shape,
                                        product->left + first * product->rank, product->right,
                                        product->rank);
}

static struct product product_of(const struct tsi_call *call, const struct factors *factors)
{
    return (struct product){.call = call,
                            .rank = factors->rank,
                            .block = block_rows(factors->shape.rows),
                            .shape = factors->shape};
}

/* q = matrix^T p: the blocks' sums, added in ascending order. */
static void sum_rows(const struct tsi_call *call, const struct factors *factors,
                     const float *matrix, float *q)
{
    const size_t count = factors->rank * factors->shape.cols;
    struct product product = product_of(call, factors);
    product.matrix = matrix;
    product.left = factors->p;
    product.out = call->scratch;
    tsi_each_part(call->threads, BLOCKS, sum_block, &product);
    memset(q, 0, count * sizeof *q);
    for (size_t part = 0; part < BLOCKS; part++)
        (void)call->kernel->add_f32(q, (const uint8_t *)(product.out + part * count), count);
}

/* matrix += left q. */
static void add_product(const struct tsi_call *call, const struct factors *factors,
                        const float *left, const float *q, float *matrix)
{
    struct product product = product_of(call, factors);
    product.changed = matrix;
    product.left = left;
    product.right = q;
    tsi_each_part(call->threads, BLOCKS, add_block, &product);
}

/* ---- the first Q, and the common P ---- */

/* Uniform in [-1, 1): any direction works that is the same on every worker. */
static void seed_q(const struct tsi_call *call, const struct factors *factors)
{
    const terse_rng_key first = {.seed = call->key->seed};
    const struct tsk_stream stream = tsi_stream(&first, TSI_RANDOM_LOW_RANK, call->piece->tensor);
    const size_t count = factors->rank * factors->shape.cols;
    for (size_t at = 0; at < count; at += TSK_RANDOM_GROUP) {
        const size_t group = count - at < TSK_RANDOM_GROUP ? count - at : TSK_RANDOM_GROUP;
        uint32_t random[TSK_RANDOM_GROUP];
        call->kernel->random_u32(&stream, at, group, random);
        for (size_t i = 0; i < group; i++)
            factors->q[at + i] = (float)(random[i] >> 8) * 0x1p-23f - 1.0f;
    }
    factors->state->seeded = 1;
}

static double column_dot(const double *p, size_t rows, size_t rank, size_t a, size_t b)
{
    double sum = 0;
    for (size_t i = 0; i < rows; i++)
        sum += p[i * rank + a] * p[i * rank + b];
    return sum;
}

/* Modified Gram-Schmidt in double, rows ascending. A column that depends on earlier ones becomes
 * zero. */
static void orthonormalise(double *p, size_t rows, size_t rank)
{
    for (size_t c = 0; c < rank; c++) {
        const double before = sqrt(column_dot(p, rows, rank, c, c));
        for (size_t b = 0; b < c; b++) {
            const double along = column_dot(p, rows, rank, b, c);
            for (size_t i = 0; i < rows; i++)
                p[i * rank + c] -= along * p[i * rank + b];
        }
        const double length = sqrt(column_dot(p, rows, rank, c, c));
        const double factor = length > DEPENDENT * before ? 1 / length : 0;
        for (size_t i = 0; i < rows; i++)
            p[i * rank + c] *= factor;
    }
}

static void agree_on_p(const struct tsi_call *call, const struct factors *factors)
{
    const size_t count = factors->rank * factors->shape.rows;
    double *const wide = call->scratch;
    for (size_t i = 0; i < count; i++)
        wide[i] = (double)factors->p[i];
    orthonormalise(wide, factors->shape.rows, factors->rank);
    for (size_t i = 0; i < count; i++)
        factors->p[i] = (float)wide[i];
    factors->state->agreed = 1;
}

/* ---- encode ---- */

static terse_status encode_plain(const struct tsi_call *call, const float *in, float *take,
                                 uint8_t *section, size_t *len)
{
    const size_t count = section_floats(call->option, call->piece, call->pass);
    *len = count * sizeof(float);
    return tsi_run_copy(call, in, take, count, section);
}

static terse_status encode_p(const struct tsi_call *call, const struct factors *factors,
                             const float *in, uint8_t *section)
{
    const size_t count = factors->rank * factors->shape.rows;
    struct product product = product_of(call, factors);
    if (!factors->state->seeded)
        seed_q(call, factors);
    factors->state->agreed = 0;
    product.matrix = in;
    product.right = factors->q;
    product.out = factors->p;
    tsi_each_part(call->threads, BLOCKS, dot_block, &product);
    /* Q is finite: a non-finite product means a non-finite element or an overflow. */
    if (call->kernel->magnitude_max_f32(factors->p, count) >= TSK_INFINITY_BITS)
        return tsi_check_finite(call, in) == TERSE_OK ? TERSE_OUT_OF_RANGE : TERSE_NOT_FINITE;
    memcpy(section, factors->p, count * sizeof(float));
    return TERSE_OK;
}

/* take -= P Q, as an addition of (-P) Q. */
static void take_product(const struct tsi_call *call, const struct factors *factors, float *take)
{
    float *const negated = call->scratch;
    for (size_t i = 0; i < factors->rank * factors->shape.rows; i++)
        negated[i] = -factors->p[i];
    add_product(call, factors, negated, factors->q, take);
}

static terse_status encode_q(const struct tsi_call *call, const struct factors *factors,
                             const float *in, float *take, uint8_t *section)
{
    const size_t count = factors->rank * factors->shape.cols;
    if (!factors->state->agreed)
        return TERSE_BAD_ARGUMENT;
    sum_rows(call, factors, in, factors->q);
    if (call->kernel->magnitude_max_f32(factors->q, count) >= TSK_INFINITY_BITS) {
        factors->state->seeded = 0;
        return tsi_check_finite(call, in) == TERSE_OK ? TERSE_OUT_OF_RANGE : TERSE_NOT_FINITE;
    }
    memcpy(section, factors->q, count * sizeof(float));
    if (take)
        take_product(call, factors, take);
    return TERSE_OK;
}

static terse_status encode(const struct tsi_call *call, const float *in, float *take,
                           uint8_t *section, size_t *len)
{
    if (!is_low(call->option, call->piece))
        return encode_plain(call, in, take, section, len);
    const struct factors factors = factors_of(call);
    *len = section_bound(call->ops, call->option, call->piece, call->pass);
    return call->pass == 0 ? encode_p(call, &factors, in, section)
                           : encode_q(call, &factors, in, take, section);
}

/* ---- decode ---- */

/* Copies payload floats. Returns 1 if one is not finite. */
static uint32_t read_floats(const struct tsi_call *call, const uint8_t *section, size_t count,
                            float *out)
{
    memset(out, 0, count * sizeof *out);
    return call->kernel->add_f32(out, section, count);
}

static terse_status decode_low(const struct tsi_call *call, const uint8_t *section, float *out,
                               terse_fault *fault)
{
    const struct factors factors = factors_of(call);
    const size_t count = section_floats(call->option, call->piece, call->pass);
    if (call->pass == 0) {
        if (read_floats(call, section, count, factors.p))
            return tsi_fail(fault, TERSE_BAD_FRAME, 0, "a value is not finite");
        agree_on_p(call, &factors);
        return TERSE_OK;
    }
    if (!factors.state->agreed)
        return tsi_fail(fault, TERSE_BAD_ARGUMENT, 0, "pass 1 before pass 0");
    factors.state->seeded = 0;
    if (read_floats(call, section, count, factors.q))
        return tsi_fail(fault, TERSE_BAD_FRAME, 0, "a value is not finite");
    factors.state->seeded = 1;
    add_product(call, &factors, factors.p, factors.q, out);
    return TERSE_OK;
}

static terse_status decode_add(const struct tsi_call *call, const uint8_t *section, size_t len,
                               size_t *used, float *out, terse_fault *fault)
{
    *used = section_bound(call->ops, call->option, call->piece, call->pass);
    const terse_status status = tsi_section_len(len, *used, fault);
    if (status != TERSE_OK)
        return status;
    if (is_low(call->option, call->piece))
        return decode_low(call, section, out, fault);
    return tsi_run_add(call, section, 0, *used / sizeof(float), out, fault);
}

const struct terse_codec_ops tsi_codec_low_rank = {
    .wire_id = 12,
    .name = "low-rank",
    .summary = "each matrix as a product of two thin ones, in two passes",
    .traits =
        TERSE_CODEC_CONTRACTIVE | TERSE_CODEC_ADDITIVE | TERSE_CODEC_RANDOM | TERSE_CODEC_FIXED_LEN,
    .passes = 2,
    .options = options,
    .option_count = 1,
    .section_bound = section_bound,
    .scratch_len = scratch_len,
    .state_len = state_len,
    .encode = encode,
    .decode_add = decode_add,
};
