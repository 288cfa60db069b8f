#include "kernels/ref/ref.h"

uint32_t tsk_ref_snapshot_add_f32(float *memory, const float *in, size_t count, float *before)
{
    uint32_t most = 0;
    for (size_t i = 0; i < count; i++) {
        const uint32_t magnitude = magnitude_bits(in[i]);
        most = magnitude > most ? magnitude : most;
        before[i] = memory[i];
        memory[i] += in[i];
    }
    return most;
}

uint32_t tsk_ref_add_f32(float *out, const uint8_t *in, size_t count)
{
    uint32_t bad = 0;
    for (size_t i = 0; i < count; i++) {
        float x;
        memcpy(&x, in + 4 * i, sizeof x);
        bad |= magnitude_bits(x) >= TSK_INFINITY_BITS;
        out[i] += x;
    }
    return bad;
}

void tsk_ref_sub_scaled_f32(const float *a, const float *b, float factor, size_t count, float *out)
{
    for (size_t i = 0; i < count; i++)
        out[i] = a[i] - factor * b[i];
}

static uint16_t f16_of(float x)
{
    const uint32_t bits = bits_of(x);
    const uint32_t sign = bits >> 16 & 0x8000u;
    const uint32_t magnitude = bits & 0x7fffffffu;
    if (magnitude > TSK_INFINITY_BITS)
        return (uint16_t)(sign | 0x7e00u | (magnitude >> 13 & 0x1ffu));
    if (magnitude >= 0x47800000u) /* 65536 and above */
        return (uint16_t)(sign | 0x7c00u);
    if (magnitude < 0x38800000u) { /* below 2^-14: a multiple of 2^-24; adding 0.5 rounds to it */
        const float shifted = float_of(magnitude) + 0.5f;
        return (uint16_t)(sign | (bits_of(shifted) - 0x3f000000u));
    }
    const uint32_t odd = magnitude >> 13 & 1u;
    return (uint16_t)(sign | (magnitude - 0x38000000u + 0xfffu + odd) >> 13);
}

static float f32_of_f16(uint16_t half)
{
    const uint32_t sign = (uint32_t)(half & 0x8000u) << 16;
    const uint32_t magnitude = half & 0x7fffu;
    if (magnitude >= 0x7c00u)
        return float_of(sign | TSK_INFINITY_BITS | (magnitude & 0x3ffu) << 13);
    if (magnitude < 0x400u) {
        const float value = (float)magnitude * 0x1p-24f;
        return sign ? -value : value;
    }
    return float_of(sign | ((magnitude << 13) + 0x38000000u));
}

static uint16_t bf16_of(float x)
{
    const uint32_t bits = bits_of(x);
    if ((bits & 0x7fffffffu) > TSK_INFINITY_BITS)
        return (uint16_t)(bits >> 16 | 0x40u);
    return (uint16_t)((bits + 0x7fffu + (bits >> 16 & 1u)) >> 16);
}

static uint16_t load_u16(const uint8_t *in)
{
    return (uint16_t)(in[0] | in[1] << 8);
}

static void store_u16(uint8_t *out, uint16_t value)
{
    out[0] = (uint8_t)value;
    out[1] = (uint8_t)(value >> 8);
}

uint32_t tsk_ref_f16_from_f32(const float *in, size_t count, uint8_t *out)
{
    uint32_t most = 0;
    for (size_t i = 0; i < count; i++) {
        most = larger(most, magnitude_bits(in[i]));
        store_u16(out + 2 * i, f16_of(in[i]));
    }
    return most;
}

uint32_t tsk_ref_bf16_from_f32(const float *in, size_t count, uint8_t *out)
{
    uint32_t most = 0;
    for (size_t i = 0; i < count; i++) {
        most = larger(most, magnitude_bits(in[i]));
        store_u16(out + 2 * i, bf16_of(in[i]));
    }
    return most;
}

uint32_t tsk_ref_f16_add_f32(float *out, const uint8_t *in, size_t count, float factor)
{
    uint32_t bad = 0;
    for (size_t i = 0; i < count; i++) {
        const uint16_t half = load_u16(in + 2 * i);
        bad |= (half & 0x7c00u) == 0x7c00u;
        out[i] += factor * f32_of_f16(half);
    }
    return bad;
}

uint32_t tsk_ref_bf16_add_f32(float *out, const uint8_t *in, size_t count, float factor)
{
    uint32_t bad = 0;
    for (size_t i = 0; i < count; i++) {
        const uint16_t half = load_u16(in + 2 * i);
        bad |= (half & 0x7f80u) == 0x7f80u;
        out[i] += factor * float_of((uint32_t)half << 16);
    }
    return bad;
}
