/* Version 1 of docs/wire-format.md in numbers. */
#ifndef TSI_FIELDS_H
#define TSI_FIELDS_H

#include <terse/frame.h>

#define TSI_MAGIC "TRSE"

/* Where the fields lie. */
enum {
    TSI_AT_MAGIC = 0,
    TSI_AT_VERSION = 4,
    TSI_AT_CODEC = 5,
    TSI_AT_PASS = 6,
    TSI_AT_FLAGS = 7,
    TSI_AT_LAYOUT_HASH = 8,
    TSI_AT_STEP = 16,
    TSI_AT_SEED = 24,
    TSI_AT_FIRST = 32,
    TSI_AT_COUNT = 40,
    TSI_AT_PAYLOAD_LEN = 48,
    TSI_AT_WORKER = 56,
    TSI_AT_LAYOUT_LEN = 60,
    TSI_AT_OPTIONS = 64,
    TSI_AT_LAYOUT = 80,
};

_Static_assert(TSI_AT_LAYOUT == TERSE_FRAME_HEADER_LEN, "the layout follows the header");
_Static_assert(TSI_AT_OPTIONS + TERSE_OPTION_BYTES == TSI_AT_LAYOUT, "the options end the header");

#define TSI_FLAG_LAYOUT 1u
#define TSI_FLAG_PART 2u         /* between workers: some pieces of a bucket, src/wire/part.h */
#define TSI_MAX_WORKER 0xfffffeu /* a draw's key has 24 bits for worker + 1 */
#define TSI_MAX_PAYLOAD_LEN (UINT64_C(1) << 43) /* 8 bytes for each of 2^40 elements */

/* terse_frame_open for frames that may have these flags. */
TERSE_CHECK terse_status tsi_frame_open(const void *bytes, size_t len, uint8_t flags,
                                        terse_frame *out, size_t *used, terse_fault *fault);

/* The header of a frame that includes nothing: no flags, lengths and range still zero. */
void tsi_header_write(const terse_codec *codec, uint32_t pass, const terse_rng_key *key,
                      uint8_t out[TERSE_FRAME_HEADER_LEN]);

/* Does the codec have this pass, and could a payload of that pass be `len` bytes long? */
int tsi_frame_has_round(const terse_codec *codec, uint32_t pass);
int tsi_frame_has_len(const terse_codec *codec, uint32_t pass, uint64_t len);

#endif
