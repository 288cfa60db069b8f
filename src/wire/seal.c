/* Puts a payload into a frame. */
#include <string.h>

#include "base/bytes.h"
#include "base/hash.h"
#include "layout/layout.h"
#include "wire/fields.h"

size_t terse_frame_payload_at(const terse_codec *codec, int with_layout)
{
    return TSI_AT_LAYOUT + (with_layout ? tsi_layout_len(terse_codec_layout(codec)) : 0);
}

size_t terse_frame_len(const terse_codec *codec, size_t payload_len, int with_layout)
{
    return terse_frame_payload_at(codec, with_layout) + payload_len + TERSE_FRAME_TRAILER_LEN;
}

/* Every field that does not depend on the payload or on what a frame includes. */
void tsi_header_write(const terse_codec *codec, uint32_t pass, const terse_rng_key *key,
                      uint8_t out[TERSE_FRAME_HEADER_LEN])
{
    const terse_layout *layout = terse_codec_layout(codec);
    terse_codec_about about;
    terse_codec_describe(codec, &about);

    memset(out, 0, TERSE_FRAME_HEADER_LEN);
    memcpy(out + TSI_AT_MAGIC, TSI_MAGIC, sizeof TSI_MAGIC - 1);
    out[TSI_AT_VERSION] = TERSE_FRAME_VERSION;
    out[TSI_AT_CODEC] = about.wire_id;
    out[TSI_AT_PASS] = (uint8_t)pass;
    tsi_store_u64(out + TSI_AT_LAYOUT_HASH, terse_layout_hash(layout));
    tsi_store_u64(out + TSI_AT_STEP, key->step);
    tsi_store_u64(out + TSI_AT_SEED, key->seed);
    tsi_store_u32(out + TSI_AT_WORKER, key->worker);
    terse_codec_option_bytes(codec, out + TSI_AT_OPTIONS);
}

static void write_header(const terse_codec *codec, uint32_t pass, const terse_rng_key *key,
                         size_t payload_len, int with_layout, uint8_t *out)
{
    const terse_layout *layout = terse_codec_layout(codec);
    tsi_header_write(codec, pass, key, out);
    tsi_store_u64(out + TSI_AT_COUNT, terse_layout_count(layout));
    tsi_store_u64(out + TSI_AT_PAYLOAD_LEN, payload_len);
    if (with_layout) {
        out[TSI_AT_FLAGS] = TSI_FLAG_LAYOUT;
        tsi_store_u32(out + TSI_AT_LAYOUT_LEN, (uint32_t)tsi_layout_len(layout));
        tsi_layout_write(layout, out + TSI_AT_LAYOUT);
    }
}

terse_status terse_frame_seal(const terse_codec *codec, uint32_t pass, const terse_rng_key *key,
                              const void *payload, size_t payload_len, int with_layout, void *out,
                              size_t cap, size_t *len)
{
    if (!codec || !key || !out || !len || (!payload && payload_len > 0) ||
        key->worker > TSI_MAX_WORKER || !tsi_frame_has_round(codec, pass) ||
        !tsi_frame_has_len(codec, pass, payload_len))
        return TERSE_BAD_ARGUMENT;
    const size_t frame_len = terse_frame_len(codec, payload_len, with_layout);
    if (cap < frame_len)
        return TERSE_TOO_SMALL;

    uint8_t *frame = out;
    uint8_t *place = frame + terse_frame_payload_at(codec, with_layout);
    /* Before the header: the payload may lie anywhere in `out`. */
    if (payload_len > 0 && payload != place)
        memmove(place, payload, payload_len);
    write_header(codec, pass, key, payload_len, with_layout, frame);
    const size_t body_len = frame_len - TERSE_FRAME_TRAILER_LEN;
    tsi_store_u64(frame + body_len, tsi_hash64(frame, body_len));
    *len = frame_len;
    return TERSE_OK;
}
