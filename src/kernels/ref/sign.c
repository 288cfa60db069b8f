#include "kernels/ref/ref.h"

uint32_t tsk_ref_sign_f32(const float *in, size_t count, uint8_t *negative, uint8_t *zero)
{
    const size_t len = (count + 7) / 8;
    uint32_t most = 0;
    memset(negative, 0, len);
    if (zero)
        memset(zero, 0, len);
    for (size_t i = 0; i < count; i++) {
        most = larger(most, magnitude_bits(in[i]));
        if (in[i] < 0)
            negative[i / 8] |= (uint8_t)(1u << i % 8);
        if (zero && in[i] == 0)
            zero[i / 8] |= (uint8_t)(1u << i % 8);
    }
    return most;
}

void tsk_ref_sign_add_f32(float *out, const uint8_t *negative, size_t count, float scale)
{
    for (size_t i = 0; i < count; i++)
        out[i] += negative[i / 8] >> i % 8 & 1 ? -scale : scale;
}
