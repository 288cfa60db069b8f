/* The internal interface of a codec: one ops table, all listed in registry.c.
 *
 * A slot processes one piece (a tensor or a part of one) of the flat buffer; walk.c calls it for
 * each piece and concatenates the payload sections. A codec needs what it is, section_bound, encode
 * and one way to decode: the codes, or decode_add. All other slots may be NULL. */
#ifndef TSI_CODEC_H
#define TSI_CODEC_H

#include <string.h>

#include <terse/codec.h>

#include "base/spec.h"
#include "codec/index_stream.h"
#include "codec/random.h"
#include "kernels/kernels.h"
#include "layout/layout.h"

/* Scores that stand in for magnitudes (terse_codec_set_scores), of any elements. */
struct tsi_scores {
    const uint64_t *index; /* in the flat buffer, ascending */
    const float *score;
    size_t count;
};

/* The residual that a selecting codec leaves of an encoded element: -0 + x is x for every x, -0
 * included, so adding the decoded value restores the same bits. */
#define TSI_NOTHING (-0.0f)

/* Neighbouring elements of the flat buffer. */
struct tsi_run {
    uint64_t first;
    uint64_t count;
};

/* A section whose entries (index and value) are decoded in batches. */
struct tsi_entries {
    struct tsi_index_reader reader;
    const uint8_t *values;
    const float *soon; /* NULL, or where decoded elements are prefetched */
    size_t done;       /* entries decoded, of a plain piece: it has no reader */
};

/* A section of one code per element, all of one width: any range of it can be decoded alone. */
struct tsi_codes {
    const uint8_t *section;
    size_t len;    /* of the section */
    size_t at;     /* where the codes begin */
    unsigned bits; /* of a code; 0: there are no codes, and all elements are 0 */
    float scale;   /* what the header says; each codec defines it */
};

#define TSI_BATCH 64u

/* Consecutive entries of a section, ascending. */
struct tsi_batch {
    uint32_t index[TSI_BATCH]; /* in the piece */
    float value[TSI_BATCH];
    size_t count;
};

struct tsi_call;

/* Chooses the bits per element of a section from its values (codec uniform). */
struct tsi_bit_rule {
    void *context;
    /* Returns 2..16. `norm` is the section's norm, > 0 and finite. */
    unsigned (*choose)(void *context, const struct tsi_call *call, const float *in, float norm);
};

/* The arguments that every slot gets. */
struct tsi_call {
    const struct terse_codec_ops *ops; /* NULL: the payload of this pass has no such section */
    const double *option;              /* values in the order of ops->options */
    const struct tsi_piece *piece;     /* never empty: walk.c skips empty pieces */
    const struct tsk_table *kernel;
    const terse_rng_key *key;
    uint32_t pass;
    unsigned threads;
    void *scratch;       /* scratch_len bytes, aligned to 64; contents are lost between calls */
    void *state;         /* state_len bytes of this piece, aligned to 64; zero at first */
    void *prescan_state; /* prescan_len bytes of this piece, aligned to 64; zero at first. May be
                            NULL */
    int prescanned;      /* 1: `prescan` has seen all of what is to be encoded, as it is now */
    struct tsi_scores scores;
    const struct tsi_bit_rule *rule; /* NULL: the bits of the option */
    terse_fault *fault;              /* where `encode` may tell why it failed; may be NULL */
};

struct terse_codec_ops {
    /* ---- what it is ---- */

    uint8_t wire_id;  /* 1..127 built in, 128..191 contributed, 192..255 private */
    const char *name; /* its name in a spec */
    const char *summary;
    uint32_t traits; /* TERSE_CODEC_*, each proved by tests/conform: with the default options, */
    uint32_t (*traits_of)(const double *option); /* and with others; NULL: the same */
    uint32_t passes;                             /* of an exchange; each has a payload of its own */
    const terse_option *options;
    size_t option_count;
    int varies; /* 1: lengths of sections are far below their bound: they travel first */

    /* The largest magnitude that can be encoded; NULL: any that is finite. */
    double (*limit)(const double *option);

    /* ---- sizes in bytes ---- */

    /* The largest length of a section of this piece; its length if TERSE_CODEC_FIXED_LEN. */
    size_t (*section_bound)(const struct terse_codec_ops *ops, const double *option,
                            const struct tsi_piece *piece, uint32_t pass);

