/* Sixteen lanes in one register: AVX-512 F, BW, DQ and VL. The operations are those of
 * lanes/lane.h. */
#ifndef TSK_LANES_AVX512_H
#define TSK_LANES_AVX512_H

#include <immintrin.h>

#include "kernels/lanes/lane.h"

typedef __m512 vf;
typedef __m512i vi;
typedef __m256i vs;
typedef __mmask16 vm;

/* ---- floats ---- */

LANE vm vm_first(size_t n)
{
    return (vm)((1u << n) - 1);
}

LANE vf vf_load(const void *at)
{
    return _mm512_loadu_ps(at);
}

LANE vf vf_load_first(const void *at, size_t n)
{
    return _mm512_maskz_loadu_ps(vm_first(n), at);
}

LANE void vf_store(void *at, vf a)
{
    _mm512_storeu_ps(at, a);
}

/* Stores a whole line past the caches; vf_stored_past is the fence that makes it visible. */
LANE void vf_store_past(void *at, vf a)
{
    _mm512_stream_ps(at, a);
}

LANE void vf_stored_past(void)
{
    _mm_sfence();
}

LANE void vf_store_first(void *at, vf a, size_t n)
{
    _mm512_mask_storeu_ps(at, vm_first(n), a);
}

LANE vf vf_of(float x)
{
    return _mm512_set1_ps(x);
}

LANE vf vf_add(vf a, vf b)
{
    return _mm512_add_ps(a, b);
}

LANE vf vf_sub(vf a, vf b)
{
    return _mm512_sub_ps(a, b);
}

LANE vf vf_mul(vf a, vf b)
{
    return _mm512_mul_ps(a, b);
}

/* |a| < limit ? |a| : limit, for limit >= 0. */
LANE vf vf_least(vf a, vf limit)
{
    return _mm512_range_ps(a, limit, 0xa); /* the smaller magnitude, sign cleared */
}

LANE vm vf_below(vf a, vf b)
{
    return _mm512_cmp_ps_mask(a, b, _CMP_LT_OQ);
}

LANE vm vf_equal(vf a, vf b)
{
    return _mm512_cmp_ps_mask(a, b, _CMP_EQ_OQ);
}

LANE vf vf_select(vm where, vf yes, vf no)
{
    return _mm512_mask_blend_ps(where, no, yes);
}

LANE vi vi_bits(vf a)
{
    return _mm512_castps_si512(a);
}

LANE vf vf_bits(vi a)
{
    return _mm512_castsi512_ps(a);
}

/* Towards zero, for 0 <= a < 2^31. */
LANE vi vi_truncate(vf a)
{
    return _mm512_cvttps_epi32(a);
}

/* For a < 2^31. */
LANE vf vf_of_vi(vi a)
{
    return _mm512_cvtepi32_ps(a);
}

/* Lane j takes lane j + 8, then j + 4, j + 2, j + 1. */
LANE float vf_sum(vf a)
{
    const __m256 eight = _mm256_add_ps(_mm512_castps512_ps256(a), _mm512_extractf32x8_ps(a, 1));
    const __m128 four = _mm_add_ps(_mm256_castps256_ps128(eight), _mm256_extractf128_ps(eight, 1));
    const __m128 two = _mm_add_ps(four, _mm_movehl_ps(four, four));
    return _mm_cvtss_f32(_mm_add_ss(two, _mm_movehdup_ps(two)));
}

/* ---- integers ---- */

LANE vi vi_load(const void *at)
{
    return _mm512_loadu_si512(at);
}

LANE void vi_store(void *at, vi a)
{
    _mm512_storeu_si512(at, a);
}

LANE void vi_store_first(void *at, vi a, size_t n)
{
    _mm512_mask_storeu_epi32(at, vm_first(n), a);
}

LANE vi vi_of(uint32_t x)
{
    return _mm512_set1_epi32((int)x);
}

LANE vi vi_and(vi a, vi b)
{
    return _mm512_and_si512(a, b);
}

LANE vi vi_or(vi a, vi b)
{
    return _mm512_or_si512(a, b);
}

LANE vi vi_xor(vi a, vi b)
{
    return _mm512_xor_si512(a, b);
}

LANE vi vi_add(vi a, vi b)
{
    return _mm512_add_epi32(a, b);
}

LANE vi vi_sub(vi a, vi b)
{
    return _mm512_sub_epi32(a, b);
}

LANE vi vi_max(vi a, vi b)
{
    return _mm512_max_epu32(a, b);
}

LANE vi vi_shl(vi a, unsigned n)
{
    return _mm512_slli_epi32(a, n);
}

LANE vi vi_shr(vi a, unsigned n)
{
    return _mm512_srli_epi32(a, n);
}

LANE vi vi_shl_each(vi a, vi n)
{
    return _mm512_sllv_epi32(a, n);
}

LANE vi vi_shr_each(vi a, vi n)
{
    return _mm512_srlv_epi32(a, n);
}

LANE vm vi_at_least(vi a, vi b)
{
    return _mm512_cmpge_epu32_mask(a, b);
}

LANE vm vi_nonzero(vi a)
{
    return _mm512_test_epi32_mask(a, a);
}

