#include "wire/part.h"

#include <string.h>

#include "base/bytes.h"
#include "base/fault.h"
#include "base/hash.h"
#include "wire/fields.h"

enum { VOID_LEN = 16 }; /* eight zero bytes and a check of them */

uint64_t tsi_route_check(const struct tsi_route *route, const void *bytes, size_t len)
{
    return route->unchecked ? 0 : tsi_hash_keyed(route, sizeof *route, bytes, len);
}

void tsi_part_header(const terse_codec *codec, uint64_t first, uint8_t out[TERSE_FRAME_HEADER_LEN])
{
    const terse_rng_key none = {0};
    tsi_header_write(codec, 0, &none, out);
    out[TSI_AT_FLAGS] = TSI_FLAG_PART;
    tsi_store_u64(out + TSI_AT_FIRST, first);
}

void tsi_part_seal(const struct tsi_part *part, size_t payload_len, uint8_t *frame)
{
    const size_t body_len = TERSE_FRAME_HEADER_LEN + payload_len;
    uint8_t *const checksum = frame + body_len;
    memcpy(frame, part->header, TERSE_FRAME_HEADER_LEN);
    tsi_store_u64(frame + TSI_AT_PAYLOAD_LEN, payload_len);
    tsi_store_u64(checksum, part->route.unchecked ? 0 : tsi_hash64(frame, body_len));
    tsi_store_u64(checksum + TERSE_FRAME_TRAILER_LEN,
                  tsi_route_check(&part->route, checksum, TERSE_FRAME_TRAILER_LEN));
}

void tsi_part_void(const struct tsi_part *part, uint8_t *frame)
{
    memset(frame, 0, TERSE_FRAME_HEADER_LEN);
    tsi_store_u64(frame + 8, tsi_route_check(&part->route, frame, 8));
}

/* The frame must be the one that both sides expect, byte for byte. */
terse_status tsi_part_open(const struct tsi_part *part, const uint8_t *frame, size_t cap,
                           const uint8_t **payload, size_t *payload_len, int *is_void,
                           terse_fault *fault)
{
    const size_t len_end = TSI_AT_PAYLOAD_LEN + sizeof(uint64_t);
    terse_frame view;
    size_t used;
    *is_void = cap >= VOID_LEN && tsi_load_u64(frame) == 0 &&
               tsi_load_u64(frame + 8) == tsi_route_check(&part->route, frame, 8);
    if (cap < TSI_PART_EXTRA)
        return tsi_fail(fault, TERSE_BAD_FRAME, cap, "part: %zu bytes, at least %zu", cap,
                        TSI_PART_EXTRA);
    if (*is_void)
        return tsi_fail(fault, TERSE_MISMATCH, 0, "part: its sender had nothing to send");
    if (!part->route.unchecked) {
        const terse_status status = tsi_frame_open(frame, cap, TSI_FLAG_PART, &view, &used, fault);
        if (status != TERSE_OK)
            return status;
        const uint8_t *const checksum = frame + used - TERSE_FRAME_TRAILER_LEN;
        if (cap - used < TSI_ROUTE_LEN ||
            tsi_load_u64(frame + used) !=
                tsi_route_check(&part->route, checksum, TERSE_FRAME_TRAILER_LEN))
            return tsi_fail(fault, TERSE_BAD_CHECKSUM, used,
                            "part: sent on another route: another step, sender or receiver");
    }
    *payload = frame + TERSE_FRAME_HEADER_LEN;
    *payload_len = (size_t)tsi_load_u64(frame + TSI_AT_PAYLOAD_LEN);
    for (size_t i = 0; i < TERSE_FRAME_HEADER_LEN; i++)
        if (frame[i] != part->header[i] && (i < TSI_AT_PAYLOAD_LEN || i >= len_end))
            return tsi_fail(fault, TERSE_MISMATCH, i, "part: a frame of another part or step");
    return TERSE_OK;
}
