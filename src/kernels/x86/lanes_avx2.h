/* Sixteen lanes in two registers: AVX2 and F16C. The operations are those of lanes/lane.h. */
#ifndef TSK_LANES_AVX2_H
#define TSK_LANES_AVX2_H

#include <immintrin.h>

#include "kernels/lanes/lane.h"

/* low: lanes 0..7, high: lanes 8..15 */
typedef struct vf {
    __m256 low, high;
} vf;
typedef struct vi {
    __m256i low, high;
} vi;
typedef vi vm; /* all bits of a lane are 1 (true) or 0 */
typedef __m256i vs;

/* ---- masks ---- */

LANE vm vm_first(size_t n)
{
    const __m256i lane = _mm256_set_epi32(7, 6, 5, 4, 3, 2, 1, 0);
    return (vm){_mm256_cmpgt_epi32(_mm256_set1_epi32((int)n), lane),
                _mm256_cmpgt_epi32(_mm256_set1_epi32((int)n - 8), lane)};
}

LANE vm vm_none(void)
{
    return (vm){_mm256_setzero_si256(), _mm256_setzero_si256()};
}

LANE vm vm_and(vm a, vm b)
{
    return (vm){_mm256_and_si256(a.low, b.low), _mm256_and_si256(a.high, b.high)};
}

LANE vm vm_or(vm a, vm b)
{
    return (vm){_mm256_or_si256(a.low, b.low), _mm256_or_si256(a.high, b.high)};
}

LANE uint32_t vm_bits(vm a)
{
    const int low = _mm256_movemask_ps(_mm256_castsi256_ps(a.low));
    const int high = _mm256_movemask_ps(_mm256_castsi256_ps(a.high));
    return (uint32_t)low | (uint32_t)high << 8;
}

LANE vm vm_of_bits(uint32_t bits)
{
    const __m256i low = _mm256_set_epi32(128, 64, 32, 16, 8, 4, 2, 1);
    const __m256i high = _mm256_slli_epi32(low, 8);
    const __m256i all = _mm256_set1_epi32((int)bits);
    return (vm){_mm256_cmpeq_epi32(_mm256_and_si256(all, low), low),
                _mm256_cmpeq_epi32(_mm256_and_si256(all, high), high)};
}

/* ---- floats ---- */

LANE vf vf_load(const void *at)
{
    const float *x = (const float *)at;
    return (vf){_mm256_loadu_ps(x), _mm256_loadu_ps(x + 8)};
}

LANE vf vf_load_first(const void *at, size_t n)
{
    const float *x = (const float *)at;
    const vm mask = vm_first(n);
    return (vf){_mm256_maskload_ps(x, mask.low), _mm256_maskload_ps(x + 8, mask.high)};
}

LANE void vf_store(void *at, vf a)
{
    float *x = (float *)at;
    _mm256_storeu_ps(x, a.low);
    _mm256_storeu_ps(x + 8, a.high);
}

/* Stores a whole line past the caches; vf_stored_past is the fence that makes it visible. */
LANE void vf_store_past(void *at, vf a)
{
    float *x = (float *)at;
    _mm256_stream_ps(x, a.low);
    _mm256_stream_ps(x + 8, a.high);
}

LANE void vf_stored_past(void)
{
    _mm_sfence();
}

LANE void vf_store_first(void *at, vf a, size_t n)
{
    float *x = (float *)at;
    const vm mask = vm_first(n);
    _mm256_maskstore_ps(x, mask.low, a.low);
    _mm256_maskstore_ps(x + 8, mask.high, a.high);
}

LANE vf vf_of(float x)
{
    return (vf){_mm256_set1_ps(x), _mm256_set1_ps(x)};
}

LANE vf vf_add(vf a, vf b)
{
    return (vf){_mm256_add_ps(a.low, b.low), _mm256_add_ps(a.high, b.high)};
}

LANE vf vf_sub(vf a, vf b)
{
    return (vf){_mm256_sub_ps(a.low, b.low), _mm256_sub_ps(a.high, b.high)};
}

LANE vf vf_mul(vf a, vf b)
{
    return (vf){_mm256_mul_ps(a.low, b.low), _mm256_mul_ps(a.high, b.high)};
}

LANE vm vf_below(vf a, vf b)
{
    return (vm){_mm256_castps_si256(_mm256_cmp_ps(a.low, b.low, _CMP_LT_OQ)),
                _mm256_castps_si256(_mm256_cmp_ps(a.high, b.high, _CMP_LT_OQ))};
}

LANE vm vf_equal(vf a, vf b)
{
    return (vm){_mm256_castps_si256(_mm256_cmp_ps(a.low, b.low, _CMP_EQ_OQ)),
                _mm256_castps_si256(_mm256_cmp_ps(a.high, b.high, _CMP_EQ_OQ))};
}

