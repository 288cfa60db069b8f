/* Who can read a frame: a codec that is there, or one made for it. */
#include "base/fault.h"
#include "layout/layout.h"
#include "wire/fields.h"

int tsi_frame_has_len(const terse_codec *codec, uint32_t pass, uint64_t len)
{
    terse_codec_about about;
    terse_codec_describe(codec, &about);
    const size_t bound = terse_codec_payload_bound(codec, pass);
    return about.traits & TERSE_CODEC_FIXED_LEN ? len == bound : len <= bound;
}

int tsi_frame_has_round(const terse_codec *codec, uint32_t pass)
{
    terse_codec_about about;
    terse_codec_describe(codec, &about);
    return pass < about.passes;
}

static terse_status match_layout(const terse_frame *frame, const terse_layout *layout,
                                 terse_fault *fault)
{
    if (frame->layout_hash != terse_layout_hash(layout))
        return tsi_fail(
            fault, TERSE_MISMATCH, TSI_AT_LAYOUT_HASH, "layout: hash %016llx, expected %016llx",
            (unsigned long long)frame->layout_hash, (unsigned long long)terse_layout_hash(layout));
    if (frame->first != 0 || frame->count != terse_layout_count(layout))
        return tsi_fail(fault, TERSE_MISMATCH, TSI_AT_FIRST,
                        "range: %llu elements from %llu, expected %llu from 0",
                        (unsigned long long)frame->count, (unsigned long long)frame->first,
                        (unsigned long long)terse_layout_count(layout));
    return TERSE_OK;
}

/* What only the codec knows about a frame's header. */
static terse_status match_pass(const terse_frame *frame, const terse_codec *codec,
                               terse_fault *fault)
{
    if (!tsi_frame_has_round(codec, frame->pass))
        return tsi_fail(fault, TERSE_BAD_FRAME, TSI_AT_PASS, "pass: %u, the codec has no such",
                        frame->pass);
    if (!tsi_frame_has_len(codec, frame->pass, frame->payload_len))
        return tsi_fail(fault, TERSE_BAD_FRAME, TSI_AT_PAYLOAD_LEN,
                        "payload length: %zu, this codec and layout make %zu", frame->payload_len,
                        terse_codec_payload_bound(codec, frame->pass));
    return TERSE_OK;
}

terse_status terse_frame_match(const terse_frame *frame, const terse_codec *codec,
                               terse_fault *fault)
{
    if (!frame || !codec)
        return tsi_fail(fault, TERSE_BAD_ARGUMENT, 0, "match: no frame or no codec");
    terse_codec_about about;
    terse_codec_describe(codec, &about);
    if (frame->codec != about.wire_id)
        return tsi_fail(fault, TERSE_MISMATCH, TSI_AT_CODEC, "codec: %u, expected %u", frame->codec,
                        about.wire_id);
    uint8_t option_bytes[TERSE_OPTION_BYTES];
    terse_codec_option_bytes(codec, option_bytes);
    for (uint32_t i = 0; i < TERSE_OPTION_BYTES; i++)
        if (frame->option_bytes[i] != option_bytes[i])
            return tsi_fail(fault, TERSE_MISMATCH, TSI_AT_OPTIONS + i, "options: not those of %s",
                            terse_codec_spec(codec));
    const terse_status status = match_layout(frame, terse_codec_layout(codec), fault);
    return status == TERSE_OK ? match_pass(frame, codec, fault) : status;
}

terse_status terse_frame_layout(const terse_frame *frame, terse_layout **out, terse_fault *fault)
{
    if (!frame || !out)
        return tsi_fail(fault, TERSE_BAD_ARGUMENT, 0, "layout: no frame or no place for it");
    if (!frame->layout)
        return tsi_fail(fault, TERSE_MISMATCH, TSI_AT_FLAGS, "layout: not included in this frame");
    const terse_status status = tsi_layout_read(frame->layout, frame->layout_len, out, fault);
    if (status != TERSE_OK && fault)
        fault->offset += TSI_AT_LAYOUT;
    return status;
}

terse_status terse_frame_codec(const terse_frame *frame, const terse_layout *layout,
                               const terse_codec_options *options, terse_codec **out,
                               terse_fault *fault)
{
    if (!frame || !layout || !out)
        return tsi_fail(fault, TERSE_BAD_ARGUMENT, 0, "codec: no frame, layout or place for it");
    terse_status status = match_layout(frame, layout, fault);
    if (status != TERSE_OK)
        return status;
    terse_codec *codec;
    status = terse_codec_open(frame->codec, frame->option_bytes, layout, options, &codec, fault);
    if (status != TERSE_OK) {
        if (fault)
            fault->offset += status == TERSE_BAD_VERSION ? TSI_AT_CODEC : TSI_AT_OPTIONS;
        return status;
    }
    status = match_pass(frame, codec, fault);
    if (status != TERSE_OK) {
        terse_codec_destroy(codec);
        return status;
    }
    *out = codec;
    return TERSE_OK;
}