    /* Of call->scratch, call->state and call->prescan_state; NULL: none. */
    size_t (*scratch_len)(const struct terse_codec_ops *ops, const double *option,
                          const struct tsi_piece *piece, unsigned threads);
    size_t (*state_len)(const double *option, const struct tsi_piece *piece);
    size_t (*prescan_len)(const double *option, const struct tsi_piece *piece);

    /* ---- encoding ---- */

    /* Encodes the piece at `in` into at most section_bound bytes and writes their number to *len.
     * `take` is NULL, or `in` without its const: then the decoded values are subtracted from it. On
     * failure `take` is unchanged. */
    terse_status (*encode)(const struct tsi_call *call, const float *in, float *take,
                           uint8_t *section, size_t *len);

    /* Reads elements first .. first+count-1 of the piece at `in` while they are in the cache, in
     * ascending runs, before `encode` gets the same piece. It saves `encode` a pass over memory and
     * never changes the payload. Returns 0 to stop the prescan of this piece. NULL: no prescan. */
    int (*prescan)(const struct tsi_call *call, const float *in, size_t first, size_t count);

    /* ---- decoding; sections are untrusted, and fault offsets count from `section` ---- */

    /* For codecs whose sections are codes of one width behind a small header, else NULL:
     * `open_codes` reads at most `len` bytes and checks all but the codes; `add_codes` adds
     * elements first .. first+count-1 to those at `out`, `first` is a multiple of 8. It returns 1
     * if a code is invalid (then `out` is unspecified), else 0, and `bad_code` says what is wrong.
     */
    terse_status (*open_codes)(const struct tsi_call *call, const uint8_t *section, size_t len,
                               struct tsi_codes *out, terse_fault *fault);
    uint32_t (*add_codes)(const struct tsi_call *call, const struct tsi_codes *codes, size_t first,
                          size_t count, float *out);
    const char *bad_code;

    /* For all other codecs: decodes the section and adds it to the piece at `out`. Reads at most
     * `len` bytes and writes the section's length to *used. */
    terse_status (*decode_add)(const struct tsi_call *call, const uint8_t *section, size_t len,
                               size_t *used, float *out, terse_fault *fault);

    /* For codecs that select single elements, else NULL: `entries` is the largest number of entries
     * in a section, `open` opens one, `next` decodes the next batch, empty after the last. They
     * refuse what decode_add refuses. */
    size_t (*entries)(const double *option, const struct tsi_piece *piece);
    terse_status (*open)(const struct tsi_call *call, const uint8_t *section, size_t len,
                         size_t *used, struct tsi_entries *out, terse_fault *fault);
    terse_status (*next)(const struct tsi_call *call, struct tsi_entries *entries,
                         struct tsi_batch *batch, terse_fault *fault);

    /* Codecs whose sections are runs of elements that are known before a gradient is: writes up to
     * two runs of the flat buffer, in the order in which a section holds them, and returns how
     * many. NULL for others. */
    uint32_t (*support)(const struct tsi_call *call, struct tsi_run out[2]);
};

/* Plain pieces of all codecs: f32 as a selection of every element. */
extern const struct terse_codec_ops tsi_codec_plain;

extern const struct terse_codec_ops tsi_codec_f32;
extern const struct terse_codec_ops tsi_codec_f16;
extern const struct terse_codec_ops tsi_codec_bf16;
extern const struct terse_codec_ops tsi_codec_sign;
extern const struct terse_codec_ops tsi_codec_scaled_sign;
extern const struct terse_codec_ops tsi_codec_topk;
extern const struct terse_codec_ops tsi_codec_block;
extern const struct terse_codec_ops tsi_codec_log;
extern const struct terse_codec_ops tsi_codec_uniform;
extern const struct terse_codec_ops tsi_codec_nearest;
extern const struct terse_codec_ops tsi_codec_natural;
extern const struct terse_codec_ops tsi_codec_low_rank;

/* Every codec: those of this build in wire order, then those of users in the order in which they
 * were registered. NULL past the last. (registry.c) */
const struct terse_codec_ops *tsi_codec_at(size_t index);

/* Appends the codec of a user; it stays for as long as the process. */
TERSE_CHECK terse_status tsi_codec_add(const struct terse_codec_ops *ops, terse_fault *fault);

#endif
