#include "kernels/known.h"

#include <math.h>
#include <stdio.h>
#include <string.h>

#define HALVES 65536u

static size_t tell(const char *what, uint64_t at, uint64_t got, uint64_t expected)
{
    printf("%s at 0x%llx: 0x%llx, expected 0x%llx\n", what, (unsigned long long)at,
           (unsigned long long)got, (unsigned long long)expected);
    return 1;
}

static float float_of(uint32_t bits)
{
    float x;
    memcpy(&x, &bits, sizeof x);
    return x;
}

static uint32_t bits_of(float x)
{
    uint32_t bits;
    memcpy(&bits, &x, sizeof bits);
    return bits;
}

/* ---- Philox ---- */

/* Block b gives draws (b / 16) * 64 + b % 16 + 0, 16, 32, 48. */
static size_t philox_wrong(const struct tsk_table *table, const uint32_t counter[4],
                           const uint32_t key[2], const uint32_t expected[4])
{
    const struct tsk_stream stream = {{key[0], key[1]}, {counter[1], counter[2], counter[3]}};
    uint32_t random[TSK_RANDOM_GROUP];
    size_t wrong = 0;
    table->random_u32(&stream, (uint64_t)(counter[0] / 16) * TSK_RANDOM_GROUP, TSK_RANDOM_GROUP,
                      random);
    for (uint32_t word = 0; word < 4; word++) {
        const uint32_t got = random[counter[0] % 16 + 16 * word];
        if (got != expected[word])
            wrong += tell("philox", word, got, expected[word]);
    }
    return wrong;
}

size_t known_philox(const struct tsk_table *table)
{
    static const struct {
        uint32_t counter[4], key[2], expected[4];
    } vectors[] = {
        {{0, 0, 0, 0}, {0, 0}, {0x6627e8d5u, 0xe169c58du, 0xbc57ac4cu, 0x9b00dbd8u}},
        {{0xffffffffu, 0xffffffffu, 0xffffffffu, 0xffffffffu},
         {0xffffffffu, 0xffffffffu},
         {0x408f276du, 0x41c83b0eu, 0xa20bc7c6u, 0x6d5451fdu}},
        {{0x243f6a88u, 0x85a308d3u, 0x13198a2eu, 0x03707344u},
         {0xa4093822u, 0x299f31d0u},
         {0xd16cfe09u, 0x94fdccebu, 0x5001e420u, 0x24126ea1u}},
    };
    size_t wrong = 0;
    for (size_t i = 0; i < sizeof vectors / sizeof vectors[0]; i++)
        wrong += philox_wrong(table, vectors[i].counter, vectors[i].key, vectors[i].expected);
    return wrong;
}

/* ---- halves ---- */

struct half_format {
    const char *name;
    int mantissa_bits;
    int exponent_bits;
};

static const struct half_format f16 = {"f16", 10, 5};
static const struct half_format bf16 = {"bf16", 7, 8};

static uint32_t infinity_of(const struct half_format *format)
{
    return ((1u << format->exponent_bits) - 1) << format->mantissa_bits;
}

/* The value of a finite half without its sign, from its definition. */
static double half_value(const struct half_format *format, uint32_t magnitude)
{
    const int bias = (1 << (format->exponent_bits - 1)) - 1;
    const int exponent = (int)(magnitude >> format->mantissa_bits);
    const uint32_t hidden = exponent == 0 ? 0 : 1u << format->mantissa_bits;
    const uint32_t mantissa = (magnitude & ((1u << format->mantissa_bits) - 1)) | hidden;
    return ldexp(mantissa, (exponent == 0 ? 1 : exponent) - bias - format->mantissa_bits);
}

static void halves_of(const struct tsk_table *table, const struct half_format *format,
                      const float *in, size_t count, uint16_t *out)
{
    if (format == &f16)
        (void)table->f16_from_f32(in, count, (uint8_t *)out);
    else
        (void)table->bf16_from_f32(in, count, (uint8_t *)out);
}

static uint32_t floats_of(const struct tsk_table *table, const struct half_format *format,
                          const uint16_t *in, size_t count, float *out)
{
    return format == &f16 ? table->f16_add_f32(out, (const uint8_t *)in, count, 1.0f)
                          : table->bf16_add_f32(out, (const uint8_t *)in, count, 1.0f);
}

/* All halves to float (added to -0, which keeps every value) and back. */
static size_t half_values_wrong(const struct tsk_table *table, const struct half_format *format)
{
    static uint16_t half[HALVES], back[HALVES];
    static float value[HALVES];
    const uint32_t infinity = infinity_of(format);
    const uint32_t quiet = 1u << (format->mantissa_bits - 1);
    size_t wrong = 0;
    for (uint32_t i = 0; i < HALVES; i++) {
        half[i] = (uint16_t)i;
        value[i] = -0.0f;
    }
    for (uint32_t i = 0; i < HALVES; i++) {
        const uint32_t magnitude = i & 0x7fffu;
        const uint32_t bad = floats_of(table, format, &half[i], 1, &value[i]);
        if (bad != (magnitude >= infinity))
            wrong += tell(format->name, i, bad, !bad);
        if (magnitude < infinity && (fabs((double)value[i]) != half_value(format, magnitude) ||
                                     !signbit(value[i]) != !(i & 0x8000u)))
            wrong += tell(format->name, i, bits_of(value[i]), i);
    }
    halves_of(table, format, value, HALVES, back);
    for (uint32_t i = 0; i < HALVES; i++) {
        const uint32_t expected = (i & 0x7fffu) > infinity ? i | quiet : i;
        if (back[i] != expected)
            wrong += tell(format->name, i, back[i], expected);
    }
    return wrong;
}

