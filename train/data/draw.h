/* Random numbers by counter: Philox4x32-10 (Salmon, Moraes, Dror, Shaw, SC 2011), keyed by seed and
 * purpose. A stream is named by (seed, purpose, a, b) and does not depend on who draws from it, nor
 * on the order in which streams are used. */
#ifndef TRN_DRAW_H
#define TRN_DRAW_H

#include <stdint.h>

enum trn_purpose {
    TRN_DRAW_ORDER = 1, /* a: epoch, b: 0 for all, or 1 + worker */
    TRN_DRAW_SHARD,     /* b: 0 dealing, 1 + worker its classes */
    TRN_DRAW_AUGMENT,   /* a: epoch, b: example */
    TRN_DRAW_EXAMPLE,   /* a: split, b: example */
    TRN_DRAW_LAW,       /* the law of generated data */
    TRN_DRAW_ATTACK,    /* a: 0 for all steps, or 1 + step, b: rank */
    TRN_DRAW_HELD_OUT,  /* which examples are held out, the same with every seed */
};

struct trn_stream {
    uint32_t key[2];
    uint32_t counter[4];
    uint32_t words[4];
    uint32_t used; /* number of words used */
};

void trn_stream_start(struct trn_stream *stream, uint64_t seed, enum trn_purpose purpose,
                      uint64_t a, uint32_t b);
uint32_t trn_draw_u32(struct trn_stream *stream);
uint32_t trn_draw_below(struct trn_stream *stream, uint32_t bound); /* 0 .. bound-1, unbiased */
float trn_draw_uniform(struct trn_stream *stream);                  /* [0, 1), 24 bits */
/* Sum of twelve uniforms less six: variance 1, nearly normal, and the same bits everywhere. */
float trn_draw_bell(struct trn_stream *stream);
void trn_draw_shuffle(struct trn_stream *stream, uint32_t *values, uint32_t count);

#endif
