/* Sixteen lanes in four registers: NEON, which every arm64 CPU has. The operations are those
 * of lanes/lane.h. */
#ifndef TSK_LANES_NEON_H
#define TSK_LANES_NEON_H

#include <arm_neon.h>

#include "kernels/lanes/lane.h"

/* The fields are named by their first lane. */
typedef struct vf {
    float32x4_t q0, q4, q8, q12;
} vf;
typedef struct vi {
    uint32x4_t q0, q4, q8, q12;
} vi;
typedef vi vm; /* all bits of a lane are 1 (true) or 0 */
typedef struct vs {
    uint16x8_t low, high; /* lanes 0..7, 8..15 */
} vs;

/* ---- floats ---- */

LANE float32x4_t quarter_load_f32(const uint8_t *at)
{
    return vreinterpretq_f32_u8(vld1q_u8(at));
}

LANE void quarter_store_f32(uint8_t *at, float32x4_t a)
{
    vst1q_u8(at, vreinterpretq_u8_f32(a));
}

/* Payload floats may be unaligned. */
LANE vf vf_load(const void *at)
{
    const uint8_t *x = (const uint8_t *)at;
    return (vf){quarter_load_f32(x), quarter_load_f32(x + 16), quarter_load_f32(x + 32),
                quarter_load_f32(x + 48)};
}

LANE vf vf_load_first(const void *at, size_t n)
{
    float padded[TSK_LANES] = {0};
    memcpy(padded, at, n * sizeof padded[0]);
    return vf_load(padded);
}

LANE void vf_store(void *at, vf a)
{
    uint8_t *x = (uint8_t *)at;
    quarter_store_f32(x, a.q0);
    quarter_store_f32(x + 16, a.q4);
    quarter_store_f32(x + 32, a.q8);
    quarter_store_f32(x + 48, a.q12);
}

/* A normal store: this CPU detects writes of whole lines itself. */
LANE void vf_store_past(void *at, vf a)
{
    vf_store(at, a);
}

LANE void vf_stored_past(void)
{
}

LANE void vf_store_first(void *at, vf a, size_t n)
{
    float all[TSK_LANES];
    vf_store(all, a);
    memcpy(at, all, n * sizeof all[0]);
}

LANE vf vf_of(float x)
{
    const float32x4_t q = vdupq_n_f32(x);
    return (vf){q, q, q, q};
}

LANE vf vf_add(vf a, vf b)
{
    return (vf){vaddq_f32(a.q0, b.q0), vaddq_f32(a.q4, b.q4), vaddq_f32(a.q8, b.q8),
                vaddq_f32(a.q12, b.q12)};
}

LANE vf vf_sub(vf a, vf b)
{
    return (vf){vsubq_f32(a.q0, b.q0), vsubq_f32(a.q4, b.q4), vsubq_f32(a.q8, b.q8),
                vsubq_f32(a.q12, b.q12)};
}

LANE vf vf_mul(vf a, vf b)
{
    return (vf){vmulq_f32(a.q0, b.q0), vmulq_f32(a.q4, b.q4), vmulq_f32(a.q8, b.q8),
                vmulq_f32(a.q12, b.q12)};
}

LANE vm vf_below(vf a, vf b)
{
    return (vm){vcltq_f32(a.q0, b.q0), vcltq_f32(a.q4, b.q4), vcltq_f32(a.q8, b.q8),
                vcltq_f32(a.q12, b.q12)};
}

LANE vm vf_equal(vf a, vf b)
{
    return (vm){vceqq_f32(a.q0, b.q0), vceqq_f32(a.q4, b.q4), vceqq_f32(a.q8, b.q8),
                vceqq_f32(a.q12, b.q12)};
}

LANE vf vf_select(vm where, vf yes, vf no)
{
    return (vf){vbslq_f32(where.q0, yes.q0, no.q0), vbslq_f32(where.q4, yes.q4, no.q4),
                vbslq_f32(where.q8, yes.q8, no.q8), vbslq_f32(where.q12, yes.q12, no.q12)};
}

LANE vi vi_bits(vf a)
{
    return (vi){vreinterpretq_u32_f32(a.q0), vreinterpretq_u32_f32(a.q4),
                vreinterpretq_u32_f32(a.q8), vreinterpretq_u32_f32(a.q12)};
}

