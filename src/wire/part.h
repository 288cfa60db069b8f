/* A part is a frame between workers: the payload of some pieces of a bucket, at its place behind
 * the header, without the layout, and behind the frame a check of the route it took. Both sides
 * know what to expect, so a part that is damaged, replayed, sent by another rank or meant for
 * another one is refused. This detects corruption; it does not authenticate anybody. */
#ifndef TSI_PART_H
#define TSI_PART_H

#include <terse/frame.h>

#define TSI_ROUTE_LEN ((size_t)8)
#define TSI_PART_PAYLOAD_AT ((size_t)TERSE_FRAME_HEADER_LEN)
#define TSI_PART_EXTRA (TSI_PART_PAYLOAD_AT + TERSE_FRAME_TRAILER_LEN + TSI_ROUTE_LEN)

/* Which message of which run this is. Keys its checksum. */
struct tsi_route {
    uint64_t run;
    uint64_t step;
    uint32_t bucket; /* the first tensor of its bucket, */
    uint32_t pass;   /* the codec's pass, */
    uint32_t phase;  /* and the phase of the combine that sends it */
    uint32_t sender;
    uint32_t receiver;  /* TSI_TO_ALL where all get the same bytes */
    uint32_t unchecked; /* 1: the bytes never leave this process, and nothing is computed */
};

#define TSI_TO_ALL UINT32_MAX

/* The check of `len` bytes on this route; 0 where it is unchecked. */
uint64_t tsi_route_check(const struct tsi_route *route, const void *bytes, size_t len);

/* What both sides know about a part before it is sent. */
struct tsi_part {
    struct tsi_route route;
    terse_rng_key key;                      /* that of its encoder */
    uint8_t header[TERSE_FRAME_HEADER_LEN]; /* without the length of its payload, which is 0 */
};

/* Writes what the headers of all parts of a codec have in common: all but pass, step, seed, worker
 * and count. `first` is the element of the flat buffer where their bucket starts. */
void tsi_part_header(const terse_codec *codec, uint64_t first, uint8_t out[TERSE_FRAME_HEADER_LEN]);

/* The payload lies at frame + TSI_PART_PAYLOAD_AT already. */
void tsi_part_seal(const struct tsi_part *part, size_t payload_len, uint8_t *frame);

/* In place of a part by a worker that has none: it failed, and its closing record tells why. */
void tsi_part_void(const struct tsi_part *part, uint8_t *frame);

/* Opens what must be exactly this part; `cap` bytes have arrived, the frame may be shorter.
 * TERSE_MISMATCH where it is sound but another one. *is_void: the sender has sent none, and the
 * status is TERSE_MISMATCH too. */
TERSE_CHECK terse_status tsi_part_open(const struct tsi_part *part, const uint8_t *frame,
                                       size_t cap, const uint8_t **payload, size_t *payload_len,
                                       int *is_void, terse_fault *fault);

#endif
