/* The loops that touch every element. One table per kernel set; `ref` (plain C) is the definition
 * of right, and every other kernel set gives the same bits: what these loops decide goes over the
 * wire or stays in error memory, and a mixed cluster must not drift apart.
 *
 * For all of them:
 *  - count may be 0; nothing is read or written beyond `count` elements (or the bytes named),
 *    except where a slot asks for room;
 *  - floats are aligned to 4 bytes, codes to 2, bytes to nothing; payload floats come as bytes;
 *  - no fused multiply-add, no reassociation: sums run in the order written at their slot;
 *  - a NaN that comes out of arithmetic may carry any payload bits; all else is bit-identical.
 *
 * "magnitude bits" are the bits of |x| as an integer: they order like |x|, infinity is 0x7f800000
 * and every NaN is above it. So one integer maximum finds the norm and everything non-finite.
 *
 * A "code" is sign << mag_bits | magnitude. Zero has one code, 0: no sign without a magnitude. */
#ifndef TSK_KERNELS_H
#define TSK_KERNELS_H

#include <stddef.h>
#include <stdint.h>

#define TSK_INFINITY_BITS 0x7f800000u
#define TSK_LANES 16u        /* sums run in 16 lanes on every kernel set, see magnitude_sum_f32 */
#define TSK_RANDOM_GROUP 64u /* draws come in groups of 64 elements, see random_u32 */
#define TSK_COLLECT_ROOM 16u /* entries that collect_f32 may scribble on behind the last one */
#define TSK_MAX_LOG_LEVELS 15u

/* A stream of random numbers: Philox4x32-10 with this key and counter words 1..3; word 0 is the
 * block number. */
struct tsk_stream {
    uint32_t key[2];
    uint32_t counter[3];
};

/* A row-major matrix of floats without gaps. */
struct tsk_matrix_shape {
    size_t rows;
    size_t cols;
};

struct tsk_table {
    /* ---- statistics ---- */

    /* The largest magnitude bits; 0 for count 0. */
    uint32_t (*magnitude_max_f32)(const float *in, size_t count);

    /* Sum of |x| in double: lane i % 16 adds element i in ascending order; then lane j takes lane
     * j + 8, then j + 4, j + 2, j + 1. Not finite exactly when an element is not. */
    double (*magnitude_sum_f32)(const float *in, size_t count);

    /* Sum of x * x (the product in double), same order. */
    double (*square_sum_f32)(const float *in, size_t count);

    /* ---- random numbers ---- */

    /* Draws number first .. first+count-1 of a stream. Draw e is word (e / 16) % 4 of block
     * (e / 64) * 16 + e % 16: sixteen blocks make sixty-four draws without a transposition.
     * `first` is a multiple of 64. */
    void (*random_u32)(const struct tsk_stream *stream, uint64_t first, size_t count,
                       uint32_t *out);

    /* ---- plain ---- */

    /* before = memory, memory += in, in one pass. `before` goes past the caches, as it is rarely
     * read again. Returns the largest magnitude bits of `in`. */
    uint32_t (*snapshot_add_f32)(float *memory, const float *in, size_t count, float *before);

    /* out += payload floats. Returns 1 if one is not finite (then `out` is unspecified), else 0. */
    uint32_t (*add_f32)(float *out, const uint8_t *in, size_t count);

    /* out = a - factor * b, past the caches. */
    void (*sub_scaled_f32)(const float *a, const float *b, float factor, size_t count, float *out);

    /* Round to nearest even into two bytes each. Return the largest magnitude bits of the input.
     * A NaN becomes quiet and keeps its sign and its upper payload bits. */
    uint32_t (*f16_from_f32)(const float *in, size_t count, uint8_t *out);
    uint32_t (*bf16_from_f32)(const float *in, size_t count, uint8_t *out);

    /* out += factor * value, factor +1 (decode) or -1 (take). Return 1 if a value is not finite
     * (then `out` is unspecified), else 0. */
    uint32_t (*f16_add_f32)(float *out, const uint8_t *in, size_t count, float factor);
    uint32_t (*bf16_add_f32)(float *out, const uint8_t *in, size_t count, float factor);

    /* ---- sign ---- */

    /* Bit i % 8 of byte i / 8: `negative` x < 0, `zero` x == 0 (both zeros). Padding bits are 0.
     * `zero` may be NULL. Returns the largest magnitude bits. */
    uint32_t (*sign_f32)(const float *in, size_t count, uint8_t *negative, uint8_t *zero);

    /* out += bit ? -scale : scale. */
    void (*sign_add_f32)(float *out, const uint8_t *negative, size_t count, float scale);

    /* ---- sparse ---- */

    /* Lists, ascending, every element whose magnitude bits are >= threshold: base + its position,
     * and its value. Returns how many. Both lists have room for count + TSK_COLLECT_ROOM. */
    size_t (*collect_f32)(const float *in, size_t count, uint32_t threshold, uint32_t base,
                          uint32_t *index, float *value);