LANE vf vf_bits(vi a)
{
    return (vf){vreinterpretq_f32_u32(a.q0), vreinterpretq_f32_u32(a.q4),
                vreinterpretq_f32_u32(a.q8), vreinterpretq_f32_u32(a.q12)};
}

/* |a| < limit ? |a| : limit, for limit >= 0. The minimum instruction treats NaN differently. */
LANE vf vf_least(vf a, vf limit)
{
    const vf size = {vabsq_f32(a.q0), vabsq_f32(a.q4), vabsq_f32(a.q8), vabsq_f32(a.q12)};
    return vf_select(vf_below(size, limit), size, limit);
}

/* Towards zero, for 0 <= a < 2^31. */
LANE vi vi_truncate(vf a)
{
    return (vi){vcvtq_u32_f32(a.q0), vcvtq_u32_f32(a.q4), vcvtq_u32_f32(a.q8),
                vcvtq_u32_f32(a.q12)};
}

/* For a < 2^31. */
LANE vf vf_of_vi(vi a)
{
    return (vf){vcvtq_f32_u32(a.q0), vcvtq_f32_u32(a.q4), vcvtq_f32_u32(a.q8),
                vcvtq_f32_u32(a.q12)};
}

/* Lane j takes lane j + 8, then j + 4, j + 2, j + 1. */
LANE float vf_sum(vf a)
{
    const float32x4_t four = vaddq_f32(vaddq_f32(a.q0, a.q8), vaddq_f32(a.q4, a.q12));
    const float32x2_t two = vadd_f32(vget_low_f32(four), vget_high_f32(four));
    return vget_lane_f32(two, 0) + vget_lane_f32(two, 1);
}

/* ---- integers ---- */

LANE uint32x4_t quarter_load(const uint8_t *at)
{
    return vreinterpretq_u32_u8(vld1q_u8(at));
}

LANE void quarter_store(uint8_t *at, uint32x4_t a)
{
    vst1q_u8(at, vreinterpretq_u8_u32(a));
}

LANE vi vi_load(const void *at)
{
    return vi_bits(vf_load(at));
}

LANE void vi_store(void *at, vi a)
{
    vf_store(at, vf_bits(a));
}

LANE void vi_store_first(void *at, vi a, size_t n)
{
    vf_store_first(at, vf_bits(a), n);
}

LANE vi vi_of(uint32_t x)
{
    const uint32x4_t q = vdupq_n_u32(x);
    return (vi){q, q, q, q};
}

LANE vi vi_and(vi a, vi b)
{
    return (vi){vandq_u32(a.q0, b.q0), vandq_u32(a.q4, b.q4), vandq_u32(a.q8, b.q8),
                vandq_u32(a.q12, b.q12)};
}

LANE vi vi_or(vi a, vi b)
{
    return (vi){vorrq_u32(a.q0, b.q0), vorrq_u32(a.q4, b.q4), vorrq_u32(a.q8, b.q8),
                vorrq_u32(a.q12, b.q12)};
}

LANE vi vi_xor(vi a, vi b)
{
    return (vi){veorq_u32(a.q0, b.q0), veorq_u32(a.q4, b.q4), veorq_u32(a.q8, b.q8),
                veorq_u32(a.q12, b.q12)};
}

LANE vi vi_add(vi a, vi b)
{
    return (vi){vaddq_u32(a.q0, b.q0), vaddq_u32(a.q4, b.q4), vaddq_u32(a.q8, b.q8),
                vaddq_u32(a.q12, b.q12)};
}

LANE vi vi_sub(vi a, vi b)
{
    return (vi){vsubq_u32(a.q0, b.q0), vsubq_u32(a.q4, b.q4), vsubq_u32(a.q8, b.q8),
                vsubq_u32(a.q12, b.q12)};
}

LANE vi vi_max(vi a, vi b)
{
    return (vi){vmaxq_u32(a.q0, b.q0), vmaxq_u32(a.q4, b.q4), vmaxq_u32(a.q8, b.q8),
                vmaxq_u32(a.q12, b.q12)};
}

/* Left for n >= 0, right for n < 0. */
LANE vi vi_shift(vi a, int32x4_t n)
{
    return (vi){vshlq_u32(a.q0, n), vshlq_u32(a.q4, n), vshlq_u32(a.q8, n), vshlq_u32(a.q12, n)};
}

LANE vi vi_shl(vi a, unsigned n)
{
    return vi_shift(a, vdupq_n_s32((int32_t)n));
}

