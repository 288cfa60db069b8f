/* The codec object, and its calls on some of its pieces: what the public calls and the exchange
 * stand on. */
#ifndef TSI_CODEC_OBJECT_H
#define TSI_CODEC_OBJECT_H

#include "codec/codec.h"

#define TSI_MAX_SPEC 256u

/* How much of a piece the codec has been shown. */
struct tsi_prescanned {
    const float *in; /* the flat buffer it lay in */
    size_t count;    /* elements, from the first on */
};

struct terse_codec {
    const struct terse_codec_ops *ops;
    terse_layout *layout;
    struct tsi_piece *piece; /* in the order of their sections in a payload */
    uint32_t piece_count;
    double option[TSI_MAX_OPTIONS];
    unsigned threads;
    uint8_t *memory;  /* scratch of the hungriest piece, then the state of every piece */
    size_t *state_at; /* of each piece in `memory` */
    uint8_t *states;  /* all of them */
    size_t states_len;
    uint8_t *prescan_state; /* of every piece; NULL: nothing is shown to this codec */
    size_t *prescan_at;     /* of each piece in `prescan_state` */
    struct tsi_prescanned *prescanned;
    uint32_t prescanning; /* the piece last shown */
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

size_t tsi_codec_bound(const terse_codec *codec, uint32_t pass, struct tsi_pieces pieces);

/* Room for the prescan state, so that tsi_codec_prescan can be called. */
TERSE_CHECK terse_status tsi_codec_enable_prescan(terse_codec *codec);

/* Shows elements first .. first+count-1 of the flat buffer `in`, as the next encode will find them.
 * Each piece from its first element to its last; a piece that was not shown so is encoded all the
 * same. */
void tsi_codec_prescan(terse_codec *codec, const terse_rng_key *key, const float *in,
                       uint64_t first, uint64_t count);

/* As terse_codec_encode(_take) and terse_codec_decode_add, for some pieces. Floats are the whole
 * flat buffer; `take` is NULL or `in` without its const. */
TERSE_CHECK terse_status tsi_codec_encode(terse_codec *codec, uint32_t pass,
                                          const terse_rng_key *key, struct tsi_pieces pieces,
                                          const float *in, float *take, void *payload, size_t cap,
                                          size_t *len);
TERSE_CHECK terse_status tsi_codec_decode_add(terse_codec *codec, uint32_t pass,
                                              const terse_rng_key *key, struct tsi_pieces pieces,
                                              const void *payload, size_t len, float *out,
                                              terse_fault *fault);
/* The same where `out` counts as 0 before: it need not be written first. */
TERSE_CHECK terse_status tsi_codec_decode(terse_codec *codec, uint32_t pass,
                                          const terse_rng_key *key, struct tsi_pieces pieces,
                                          const void *payload, size_t len, float *out,
                                          terse_fault *fault);

/* What the slots are handed for a piece. */
TERSE_CHECK terse_status tsi_codec_call(terse_codec *codec, const terse_rng_key *key,
                                        uint32_t piece, struct tsi_call *out);

/* Codecs with the slot `next`: how many entries a section holds at most, a section, and the next
 * entries, none after the last. That of a plain piece has an entry for every element. */
size_t tsi_codec_entries(const terse_codec *codec, uint32_t piece);
TERSE_CHECK terse_status tsi_entries_open(const terse_codec *codec, const struct tsi_call *call,
                                          const uint8_t *section, size_t len, size_t *used,
                                          struct tsi_entries *out, terse_fault *fault);
TERSE_CHECK terse_status tsi_entries_next(const terse_codec *codec, const struct tsi_call *call,
                                          struct tsi_entries *entries, struct tsi_batch *batch,
                                          terse_fault *fault);

/* Tells which elements a payload of all pieces speaks of; it was said or decoded here before.
 * Only for codecs with the slot `touch`. */
void tsi_codec_touch(terse_codec *codec, const terse_rng_key *key, const uint8_t *payload,
                     const struct tsi_toucher *toucher);

#endif
