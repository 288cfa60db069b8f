/* The door for bytes: open, then layout, codec and decode as a reader of files would. What opens is
 * canonical: sealed again it is the same bytes. */
#include <stdlib.h>
#include <string.h>

#include "base/bytes.h"
#include "base/hash.h"
#include "fuzz/subject.h"

#define MAX_COUNT                                                                   \
    UINT64_C(65536) /* a reader's own limit: a few bytes may describe 2^40 elements \
                     */

/* Makes layout hash and checksum fit where the lengths allow it: no fuzzer finds them. */
static void repair(uint8_t *frame, size_t len)
{
    if (len < 88)
        return;
    const uint64_t payload_len = tsi_load_u64(frame + 48);
    const uint64_t layout_len = tsi_load_u32(frame + 60);
    if (payload_len > len || 88 + layout_len + payload_len > len)
        return;
    if (layout_len > 0)
        tsi_store_u64(frame + 8, tsi_hash64(frame + 80, layout_len));
    const size_t body_len = 80 + layout_len + payload_len;
    tsi_store_u64(frame + body_len, tsi_hash64(frame, body_len));
}

static void check_canonical(const terse_frame *frame, const terse_codec *codec,
                            const uint8_t *bytes, size_t used)
{
    const terse_rng_key key = {frame->seed, frame->step, frame->worker};
    uint8_t *again = fuzz_room(used);
    size_t len;
    FUZZ_CHECK(terse_frame_seal(codec, frame->pass, &key, frame->payload, frame->payload_len,
                                frame->layout != NULL, again, used, &len) == TERSE_OK);
    FUZZ_CHECK(len == used && memcmp(again, bytes, used) == 0);
    free(again);
}

static void read_payload(const terse_frame *frame, const terse_layout *layout, const uint8_t *bytes,
                         size_t used)
{
    terse_codec *codec;
    terse_fault fault;
    if (terse_frame_codec(frame, layout, NULL, &codec, &fault) != TERSE_OK)
        return;
    FUZZ_CHECK(terse_frame_match(frame, codec, &fault) == TERSE_OK);
    check_canonical(frame, codec, bytes, used);
    const terse_rng_key key = {frame->seed, frame->step, frame->worker};
    float *out = fuzz_room((size_t)frame->count * sizeof *out);
    memset(out, 0, (size_t)frame->count * sizeof *out);
    const terse_status status = terse_codec_decode_add(codec, frame->pass, &key, frame->payload,
                                                       frame->payload_len, out, &fault);
    FUZZ_CHECK(status == TERSE_OK || (fault.offset <= frame->payload_len && fault.text[0]));
    free(out);
    terse_codec_destroy(codec);
}

static void read_frame(const uint8_t *bytes, size_t len)
{
    terse_frame frame;
    terse_fault fault;
    terse_layout *layout;
    size_t used;
    if (terse_frame_open(bytes, len, &frame, &used, &fault) != TERSE_OK) {
        FUZZ_CHECK(fault.offset <= len && fault.text[0]);
        return;
    }
    FUZZ_CHECK(used <= len);
    if (frame.count > MAX_COUNT)
        return;
    if (frame.layout)
        FUZZ_CHECK(terse_frame_layout(&frame, &layout, &fault) == TERSE_OK);
    else
        FUZZ_CHECK(terse_layout_vector(frame.count, &layout) == TERSE_OK);
    read_payload(&frame, layout, bytes, used);
    terse_layout_destroy(layout);
}

int LLVMFuzzerTestOneInput(const uint8_t *bytes, size_t len)
{
    uint8_t *copy = fuzz_room(len);
    if (len > 0)
        memcpy(copy, bytes, len);
    read_frame(copy, len);
    repair(copy, len);
    read_frame(copy, len);
    free(copy);
    return 0;
}
