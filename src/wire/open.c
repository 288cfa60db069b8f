/* Checks the bytes of a frame: the only way from bytes to a terse_frame. The order of the checks is
 * that of docs/wire-format.md, section "Order of checks". */
#include <string.h>

#include "base/bytes.h"
#include "base/fault.h"
#include "base/hash.h"
#include "layout/layout.h"
#include "wire/fields.h"

/* Checks that the lengths can be read: a frame of this version with known flags. */
static terse_status check_kind(const uint8_t *frame, size_t len, uint8_t flags, terse_fault *fault)
{
    if (len < TERSE_FRAME_HEADER_LEN + TERSE_FRAME_TRAILER_LEN)
        return tsi_fail(fault, TERSE_BAD_FRAME, len, "header: %zu bytes, no frame is under %u", len,
                        TERSE_FRAME_HEADER_LEN + TERSE_FRAME_TRAILER_LEN);
    if (memcmp(frame + TSI_AT_MAGIC, TSI_MAGIC, sizeof TSI_MAGIC - 1) != 0)
        return tsi_fail(fault, TERSE_BAD_FRAME, TSI_AT_MAGIC, "magic: not TRSE");
    if (frame[TSI_AT_VERSION] != TERSE_FRAME_VERSION)
        return tsi_fail(fault, TERSE_BAD_VERSION, TSI_AT_VERSION,
                        "version: %u, this library reads %u", frame[TSI_AT_VERSION],
                        TERSE_FRAME_VERSION);
    if (frame[TSI_AT_FLAGS] & ~flags)
        return tsi_fail(fault, TERSE_BAD_FRAME, TSI_AT_FLAGS,
                        "flags: 0x%02x, only bit 0 has a meaning", frame[TSI_AT_FLAGS]);
    return TERSE_OK;
}

/* Checks that header, layout, payload and checksum end within `len` bytes; *frame_len is their
 * length. */
static terse_status check_lens(const uint8_t *frame, size_t len, size_t *frame_len,
                               terse_fault *fault)
{
    const uint64_t payload_len = tsi_load_u64(frame + TSI_AT_PAYLOAD_LEN);
    const uint32_t layout_len = tsi_load_u32(frame + TSI_AT_LAYOUT_LEN);
    if ((frame[TSI_AT_FLAGS] & TSI_FLAG_LAYOUT) != (layout_len > 0))
        return tsi_fail(fault, TERSE_BAD_FRAME, TSI_AT_LAYOUT_LEN,
                        "layout length: %u bytes, flag bit 0 is %u", layout_len,
                        frame[TSI_AT_FLAGS] & TSI_FLAG_LAYOUT);
    if (payload_len > TSI_MAX_PAYLOAD_LEN)
        return tsi_fail(fault, TERSE_BAD_FRAME, TSI_AT_PAYLOAD_LEN, "payload length: above 2^43");
    /* The sum is below 2^44, so it cannot overflow. */
    const uint64_t whole =
        TERSE_FRAME_HEADER_LEN + (uint64_t)layout_len + payload_len + TERSE_FRAME_TRAILER_LEN;
    if (whole > len)
        return tsi_fail(fault, TERSE_BAD_FRAME, len, "frame: ends after %zu of %llu bytes", len,
                        (unsigned long long)whole);
    *frame_len = (size_t)whole;
    return TERSE_OK;
}

static terse_status check_sum(const uint8_t *frame, size_t frame_len, terse_fault *fault)
{
    const size_t body_len = frame_len - TERSE_FRAME_TRAILER_LEN;
    if (tsi_load_u64(frame + body_len) != tsi_hash64(frame, body_len))
        return tsi_fail(fault, TERSE_BAD_CHECKSUM, body_len, "checksum: the frame was damaged");
    return TERSE_OK;
}