LANE vf vf_select(vm where, vf yes, vf no)
{
    return (vf){_mm256_blendv_ps(no.low, yes.low, _mm256_castsi256_ps(where.low)),
                _mm256_blendv_ps(no.high, yes.high, _mm256_castsi256_ps(where.high))};
}

LANE vi vi_bits(vf a)
{
    return (vi){_mm256_castps_si256(a.low), _mm256_castps_si256(a.high)};
}

LANE vf vf_bits(vi a)
{
    return (vf){_mm256_castsi256_ps(a.low), _mm256_castsi256_ps(a.high)};
}

/* |a| < limit ? |a| : limit, for limit >= 0. */
LANE vf vf_least(vf a, vf limit)
{
    const __m256 sign = _mm256_set1_ps(-0.0f);
    return (vf){_mm256_min_ps(_mm256_andnot_ps(sign, a.low), limit.low),
                _mm256_min_ps(_mm256_andnot_ps(sign, a.high), limit.high)};
}

/* Towards zero, for 0 <= a < 2^31. */
LANE vi vi_truncate(vf a)
{
    return (vi){_mm256_cvttps_epi32(a.low), _mm256_cvttps_epi32(a.high)};
}

/* For a < 2^31. */
LANE vf vf_of_vi(vi a)
{
    return (vf){_mm256_cvtepi32_ps(a.low), _mm256_cvtepi32_ps(a.high)};
}

/* Lane j takes lane j + 8, then j + 4, j + 2, j + 1. */
LANE float vf_sum(vf a)
{
    const __m256 eight = _mm256_add_ps(a.low, a.high);
    const __m128 four = _mm_add_ps(_mm256_castps256_ps128(eight), _mm256_extractf128_ps(eight, 1));
    const __m128 two = _mm_add_ps(four, _mm_movehl_ps(four, four));
    return _mm_cvtss_f32(_mm_add_ss(two, _mm_movehdup_ps(two)));
}

/* ---- integers ---- */

LANE vi vi_load(const void *at)
{
    const __m256i *x = (const __m256i *)at;
    return (vi){_mm256_loadu_si256(x), _mm256_loadu_si256(x + 1)};
}

LANE void vi_store(void *at, vi a)
{
    __m256i *x = (__m256i *)at;
    _mm256_storeu_si256(x, a.low);
    _mm256_storeu_si256(x + 1, a.high);
}

LANE void vi_store_first(void *at, vi a, size_t n)
{
    vf_store_first(at, vf_bits(a), n);
}

LANE vi vi_of(uint32_t x)
{
    return (vi){_mm256_set1_epi32((int)x), _mm256_set1_epi32((int)x)};
}

LANE vi vi_and(vi a, vi b)
{
    return vm_and(a, b);
}

LANE vi vi_or(vi a, vi b)
{
    return vm_or(a, b);
}

LANE vi vi_xor(vi a, vi b)
{
    return (vi){_mm256_xor_si256(a.low, b.low), _mm256_xor_si256(a.high, b.high)};
}

LANE vi vi_add(vi a, vi b)
{
    return (vi){_mm256_add_epi32(a.low, b.low), _mm256_add_epi32(a.high, b.high)};
}

LANE vi vi_sub(vi a, vi b)
{
    return (vi){_mm256_sub_epi32(a.low, b.low), _mm256_sub_epi32(a.high, b.high)};
}

LANE vi vi_max(vi a, vi b)
{
    return (vi){_mm256_max_epu32(a.low, b.low), _mm256_max_epu32(a.high, b.high)};
}

LANE vi vi_shl(vi a, unsigned n)
{
    return (vi){_mm256_slli_epi32(a.low, (int)n), _mm256_slli_epi32(a.high, (int)n)};
}

LANE vi vi_shr(vi a, unsigned n)
{
    return (vi){_mm256_srli_epi32(a.low, (int)n), _mm256_srli_epi32(a.high, (int)n)};
}

LANE vi vi_shl_each(vi a, vi n)
{
    return (vi){_mm256_sllv_epi32(a.low, n.low), _mm256_sllv_epi32(a.high, n.high)};
}

LANE vi vi_shr_each(vi a, vi n)
{
    return (vi){_mm256_srlv_epi32(a.low, n.low), _mm256_srlv_epi32(a.high, n.high)};
}

LANE vm vi_equal(vi a, vi b)
{
    return (vm){_mm256_cmpeq_epi32(a.low, b.low), _mm256_cmpeq_epi32(a.high, b.high)};
}

LANE vm vi_at_least(vi a, vi b)
{
    return vi_equal(vi_max(a, b), a);
}

LANE vm vi_nonzero(vi a)
{
    return vi_xor(vi_equal(a, vi_of(0)), vi_of(UINT32_MAX));
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
    return (vi){_mm256_blendv_epi8(no.low, yes.low, where.low),
                _mm256_blendv_epi8(no.high, yes.high, where.high)};
}