LANE vi vi_shr(vi a, unsigned n)
{
    return vi_shift(a, vdupq_n_s32(-(int32_t)n));
}

LANE vi vi_shl_each(vi a, vi n)
{
    return (vi){vshlq_u32(a.q0, vreinterpretq_s32_u32(n.q0)),
                vshlq_u32(a.q4, vreinterpretq_s32_u32(n.q4)),
                vshlq_u32(a.q8, vreinterpretq_s32_u32(n.q8)),
                vshlq_u32(a.q12, vreinterpretq_s32_u32(n.q12))};
}

LANE vi vi_shr_each(vi a, vi n)
{
    return vi_shl_each(a, vi_sub(vi_of(0), n));
}

LANE vm vi_at_least(vi a, vi b)
{
    return (vm){vcgeq_u32(a.q0, b.q0), vcgeq_u32(a.q4, b.q4), vcgeq_u32(a.q8, b.q8),
                vcgeq_u32(a.q12, b.q12)};
}

LANE vm vi_nonzero(vi a)
{
    return (vm){vtstq_u32(a.q0, a.q0), vtstq_u32(a.q4, a.q4), vtstq_u32(a.q8, a.q8),
                vtstq_u32(a.q12, a.q12)};
}

/* a + 1 where the mask is set */
LANE vi vi_count_if(vi a, vm where)
{
    return vi_sub(a, where);
}

/* a where the mask is set, else 0 */
LANE vi vi_keep_if(vm where, vi a)
{
    return vi_and(where, a);
}

LANE vi vi_select(vm where, vi yes, vi no)
{
    return vi_bits(vf_select(where, vf_bits(yes), vf_bits(no)));
}

/* The largest lane. */
LANE uint32_t vi_top(vi a)
{
    return vmaxvq_u32(vmaxq_u32(vmaxq_u32(a.q0, a.q4), vmaxq_u32(a.q8, a.q12)));
}

/* ---- masks ---- */

LANE vi vi_lanes(void)
{
    static const uint32_t lane[TSK_LANES] = {0, 1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12, 13, 14, 15};
    return vi_load(lane);
}

LANE vm vm_first(size_t n)
{
    return vi_xor(vi_at_least(vi_lanes(), vi_of((uint32_t)n)), vi_of(UINT32_MAX));
}

LANE vm vm_none(void)
{
    return vi_of(0);
}

LANE vm vm_and(vm a, vm b)
{
    return vi_and(a, b);
}

LANE vm vm_or(vm a, vm b)
{
    return vi_or(a, b);
}

LANE uint32_t vm_bits(vm a)
{
    const vi bit = vi_and(a, vi_shl_each(vi_of(1), vi_lanes()));
    return vaddvq_u32(vorrq_u32(vorrq_u32(bit.q0, bit.q4), vorrq_u32(bit.q8, bit.q12)));
}

LANE vm vm_of_bits(uint32_t bits)
{
    return vi_nonzero(vi_and(vi_of(bits), vi_shl_each(vi_of(1), vi_lanes())));
}

/* ---- 16 bits ---- */

LANE vs vs_load(const void *at)
{
    const uint8_t *x = (const uint8_t *)at;
    return (vs){vreinterpretq_u16_u8(vld1q_u8(x)), vreinterpretq_u16_u8(vld1q_u8(x + 16))};
}

LANE vs vs_load_first(const void *at, size_t n)
{
    uint16_t padded[TSK_LANES] = {0};
    memcpy(padded, at, n * sizeof padded[0]);
    return vs_load(padded);
}

LANE void vs_store(void *at, vs a)
{
    uint8_t *x = (uint8_t *)at;
    vst1q_u8(x, vreinterpretq_u8_u16(a.low));
    vst1q_u8(x + 16, vreinterpretq_u8_u16(a.high));
}

LANE void vs_store_first(void *at, vs a, size_t n)
{
    uint16_t all[TSK_LANES];
    vs_store(all, a);
    memcpy(at, all, n * sizeof all[0]);
}

/* For a < 2^16. */
LANE vs vs_narrow(vi a)
{
    return (vs){vcombine_u16(vmovn_u32(a.q0), vmovn_u32(a.q4)),
                vcombine_u16(vmovn_u32(a.q8), vmovn_u32(a.q12))};
}

