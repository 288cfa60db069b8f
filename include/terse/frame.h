/* A frame is a payload that proves itself: header, payload, checksum (docs/wire-format.md). */
#ifndef TERSE_FRAME_H
#define TERSE_FRAME_H

#include <stddef.h>
#include <stdint.h>

#include <terse/codec.h>
#include <terse/export.h>
#include <terse/layout.h>
#include <terse/status.h>

#ifdef __cplusplus
extern "C" {
#endif

#define TERSE_FRAME_VERSION 1u
#define TERSE_FRAME_HEADER_LEN 80u
#define TERSE_FRAME_TRAILER_LEN 8u

/* What a frame says about itself. Pointers lead into the bytes given to terse_frame_open. */
typedef struct terse_frame {
    uint8_t codec; /* wire id */
    uint8_t pass;
    uint32_t worker; /* who said it */
    uint64_t step;
    uint64_t seed; /* of the draws */
    uint64_t layout_hash;
    uint64_t first; /* the elements of the flat buffer it is about: first .. first+count-1 */
    uint64_t count;
    uint8_t option_bytes[TERSE_OPTION_BYTES]; /* the codec's options, canonical */
    const uint8_t *layout; /* the layout's description, or NULL if not included */
    size_t layout_len;
    const uint8_t *payload;
    size_t payload_len;
} terse_frame;

/* The length of the frame around a payload of payload_len bytes. */
TERSE_API size_t terse_frame_len(const terse_codec *codec, size_t payload_len, int with_layout);

/* Writes a frame. `with_layout` includes names and shapes, so that a file explains itself.
 * `payload` may already lie in its place inside `out` (at terse_frame_payload_at) and is then not
 * copied. */
TERSE_API TERSE_CHECK terse_status terse_frame_seal(const terse_codec *codec, uint32_t pass,
                                                    const terse_rng_key *key, const void *payload,
                                                    size_t payload_len, int with_layout, void *out,
                                                    size_t cap, size_t *len);
TERSE_API size_t terse_frame_payload_at(const terse_codec *codec, int with_layout);

/* The one door from bytes to a checked view. `len` may be larger than the frame: `*used` (if not
 * NULL) is the frame's length, and with used == NULL anything after the frame is an error.
 * Only the frame is checked; the payload is checked by decode_add. */
TERSE_API TERSE_CHECK terse_status terse_frame_open(const void *bytes, size_t len, terse_frame *out,
                                                    size_t *used, terse_fault *fault);

/* Is this frame for this codec (same codec, options, layout, range)? TERSE_MISMATCH names what
 * differs. */
TERSE_API TERSE_CHECK terse_status terse_frame_match(const terse_frame *frame,
                                                     const terse_codec *codec, terse_fault *fault);

/* The layout that a frame carries; the caller destroys it. TERSE_MISMATCH if it carries none. */
TERSE_API TERSE_CHECK terse_status terse_frame_layout(const terse_frame *frame, terse_layout **out,
                                                      terse_fault *fault);

/* A codec that reads this frame (and its successors) for this layout; the caller destroys it. */
TERSE_API TERSE_CHECK terse_status terse_frame_codec(const terse_frame *frame,
                                                     const terse_layout *layout,
                                                     const terse_codec_options *options,
                                                     terse_codec **out, terse_fault *fault);

#ifdef __cplusplus
}
#endif
#endif
