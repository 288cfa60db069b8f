/* Philox at the kernel set avx512: RANDOM_STREAMS times RANDOM_LANES blocks side by side
 * (lanes/random.h). */
#ifndef TSK_LANES_AVX512_RANDOM_H
#define TSK_LANES_AVX512_RANDOM_H

#include "kernels/x86/lanes_avx512.h"

#define RANDOM_LANES 16u
#define RANDOM_STREAMS 2u

/* A word of even and of odd blocks, each in the lower half of 64 bits: the upper half is whatever
 * the last product left there, for the multiplication does not look at it. */
typedef struct vw {
    __m512i even, odd;
} vw;
typedef vw vp;      /* products */
typedef __m512i vk; /* one 32-bit number, everywhere */
typedef __m512i vl; /* RANDOM_LANES draws in order */

LANE vk vk_of(uint32_t x)
{
    return _mm512_set1_epi32((int)x);
}

/* x, x + 1, x + 2, ... */
LANE vw vw_counting(uint32_t x)
{
    const __m512i even = _mm512_set_epi32(0, 14, 0, 12, 0, 10, 0, 8, 0, 6, 0, 4, 0, 2, 0, 0);
    const __m512i at = _mm512_add_epi32(vk_of(x), even);
    return (vw){at, _mm512_add_epi32(at, vk_of(1))};
}

LANE vp vw_mul(vw a, vk b)
{
    return (vp){_mm512_mul_epu32(a.even, b), _mm512_mul_epu32(a.odd, b)};
}

LANE vw vw_xor(vw a, vk k)
{
    return (vw){_mm512_xor_si512(a.even, k), _mm512_xor_si512(a.odd, k)};
}

LANE vw vp_low(vp p)
{
    return p;
}

/* The products' upper words in the lower halves. Shifts and shuffles have one port each: one of
 * either keeps both busy. */
LANE vw vp_high(vp p)
{
    return (vw){_mm512_srli_epi64(p.even, 32), _mm512_shuffle_epi32(p.odd, _MM_PERM_DDBB)};
}

/* The products' upper words ^ k */
LANE vw vp_high_xor(vp p, vk k)
{
    return vw_xor(vp_high(p), k);
}

/* The products' upper words ^ a ^ k */
LANE vw vp_high_xor2(vp p, vw a, vk k)
{
    const vw high = vp_high(p);
    return (vw){_mm512_ternarylogic_epi32(high.even, a.even, k, 0x96),
                _mm512_ternarylogic_epi32(high.odd, a.odd, k, 0x96)};
}

LANE vl vl_of(vw a)
{
    return _mm512_mask_shuffle_epi32(a.even, 0xaaaa, a.odd, _MM_PERM_CCAA);
}

LANE vl vp_high_lanes(vp p)
{
    return _mm512_mask_shuffle_epi32(p.odd, 0x5555, p.even, _MM_PERM_DDBB);
}

LANE vl vl_xor2(vl a, vl b, vk k)
{
    return _mm512_ternarylogic_epi32(a, b, k, 0x96);
}

/* Lanes from, from + 1, ... of `all`: all of them. */
LANE void vi_set_lanes(vi *all, unsigned from, vl draws)
{
    (void)from;
    *all = draws;
}

#endif