LANE vi vi_widen(vs a)
{
    return (vi){vmovl_u16(vget_low_u16(a.low)), vmovl_u16(vget_high_u16(a.low)),
                vmovl_u16(vget_low_u16(a.high)), vmovl_u16(vget_high_u16(a.high))};
}

LANE uint16x4_t quarter_f16_of(float32x4_t a)
{
    return vreinterpret_u16_f16(vcvt_f16_f32(a));
}

LANE float32x4_t quarter_of_f16(uint16x4_t a)
{
    return vcvt_f32_f16(vreinterpret_f16_u16(a));
}

/* Nearest even; a NaN becomes quiet. */
LANE vs vs_f16_of(vf a)
{
    return (vs){vcombine_u16(quarter_f16_of(a.q0), quarter_f16_of(a.q4)),
                vcombine_u16(quarter_f16_of(a.q8), quarter_f16_of(a.q12))};
}

LANE vf vf_of_f16(vs a)
{
    return (vf){quarter_of_f16(vget_low_u16(a.low)), quarter_of_f16(vget_high_u16(a.low)),
                quarter_of_f16(vget_low_u16(a.high)), quarter_of_f16(vget_high_u16(a.high))};
}

LANE uint16x8_t half_code(uint16x8_t magnitude, uint32x4_t x0, uint32x4_t x4, uint16_t sign)
{
    const uint16x8_t upper = vcombine_u16(vshrn_n_u32(x0, 16), vshrn_n_u32(x4, 16));
    const uint16x8_t negative =
        vreinterpretq_u16_s16(vshrq_n_s16(vreinterpretq_s16_u16(upper), 15));
    const uint16x8_t where = vandq_u16(negative, vtstq_u16(magnitude, magnitude));
    return vorrq_u16(magnitude, vandq_u16(where, vdupq_n_u16(sign)));
}

/* A code: the magnitude (< 2^16), and `sign` or-ed to it where x is negative and it is not 0. */
LANE vs vs_code(vi magnitude, vf x, uint32_t sign)
{
    const vi bits = vi_bits(x);
    const vs code = vs_narrow(magnitude);
    return (vs){half_code(code.low, bits.q0, bits.q4, (uint16_t)sign),
                half_code(code.high, bits.q8, bits.q12, (uint16_t)sign)};
}

/* Stores 32 codes. */
LANE void vi_store_codes(void *at, vi magnitude0, vf x0, vi magnitude1, vf x1, uint32_t sign)
{
    uint16_t *codes = (uint16_t *)at;
    vs_store(codes, vs_code(magnitude0, x0, sign));
    vs_store(codes + TSK_LANES, vs_code(magnitude1, x1, sign));
}

/* ---- doubles ---- */

typedef struct vd {
    float64x2_t d[8];
} vd;

LANE vd vd_zero(void)
{
    const float64x2_t zero = vdupq_n_f64(0);
    return (vd){{zero, zero, zero, zero, zero, zero, zero, zero}};
}

LANE vd vd_of(vf a)
{
    return (vd){{vcvt_f64_f32(vget_low_f32(a.q0)), vcvt_high_f64_f32(a.q0),
                 vcvt_f64_f32(vget_low_f32(a.q4)), vcvt_high_f64_f32(a.q4),
                 vcvt_f64_f32(vget_low_f32(a.q8)), vcvt_high_f64_f32(a.q8),
                 vcvt_f64_f32(vget_low_f32(a.q12)), vcvt_high_f64_f32(a.q12)}};
}

LANE vd vd_add(vd a, vd b)
{
    for (unsigned i = 0; i < 8; i++)
        a.d[i] = vaddq_f64(a.d[i], b.d[i]);
    return a;
}

LANE vd vd_mul(vd a, vd b)
{
    for (unsigned i = 0; i < 8; i++)
        a.d[i] = vmulq_f64(a.d[i], b.d[i]);
    return a;
}

/* In the order of vf_sum. */
LANE double vd_sum(vd a)
{
    for (unsigned width = 4; width > 0; width /= 2)
        for (unsigned i = 0; i < width; i++)
            a.d[i] = vaddq_f64(a.d[i], a.d[i + width]);
    return vgetq_lane_f64(a.d[0], 0) + vgetq_lane_f64(a.d[0], 1);
}

/* ---- thin products ---- */

#define DOT_RANKS 1u /* vectors at a time whose sums with four rows fit into registers */

#endif
