#include "codec/index_stream.h"

#include "codec/section.h"

#define MAX_WIDTH 31u

/* The shortest of all widths: k lower parts of `width` bits, and the upper parts in unary. */
struct tsi_index_shape tsi_index_shape(uint64_t n, size_t k)
{
    uint64_t bits = k + (n - 1);
    unsigned width = 0;
    for (unsigned w = 1; w <= MAX_WIDTH; w++) {
        const uint64_t wider = (uint64_t)k * w + k + ((n - 1) >> w);
        if (wider < bits) {
            bits = wider;
            width = w;
        }
    }
    return (struct tsi_index_shape){
        .n = n,
        .k = k,
        .width = width,
        .high_bits = k + ((n - 1) >> width),
        .len = (size_t)((bits + 7) / 8),
    };
}

void tsi_index_write(const struct tsi_index_shape *shape, const uint32_t *index, uint8_t *out)
{
    /* The upper part: sets bit (index >> width) + i for every i, a word at a time. */
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

    /* The lower part continues in the middle of the byte where the upper part ends. */
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
    *reader = (struct tsi_index_reader){.shape = *shape,
                                        .stream = stream,
                                        .end = stream + shape->len,
                                        .done_end = shape->k,
                                        .first = -1,
                                        .last = -1};
    if (status != TERSE_OK)
        return status;
    if (shape->width > 0 && 8 * (uint64_t)shape->len >= shape->high_bits + 64)
        reader->safe = (size_t)((8 * (uint64_t)shape->len - 64 - shape->high_bits) / shape->width);
    size_t ones = 0;
    for (size_t at = 0; 8 * (uint64_t)at < shape->high_bits; at += 8)
        ones += (size_t)__builtin_popcountll(high_word(reader, at));
    if (ones != shape->k)
        return tsi_fail(fault, TERSE_BAD_FRAME, 0, "index stream: %zu ones, %zu expected", ones,
                        shape->k);
    reader->word = high_word(reader, 0);
    return TERSE_OK;
}

/* Each part starts at a word of its own; the number of ones before it is its first index. */
void tsi_index_split(const struct tsi_index_reader *whole, size_t parts,
                     struct tsi_index_reader *reader)
{
    const size_t words = (size_t)((whole->shape.high_bits + 63) / 64);
    const size_t share = (words + parts - 1) / parts;
    size_t ones = 0;
    size_t word = 0;
    for (size_t p = 0; p < parts; p++) {
        reader[p] = *whole;
        reader[p].done = ones;
        reader[p].word_at = 8 * word;
        reader[p].word = word < words ? high_word(whole, 8 * word) : 0;
        for (size_t end = word + share; word < words && word < end; word++)
            ones += (size_t)__builtin_popcountll(high_word(whole, 8 * word));
        reader[p].done_end = ones;
    }
}

static terse_status no_ascent(const struct tsi_index_shape *shape, size_t entry, terse_fault *fault)
{
    const uint64_t bit = shape->high_bits + (uint64_t)entry * shape->width;
    return tsi_fail(fault, TERSE_BAD_FRAME, bit / 8,
                    "index stream: entry %zu does not ascend or is not below %llu", entry,
                    (unsigned long long)shape->n);
}

terse_status tsi_index_joined(const struct tsi_index_reader *reader, size_t parts,
                              terse_fault *fault)
{
    int64_t last = -1;
    size_t entry = 0;
    for (size_t p = 0; p < parts; entry = reader[p++].done_end) {
        if (reader[p].first < 0)
            continue;
        if (reader[p].first <= last)
            return no_ascent(&reader[p].shape, entry, fault);
        last = reader[p].last;
    }
    return TERSE_OK;
}

terse_status tsi_index_next(struct tsi_index_reader *reader, size_t count, const float *soon,
                            uint32_t *index, terse_fault *fault)
{
    const struct tsi_index_shape shape = reader->shape;
    const uint8_t *const stream = reader->stream;
    const uint64_t mask = (UINT64_C(1) << shape.width) - 1;
    const size_t safe = reader->safe;
    const size_t start = reader->done;
    uint64_t word = reader->word;
    uint64_t low_bit = shape.high_bits + (uint64_t)start * shape.width;
    int64_t last = reader->last;
    for (size_t i = start; i < start + count; i++, low_bit += shape.width) {
        while (word == 0) { /* terminates: tsi_index_open has counted the ones */
            reader->word_at += 8;
            word = high_word(reader, reader->word_at);
        }
        const uint64_t bit = reader->word_at * 8 + (unsigned)__builtin_ctzll(word);
        const uint8_t *const at = stream + low_bit / 8;
        const uint64_t low =
            (i < safe ? tsi_load_u64(at) : load_up_to(at, reader->end)) >> low_bit % 8;
        const int64_t here = (int64_t)((bit - i) << shape.width | (low & mask));
        word &= word - 1;
        if (here <= last)
            return no_ascent(&shape, i, fault);
        last = here;
        index[i - start] = (uint32_t)here;
        /* The index may still be >= n, so the address is computed as an integer. */
        if (soon)
            __builtin_prefetch((const void *)((uintptr_t)soon + sizeof *soon * (uintptr_t)here), 1);
    }
    if (last >= (int64_t)shape.n) /* they ascend: the last is the largest */
        return no_ascent(&shape, start + count - 1, fault);
    if (count > 0 && reader->first < 0)
        reader->first = index[0];
    reader->word = word;
    reader->done = start + count;
    reader->last = last;
    return TERSE_OK;
}
