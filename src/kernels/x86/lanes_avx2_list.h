/* Lists of lanes, and codes as bit strings, at the kernel set avx2. */
#ifndef TSK_LANES_AVX2_LIST_H
#define TSK_LANES_AVX2_LIST_H

#include "kernels/lanes/collect_order.h"
#include "kernels/x86/lanes_avx2.h"
#include "kernels/x86/quarter.h"

/* ---- lists ---- */

LANE size_t quarter_collect(__m128i at, __m128i a, uint32_t where, uint32_t *index, float *value)
{
    const __m128i order = quarter_load(collect_order[where]);
    quarter_store(index, _mm_shuffle_epi8(at, order));
    quarter_store(value, _mm_shuffle_epi8(a, order));
    return collect_count(where);
}

/* Appends the lanes asked for: first + lane to `index`, the lane itself to `value`. May scribble on
 * sixteen entries. Returns how many. */
LANE size_t vf_collect(vf a, vm where, uint32_t first, uint32_t *index, float *value)
{
    const uint32_t bits = vm_bits(where);
    if (bits == 0)
        return 0;
    const vi lane = vi_bits(a);
    const __m128i four = _mm_set1_epi32(4);
    const __m128i at0 = _mm_add_epi32(_mm_set1_epi32((int)first), _mm_set_epi32(3, 2, 1, 0));
    const __m128i at4 = _mm_add_epi32(at0, four);
    const __m128i at8 = _mm_add_epi32(at4, four);
    const __m128i at12 = _mm_add_epi32(at8, four);
    size_t n = quarter_collect(at0, _mm256_castsi256_si128(lane.low), bits & 15, index, value);
    n += quarter_collect(at4, _mm256_extracti128_si256(lane.low, 1), bits >> 4 & 15, index + n,
                         value + n);
    n += quarter_collect(at8, _mm256_castsi256_si128(lane.high), bits >> 8 & 15, index + n,
                         value + n);
    n += quarter_collect(at12, _mm256_extracti128_si256(lane.high, 1), bits >> 12, index + n,
                         value + n);
    return n;
}

/* ---- codes as bit strings ---- */

LANE __m256i bits_select(__m256i where, __m256i yes, __m256i no)
{
    return _mm256_or_si256(_mm256_and_si256(where, yes), _mm256_andnot_si256(where, no));
}

/* Each 32-bit lane holds two numbers of `bits` bits in its halves: brings them together. */
LANE vi vi_join32(vi a, unsigned bits)
{
    const __m256i low = _mm256_set1_epi32((int)((1u << bits) - 1));
    const vi high = vi_shr_each(a, vi_of(16 - bits));
    return (vi){bits_select(low, a.low, high.low), bits_select(low, a.high, high.high)};
}

/* The same in 64-bit lanes, numbers of 2 * bits bits. */
LANE vi vi_join64(vi a, unsigned bits)
{
    const __m256i low = _mm256_set1_epi64x((long long)((UINT64_C(1) << 2 * bits) - 1));
    const __m256i shift = _mm256_set1_epi64x(32 - 2 * (long long)bits);
    return (vi){bits_select(low, a.low, _mm256_srlv_epi64(a.low, shift)),
                bits_select(low, a.high, _mm256_srlv_epi64(a.high, shift))};
}

/* Shifts by 64 give 0. */
LANE __m256i half_join128(__m256i a, unsigned bits)
{
    const long long n = 4 * (long long)bits;
    const __m256i upper = _mm256_unpackhi_epi64(a, a);
    const __m256i left = _mm256_sllv_epi64(upper, _mm256_set_epi64x(64, n, 64, n));
    const __m256i right = _mm256_srlv_epi64(upper, _mm256_set_epi64x(64 - n, 64, 64 - n, 64));
    const __m256i first = _mm256_and_si256(a, _mm256_set_epi64x(0, -1, 0, -1));
    return _mm256_or_si256(first, _mm256_or_si256(left, right));
}

/* The same in 128-bit lanes, numbers of 4 * bits bits. What is behind them is unspecified. */
LANE vi vi_join128(vi a, unsigned bits)
{
    return (vi){half_join128(a.low, bits), half_join128(a.high, bits)};
}

/* Stores the 128-bit lanes `stride` bytes apart, in ascending order. */
LANE void vi_store_quarters(uint8_t *at, vi a, size_t stride)
{
    quarter_store(at, _mm256_castsi256_si128(a.low));
    quarter_store(at + stride, _mm256_extracti128_si256(a.low, 1));
    quarter_store(at + 2 * stride, _mm256_castsi256_si128(a.high));
    quarter_store(at + 3 * stride, _mm256_extracti128_si256(a.high, 1));
}

/* Loads four times sixteen bytes from at + (q * half) / 2, q = 0..3. */
LANE vi vi_load_quarters(const uint8_t *at, size_t half)
{
    return (vi){_mm256_set_m128i(quarter_load(at + half / 2), quarter_load(at)),
                _mm256_set_m128i(quarter_load(at + 3 * half / 2), quarter_load(at + half))};
}

/* Bytes of each 128-bit lane, chosen by the bytes of `which` (0..15). */
LANE vi vi_shuffle_bytes(vi a, vi which)
{
    return (vi){_mm256_shuffle_epi8(a.low, which.low), _mm256_shuffle_epi8(a.high, which.high)};
}

#endif
