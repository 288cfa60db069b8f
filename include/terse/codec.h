/* A codec says a float buffer in few bits: buffer in, payload out, and back.
 *
 *     terse_codec_create("topk:keep=0.01", layout, NULL, &codec, &fault);
 *     terse_codec_encode_take(codec, 0, &key, residual, payload, cap, &len);   // sender
 *     terse_codec_decode_add(codec, 0, &key, payload, len, sum, &fault);     // receiver
 *
 * encode_take takes out of `residual` what the payload says, so that said + kept = given: bit for
 * bit for codecs that select, to one rounding for codecs that quantize. What remains is the error
 * memory.
 *
 * A codec object belongs to one thread at a time. It allocates only in create. */
#ifndef TERSE_CODEC_H
#define TERSE_CODEC_H

#include <stddef.h>
#include <stdint.h>

#include <terse/export.h>
#include <terse/layout.h>
#include <terse/status.h>

#ifdef __cplusplus
extern "C" {
#endif

#define TERSE_OPTION_BYTES 16u /* bytes that hold a codec's options in a frame */

typedef struct terse_codec terse_codec;

/* What a codec promises; tests/conform proves each promise for every codec that claims it. */
enum {
    TERSE_CODEC_SELECTING = 1 << 0,   /* says chosen elements, the others not at all */
    TERSE_CODEC_CONTRACTIVE = 1 << 1, /* |x - C(x)| < |x|: may have error memory */
    TERSE_CODEC_UNBIASED = 1 << 2,    /* E[C(x)] = x: must not have error memory */
    TERSE_CODEC_ADDITIVE = 1 << 3,    /* payloads are f32 vectors: their sum is the sum's payload */
    TERSE_CODEC_RANDOM = 1 << 4,      /* draws random numbers: seed, step (and worker) matter */
    TERSE_CODEC_FIXED_LEN = 1 << 5,   /* payload length depends on options and counts alone */
};

typedef enum terse_option_kind {
    TERSE_OPTION_REAL,    /* low <= value <= high */
    TERSE_OPTION_INTEGER, /* low <= value <= high */
    TERSE_OPTION_CHOICE,  /* one of the words in `range`; low and high are their numbers */
} terse_option_kind;

/* One option of a codec, for help texts and programs. */
typedef struct terse_option {
    const char *name;
    const char *range;   /* as people write it: "0.000001..1", "2..16", "f32|f16" */
    const char *initial; /* the value it has when not given, as one would write it */
    const char *help;
    terse_option_kind kind;
    double low;
    double high;
} terse_option;

/* What there is to know about a codec without making one. All texts are constants. */
typedef struct terse_codec_about {
    const char *name;
    const char *summary;
    const terse_option *options;
    uint32_t option_count;
    uint32_t traits; /* TERSE_CODEC_* */
    uint32_t
        passes; /* payloads per step: 1, or 2 where the second needs the aggregate of the first */
    uint8_t wire_id;
} terse_codec_about;

/* The registry: index from 0; TERSE_BAD_ARGUMENT past the last. */
TERSE_API TERSE_CHECK terse_status terse_codec_list(uint32_t index, terse_codec_about *out);

/* Zero means the default. */
typedef struct terse_codec_options {
    uint32_t threads;     /* OpenMP threads for large tensors; default 1. Never changes a result. */
    uint32_t reserved[7]; /* zero */
} terse_codec_options;

/* Keys every random draw: same key, same numbers, on every machine. Draws that all workers must
 * share (the block's start) leave the worker out. */
typedef struct terse_rng_key {
    uint64_t seed;
    uint64_t step;
    uint32_t worker;
} terse_rng_key;

/* `spec` is NAME or NAME:key=value,key=value. The layout is copied. On TERSE_BAD_SPEC the fault
 * holds the position in `spec` and what was expected there. */
TERSE_API TERSE_CHECK terse_status terse_codec_create(const char *spec, const terse_layout *layout,
                                                      const terse_codec_options *options,
                                                      terse_codec **out, terse_fault *fault);
/* The same from a wire id and the canonical option bytes of a frame. */
TERSE_API TERSE_CHECK terse_status terse_codec_open(uint8_t wire_id,
                                                    const uint8_t option_bytes[TERSE_OPTION_BYTES],
                                                    const terse_layout *layout,
                                                    const terse_codec_options *options,
                                                    terse_codec **out, terse_fault *fault);
TERSE_API void terse_codec_destroy(terse_codec *codec); /* NULL is fine */

TERSE_API void terse_codec_describe(const terse_codec *codec, terse_codec_about *out);
/* The complete spec, every option written out; belongs to the codec. */
TERSE_API const char *terse_codec_spec(const terse_codec *codec);
/* The options as a frame carries them: equal bytes, equal codec. */
TERSE_API void terse_codec_option_bytes(const terse_codec *codec, uint8_t out[TERSE_OPTION_BYTES]);
TERSE_API const terse_layout *terse_codec_layout(const terse_codec *codec);

/* No payload of this codec is longer. For TERSE_CODEC_FIXED_LEN it is the length itself. */
TERSE_API size_t terse_codec_payload_bound(const terse_codec *codec, uint32_t pass);

/* Says `in` (terse_layout_count floats). `cap` must be at least the bound.
 * TERSE_NOT_FINITE, TERSE_OUT_OF_RANGE: nothing was said. */
TERSE_API TERSE_CHECK terse_status terse_codec_encode(terse_codec *codec, uint32_t pass,
                                                      const terse_rng_key *key, const float *in,
                                                      void *payload, size_t cap, size_t *len);

/* The same, and subtracts from `residual` what was said. On failure what had already been taken is
 * put back: bit for bit where the codec selects, else to one rounding.
 * Codecs with two passes take in the last one. */
TERSE_API TERSE_CHECK terse_status terse_codec_encode_take(terse_codec *codec, uint32_t pass,
                                                           const terse_rng_key *key,
                                                           float *residual, void *payload,
                                                           size_t cap, size_t *len);

/* Adds what a payload says to `out`. The bytes may come from an enemy: on TERSE_BAD_FRAME the fault
 * holds the offset in the payload and the broken rule, `out` may hold part of the sum, and nothing
 * outside of it was touched.
 * With two passes, the aggregate of a pass is decoded on every worker before the next is encoded.
 */
TERSE_API TERSE_CHECK terse_status terse_codec_decode_add(terse_codec *codec, uint32_t pass,
                                                          const terse_rng_key *key,
                                                          const void *payload, size_t len,
                                                          float *out, terse_fault *fault);

/* Top-k only: lowers the standing of some elements when the next encode chooses what to say: an
 * element counts as much as the smaller of its magnitude and its score. `index` counts in the flat
 * buffer and ascends strictly; scores are finite and >= 0. Both arrays must stay valid until that
 * encode, which forgets them. */
TERSE_API TERSE_CHECK terse_status terse_codec_set_scores(terse_codec *codec, const uint64_t *index,
                                                          const float *score, size_t score_count);

#ifdef __cplusplus
}
#endif
#endif