static void view_header(const uint8_t *frame, terse_frame *out)
{
    *out = (terse_frame){
        .codec = frame[TSI_AT_CODEC],
        .pass = frame[TSI_AT_PASS],
        .worker = tsi_load_u32(frame + TSI_AT_WORKER),
        .step = tsi_load_u64(frame + TSI_AT_STEP),
        .seed = tsi_load_u64(frame + TSI_AT_SEED),
        .layout_hash = tsi_load_u64(frame + TSI_AT_LAYOUT_HASH),
        .first = tsi_load_u64(frame + TSI_AT_FIRST),
        .count = tsi_load_u64(frame + TSI_AT_COUNT),
        .layout_len = tsi_load_u32(frame + TSI_AT_LAYOUT_LEN),
        .payload_len = (size_t)tsi_load_u64(frame + TSI_AT_PAYLOAD_LEN),
    };
    memcpy(out->option_bytes, frame + TSI_AT_OPTIONS, sizeof out->option_bytes);
    out->layout = out->layout_len > 0 ? frame + TSI_AT_LAYOUT : NULL;
    out->payload = frame + TSI_AT_LAYOUT + out->layout_len;
}

/* Checks the fields of an undamaged frame. */
static terse_status check_fields(const terse_frame *frame, terse_fault *fault)
{
    if (frame->codec == 0)
        return tsi_fail(fault, TERSE_BAD_FRAME, TSI_AT_CODEC, "codec: 0 is not a codec");
    if (frame->worker > TSI_MAX_WORKER)
        return tsi_fail(fault, TERSE_BAD_FRAME, TSI_AT_WORKER, "worker: above 2^24-2");
    if (frame->first > TERSE_MAX_COUNT)
        return tsi_fail(fault, TERSE_BAD_FRAME, TSI_AT_FIRST, "first: above 2^40");
    if (frame->count > TERSE_MAX_COUNT - frame->first)
        return tsi_fail(fault, TERSE_BAD_FRAME, TSI_AT_COUNT, "count: range ends above 2^40");
    return TERSE_OK;
}

static terse_status check_layout(const terse_frame *frame, terse_fault *fault)
{
    if (!frame->layout)
        return TERSE_OK;
    if (tsi_hash64(frame->layout, frame->layout_len) != frame->layout_hash)
        return tsi_fail(fault, TERSE_BAD_FRAME, TSI_AT_LAYOUT_HASH,
                        "layout hash: not that of the included layout");
    uint64_t count = 0;
    const terse_status status = tsi_layout_check(frame->layout, frame->layout_len, &count, fault);
    if (status != TERSE_OK) {
        if (fault)
            fault->offset += TSI_AT_LAYOUT;
        return status;
    }
    if (frame->first > count || frame->count > count - frame->first)
        return tsi_fail(fault, TERSE_BAD_FRAME, TSI_AT_COUNT,
                        "count: range ends behind the included layout");
    return TERSE_OK;
}

/* The checksum is checked as soon as its position is known, so a later fault is never caused by
 * damage. It cannot be checked earlier: another version may use another checksum, and its position
 * depends on the lengths. */
terse_status tsi_frame_open(const void *bytes, size_t len, uint8_t flags, terse_frame *out,
                            size_t *used, terse_fault *fault)
{
    if (!bytes || !out)
        return tsi_fail(fault, TERSE_BAD_ARGUMENT, 0, "frame: bytes or out is NULL");
    const uint8_t *frame = bytes;
    size_t frame_len = 0;
    terse_status status = check_kind(frame, len, flags, fault);
    if (status == TERSE_OK)
        status = check_lens(frame, len, &frame_len, fault);
    if (status == TERSE_OK && !used && frame_len < len)
        status = tsi_fail(fault, TERSE_BAD_FRAME, frame_len, "frame: %zu bytes after its end",
                          len - frame_len);
    if (status == TERSE_OK)
        status = check_sum(frame, frame_len, fault);
    if (status != TERSE_OK)
        return status;

    terse_frame view;
    view_header(frame, &view);
    status = check_fields(&view, fault);
    if (status == TERSE_OK)
        status = check_layout(&view, fault);
    if (status != TERSE_OK)
        return status;
    *out = view;
    if (used)
        *used = frame_len;
    return TERSE_OK;
}

terse_status terse_frame_open(const void *bytes, size_t len, terse_frame *out, size_t *used,
                              terse_fault *fault)
{
    return tsi_frame_open(bytes, len, TSI_FLAG_LAYOUT, out, used, fault);
}
