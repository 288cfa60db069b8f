/* A codec under check with its buffers, each between guards; and inputs of every kind. */
#ifndef CHK_SUBJECT_H
#define CHK_SUBJECT_H

#include "check/check.h"

/* SplitMix64: the inputs do not come from the generator that codecs use. */
struct chk_random {
    uint64_t state;
};
uint64_t chk_next(struct chk_random *random);

enum chk_kind {
    CHK_NORMAL, /* N(0, 1) */
    CHK_HEAVY,  /* a few elements far larger than the others, in clusters */
    CHK_TIES,   /* few distinct magnitudes */
    CHK_SPARSE, /* mostly zeros of both signs */
    CHK_ZERO,
    CHK_DENORMAL,
    CHK_KINDS
};
extern const char *const chk_kind_names[CHK_KINDS];

/* A buffer of exactly `len` bytes between two guards. */
struct chk_buffer {
    uint8_t *at;
    size_t len;
};

#define CHK_PASSES 2 /* of an exchange: the most that a codec has */

struct chk_subject {
    const struct chk_settings *settings;
    terse_layout *layout;
    terse_codec *codec;
    terse_codec_about about;
    terse_rng_key key;
    size_t count;
    struct chk_buffer payload[CHK_PASSES];
    size_t len[CHK_PASSES]; /* of the payloads */
    struct chk_buffer in_bytes, residual_bytes, decoded_bytes;
    float *in, *residual, *decoded; /* the same as floats */
    enum chk_kind kind;             /* of the input */
    char why[240];                  /* why a function returned 0 */
};

/* Of tensors of every awkward kind: a small one, an empty one, a scalar, a vector, a matrix, and
 * one of settings->large elements. */
TERSE_CHECK terse_status chk_subject_create(const struct chk_settings *settings, uint32_t threads,
                                            struct chk_subject *out, terse_fault *fault);
void chk_subject_destroy(struct chk_subject *subject);

/* Fills `in` and `residual` with the same input; it depends on seed, kind and salt. */
void chk_fill(struct chk_subject *subject, enum chk_kind kind, uint64_t salt);

/* These return 1, or 0 with the reason in `why`. */

/* Encodes and takes `residual`, in all passes, as a group of one worker, and decodes onto zeros. */
int chk_round_trip(struct chk_subject *subject);
/* One pass of it: encodes `from`, which it takes from if `take`, and looks at the length. */
int chk_encode(struct chk_subject *subject, uint32_t pass, float *from, int take);
int chk_decode(struct chk_subject *subject, uint32_t pass);
/* Nothing was written outside of the buffers. */
int chk_guards_hold(struct chk_subject *subject);

#endif
