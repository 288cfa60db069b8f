#include "codec/index_stream.h"

#include "codec/section.h"

#define MAX_WIDTH 31u

static uint64_t stream_bits(uint64_t n, size_t k, unsigned width)
{
    return (uint64_t)k * width + k + ((n - 1) >> width);
}

struct tsi_index_shape tsi_index_shape(uint64_t n, size_t k)
{
    unsigned width = 0;
    for (unsigned w = 1; w <= MAX_WIDTH; w++)
        if (stream_bits(n, k, w) < stream_bits(n, k, width))
            width = w;
    return (struct tsi_index_shape){
        .n = n,
        .k = k,
        .width = width,
        .high_bits = k + ((n - 1) >> width),
        .len = (size_t)((stream_bits(n, k, width) + 7) / 8),
    };
}

/* ---- writing ---- */

/* Sets bit (index >> width) + i for every i, a word at a time. */
static void write_high(const struct tsi_index_shape *shape, const uint32_t *index, uint8_t *out)
{
    const size_t len = (size_t)((shape->high_bits + 7) / 8);
    uint64_t word = 0;
    uint64_t at = 0; /* number of the word */
    memset(out, 0, len);
    for (size_t i = 0; i < shape->k; i++) {
        const uint64_t bit = (index[i] >> shape->width) + (uint64_t)i;
        if (bit / 64 != at) {
            tsi_store_u64(out + 8 * at, word); /* a later word exists, so all of this one does */
            word = 0;
            at = bit / 64;
        }
        word |= UINT64_C(1) << bit % 64;
    }
    const size_t left = len - 8 * (size_t)at;
    memcpy(out + 8 * at, &word, left < 8 ? left : 8);
}

/* Continues in the middle of the byte where the upper part ends. */
static void write_low(const struct tsi_index_shape *shape, const uint32_t *index, uint8_t *out)
{
    const uint32_t mask = (1u << shape->width) - 1;
    unsigned held = (unsigned)(shape->high_bits % 8);
    out += shape->high_bits / 8;
    uint64_t pending = held > 0 ? *out : 0;
    for (size_t i = 0; i < shape->k; i++) {
        pending |= (uint64_t)(index[i] & mask) << held;
        held += shape->width;
        if (held >= 32) {
            tsi_store_u32(out, (uint32_t)pending);
            out += 4;
            pending >>= 32;
            held -= 32;
        }
    }
    for (; held > 0; held -= held < 8 ? held : 8) {
        *out++ = (uint8_t)pending;
        pending >>= 8;
    }
}

void tsi_index_write(const struct tsi_index_shape *shape, const uint32_t *index, uint8_t *out)
{
    write_high(shape, index, out);
    write_low(shape, index, out);
}

/* ---- reading ---- */

/* Eight bytes, zeros for those from `end` on. */
static uint64_t load_up_to(const uint8_t *at, const uint8_t *end)
{
    if (end - at >= 8)
        return tsi_load_u64(at);
    uint64_t value = 0;
    memcpy(&value, at, (size_t)(end - at));
    return value;
}

/* 64 bits of the upper part, zeros behind its end. */
static uint64_t high_word(const struct tsi_index_reader *reader, size_t at)
{
    const uint64_t left = reader->shape.high_bits - 8 * (uint64_t)at;
    const uint64_t word = load_up_to(reader->stream + at, reader->end);
    return left < 64 ? word & ((UINT64_C(1) << left) - 1) : word;
}

terse_status tsi_index_open(const struct tsi_index_shape *shape, const uint8_t *stream,
                            struct tsi_index_reader *reader, terse_fault *fault)
{
    const uint64_t bits = shape->high_bits + (uint64_t)shape->k * shape->width;
    const terse_status status = tsi_section_padding(stream, 0, bits, fault);
    *reader = (struct tsi_index_reader){
        .shape = *shape, .stream = stream, .end = stream + shape->len, .last = -1};
    if (status != TERSE_OK)
        return status;
    size_t ones = 0;
    for (size_t at = 0; 8 * (uint64_t)at < shape->high_bits; at += 8)
        ones += (size_t)__builtin_popcountll(high_word(reader, at));
    if (ones != shape->k)
        return tsi_fail(fault, TERSE_BAD_FRAME, 0, "index stream: %zu ones, %zu expected", ones,
                        shape->k);
    reader->word = high_word(reader, 0);
    return TERSE_OK;
}

terse_status tsi_index_next(struct tsi_index_reader *reader, size_t count, uint32_t *index,
                            terse_fault *fault)
{
    const unsigned width = reader->shape.width;
    const uint64_t mask = (UINT64_C(1) << width) - 1;
    const size_t end = reader->done + count;
    int64_t last = reader->last;
    for (size_t i = reader->done; i < end; i++) {
        while (reader->word == 0) { /* ends: tsi_index_open has counted the ones */
            reader->word_at += 8;
            reader->word = high_word(reader, reader->word_at);
        }
        const uint64_t bit = reader->word_at * 8 + (unsigned)__builtin_ctzll(reader->word);
        const uint64_t low_bit = reader->shape.high_bits + (uint64_t)i * width;
        const uint64_t low = load_up_to(reader->stream + low_bit / 8, reader->end) >> low_bit % 8;
        const int64_t here = (int64_t)((bit - i) << width | (low & mask));
        reader->word &= reader->word - 1;
        if (here <= last || here >= (int64_t)reader->shape.n)
            return tsi_fail(fault, TERSE_BAD_FRAME, (size_t)(low_bit / 8),
                            "index stream: entry %zu does not ascend or is not below %llu", i,
                            (unsigned long long)reader->shape.n);
        last = here;
        *index++ = (uint32_t)here;
    }
    reader->done = end;
    reader->last = last;
    return TERSE_OK;
}
