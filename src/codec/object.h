/* The codec object and its functions on some of its pieces. The public functions and the exchange
 * use them. */
#ifndef TSI_CODEC_OBJECT_H
#define TSI_CODEC_OBJECT_H

#include "codec/codec.h"

/* The progress of a prescan over one piece; all 0 where there is none. */
struct tsi_prescanned {
    const float *in; /* the flat buffer that was prescanned */
    size_t count;    /* elements of the piece prescanned so far */
};

struct terse_codec {
    const struct terse_codec_ops *ops;
    uint32_t passes; /* of ops */
    terse_layout *layout;
    struct tsi_piece *piece; /* in the order of their sections in a payload */
    uint32_t piece_count;
    double option[TSI_MAX_OPTIONS];
    unsigned threads;
    uint8_t *memory;  /* the largest scratch of any piece, then the state of every piece */
    size_t *state_at; /* offset of each piece's state in `memory` */
    uint8_t *states;  /* the states, a part of `memory` */
    size_t states_len;
    uint8_t *prescan_state; /* prescan states of all pieces; NULL: this codec does not prescan */
    size_t *prescan_at;     /* offset of each piece's prescan state */
    struct tsi_prescanned *prescanned;
    uint32_t prescanning; /* the piece last shown */
    size_t *section_len;  /* by piece: bytes of its section when it was last encoded */
    struct tsi_scores scores;
    const struct tsi_bit_rule *rule;
    terse_fault fault; /* of the last terse_codec_encode */
    char spec[TERSE_MAX_CODEC_SPEC];
};

/* A range of pieces of a codec. */
struct tsi_pieces {
    uint32_t first;
    uint32_t count;
};

/* Creates a codec for the given pieces of a layout, which are copied; NULL: all tensors. */
TERSE_CHECK terse_status tsi_codec_create(const char *spec, const terse_layout *layout,
                                          const struct tsi_piece *piece, uint32_t piece_count,
                                          const terse_codec_options *options, terse_codec **out,
                                          terse_fault *fault);

/* terse_codec_check, and the complete spec. */
TERSE_CHECK terse_status tsi_codec_read(const char *spec, terse_codec_about *out,
                                        char complete[TERSE_MAX_CODEC_SPEC], terse_fault *fault);

/* Copies the states of all pieces aside, and back. */
void tsi_codec_save(terse_codec *codec);
void tsi_codec_roll_back(terse_codec *codec);

/* The ops of a piece, or NULL if the payload of this pass has no section of it: an empty piece
 * never has one, a plain one only in the last pass. */
const struct terse_codec_ops *tsi_codec_ops(const terse_codec *codec, uint32_t pass,
                                            uint32_t number);

/* Makes the arguments of the slots for a piece; the slots are those of call.ops. */
struct tsi_call tsi_codec_call(const terse_codec *codec, const terse_rng_key *key, uint32_t pass,
                               uint32_t number);

/* The largest length of the sections of some pieces. */
size_t tsi_codec_bound(const terse_codec *codec, uint32_t pass, struct tsi_pieces pieces);

/* Allocates the prescan state. Without it tsi_codec_prescan does nothing. */
TERSE_CHECK terse_status tsi_codec_enable_prescan(terse_codec *codec);

/* Prescans elements first .. first+count-1 of the flat buffer `in`, which must not change before
 * the next encode. Each piece is prescanned from its first element to its last; otherwise its
 * prescan is ignored. */
void tsi_codec_prescan(terse_codec *codec, const terse_rng_key *key, const float *in,
                       uint64_t first, uint64_t count);

/* terse_codec_encode(_take) and terse_codec_decode_add for some pieces. `in` and `out` are the
 * whole flat buffer; `take` is NULL or `in` without its const. fresh 1: decoding overwrites the
 * pieces of `out` instead of adding to them. Why encoding failed is in codec->fault. */
TERSE_CHECK terse_status tsi_codec_encode(terse_codec *codec, uint32_t pass,
                                          const terse_rng_key *key, struct tsi_pieces pieces,
                                          const float *in, float *take, void *payload, size_t cap,
                                          size_t *len);
TERSE_CHECK terse_status tsi_codec_decode(terse_codec *codec, uint32_t pass,
                                          const terse_rng_key *key, struct tsi_pieces pieces,
                                          const void *payload, size_t len, int fresh, float *out,
                                          terse_fault *fault);

/* A section of codes whose header has been checked, for as long as its payload lies there. It is
 * not to be copied: the call points to the key beside it. */
struct tsi_coded {
    struct tsi_call call;
    terse_rng_key key;
    struct tsi_codes codes;
    size_t offset; /* of the section in its payload */
    int fresh;     /* 1: decoding overwrites instead of adding */
};

/* Opens the sections of some pieces, for pass 0 of a codec with the slot `open_codes`: they can
 * then be decoded range by range. It refuses what decoding refuses, but for invalid codes. */
TERSE_CHECK terse_status tsi_codec_open(terse_codec *codec, const terse_rng_key *key,
                                        struct tsi_pieces pieces, const void *payload, size_t len,
                                        int fresh, struct tsi_coded *out, terse_fault *fault);

/* Decodes elements first .. first+count-1 to those at `out`; `first` is a multiple of 8. Returns 1
 * if a code is invalid (then `out` is unspecified), else 0. (codes.c) */
uint32_t tsi_coded_add(const struct tsi_coded *coded, size_t first, size_t count, float *out);

/* Decodes all of it to the piece at `out`; NULL: only checks the codes. */
TERSE_CHECK terse_status tsi_coded_decode(const struct tsi_coded *coded, float *out,
                                          terse_fault *fault);

/* The largest magnitude that this codec can encode. */
double tsi_codec_limit(const terse_codec *codec);

#endif
