/* Lists of lanes, and codes as bit strings, at the kernel set neon. */
#ifndef TSK_LANES_NEON_LIST_H
#define TSK_LANES_NEON_LIST_H

#include "kernels/arm/lanes_neon.h"
#include "kernels/lanes/collect_order.h"

/* ---- lists ---- */

LANE uint32x4_t quarter_shuffle(uint32x4_t a, uint8x16_t which)
{
    return vreinterpretq_u32_u8(vqtbl1q_u8(vreinterpretq_u8_u32(a), which));
}

LANE size_t quarter_collect(uint32x4_t at, uint32x4_t a, uint32_t where, uint32_t *index,
                            float *value)
{
    const uint8x16_t order = vld1q_u8(collect_order[where]);
    quarter_store((uint8_t *)index, quarter_shuffle(at, order));
    quarter_store((uint8_t *)value, quarter_shuffle(a, order));
    return collect_count(where);
}

/* Appends the lanes asked for: first + lane to `index`, the lane itself to `value`. May scribble on
 * sixteen entries. Returns how many. */
LANE size_t vf_collect(vf a, vm where, uint32_t first, uint32_t *index, float *value)
{
    if (vi_top(where) == 0)
        return 0;
    const uint32_t bits = vm_bits(where);
    const vi lane = vi_bits(a);
    const vi at = vi_add(vi_of(first), vi_lanes());
    size_t n = quarter_collect(at.q0, lane.q0, bits & 15, index, value);
    n += quarter_collect(at.q4, lane.q4, bits >> 4 & 15, index + n, value + n);
    n += quarter_collect(at.q8, lane.q8, bits >> 8 & 15, index + n, value + n);
    n += quarter_collect(at.q12, lane.q12, bits >> 12, index + n, value + n);
    return n;
}

/* ---- codes as bit strings ---- */

/* Each 32-bit lane holds two numbers of `bits` bits in its halves: brings them together. */
LANE vi vi_join32(vi a, unsigned bits)
{
    return vi_select(vi_of((1u << bits) - 1), a, vi_shr(a, 16 - bits));
}

LANE uint32x4_t quarter_join64(uint32x4_t a, uint64x2_t low, int64x2_t shift)
{
    const uint64x2_t both = vreinterpretq_u64_u32(a);
    return vreinterpretq_u32_u64(vbslq_u64(low, both, vshlq_u64(both, shift)));
}

/* The same in 64-bit lanes, numbers of 2 * bits bits. */
LANE vi vi_join64(vi a, unsigned bits)
{
    const uint64x2_t low = vdupq_n_u64((UINT64_C(1) << 2 * bits) - 1);
    const int64x2_t shift = vdupq_n_s64(2 * (int64_t)bits - 32);
    return (vi){quarter_join64(a.q0, low, shift), quarter_join64(a.q4, low, shift),
                quarter_join64(a.q8, low, shift), quarter_join64(a.q12, low, shift)};
}

/* The upper number goes to both halves, as far left or right as it lies over them. */
LANE uint32x4_t quarter_join128(uint32x4_t a, int64x2_t shift)
{
    const uint64x2_t both = vreinterpretq_u64_u32(a);
    const uint64x2_t upper = vshlq_u64(vdupq_laneq_u64(both, 1), shift);
    const uint64x2_t lower = vsetq_lane_u64(0, both, 1);
    return vreinterpretq_u32_u64(vorrq_u64(lower, upper));
}

/* The same in 128-bit lanes, numbers of 4 * bits bits. What is behind them is unspecified. */
LANE vi vi_join128(vi a, unsigned bits)
{
    const int64_t n = 4 * (int64_t)bits;
    const int64x2_t shift = vcombine_s64(vdup_n_s64(n), vdup_n_s64(n - 64));
    return (vi){quarter_join128(a.q0, shift), quarter_join128(a.q4, shift),
                quarter_join128(a.q8, shift), quarter_join128(a.q12, shift)};
}

/* Stores the 128-bit lanes `stride` bytes apart, in ascending order. */
LANE void vi_store_quarters(uint8_t *at, vi a, size_t stride)
{
    quarter_store(at, a.q0);
    quarter_store(at + stride, a.q4);
    quarter_store(at + 2 * stride, a.q8);
    quarter_store(at + 3 * stride, a.q12);
}

/* Loads four times sixteen bytes from at + (q * half) / 2, q = 0..3. */
LANE vi vi_load_quarters(const uint8_t *at, size_t half)
{
    return (vi){quarter_load(at), quarter_load(at + half / 2), quarter_load(at + half),
                quarter_load(at + 3 * half / 2)};
}

/* Bytes of each 128-bit lane, chosen by the bytes of `which` (0..15). */
LANE vi vi_shuffle_bytes(vi a, vi which)
{
    return (vi){quarter_shuffle(a.q0, vreinterpretq_u8_u32(which.q0)),
                quarter_shuffle(a.q4, vreinterpretq_u8_u32(which.q4)),
                quarter_shuffle(a.q8, vreinterpretq_u8_u32(which.q8)),
                quarter_shuffle(a.q12, vreinterpretq_u8_u32(which.q12))};
}

#endif
