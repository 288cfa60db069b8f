/* Lists of lanes, and codes as bit strings, at the kernel set avx512. */
#ifndef TSK_LANES_AVX512_LIST_H
#define TSK_LANES_AVX512_LIST_H

#include "kernels/x86/lanes_avx512.h"
#include "kernels/x86/quarter.h"

/* ---- lists ---- */

/* Appends the lanes asked for: first + lane to `index`, the lane itself to `value`. May scribble on
 * sixteen entries. Returns how many. */
LANE size_t vf_collect(vf a, vm where, uint32_t first, uint32_t *index, float *value)
{
    const __m512i lane = _mm512_set_epi32(15, 14, 13, 12, 11, 10, 9, 8, 7, 6, 5, 4, 3, 2, 1, 0);
    const __m512i at = _mm512_add_epi32(vi_of(first), lane);
    _mm512_storeu_si512(index, _mm512_maskz_compress_epi32(where, at));
    _mm512_storeu_ps(value, _mm512_maskz_compress_ps(where, a));
    return (size_t)__builtin_popcount(vm_bits(where));
}

/* ---- codes as bit strings ---- */

/* Each 32-bit lane holds two numbers of `bits` bits in its halves: brings them together. */
LANE vi vi_join32(vi a, unsigned bits)
{
    const __m512i low = vi_of((1u << bits) - 1);
    const __m512i high = _mm512_srlv_epi32(a, vi_of(16 - bits));
    return _mm512_ternarylogic_epi32(low, a, high, 0xca); /* low ? a : high */
}

/* The same in 64-bit lanes, numbers of 2 * bits bits. */
LANE vi vi_join64(vi a, unsigned bits)
{
    const __m512i low = _mm512_set1_epi64((long long)((UINT64_C(1) << 2 * bits) - 1));
    const __m512i high = _mm512_srlv_epi64(a, _mm512_set1_epi64(32 - 2 * (long long)bits));
    return _mm512_ternarylogic_epi32(low, a, high, 0xca);
}

/* The same in 128-bit lanes, numbers of 4 * bits bits. What is behind them is unspecified. */
LANE vi vi_join128(vi a, unsigned bits)
{
    const long long below = bits == 16 ? -1 : (long long)((UINT64_C(1) << 4 * bits) - 1);
    const __m512i low = _mm512_set_epi64(0, below, 0, below, 0, below, 0, below);
    const __m512i upper = _mm512_shuffle_epi32(a, _MM_PERM_DCDC);
    const __m512i high = _mm512_rolv_epi64(upper, _mm512_set1_epi64(4 * (long long)bits));
    return _mm512_ternarylogic_epi32(low, a, high, 0xca);
}

/* Stores the 128-bit lanes `stride` bytes apart, in ascending order. */
LANE void vi_store_quarters(uint8_t *at, vi a, size_t stride)
{
    quarter_store(at, _mm512_castsi512_si128(a));
    quarter_store(at + stride, _mm512_extracti32x4_epi32(a, 1));
    quarter_store(at + 2 * stride, _mm512_extracti32x4_epi32(a, 2));
    quarter_store(at + 3 * stride, _mm512_extracti32x4_epi32(a, 3));
}

/* Loads four times sixteen bytes from at + (q * half) / 2, q = 0..3. */
LANE vi vi_load_quarters(const uint8_t *at, size_t half)
{
    const __m128i q0 = quarter_load(at);
    const __m128i q1 = quarter_load(at + half / 2);
    const __m128i q2 = quarter_load(at + half);
    const __m128i q3 = quarter_load(at + 3 * half / 2);
    const __m256i low = _mm256_inserti128_si256(_mm256_castsi128_si256(q0), q1, 1);
    const __m256i high = _mm256_inserti128_si256(_mm256_castsi128_si256(q2), q3, 1);
    return _mm512_inserti64x4(_mm512_castsi256_si512(low), high, 1);
}

/* Bytes of each 128-bit lane, chosen by the bytes of `which` (0..15). */
LANE vi vi_shuffle_bytes(vi a, vi which)
{
    return _mm512_shuffle_epi8(a, which);
}

#endif
