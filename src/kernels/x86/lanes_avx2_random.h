/* Philox at the kernel set avx2: RANDOM_STREAMS times RANDOM_LANES blocks side by side
 * (lanes/random.h). */
#ifndef TSK_LANES_AVX2_RANDOM_H
#define TSK_LANES_AVX2_RANDOM_H

#include "kernels/x86/lanes_avx2.h"

#define RANDOM_LANES 8u
#define RANDOM_STREAMS 2u

/* A word of even and of odd blocks, each in the lower half of 64 bits: the upper half is whatever
 * the last product left there, for the multiplication does not look at it. */
typedef struct vw {
    __m256i even, odd;
} vw;
typedef vw vp;      /* products */
typedef __m256i vk; /* one 32-bit number, everywhere */
typedef __m256i vl; /* RANDOM_LANES draws in order */

LANE vk vk_of(uint32_t x)
{
    return _mm256_set1_epi32((int)x);
}

/* x, x + 1, x + 2, ... */
LANE vw vw_counting(uint32_t x)
{
    const __m256i at = _mm256_add_epi32(vk_of(x), _mm256_set_epi32(0, 6, 0, 4, 0, 2, 0, 0));
    return (vw){at, _mm256_add_epi32(at, vk_of(1))};
}

LANE vp vw_mul(vw a, vk b)
{
    return (vp){_mm256_mul_epu32(a.even, b), _mm256_mul_epu32(a.odd, b)};
}

LANE vw vw_xor(vw a, vk k)
{
    return (vw){_mm256_xor_si256(a.even, k), _mm256_xor_si256(a.odd, k)};
}

LANE vw vp_low(vp p)
{
    return p;
}

/* The products' upper words ^ k */
LANE vw vp_high_xor(vp p, vk k)
{
    return (vw){_mm256_xor_si256(_mm256_srli_epi64(p.even, 32), k),
                _mm256_xor_si256(_mm256_srli_epi64(p.odd, 32), k)};
}

/* The products' upper words ^ a ^ k */
LANE vw vp_high_xor2(vp p, vw a, vk k)
{
    const vw b = vw_xor(a, k);
    return (vw){_mm256_xor_si256(_mm256_srli_epi64(p.even, 32), b.even),
                _mm256_xor_si256(_mm256_srli_epi64(p.odd, 32), b.odd)};
}

LANE vl vl_of(vw a)
{
    return _mm256_blend_epi32(a.even, _mm256_slli_epi64(a.odd, 32), 0xaa);
}

LANE vl vp_high_lanes(vp p)
{
    return _mm256_blend_epi32(_mm256_srli_epi64(p.even, 32), p.odd, 0xaa);
}

LANE vl vl_xor2(vl a, vl b, vk k)
{
    return _mm256_xor_si256(_mm256_xor_si256(b, k), a);
}

/* Lanes from, from + 1, ... of `all`. */
LANE void vi_set_lanes(vi *all, unsigned from, vl draws)
{
    if (from == 0)
        all->low = draws;
    else
        all->high = draws;
}

#endif