    /* ---- grids ---- */

    /* code magnitude = how many of the `levels` thresholds lie below |x| (strictly). Thresholds
     * ascend; levels <= TSK_MAX_LOG_LEVELS. */
    void (*log_codes_f32)(const float *in, size_t count, const float *thresholds, unsigned levels,
                          unsigned mag_bits, uint16_t *codes);

    /* out += +-scale * 2^(magnitude - levels), nothing for magnitude 0. Returns 1 if a code is
     * not one (magnitude > levels, or sign alone; then `out` is unspecified), else 0.
     * 2^(1 - levels) >= 2^-14, the product rounds once. */
    uint32_t (*log_add_f32)(float *out, const uint16_t *codes, size_t count, unsigned levels,
                            unsigned mag_bits, float scale);

    /* log_codes_f32 and then log_add_f32 with -scale, in one pass: says, and keeps the rest. */
    void (*log_take_f32)(float *memory, size_t count, const float *thresholds, unsigned levels,
                         unsigned mag_bits, float scale, uint16_t *codes);

    /* r = |x| * scale, magnitude = min(floor(r) + (u < r - floor(r)), levels), u = (draw >> 8) /
     * 2^24 with the stream's draw number first + i. `first` is a multiple of 64. x and r finite,
     * r < 2^22. */
    void (*random_codes_f32)(const float *in, size_t count, float scale, uint32_t levels,
                             unsigned mag_bits, const struct tsk_stream *stream, uint64_t first,
                             uint16_t *codes);

    /* The same with (r - floor(r) > 0.5): nearest, ties toward zero. r may be large or infinite:
     * the magnitude is then `levels`. */
    void (*nearest_codes_f32)(const float *in, size_t count, float scale, uint32_t levels,
                              unsigned mag_bits, uint16_t *codes);

    /* out += +-(magnitude * unit). Returns 1 if a code is not one, as in log_add_f32. */
    uint32_t (*level_add_f32)(float *out, const uint16_t *codes, size_t count, uint32_t levels,
                              unsigned mag_bits, float unit);

    /* Power of two, stochastic: code = (bits + (draw >> 9)) >> 23, that is sign and biased
     * exponent (mag_bits = 8), 0 if the exponent is 0. Exact: the carry out of the mantissa happens
     * with the mantissa's own probability. Returns the largest magnitude bits. */
    uint32_t (*natural_codes_f32)(const float *in, size_t count, const struct tsk_stream *stream,
                                  uint64_t first, uint16_t *codes);

    /* out += factor * (the float whose bits are code << 23). Returns 1 if a code is not one (sign
     * alone, or exponent 255), as above. */
    uint32_t (*natural_add_f32)(float *out, const uint16_t *codes, size_t count, float factor);

    /* Code i takes bits [i * bits, (i + 1) * bits) of the byte string, least significant first;
     * 1 <= bits <= 16. Writes (reads) exactly ceil(count * bits / 8) bytes; padding bits are 0
     * (ignored). Upper bits of a code beyond `bits` are 0. */
    void (*pack_codes)(const uint16_t *codes, size_t count, unsigned bits, uint8_t *out);
    void (*unpack_codes)(const uint8_t *in, size_t count, unsigned bits, uint16_t *codes);

    /* ---- low rank: thin products of a tall or wide matrix ---- */

    /* out[i * rank + c] = sum_j matrix[i][j] * right[c * cols + j], in float: lane j % 16
     * ascending, then the lanes as in magnitude_sum_f32. */
    void (*thin_dot_f32)(const float *matrix, struct tsk_matrix_shape shape, const float *right,
                         size_t rank, float *out);

    /* acc[c * cols + j] += matrix[i][j] * left[i * rank + c], rows ascending. */
    void (*thin_sum_f32)(const float *matrix, struct tsk_matrix_shape shape, const float *left,
                         size_t rank, float *acc);

    /* matrix[i][j] += sum_c left[i * rank + c] * right[c * cols + j]: the sum over c ascending
     * first (starting from its first product), then one addition. */
    void (*thin_add_f32)(float *matrix, struct tsk_matrix_shape shape, const float *left,
                         const float *right, size_t rank);
};

/* The slots by name, for terse_kernel_list and the tests; tsk_slot_count of them, in table order.
 */
extern const char *const tsk_slot_names[];
extern const size_t tsk_slot_count;

/* A kernel set: a table laid over `ref`. Slots that a kernel set does not bring are NULL in
 * `table`. */
struct tsk_kernel_set {
    const char *name;
    const char *needs;
    const struct tsk_table *table;
    const char *(*missing)(void); /* the first of `needs` that this CPU lacks, NULL for none */
};

extern const struct tsk_table tsk_ref;
#if defined(__x86_64__)
extern const struct tsk_table tsk_avx2;
extern const struct tsk_table tsk_avx512;
#elif defined(__aarch64__)
extern const struct tsk_table tsk_neon;
#endif

#endif
