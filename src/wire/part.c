#include "wire/part.h"

#include <string.h>

#include "base/bytes.h"
#include "base/fault.h"
#include "base/hash.h"
#include "wire/fields.h"

void tsi_part_seal(const terse_codec *codec, const struct tsi_part *part, size_t payload_len,
                   uint8_t *frame)
{
    const size_t body_len = TERSE_FRAME_HEADER_LEN + payload_len;
    tsi_header_write(codec, part->pass, &part->key, frame);
    frame[TSI_AT_FLAGS] = TSI_FLAG_PART;
    tsi_store_u64(frame + TSI_AT_FIRST, part->first);
    tsi_store_u64(frame + TSI_AT_COUNT, part->count);
    tsi_store_u64(frame + TSI_AT_PAYLOAD_LEN, payload_len);
    tsi_store_u32(frame + TSI_AT_LAYOUT_LEN, 0);
    tsi_store_u64(frame + body_len, tsi_hash64(frame, body_len));
}

size_t tsi_part_len(const uint8_t *frame)
{
    return TSI_PART_EXTRA + (size_t)tsi_load_u64(frame + TSI_AT_PAYLOAD_LEN);
}

void tsi_part_void(uint8_t *frame)
{
    memset(frame, 0, TERSE_FRAME_HEADER_LEN);
}

int tsi_part_is_void(const uint8_t *frame)
{
    return tsi_load_u64(frame) == 0;
}

terse_status tsi_part_open(const terse_codec *codec, const struct tsi_part *part,
                           const uint8_t *frame, size_t cap, const uint8_t **payload,
                           size_t *payload_len, terse_fault *fault)
{
    uint8_t expected[TERSE_FRAME_HEADER_LEN];
    terse_frame view;
    size_t used;
    if (tsi_part_is_void(frame))
        return tsi_fail(fault, TERSE_MISMATCH, 0, "part: nothing was said");
    const terse_status status = tsi_frame_open(frame, cap, TSI_FLAG_PART, &view, &used, fault);
    if (status != TERSE_OK)
        return status;
    tsi_header_write(codec, part->pass, &part->key, expected);
    expected[TSI_AT_FLAGS] = TSI_FLAG_PART;
    tsi_store_u64(expected + TSI_AT_FIRST, part->first);
    tsi_store_u64(expected + TSI_AT_COUNT, part->count);
    tsi_store_u64(expected + TSI_AT_PAYLOAD_LEN, view.payload_len);
    tsi_store_u32(expected + TSI_AT_LAYOUT_LEN, 0);
    for (size_t i = 0; i < sizeof expected; i++)
        if (frame[i] != expected[i])
            return tsi_fail(fault, TERSE_MISMATCH, i, "part: a frame of another part or step");
    *payload = view.payload;
    *payload_len = view.payload_len;
    return TERSE_OK;
}