/* The largest lane. */
LANE uint32_t vi_top(vi a)
{
    const __m256i eight = _mm256_max_epu32(a.low, a.high);
    const __m128i four =
        _mm_max_epu32(_mm256_castsi256_si128(eight), _mm256_extracti128_si256(eight, 1));
    const __m128i two = _mm_max_epu32(four, _mm_unpackhi_epi64(four, four));
    return (uint32_t)_mm_cvtsi128_si32(_mm_max_epu32(two, _mm_shuffle_epi32(two, 1)));
}

/* ---- 16 bits ---- */

LANE vs vs_load(const void *at)
{
    return _mm256_loadu_si256((const __m256i *)at);
}

LANE vs vs_load_first(const void *at, size_t n)
{
    uint16_t padded[TSK_LANES] = {0};
    memcpy(padded, at, n * sizeof padded[0]);
    return vs_load(padded);
}

LANE void vs_store(void *at, vs a)
{
    _mm256_storeu_si256((__m256i *)at, a);
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
    return _mm256_permute4x64_epi64(_mm256_packus_epi32(a.low, a.high), _MM_SHUFFLE(3, 1, 2, 0));
}

LANE vi vi_widen(vs a)
{
    return (vi){_mm256_cvtepu16_epi32(_mm256_castsi256_si128(a)),
                _mm256_cvtepu16_epi32(_mm256_extracti128_si256(a, 1))};
}

/* Nearest even; a NaN becomes quiet. */
LANE vs vs_f16_of(vf a)
{
    return _mm256_set_m128i(_mm256_cvtps_ph(a.high, _MM_FROUND_TO_NEAREST_INT),
                            _mm256_cvtps_ph(a.low, _MM_FROUND_TO_NEAREST_INT));
}

LANE vf vf_of_f16(vs a)
{
    return (vf){_mm256_cvtph_ps(_mm256_castsi256_si128(a)),
                _mm256_cvtph_ps(_mm256_extracti128_si256(a, 1))};
}

/* A code: the magnitude (< 2^16), and `sign` or-ed to it where x is negative and it is not 0. */
LANE vs vs_code(vi magnitude, vf x, uint32_t sign)
{
    const vi bits = vi_bits(x);
    const __m256i code = _mm256_packus_epi32(magnitude.low, magnitude.high);
    const __m256i negative = _mm256_srai_epi16(_mm256_packs_epi32(bits.low, bits.high), 15);
    const __m256i zero = _mm256_cmpeq_epi16(code, _mm256_setzero_si256());
    const __m256i signs = _mm256_and_si256(negative, _mm256_set1_epi16((short)sign));
    const __m256i both = _mm256_or_si256(code, _mm256_andnot_si256(zero, signs));
    return _mm256_permute4x64_epi64(both, _MM_SHUFFLE(3, 1, 2, 0));
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
    __m256d d0, d4, d8, d12; /* by their first lane */
} vd;

LANE vd vd_zero(void)
{
    const __m256d zero = _mm256_setzero_pd();
    return (vd){zero, zero, zero, zero};
}

LANE vd vd_of(vf a)
{
    return (vd){_mm256_cvtps_pd(_mm256_castps256_ps128(a.low)),
                _mm256_cvtps_pd(_mm256_extractf128_ps(a.low, 1)),
                _mm256_cvtps_pd(_mm256_castps256_ps128(a.high)),
                _mm256_cvtps_pd(_mm256_extractf128_ps(a.high, 1))};
}

LANE vd vd_add(vd a, vd b)
{
    return (vd){_mm256_add_pd(a.d0, b.d0), _mm256_add_pd(a.d4, b.d4), _mm256_add_pd(a.d8, b.d8),
                _mm256_add_pd(a.d12, b.d12)};
}

LANE vd vd_mul(vd a, vd b)
{
    return (vd){_mm256_mul_pd(a.d0, b.d0), _mm256_mul_pd(a.d4, b.d4), _mm256_mul_pd(a.d8, b.d8),
                _mm256_mul_pd(a.d12, b.d12)};
}

/* In the order of vf_sum. */
LANE double vd_sum(vd a)
{
    const __m256d four = _mm256_add_pd(_mm256_add_pd(a.d0, a.d8), _mm256_add_pd(a.d4, a.d12));
    const __m128d two = _mm_add_pd(_mm256_castpd256_pd128(four), _mm256_extractf128_pd(four, 1));
    return _mm_cvtsd_f64(_mm_add_sd(two, _mm_unpackhi_pd(two, two)));
}

/* ---- thin products ---- */

#define DOT_RANKS 1u /* vectors at a time whose sums with four rows fit into registers */

#endif