/* a + 1 where the mask is set */
LANE vi vi_count_if(vi a, vm where)
{
    return _mm512_mask_add_epi32(a, where, a, _mm512_set1_epi32(1));
}

/* a where the mask is set, else 0 */
LANE vi vi_keep_if(vm where, vi a)
{
    return _mm512_maskz_mov_epi32(where, a);
}

LANE vi vi_select(vm where, vi yes, vi no)
{
    return _mm512_mask_blend_epi32(where, no, yes);
}

/* The largest lane. */
LANE uint32_t vi_top(vi a)
{
    return _mm512_reduce_max_epu32(a);
}

/* ---- masks ---- */

LANE vm vm_none(void)
{
    return 0;
}

LANE vm vm_and(vm a, vm b)
{
    return (vm)(a & b);
}

LANE vm vm_or(vm a, vm b)
{
    return (vm)(a | b);
}

/* Uses the instruction instead of a conversion: gcc 12 may spill 16 bits and reload 32. */
LANE uint32_t vm_bits(vm a)
{
    return _cvtmask16_u32(a);
}

LANE vm vm_of_bits(uint32_t bits)
{
    return (vm)bits;
}

/* ---- 16 bits ---- */

LANE vs vs_load(const void *at)
{
    return _mm256_loadu_si256((const __m256i *)at);
}

LANE vs vs_load_first(const void *at, size_t n)
{
    return _mm256_maskz_loadu_epi16(vm_first(n), at);
}

LANE void vs_store(void *at, vs a)
{
    _mm256_storeu_si256((__m256i *)at, a);
}

LANE void vs_store_first(void *at, vs a, size_t n)
{
    _mm256_mask_storeu_epi16(at, vm_first(n), a);
}

/* For a < 2^16. */
LANE vs vs_narrow(vi a)
{
    return _mm512_cvtepi32_epi16(a);
}

LANE vi vi_widen(vs a)
{
    return _mm512_cvtepu16_epi32(a);
}

/* Nearest even; a NaN becomes quiet. */
LANE vs vs_f16_of(vf a)
{
    return _mm512_cvtps_ph(a, _MM_FROUND_TO_NEAREST_INT | _MM_FROUND_NO_EXC);
}

LANE vf vf_of_f16(vs a)
{
    return _mm512_cvtph_ps(a);
}

/* A code: the magnitude (< 2^16), and `sign` or-ed to it where x is negative and it is not 0. */
LANE vs vs_code(vi magnitude, vf x, uint32_t sign)
{
    const vm negative = _mm512_movepi32_mask(vi_bits(x));
    const vm where = _mm512_mask_test_epi32_mask(negative, magnitude, magnitude);
    return vs_narrow(_mm512_mask_or_epi32(magnitude, where, magnitude, vi_of(sign)));
}

/* Stores 32 codes. */
LANE void vi_store_codes(void *at, vi magnitude0, vf x0, vi magnitude1, vf x1, uint32_t sign)
{
    const __m512i magnitude = _mm512_packus_epi32(magnitude0, magnitude1);
    const __m512i signs = _mm512_packs_epi32(vi_bits(x0), vi_bits(x1));
    const __m512i signed_code = _mm512_or_si512(magnitude, _mm512_set1_epi16((short)sign));
    const __mmask32 where =
        _mm512_mask_test_epi16_mask(_mm512_movepi16_mask(signs), magnitude, magnitude);
    const __m512i code = _mm512_mask_mov_epi16(magnitude, where, signed_code);
    const __m512i order = _mm512_set_epi64(7, 5, 3, 1, 6, 4, 2, 0);
    _mm512_storeu_si512(at, _mm512_permutexvar_epi64(order, code));
}

/* ---- doubles ---- */

typedef struct vd {
    __m512d low, high; /* lanes 0..7, 8..15 */
} vd;

LANE vd vd_zero(void)
{
    return (vd){_mm512_setzero_pd(), _mm512_setzero_pd()};
}

LANE vd vd_of(vf a)
{
    return (vd){_mm512_cvtps_pd(_mm512_castps512_ps256(a)),
                _mm512_cvtps_pd(_mm512_extractf32x8_ps(a, 1))};
}

LANE vd vd_add(vd a, vd b)
{
    return (vd){_mm512_add_pd(a.low, b.low), _mm512_add_pd(a.high, b.high)};
}

LANE vd vd_mul(vd a, vd b)
{
    return (vd){_mm512_mul_pd(a.low, b.low), _mm512_mul_pd(a.high, b.high)};
}

/* In the order of vf_sum. */
LANE double vd_sum(vd a)
{
    const __m512d eight = _mm512_add_pd(a.low, a.high);
    const __m256d four =
        _mm256_add_pd(_mm512_castpd512_pd256(eight), _mm512_extractf64x4_pd(eight, 1));
    const __m128d two = _mm_add_pd(_mm256_castpd256_pd128(four), _mm256_extractf128_pd(four, 1));
    return _mm_cvtsd_f64(_mm_add_sd(two, _mm_unpackhi_pd(two, two)));
}

/* ---- thin products ---- */

#define DOT_RANKS 4u /* vectors at a time whose sums with four rows fit into registers */

#endif
