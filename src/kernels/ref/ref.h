/* What the reference kernels share: floats as bits, and the order in which lanes are summed. */
#ifndef TSK_REF_H
#define TSK_REF_H

#include <stdint.h>
#include <string.h>

#include "kernels/kernels.h"

static inline uint32_t bits_of(float x)
{
    uint32_t bits;
    memcpy(&bits, &x, sizeof bits);
    return bits;
}

static inline float float_of(uint32_t bits)
{
    float x;
    memcpy(&x, &bits, sizeof x);
    return x;
}

static inline uint32_t magnitude_bits(float x)
{
    return bits_of(x) & 0x7fffffffu;
}

static inline uint32_t larger(uint32_t a, uint32_t b)
{
    return a > b ? a : b;
}

/* The draw of one element, see random_u32. */
uint32_t tsk_ref_random(const struct tsk_stream *stream, uint64_t element);

/* One declaration per slot that lives in another file of this folder than the table. */
uint32_t tsk_ref_magnitude_max_f32(const float *in, size_t count);
double tsk_ref_magnitude_sum_f32(const float *in, size_t count);
double tsk_ref_square_sum_f32(const float *in, size_t count);
void tsk_ref_random_u32(const struct tsk_stream *stream, uint64_t first, size_t count,
                        uint32_t *out);
uint32_t tsk_ref_snapshot_add_f32(float *memory, const float *in, size_t count, float *before);
void tsk_ref_sub_scaled_f32(const float *a, const float *b, float factor, size_t count, float *out);
uint32_t tsk_ref_add_f32(float *out, const uint8_t *in, size_t count);
uint32_t tsk_ref_f16_from_f32(const float *in, size_t count, uint8_t *out);
uint32_t tsk_ref_bf16_from_f32(const float *in, size_t count, uint8_t *out);
uint32_t tsk_ref_f16_add_f32(float *out, const uint8_t *in, size_t count, float factor);
uint32_t tsk_ref_bf16_add_f32(float *out, const uint8_t *in, size_t count, float factor);
uint32_t tsk_ref_sign_f32(const float *in, size_t count, uint8_t *negative, uint8_t *zero);
void tsk_ref_sign_add_f32(float *out, const uint8_t *negative, size_t count, float scale);
size_t tsk_ref_collect_f32(const float *in, size_t count, uint32_t threshold, uint32_t base,
                           uint32_t *index, float *value);
void tsk_ref_log_codes_f32(const float *in, size_t count, const float *thresholds, unsigned levels,
                           unsigned mag_bits, uint16_t *codes);
uint32_t tsk_ref_log_add_f32(float *out, const uint16_t *codes, size_t count, unsigned levels,
                             unsigned mag_bits, float scale);
void tsk_ref_log_take_f32(float *memory, size_t count, const float *thresholds, unsigned levels,
                          unsigned mag_bits, float scale, uint16_t *codes);
void tsk_ref_random_codes_f32(const float *in, size_t count, float scale, uint32_t levels,
                              unsigned mag_bits, const struct tsk_stream *stream, uint64_t first,
                              uint16_t *codes);
void tsk_ref_nearest_codes_f32(const float *in, size_t count, float scale, uint32_t levels,
                               unsigned mag_bits, uint16_t *codes);
uint32_t tsk_ref_level_add_f32(float *out, const uint16_t *codes, size_t count, uint32_t levels,
                               unsigned mag_bits, float unit);
uint32_t tsk_ref_natural_codes_f32(const float *in, size_t count, const struct tsk_stream *stream,
                                   uint64_t first, uint16_t *codes);
uint32_t tsk_ref_natural_add_f32(float *out, const uint16_t *codes, size_t count, float factor);
void tsk_ref_pack_codes(const uint16_t *codes, size_t count, unsigned bits, uint8_t *out);
void tsk_ref_unpack_codes(const uint8_t *in, size_t count, unsigned bits, uint16_t *codes);
void tsk_ref_thin_dot_f32(const float *matrix, struct tsk_matrix_shape shape, const float *right,
                          size_t rank, float *out);
void tsk_ref_thin_sum_f32(const float *matrix, struct tsk_matrix_shape shape, const float *left,
                          size_t rank, float *acc);
void tsk_ref_thin_add_f32(float *matrix, struct tsk_matrix_shape shape, const float *left,
                          const float *right, size_t rank);

#endif
