/* Philox at the kernel set neon: RANDOM_STREAMS times RANDOM_LANES blocks side by side
 * (lanes/random.h). */
#ifndef TSK_LANES_NEON_RANDOM_H
#define TSK_LANES_NEON_RANDOM_H

#include "kernels/arm/lanes_neon.h"

#define RANDOM_LANES 16u
#define RANDOM_STREAMS 1u

typedef vi vw;
typedef struct vp {
    vi low, high; /* of the 64-bit products */
} vp;
typedef uint32x4_t vk; /* one 32-bit number, everywhere */
typedef vi vl;         /* RANDOM_LANES draws in order */

LANE vk vk_of(uint32_t x)
{
    return vdupq_n_u32(x);
}

/* x, x + 1, x + 2, ... */
LANE vw vw_counting(uint32_t x)
{
    return vi_add(vi_of(x), vi_lanes());
}

LANE uint32x4_t quarter_mul_high(uint32x4_t a, vk b)
{
    const uint64x2_t low = vmull_u32(vget_low_u32(a), vget_low_u32(b));
    const uint64x2_t high = vmull_high_u32(a, b);
    return vuzp2q_u32(vreinterpretq_u32_u64(low), vreinterpretq_u32_u64(high));
}

LANE vp vw_mul(vw a, vk b)
{
    const vi high = {quarter_mul_high(a.q0, b), quarter_mul_high(a.q4, b),
                     quarter_mul_high(a.q8, b), quarter_mul_high(a.q12, b)};
    const vi low = {vmulq_u32(a.q0, b), vmulq_u32(a.q4, b), vmulq_u32(a.q8, b),
                    vmulq_u32(a.q12, b)};
    return (vp){low, high};
}

LANE vw vw_xor(vw a, vk k)
{
    return vi_xor(a, (vi){k, k, k, k});
}

LANE vw vp_low(vp p)
{
    return p.low;
}

/* The products' upper words ^ k */
LANE vw vp_high_xor(vp p, vk k)
{
    return vw_xor(p.high, k);
}

/* The products' upper words ^ a ^ k */
LANE vw vp_high_xor2(vp p, vw a, vk k)
{
    return vi_xor(p.high, vw_xor(a, k));
}

LANE vl vl_of(vw a)
{
    return a;
}

LANE vl vp_high_lanes(vp p)
{
    return p.high;
}

LANE vl vl_xor2(vl a, vl b, vk k)
{
    return vi_xor(a, vw_xor(b, k));
}

/* Lanes from, from + 1, ... of `all`: all of them. */
LANE void vi_set_lanes(vi *all, unsigned from, vl draws)
{
    (void)from;
    *all = draws;
}

#endif
