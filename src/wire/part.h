/* A part is a frame between workers of an exchange: the payload of some pieces of a bucket, at its
 * place behind the header, without the layout. Both sides know what to expect. */
#ifndef TSI_PART_H
#define TSI_PART_H

#include <terse/frame.h>

#define TSI_PART_EXTRA ((size_t)TERSE_FRAME_HEADER_LEN + TERSE_FRAME_TRAILER_LEN)

/* What a part is about, beside the codec. */
struct tsi_part {
    uint32_t pass;
    terse_rng_key key; /* its worker said it */
    uint64_t first;    /* element of the flat buffer where the bucket starts */
    uint64_t count;    /* elements that the payload is about */
};

/* The payload lies at frame + TERSE_FRAME_HEADER_LEN already. */
void tsi_part_seal(const terse_codec *codec, const struct tsi_part *part, size_t payload_len,
                   uint8_t *frame);

/* The length of a part that was sealed or made void here. */
size_t tsi_part_len(const uint8_t *frame);

/* In place of a part by a worker that has nothing to say: it failed, and the agreement tells. */
void tsi_part_void(uint8_t *frame);
int tsi_part_is_void(const uint8_t *frame);

/* Opens what must be exactly this part; `cap` bytes have arrived, the frame may be shorter.
 * TERSE_MISMATCH where it is sound but another one. */
TERSE_CHECK terse_status tsi_part_open(const terse_codec *codec, const struct tsi_part *part,
                                       const uint8_t *frame, size_t cap, const uint8_t **payload,
                                       size_t *payload_len, terse_fault *fault);

#endif