/* Between two neighbours: the middle goes to the even one, a little aside to the nearer one. */
static size_t half_ties_wrong(const struct tsk_table *table, const struct half_format *format)
{
    const uint32_t infinity = infinity_of(format);
    size_t wrong = 0;
    for (uint32_t low = 0; low < infinity; low++) {
        const double below = half_value(format, low);
        const double above = low + 1 == infinity
                                 ? half_value(format, low) + (below - half_value(format, low - 1))
                                 : half_value(format, low + 1);
        const float middle = (float)((below + above) / 2); /* exact: a float has bits to spare */
        const float x[4] = {middle, nextafterf(middle, 0), nextafterf(middle, INFINITY), -middle};
        const uint32_t even = low + (low & 1);
        const uint32_t expected[4] = {even, low, low + 1, even | 0x8000u};
        uint16_t got[4];
        halves_of(table, format, x, 4, got);
        for (unsigned i = 0; i < 4; i++)
            if (got[i] != expected[i])
                wrong += tell(format->name, bits_of(x[i]), got[i], expected[i]);
    }
    return wrong;
}

size_t known_f16_values(const struct tsk_table *table)
{
    return half_values_wrong(table, &f16);
}

size_t known_f16_ties(const struct tsk_table *table)
{
    return half_ties_wrong(table, &f16);
}

size_t known_bf16_values(const struct tsk_table *table)
{
    return half_values_wrong(table, &bf16);
}

size_t known_bf16_ties(const struct tsk_table *table)
{
    return half_ties_wrong(table, &bf16);
}

/* ---- bit strings ---- */

static size_t bit_string_wrong(const struct tsk_table *table, unsigned bits)
{
    uint16_t codes[333], back[333];
    uint8_t expected[sizeof codes] = {0}, packed[sizeof codes];
    const size_t count = sizeof codes / sizeof codes[0];
    const size_t len = (count * bits + 7) / 8;
    uint32_t random = bits;
    for (size_t i = 0; i < count; i++) {
        random = random * 1664525u + 1013904223u;
        codes[i] = (uint16_t)(random >> (32 - bits));
        for (unsigned j = 0; j < bits; j++)
            if (codes[i] >> j & 1)
                expected[(i * bits + j) / 8] |= (uint8_t)(1u << (i * bits + j) % 8);
    }
    table->pack_codes(codes, count, bits, packed);
    table->unpack_codes(expected, count, bits, back);
    size_t wrong = 0;
    if (memcmp(packed, expected, len) != 0)
        wrong += tell("pack_codes", bits, 0, 0);
    if (memcmp(back, codes, sizeof codes) != 0)
        wrong += tell("unpack_codes", bits, 0, 0);
    return wrong;
}

size_t known_bit_strings(const struct tsk_table *table)
{
    size_t wrong = 0;
    for (unsigned bits = 1; bits <= 16; bits++)
        wrong += bit_string_wrong(table, bits);
    return wrong;
}

/* ---- sums ---- */

/* 2^53 swallows a 1 added to it alone: only the documented order of lanes gives this sum. Lane 0
 * holds 2^53, lane 8 holds 1, lane 4 and 12 hold 1 each: (2^53 + 1) + (1 + 1) = 2^53 + 2. */
size_t known_sums(const struct tsk_table *table)
{
    float x[TSK_LANES + 1] = {0};
    x[0] = 0x1p53f;
    x[8] = -1.0f;
    x[4] = 1.0f;
    x[12] = -1.0f;
    x[TSK_LANES] = 1.0f; /* lane 0 again: swallowed */
    const double sum = table->magnitude_sum_f32(x, TSK_LANES + 1);
    size_t wrong = 0;
    if (sum != 0x1p53 + 2)
        wrong += tell("magnitude_sum_f32", 0, (uint64_t)sum, (UINT64_C(1) << 53) + 2);
    if (table->square_sum_f32(x + 1, TSK_LANES - 1) != 3.0)
        wrong += tell("square_sum_f32", 0, 0, 3);
    if (table->magnitude_max_f32(x, TSK_LANES) != bits_of(0x1p53f))
        wrong += tell("magnitude_max_f32", 0, 0, bits_of(0x1p53f));
    x[1] = float_of(0xff800001u);
    if (!isnan(table->magnitude_sum_f32(x, TSK_LANES)))
        wrong += tell("magnitude_sum_f32 of NaN", 1, 0, 1);
    return wrong;
}

const struct known known_all[] = {
    {"philox", known_philox},       {"f16 values", known_f16_values},
    {"f16 ties", known_f16_ties},   {"bf16 values", known_bf16_values},
    {"bf16 ties", known_bf16_ties}, {"bit strings", known_bit_strings},
    {"sums", known_sums},
};

const size_t known_count = sizeof known_all / sizeof known_all[0];
