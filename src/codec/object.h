/* The codec object, and its calls on some of its pieces: what the public calls and the exchange
 * stand on. */
#ifndef TSI_CODEC_OBJECT_H
#define TSI_CODEC_OBJECT_H

#include "codec/codec.h"

#define TSI_MAX_SPEC 256u

struct terse_codec {
    const struct terse_codec_ops *ops;
    terse_layout *layout;
    struct tsi_piece *piece; /* in the order of their sections in a payload */
    uint32_t piece_count;
    double param[TSI_MAX_PARAMS];
    unsigned threads;
    uint8_t *memory;  /* scratch of the hungriest piece, then the state of every piece */
    size_t *state_at; /* of each piece in `memory` */
    uint8_t *states;  /* all of them */
    size_t states_len;
    struct tsi_patch patch;
    const struct tsi_bit_rule *rule;
    char spec[TSI_MAX_SPEC];
};

/* Some neighbouring pieces of a codec. */
struct tsi_pieces {
    uint32_t first;
    uint32_t count;
};

/* A codec over pieces of a layout that the caller has cut; they are copied. */
TERSE_CHECK terse_status tsi_codec_create(const char *spec, const terse_layout *layout,
                                          const struct tsi_piece *piece, uint32_t piece_count,
                                          const terse_codec_options *options, terse_codec **out,
                                          terse_fault *fault);

/* Puts every state back to how it was at first. */
void tsi_codec_forget(terse_codec *codec);

size_t tsi_codec_bound(const terse_codec *codec, uint32_t round, struct tsi_pieces pieces);

/* As terse_codec_encode(_take) and terse_codec_decode_add, for some pieces. Floats are the whole
 * flat buffer; `take` is NULL or `in` without its const. */
TERSE_CHECK terse_status tsi_codec_encode(terse_codec *codec, uint32_t round,
                                          const terse_draw *draw, struct tsi_pieces pieces,
                                          const float *in, float *take, void *payload, size_t cap,
                                          size_t *len);
TERSE_CHECK terse_status tsi_codec_decode_add(terse_codec *codec, uint32_t round,
                                              const terse_draw *draw, struct tsi_pieces pieces,
                                              const void *payload, size_t len, float *out,
                                              terse_fault *fault);
/* The same where `out` counts as 0 before: it need not be written first. */
TERSE_CHECK terse_status tsi_codec_decode(terse_codec *codec, uint32_t round,
                                          const terse_draw *draw, struct tsi_pieces pieces,
                                          const void *payload, size_t len, float *out,
                                          terse_fault *fault);

/* Tells which elements a payload of all pieces speaks of; it was said or decoded here before.
 * Only for codecs with the slot `touch`. */
void tsi_codec_touch(terse_codec *codec, const terse_draw *draw, const uint8_t *payload,
                     const struct tsi_toucher *toucher);

/* Top-k: how many elements a payload of the whole codec says, and the values of one that was said
 * here, in the order in which tsi_codec_touch tells their places. Plain pieces are left out. */
size_t tsi_topk_total(const terse_codec *codec);
void tsi_topk_values(const terse_codec *codec, const uint8_t *payload, float *value);

#endif
