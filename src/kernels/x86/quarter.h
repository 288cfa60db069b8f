/* Sixteen bytes at any address. */
#ifndef TSK_QUARTER_H
#define TSK_QUARTER_H

#include <immintrin.h>

#include "kernels/lanes/lane.h"

LANE __m128i quarter_load(const void *at)
{
    return _mm_loadu_si128((const __m128i *)at);
}

LANE void quarter_store(void *at, __m128i a)
{
    _mm_storeu_si128((__m128i *)at, a);
}

#endif
