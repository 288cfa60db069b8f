/* What a codec is, from inside: one ops table per file of this folder, all listed in registry.c.
 *
 * A slot works on one piece (a tensor) of the flat buffer; walk.c goes over the pieces and lays
 * their payload sections one after the other. */
#ifndef TSI_CODEC_H
#define TSI_CODEC_H

#include <string.h>

#include <terse/codec.h>

#include "base/spec.h"
#include "codec/index_stream.h"
#include "codec/random.h"
#include "kernels/kernels.h"
#include "layout/layout.h"

/* Scores that stand in for magnitudes (terse_codec_set_scores), the part that lies in this piece.
 */
struct tsi_patch {
    const uint64_t *index; /* in the flat buffer, ascending */
    const float *score;
    size_t count;
};

/* What a selecting codec leaves of what it said: -0 + x is x for every x, -0 included, so adding
 * what was said gives back the same bits. */
#define TSI_NOTHING (-0.0f)

/* Is told which elements of the flat buffer were spoken of: base + index[0 .. count-1], ascending;
 * index NULL: base .. base + count-1. */
struct tsi_toucher {
    void *context;
    void (*touch)(void *context, uint64_t base, const uint32_t *index, size_t count);
    const float *soon; /* a flat buffer that will be looked at there */
};

/* A section whose entries (an element and its value) are decoded one after the other. */
struct tsi_entries {
    struct tsi_index_reader reader;
    const uint8_t *values;
    size_t done; /* of a plain piece, which has no reader */
};

#define TSI_BATCH 64u

/* Some entries, ascending. */
struct tsi_batch {
    uint32_t index[TSI_BATCH]; /* in the piece */
    float value[TSI_BATCH];
    size_t count;
};

struct tsi_call;

/* Chooses the bits of a section by what it is to say (codec uniform). */
struct tsi_bit_rule {
    void *context;
    /* `norm` is the codec's, > 0 and finite. 2..16. */
    unsigned (*choose)(void *context, const struct tsi_call *call, const float *in, float norm);
};

/* What every slot is handed. */
struct tsi_call {
    const double *option;          /* values in the order of ops->options */
    const struct tsi_piece *piece; /* never empty: walk.c skips pieces without elements */
    const struct tsk_table *kernel;
    const terse_rng_key *key;
    uint32_t pass;
    unsigned threads;
    void *scratch;       /* scratch_len bytes, aligned to 64; contents are lost between calls */
    void *state;         /* state_len bytes of this piece, aligned to 64; zero at first */
    void *prescan_state; /* prescan_len bytes of this piece, aligned to 64; zero at first. May be
                            NULL */
    int prescanned;      /* 1: `prescan` has seen all of what is to be encoded, as it is now */
    struct tsi_patch patch;
    const struct tsi_bit_rule *rule; /* NULL: the bits of the option */
    int fresh;                       /* 1: what `out` holds counts as 0 (codecs that are `fresh`) */
};

/* Begins to add to `out`, while it is in the cache. */
static inline void tsi_call_start(const struct tsi_call *call, float *out, size_t count)
{
    if (call->fresh)
        memset(out, 0, count * sizeof *out);
}

struct terse_codec_ops {
    uint8_t wire_id;  /* 1..127 built in, 128..191 contributed, 192..255 private */
    const char *name; /* as in a spec */
    const char *summary;
    uint32_t traits; /* TERSE_CODEC_*, each proved by tests/conform */
    uint32_t passes;
    const terse_option *options;
    size_t option_count;
    int fresh; /* decoding heeds tsi_call.fresh; for others zeros are written first */

    /* No section of this piece is longer; the length itself for TERSE_CODEC_FIXED_LEN. */
    size_t (*section_bound)(const double *option, const struct tsi_piece *piece, uint32_t pass);

    /* Bytes of scratch, of state and of prescan state; NULL for none. */
    size_t (*scratch_len)(const double *option, const struct tsi_piece *piece, unsigned threads);
    size_t (*state_len)(const double *option, const struct tsi_piece *piece);
    size_t (*prescan_len)(const double *option, const struct tsi_piece *piece);

    /* Is shown elements of the piece at `in` while they are in the cache, run after run from the
     * first to the last, before `encode` is called on the same. What it notes spares that a pass
     * over memory, and changes nothing else. Returns 0 if it does not want to see more; NULL: it
     * never does. */
    int (*prescan)(const struct tsi_call *call, const float *in, size_t first, size_t count);

    /* Says the piece at `in`. `take` is NULL, or `in` without its const: then what is said is
     * subtracted from it. On failure `take` is as it was. */
    terse_status (*encode)(const struct tsi_call *call, const float *in, float *take,
                           uint8_t *section, size_t *len);

    /* Adds what the section at `section` says to the piece at `out`. Reads at most `len` bytes and
     * tells through *used how long the section is. Fault offsets count from `section`. */
    terse_status (*decode_add)(const struct tsi_call *call, const uint8_t *section, size_t len,
                               size_t *used, float *out, terse_fault *fault);

    /* Codecs that select single elements: how many a section holds at most; opens one; decodes the
     * next entries, none after the last. NULL for others. Refuse what decode_add refuses. */
    size_t (*entries)(const double *option, const struct tsi_piece *piece);
    terse_status (*open)(const struct tsi_call *call, const uint8_t *section, size_t len,
                         size_t *used, struct tsi_entries *out, terse_fault *fault);
    terse_status (*next)(const struct tsi_call *call, struct tsi_entries *entries,
                         struct tsi_batch *batch, terse_fault *fault);

    /* Codecs that select: tells which elements a section speaks of; it has been decoded before.
     * Returns how long it is. */
    size_t (*touch)(const struct tsi_call *call, const uint8_t *section,
                    const struct tsi_toucher *toucher);
};

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

/* Every codec of this build, in wire order. */
extern const struct terse_codec_ops *const tsi_codecs[];
extern const size_t tsi_codec_count;

#endif
