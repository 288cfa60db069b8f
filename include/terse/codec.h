/* A codec compresses a float buffer to a payload of few bits per element, and decodes it.
 *
 *     terse_codec_create("topk:keep=0.01", layout, NULL, &codec, &fault);
 *     terse_codec_encode_take(codec, 0, &key, residual, payload, cap, &len);   // sender
 *     terse_codec_decode_add(codec, 0, &key, payload, len, sum, &fault);       // receiver
 *
 * encode_take subtracts from `residual` what the payload decodes to: encoded + residual = input,
 * bit for bit for codecs that select, to one rounding for codecs that quantize. The next gradient
 * is added to the residual (error feedback).
 *
 * A codec object is used by one thread at a time. It allocates memory only in create. */
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

#define TERSE_OPTION_BYTES 16u    /* bytes of a codec's options in a frame */
#define TERSE_MAX_CODEC_SPEC 256u /* bytes of a codec's complete spec, its end included */

typedef struct terse_codec terse_codec;

/* Properties of a codec; tests/conform checks them for every codec that claims them. */
enum {
    TERSE_CODEC_SELECTING = 1 << 0,   /* encodes some elements and drops the others */
    TERSE_CODEC_CONTRACTIVE = 1 << 1, /* |x - C(x)| < |x|: error feedback is allowed */
    TERSE_CODEC_UNBIASED = 1 << 2,    /* E[C(x)] = x: error feedback is not allowed */
    TERSE_CODEC_ADDITIVE = 1 << 3,    /* payloads are f32 vectors: they can be summed */
    TERSE_CODEC_RANDOM = 1 << 4,      /* depends on random numbers: on seed, step (and worker) */
    TERSE_CODEC_FIXED_LEN = 1 << 5,   /* payload length depends on options and counts alone */
    TERSE_CODEC_TERNARY = 1 << 6,     /* decodes to the sign of every element: -1, 0 or +1 */
};

typedef enum terse_option_kind {
    TERSE_OPTION_REAL,    /* low <= value <= high */
    TERSE_OPTION_INTEGER, /* low <= value <= high */
    TERSE_OPTION_CHOICE,  /* one of the words in `range`; low and high are their numbers */
} terse_option_kind;

/* One option of a codec, for help texts and programs. */
typedef struct terse_option {
    const char *name;
    const char *range;   /* as text: "0.000001..1", "2..16", "f32|f16" */
    const char *initial; /* the default, as text */
    const char *help;
    terse_option_kind kind;
    double low;
    double high;
} terse_option;

/* The description of a codec. All texts are constants. */
typedef struct terse_codec_about {
    const char *name;
    const char *summary;
    const terse_option *options;
    uint32_t option_count;
    uint32_t traits; /* TERSE_CODEC_* */
    uint32_t passes; /* payloads per step; 2: the second needs the aggregate of the first */
    uint8_t wire_id;
} terse_codec_about;

/* Lists the codecs: index from 0; TERSE_BAD_ARGUMENT past the last. */
TERSE_API TERSE_CHECK terse_status terse_codec_list(uint32_t index, terse_codec_about *out);

/* Zero means the default. */
typedef struct terse_codec_options {
    uint32_t threads;     /* OpenMP threads for large tensors; default 1. Never changes a result. */
    uint32_t reserved[7]; /* zero */
} terse_codec_options;

/* The key of the counter-based random numbers: the same key gives the same numbers on every
 * machine. Numbers that all workers share (the start of a block) do not depend on `worker`. */
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
/* The same by spec, without a codec: TERSE_OK, or TERSE_BAD_SPEC with position and reason. `out`
 * may be NULL. */
TERSE_API TERSE_CHECK terse_status terse_codec_check(const char *spec, terse_codec_about *out,
                                                     terse_fault *fault);
/* The complete spec with every option. The text belongs to the codec. */
TERSE_API const char *terse_codec_spec(const terse_codec *codec);
/* The options as the bytes of a frame; equal bytes mean equal options. */
TERSE_API void terse_codec_option_bytes(const terse_codec *codec, uint8_t out[TERSE_OPTION_BYTES]);
TERSE_API const terse_layout *terse_codec_layout(const terse_codec *codec);

/* The largest payload length in bytes. For TERSE_CODEC_FIXED_LEN every payload has it. */
TERSE_API size_t terse_codec_payload_bound(const terse_codec *codec, uint32_t pass);
/* The same for the section of one tensor of the layout; 0 past the last. */
TERSE_API size_t terse_codec_section_bound(const terse_codec *codec, uint32_t pass,
                                           uint32_t tensor);

/* Encodes `in` (terse_layout_count floats). `cap` must be at least the bound.
 * TERSE_NOT_FINITE, TERSE_OUT_OF_RANGE: there is no payload. A codec examines what it reads: block
 * reads only its block, and a NaN elsewhere stays unnoticed; exchanges and methods check all. */
TERSE_API TERSE_CHECK terse_status terse_codec_encode(terse_codec *codec, uint32_t pass,
                                                      const terse_rng_key *key, const float *in,
                                                      void *payload, size_t cap, size_t *len);

/* Encodes `residual` and subtracts from it what was encoded. A failure rolls the residual back: bit
 * for bit where the codec selects, else to one rounding. Codecs with two passes subtract in the
 * last one. */
TERSE_API TERSE_CHECK terse_status terse_codec_encode_take(terse_codec *codec, uint32_t pass,
                                                           const terse_rng_key *key,
                                                           float *residual, void *payload,
                                                           size_t cap, size_t *len);

/* Why the last encode failed: one line, or "" where the status tells all. The text belongs to the
 * codec. */
TERSE_API const char *terse_codec_failure(const terse_codec *codec);

/* Decodes a payload and adds it to `out`. The payload is untrusted input: on TERSE_BAD_FRAME the
 * fault holds the offset in the payload and the broken rule, and `out` may hold part of the sum.
 * With two passes, every worker decodes the aggregate of pass 0 before it encodes pass 1. */
TERSE_API TERSE_CHECK terse_status terse_codec_decode_add(terse_codec *codec, uint32_t pass,
                                                          const terse_rng_key *key,
                                                          const void *payload, size_t len,
                                                          float *out, terse_fault *fault);

/* Top-k only: the next encode ranks element index[i] by the smaller of its magnitude and score[i].
 * Indices count in the flat buffer and ascend strictly; scores are finite and >= 0. Both arrays
 * must stay valid until that encode; later encodes do not use them. */
TERSE_API TERSE_CHECK terse_status terse_codec_set_scores(terse_codec *codec, const uint64_t *index,
                                                          const float *score, size_t score_count);

#ifdef __cplusplus
}
#endif
#endif
