#include "data/draw.h"

enum { ROUNDS = 10, BLOCK = 4 };

void trn_stream_start(struct trn_stream *stream, uint64_t seed, enum trn_purpose purpose,
                      uint64_t a, uint32_t b)
{
    *stream = (struct trn_stream){
        .key = {(uint32_t)seed, (uint32_t)(seed >> 32)},
        .counter = {0, b, (uint32_t)a, (uint32_t)(a >> 32) | (uint32_t)purpose << 24},
        .used = BLOCK,
    };
}

static void next_block(struct trn_stream *stream)
{
    uint32_t k0 = stream->key[0];
    uint32_t k1 = stream->key[1];
    uint32_t *word = stream->words;
    for (int i = 0; i < BLOCK; i++)
        word[i] = stream->counter[i];
    for (int round = 0; round < ROUNDS; round++) {
        const uint64_t p0 = (uint64_t)0xD2511F53u * word[0];
        const uint64_t p1 = (uint64_t)0xCD9E8D57u * word[2];
        word[0] = (uint32_t)(p1 >> 32) ^ word[1] ^ k0;
        word[1] = (uint32_t)p1;
        word[2] = (uint32_t)(p0 >> 32) ^ word[3] ^ k1;
        word[3] = (uint32_t)p0;
        k0 += 0x9E3779B9u;
        k1 += 0xBB67AE85u;
    }
    stream->counter[0]++;
    stream->used = 0;
}

uint32_t trn_draw_u32(struct trn_stream *stream)
{
    if (stream->used == BLOCK)
        next_block(stream);
    return stream->words[stream->used++];
}

uint32_t trn_draw_below(struct trn_stream *stream, uint32_t bound)
{
    const uint32_t surplus = (0u - bound) % bound; /* 2^32 mod bound low halves are one too many */
    for (;;) {
        const uint64_t product = (uint64_t)trn_draw_u32(stream) * bound;
        if ((uint32_t)product >= surplus)
            return (uint32_t)(product >> 32);
    }
}

float trn_draw_uniform(struct trn_stream *stream)
{
    return (float)(trn_draw_u32(stream) >> 8) * 0x1p-24f;
}

float trn_draw_bell(struct trn_stream *stream)
{
    uint32_t sum = 0; /* sum of twelve numbers of 16 bits, two in a word */
    for (int i = 0; i < 6; i++) {
        const uint32_t word = trn_draw_u32(stream);
        sum += (word & 0xFFFFu) + (word >> 16);
    }
    return (float)sum * 0x1p-16f - 6.0f;
}

void trn_draw_shuffle(struct trn_stream *stream, uint32_t *values, uint32_t count)
{
    for (uint32_t left = count; left > 1; left--) {
        const uint32_t chosen = trn_draw_below(stream, left);
        const uint32_t value = values[chosen];
        values[chosen] = values[left - 1];
        values[left - 1] = value;
    }
}
