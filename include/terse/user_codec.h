/* A codec of your own: functions that are registered under a name. From then on every spec can name
 * it: "mine:p=2" as a codec, "codec=mine:p=2,feedback=residual,lr=0.1" as a method.
 *
 *     static const terse_user_codec mine = {
 *         .size = sizeof mine, .name = "mine", .summary = "every other element", .wire_id = 192,
 *         .traits = TERSE_CODEC_CONTRACTIVE | TERSE_CODEC_FIXED_LEN,
 *         .bound = bound, .encode = encode, .decode_add = decode_add};
 *     terse_codec_register(&mine, &fault);
 *
 * Every process of a group must register the same codecs. */
#ifndef TERSE_USER_CODEC_H
#define TERSE_USER_CODEC_H

#include <stddef.h>
#include <stdint.h>

#include <terse/codec.h>
#include <terse/export.h>
#include <terse/status.h>

#ifdef __cplusplus
extern "C" {
#endif

#define TERSE_USER_WIRE_ID 192u /* the first private one; 255 is the last */
#define TERSE_USER_OPTIONS 4u   /* most options of a codec; the bytes of all fit 16 */

/* What every function gets: a tensor, or the part of one that a rank owns. */
typedef struct terse_user_call {
    void *context;            /* of the codec */
    const double *option;     /* values in the order of the options; of a choice its number */
    const terse_rng_key *key; /* seed and step are the same on all workers; NULL in `bound` */
    uint64_t count;           /* elements, at least 1 */
    uint32_t tensor;          /* its number in the layout */
    uint32_t reserved[5];
} terse_user_call;

/* Functions are called by several threads at once, for different workers: they may not share
 * anything that they change. They allocate nothing that they do not free. */
typedef struct terse_user_codec {
    size_t size;                 /* sizeof(terse_user_codec) */
    const char *name;            /* a lower-case letter, then letters, digits, '-' or '_' */
    const char *summary;         /* one line */
    uint8_t wire_id;             /* TERSE_USER_WIRE_ID .. 255: the same on every rank */
    uint32_t traits;             /* TERSE_CODEC_*, all but ADDITIVE: what it promises */
    const terse_option *options; /* NULL: none. The bytes of a real are 8, of others 1: 16 in all */
    uint32_t option_count;
    void *context;

    /* The largest length in bytes of an encoded tensor; its length with TERSE_CODEC_FIXED_LEN. It
     * depends on the options and the count alone. */
    size_t (*bound)(const terse_user_call *call);

    /* Encodes `in` into at most `bound` bytes at `section` and writes their number to *len.
     * TERSE_NOT_FINITE where an element is not finite, TERSE_OUT_OF_RANGE where it is too large:
     * both skip a step. Any other failure ends it, and so does a length above the bound, or other
     * than the bound with TERSE_CODEC_FIXED_LEN. */
    terse_status (*encode)(const terse_user_call *call, const float *in, uint8_t *section,
                           size_t *len);

    /* Decodes a section that begins at `section`, adds it to `out`, and writes its length to *used;
     * at most `len` bytes are there. They are untrusted: TERSE_BAD_FRAME for what `encode` cannot
     * have written. */
    terse_status (*decode_add)(const terse_user_call *call, const uint8_t *section, size_t len,
                               size_t *used, float *out);

    /* Optional: subtracts what the section decodes to from `residual`, the input of `encode`. NULL:
     * it is decoded and subtracted. */
    terse_status (*take)(const terse_user_call *call, const uint8_t *section, size_t len,
                         float *residual);

    /* Optional: why the last function of this codec failed in the calling thread, one line without
     * a full stop, or NULL; for the fault's text. */
    const char *(*explain)(void *context);
} terse_user_codec;

/* Registers a codec for as long as the process. The struct is copied; names, options and context
 * must stay. TERSE_BAD_ARGUMENT: a member is missing or out of range, or the name or wire id is
 * taken; the fault tells. Any thread may call it. */
TERSE_API TERSE_CHECK terse_status terse_codec_register(const terse_user_codec *codec,
                                                        terse_fault *fault);

/* A plugin of the command (`terse train --plugin ./mine.so`) is a shared object that defines this
 * function: its codec number `index`, from 0; NULL past the last. It need not link libterse. */
TERSE_API const terse_user_codec *terse_plugin(uint32_t index);

#ifdef __cplusplus
}
#endif
#endif
