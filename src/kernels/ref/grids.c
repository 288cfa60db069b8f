#include <math.h>

#include "kernels/ref/ref.h"

static uint16_t code_of(float x, uint32_t magnitude, unsigned mag_bits)
{
    return (uint16_t)(magnitude == 0 ? 0 : (bits_of(x) >> 31) << mag_bits | magnitude);
}

static uint32_t is_no_code(uint16_t code, uint32_t levels, unsigned mag_bits)
{
    const uint32_t magnitude = code & ((1u << mag_bits) - 1);
    return magnitude > levels || (magnitude == 0 && code != 0);
}

void tsk_ref_log_codes_f32(const float *in, size_t count, const float *thresholds, unsigned levels,
                           unsigned mag_bits, uint16_t *codes)
{
    for (size_t i = 0; i < count; i++) {
        uint32_t magnitude = 0;
        for (unsigned j = 0; j < levels; j++)
            magnitude += fabsf(in[i]) > thresholds[j];
        codes[i] = code_of(in[i], magnitude, mag_bits);
    }
}

uint32_t tsk_ref_log_add_f32(float *out, const uint16_t *codes, size_t count, unsigned levels,
                             unsigned mag_bits, float scale)
{
    uint32_t bad = 0;
    for (size_t i = 0; i < count; i++) {
        const uint32_t magnitude = codes[i] & ((1u << mag_bits) - 1);
        bad |= is_no_code(codes[i], levels, mag_bits);
        if (magnitude == 0)
            continue;
        const float value = scale * float_of((127 + magnitude - levels) << 23);
        out[i] += codes[i] >> mag_bits ? -value : value;
    }
    return bad;
}

void tsk_ref_log_take_f32(float *memory, size_t count, const float *thresholds, unsigned levels,
                          unsigned mag_bits, float scale, uint16_t *codes)
{
    tsk_ref_log_codes_f32(memory, count, thresholds, levels, mag_bits, codes);
    (void)tsk_ref_log_add_f32(memory, codes, count, levels, mag_bits, -scale);
}

void tsk_ref_random_codes_f32(const float *in, size_t count, float scale, uint32_t levels,
                              unsigned mag_bits, const struct tsk_stream *stream, uint64_t first,
                              uint16_t *codes)
{
    for (size_t i = 0; i < count; i++) {
        const float r = fabsf(in[i]) * scale;
        const float below = floorf(r);
        const float u = (float)(tsk_ref_random(stream, first + i) >> 8) * 0x1p-24f;
        const uint32_t magnitude = (uint32_t)below + (u < r - below);
        codes[i] = code_of(in[i], magnitude < levels ? magnitude : levels, mag_bits);
    }
}

void tsk_ref_nearest_codes_f32(const float *in, size_t count, float scale, uint32_t levels,
                               unsigned mag_bits, uint16_t *codes)
{
    for (size_t i = 0; i < count; i++) {
        const float scaled = fabsf(in[i]) * scale;
        const float r = scaled < (float)levels ? scaled : (float)levels; /* levels for NaN too */
        const float below = floorf(r);
        const uint32_t magnitude = (uint32_t)below + (r - below > 0.5f);
        codes[i] = code_of(in[i], magnitude, mag_bits);
    }
}

uint32_t tsk_ref_level_add_f32(float *out, const uint16_t *codes, size_t count, uint32_t levels,
                               unsigned mag_bits, float unit)
{
    uint32_t bad = 0;
    for (size_t i = 0; i < count; i++) {
        const uint32_t magnitude = codes[i] & ((1u << mag_bits) - 1);
        bad |= is_no_code(codes[i], levels, mag_bits);
        const float value = (float)magnitude * unit;
        out[i] += codes[i] >> mag_bits ? -value : value;
    }
    return bad;
}

uint32_t tsk_ref_natural_codes_f32(const float *in, size_t count, const struct tsk_stream *stream,
                                   uint64_t first, uint16_t *codes)
{
    uint32_t most = 0;
    for (size_t i = 0; i < count; i++) {
        const uint32_t magnitude = magnitude_bits(in[i]);
        most = larger(most, magnitude);
        const uint32_t exponent = (magnitude + (tsk_ref_random(stream, first + i) >> 9)) >> 23;
        codes[i] = code_of(in[i], exponent, 8);
    }
    return most;
}

uint32_t tsk_ref_natural_add_f32(float *out, const uint16_t *codes, size_t count, float factor)
{
    uint32_t bad = 0;
    for (size_t i = 0; i < count; i++) {
        bad |= is_no_code(codes[i], 254, 8);
        out[i] += factor * float_of((uint32_t)codes[i] << 23);
    }
    return bad;
}

void tsk_ref_pack_codes(const uint16_t *codes, size_t count, unsigned bits, uint8_t *out)
{
    uint32_t pending = 0;
    unsigned held = 0;
    for (size_t i = 0; i < count; i++) {
        pending |= (uint32_t)codes[i] << held;
        for (held += bits; held >= 8; held -= 8) {
            *out++ = (uint8_t)pending;
            pending >>= 8;
        }
    }
    if (held > 0)
        *out = (uint8_t)pending;
}

void tsk_ref_unpack_codes(const uint8_t *in, size_t count, unsigned bits, uint16_t *codes)
{
    uint32_t pending = 0;
    unsigned held = 0;
    for (size_t i = 0; i < count; i++) {
        for (; held < bits; held += 8)
            pending |= (uint32_t)*in++ << held;
        codes[i] = (uint16_t)(pending & ((1u << bits) - 1));
        pending >>= bits;
        held -= bits;
    }
}
