/* Frames: sealing, opening, matching, and everything that is refused on the way. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include <terse/terse.h>

#include "base/bytes.h"
#include "base/hash.h"

#define MAX_FRAME 4096u

static const terse_rng_key key = {.seed = 0x0123456789abcdef, .step = 41, .worker = 2};

static terse_layout *mixed_layout(void)
{
    terse_layout *layout;
    assert_int_equal(terse_layout_create(&layout), TERSE_OK);
    assert_int_equal(terse_layout_add(layout, "w", 2, (const uint64_t[]){6, 5}), TERSE_OK);
    assert_int_equal(terse_layout_add(layout, "none", 1, (const uint64_t[]){0}), TERSE_OK);
    assert_int_equal(terse_layout_add(layout, "b", 1, (const uint64_t[]){3}), TERSE_OK);
    return layout;
}

static terse_codec *codec_for(const char *spec, const terse_layout *layout)
{
    terse_codec *codec;
    terse_fault fault;
    assert_int_equal(terse_codec_create(spec, layout, NULL, &codec, &fault), TERSE_OK);
    return codec;
}

static terse_codec *mixed_codec(const char *spec)
{
    terse_layout *layout = mixed_layout();
    terse_codec *codec = codec_for(spec, layout);
    terse_layout_destroy(layout);
    return codec;
}

static size_t encode(terse_codec *codec, uint32_t pass, uint8_t *payload)
{
    float values[64];
    size_t len;
    for (size_t i = 0; i < 64; i++)
        values[i] = (float)((int)(i * 37 % 64) - 31) / 16;
    assert_int_equal(terse_codec_encode(codec, pass, &key, values, payload, MAX_FRAME, &len),
                     TERSE_OK);
    return len;
}

static size_t seal(terse_codec *codec, uint32_t pass, int with_layout, uint8_t *frame)
{
    uint8_t payload[MAX_FRAME];
    size_t len;
    const size_t payload_len = encode(codec, pass, payload);
    assert_int_equal(terse_frame_seal(codec, pass, &key, payload, payload_len, with_layout, frame,
                                      MAX_FRAME, &len),
                     TERSE_OK);
    assert_int_equal(len, terse_frame_len(codec, payload_len, with_layout));
    return len;
}

/* Makes the checksum fit again, so that another rule has to notice. */
static void reseal(uint8_t *frame, size_t len)
{
    tsi_store_u64(frame + len - 8, tsi_hash64(frame, len - 8));
}

/* ---- the way there and back ---- */

static void check_view(const terse_frame *view, const uint8_t *frame, size_t len,
                       const terse_codec *codec, uint32_t pass)
{
    const terse_layout *layout = terse_codec_layout(codec);
    terse_codec_about about;
    terse_codec_describe(codec, &about);
    uint8_t option_bytes[TERSE_OPTION_BYTES];
    terse_codec_option_bytes(codec, option_bytes);
    assert_int_equal(view->codec, about.wire_id);
    assert_int_equal(view->pass, pass);
    assert_int_equal(view->worker, key.worker);
    assert_true(view->step == key.step && view->seed == key.seed);
    assert_true(view->layout_hash == terse_layout_hash(layout));
    assert_int_equal(view->first, 0);
    assert_int_equal(view->count, terse_layout_count(layout));
    assert_memory_equal(view->option_bytes, option_bytes, sizeof option_bytes);
    assert_ptr_equal(view->payload + view->payload_len + 8, frame + len);
    if (view->layout)
        assert_ptr_equal(view->layout, frame + TERSE_FRAME_HEADER_LEN);
}

/* open, make codec and layout from what it says, seal again: the same bytes. */
static void check_canonical(const uint8_t *frame, size_t len, const terse_layout *known)
{
    terse_frame view;
    terse_fault fault;
    terse_layout *layout = NULL;
    terse_codec *codec;
    uint8_t again[MAX_FRAME];
    size_t again_len;
    assert_int_equal(terse_frame_open(frame, len, &view, NULL, &fault), TERSE_OK);
    if (view.layout)
        assert_int_equal(terse_frame_layout(&view, &layout, &fault), TERSE_OK);
    assert_int_equal(terse_frame_codec(&view, layout ? layout : known, NULL, &codec, &fault),
                     TERSE_OK);
    assert_int_equal(terse_frame_match(&view, codec, &fault), TERSE_OK);
    const terse_rng_key its = {view.seed, view.step, view.worker};
    assert_int_equal(terse_frame_seal(codec, view.pass, &its, view.payload, view.payload_len,
                                      view.layout != NULL, again, sizeof again, &again_len),
                     TERSE_OK);
    assert_int_equal(again_len, len);
    assert_memory_equal(again, frame, len);
    terse_codec_destroy(codec);
    terse_layout_destroy(layout);
}

static void every_codec_there_and_back(void **unused)
{
    (void)unused;
    terse_layout *layout = mixed_layout();
    terse_codec_about about;
    uint32_t seen = 0;
    for (uint32_t i = 0; terse_codec_list(i, &about) == TERSE_OK; i++) {
        terse_codec *codec = codec_for(about.name, layout);
        for (uint32_t pass = 0; pass < about.passes; pass++) {
            for (int with_layout = 0; with_layout < 2; with_layout++) {
                uint8_t frame[MAX_FRAME];
                terse_frame view;
                terse_fault fault;
                const size_t len = seal(codec, pass, with_layout, frame);
                assert_int_equal(terse_frame_open(frame, len, &view, NULL, &fault), TERSE_OK);
                assert_int_equal(view.layout != NULL, with_layout);
                check_view(&view, frame, len, codec, pass);
                check_canonical(frame, len, layout);
                seen++;
            }
        }
        terse_codec_destroy(codec);
    }
    assert_true(seen >= 26); /* twelve codecs, one of them with two passes */
    terse_layout_destroy(layout);
}

static void a_payload_may_lie_anywhere(void **unused)
{
    (void)unused;
    terse_codec *codec = mixed_codec("f32");
    uint8_t apart[MAX_FRAME];
    uint8_t within[MAX_FRAME];
    uint8_t payload[MAX_FRAME];
    const size_t payload_len = encode(codec, 0, payload);
    const size_t len = seal(codec, 0, 1, apart);
    const size_t place = terse_frame_payload_at(codec, 1);
    const size_t places[] = {place, 0, 1, place - 1, place + 1, 200};
    for (size_t i = 0; i < sizeof places / sizeof *places; i++) {
        size_t within_len;
        memcpy(within + places[i], payload, payload_len);
        assert_int_equal(terse_frame_seal(codec, 0, &key, within + places[i], payload_len, 1,
                                          within, sizeof within, &within_len),
                         TERSE_OK);
        assert_int_equal(within_len, len);
        assert_memory_equal(within, apart, len);
    }
    terse_codec_destroy(codec);
}

static void frames_follow_each_other(void **unused)
{
    (void)unused;
    terse_codec *codec = mixed_codec("sign");
    uint8_t stream[2 * MAX_FRAME];
    terse_frame view;
    terse_fault fault;
    size_t used = 0;
    const size_t first = seal(codec, 0, 1, stream);
    const size_t second = seal(codec, 0, 0, stream + first);
    assert_int_equal(terse_frame_open(stream, first + second, &view, &used, &fault), TERSE_OK);
    assert_int_equal(used, first);
    assert_int_equal(terse_frame_open(stream + used, second, &view, &used, &fault), TERSE_OK);
    assert_int_equal(used, second);
    assert_int_equal(terse_frame_open(stream, first + second, &view, NULL, &fault),
                     TERSE_BAD_FRAME);
    assert_int_equal(fault.offset, first);
    terse_codec_destroy(codec);
}

static void seal_refuses_what_no_codec_made(void **unused)
{
    (void)unused;
    terse_codec *codec = mixed_codec("sign");
    uint8_t frame[MAX_FRAME];
    uint8_t payload[MAX_FRAME] = {0};
    size_t len = 77;
    const size_t payload_len = encode(codec, 0, payload);
    const size_t frame_len = terse_frame_len(codec, payload_len, 1);
    terse_rng_key crowd = key;
    crowd.worker = 0xffffff;
    assert_int_equal(
        terse_frame_seal(codec, 0, &key, payload, payload_len, 1, frame, frame_len - 1, &len),
        TERSE_TOO_SMALL);
    assert_int_equal(
        terse_frame_seal(codec, 1, &key, payload, payload_len, 1, frame, MAX_FRAME, &len),
        TERSE_BAD_ARGUMENT);
    assert_int_equal(
        terse_frame_seal(codec, 0, &key, payload, payload_len + 1, 1, frame, MAX_FRAME, &len),
        TERSE_BAD_ARGUMENT);
    assert_int_equal(
        terse_frame_seal(codec, 0, &crowd, payload, payload_len, 1, frame, MAX_FRAME, &len),
        TERSE_BAD_ARGUMENT);
    assert_int_equal(
        terse_frame_seal(NULL, 0, &key, payload, payload_len, 1, frame, MAX_FRAME, &len),
        TERSE_BAD_ARGUMENT);
    assert_int_equal(terse_frame_seal(codec, 0, &key, NULL, payload_len, 1, frame, MAX_FRAME, &len),
                     TERSE_BAD_ARGUMENT);
    assert_int_equal(len, 77);
    assert_int_equal(
        terse_frame_seal(codec, 0, &key, payload, payload_len, 1, frame, frame_len, &len),
        TERSE_OK);
    terse_codec_destroy(codec);
}

/* ---- damage ---- */

static void every_flipped_bit_is_noticed(void **unused)
{
    (void)unused;
    terse_codec *codec = mixed_codec("scaled-sign");
    uint8_t frame[MAX_FRAME];
    const size_t len = seal(codec, 0, 1, frame);
    for (size_t bit = 0; bit < 8 * len; bit++) {
        terse_frame view;
        terse_fault fault;
        size_t used = 77;
        frame[bit / 8] ^= (uint8_t)(1u << bit % 8);
        assert_int_not_equal(terse_frame_open(frame, len, &view, &used, &fault), TERSE_OK);
        assert_int_equal(used, 77);
        assert_true(fault.offset <= len);
        frame[bit / 8] ^= (uint8_t)(1u << bit % 8);
    }
    terse_codec_destroy(codec);
}

static void every_lost_tail_is_noticed(void **unused)
{
    (void)unused;
    terse_codec *codec = mixed_codec("topk:keep=0.2");
    uint8_t frame[MAX_FRAME];
    const size_t len = seal(codec, 0, 1, frame);
    for (size_t cut = 0; cut < len; cut++) {
        terse_frame view;
        terse_fault fault;
        size_t used;
        uint8_t *tight = malloc(cut ? cut : 1); /* a sanitizer sees every byte read behind it */
        assert_non_null(tight);
        memcpy(tight, frame, cut);
        assert_int_equal(terse_frame_open(tight, cut, &view, &used, &fault), TERSE_BAD_FRAME);
        assert_int_equal(fault.offset, cut);
        assert_memory_equal(fault.text, cut < 88 ? "header:" : "frame: ", 7);
        free(tight);
    }
    terse_codec_destroy(codec);
}

/* ---- rules of the header, each broken alone under a right checksum ---- */

struct edit {
    size_t at;
    size_t len;
    uint64_t value;
    terse_status status;
    uint64_t offset;
    const char *rule;
};

static void put(uint8_t *frame, const struct edit *edit)
{
    uint8_t bytes[8];
    tsi_store_u64(bytes, edit->value);
    memcpy(frame + edit->at, bytes, edit->len);
}

static void every_rule_of_the_header(void **unused)
{
    (void)unused;
    static const struct edit edits[] = {
        {0, 1, 't', TERSE_BAD_FRAME, 0, "magic: not TRSE"},
        {4, 1, 2, TERSE_BAD_VERSION, 4, "version: 2, this library reads 1"},
        {4, 1, 0, TERSE_BAD_VERSION, 4, "version: 0, this library reads 1"},
        {7, 1, 3, TERSE_BAD_FRAME, 7, "flags: 0x03, only bit 0 has a meaning"},
        {7, 1, 0, TERSE_BAD_FRAME, 60, "layout length: 48 bytes, flag bit 0 is 0"},
        {60, 4, 0, TERSE_BAD_FRAME, 60, "layout length: 0 bytes, flag bit 0 is 1"},
        {48, 8, UINT64_MAX, TERSE_BAD_FRAME, 48, "payload length: above 2^43"},
        {48, 8, (UINT64_C(1) << 43) + 1, TERSE_BAD_FRAME, 48, "payload length: above 2^43"},
        {48, 8, UINT64_C(1) << 43, TERSE_BAD_FRAME, 268,
         "frame: ends after 268 of 8796093022344 bytes"},
        {48, 8, 133, TERSE_BAD_FRAME, 268, "frame: ends after 268 of 269 bytes"},
        {48, 8, 131, TERSE_BAD_FRAME, 267, "frame: 1 bytes after its end"},
        {60, 4, UINT32_MAX, TERSE_BAD_FRAME, 268, "frame: ends after 268 of 4294967515 bytes"},
        {5, 1, 0, TERSE_BAD_FRAME, 5, "codec: 0 is none"},
        {56, 4, 0xffffff, TERSE_BAD_FRAME, 56, "worker: above 2^24-2"},
        {32, 8, (UINT64_C(1) << 40) + 1, TERSE_BAD_FRAME, 32, "first: above 2^40"},
        {40, 8, (UINT64_C(1) << 40) + 1, TERSE_BAD_FRAME, 40, "count: range ends above 2^40"},
        {40, 8, UINT64_MAX, TERSE_BAD_FRAME, 40, "count: range ends above 2^40"},
        {8, 1, 0, TERSE_BAD_FRAME, 8, "layout hash: not that of the included layout"},
        {80, 1, 4, TERSE_BAD_FRAME, 8, "layout hash: not that of the included layout"},
        {40, 8, 34, TERSE_BAD_FRAME, 40, "count: range ends behind the included layout"},
        {32, 8, 1, TERSE_BAD_FRAME, 40, "count: range ends behind the included layout"},
    };
    terse_codec *codec = mixed_codec("f32");
    for (size_t i = 0; i < sizeof edits / sizeof *edits; i++) {
        uint8_t frame[MAX_FRAME];
        terse_frame view = {.codec = 99};
        terse_fault fault = {0};
        const size_t len = seal(codec, 0, 1, frame);
        assert_int_equal(len, 268);
        put(frame, &edits[i]);
        reseal(frame, len);
        assert_int_equal(terse_frame_open(frame, len, &view, NULL, &fault), edits[i].status);
        assert_string_equal(fault.text, edits[i].rule);
        assert_int_equal(fault.offset, edits[i].offset);
        assert_int_equal(view.codec, 99);
        assert_int_equal(terse_frame_open(frame, len, &view, NULL, NULL), edits[i].status);
    }
    terse_codec_destroy(codec);
}

/* An included layout is checked by open itself, with offsets in the frame. */
static void a_layout_that_breaks_a_rule(void **unused)
{
    (void)unused;
    terse_codec *codec = mixed_codec("f32");
    uint8_t frame[MAX_FRAME];
    terse_frame view;
    terse_fault fault;
    const size_t len = seal(codec, 0, 1, frame);
    frame[85] = '\n'; /* the name "w" */
    tsi_store_u64(frame + 8, tsi_hash64(frame + 80, 48));
    reseal(frame, len);
    assert_int_equal(terse_frame_open(frame, len, &view, NULL, &fault), TERSE_BAD_FRAME);
    assert_int_equal(fault.offset, 85);
    assert_string_equal(fault.text, "layout: control character in a name");
    terse_codec_destroy(codec);
}

/* ---- what a frame is for ---- */

static terse_status match(const terse_codec *made, const terse_codec *expected, terse_fault *fault,
                          const struct edit *edit)
{
    uint8_t frame[MAX_FRAME];
    uint8_t payload[MAX_FRAME] = {0};
    size_t len;
    terse_frame view;
    assert_int_equal(terse_frame_seal(made, 0, &key, payload, terse_codec_payload_bound(made, 0), 0,
                                      frame, sizeof frame, &len),
                     TERSE_OK);
    if (edit) {
        put(frame, edit);
        reseal(frame, len);
    }
    assert_int_equal(terse_frame_open(frame, len, &view, NULL, fault), TERSE_OK);
    return terse_frame_match(&view, expected, fault);
}

static void match_names_what_differs(void **unused)
{
    (void)unused;
    terse_layout *vector;
    assert_int_equal(terse_layout_vector(33, &vector), TERSE_OK);
    terse_codec *made = mixed_codec("block:ratio=8");
    terse_codec *same = mixed_codec("block:ratio=8");
    terse_codec *option = mixed_codec("block:ratio=8.5");
    terse_codec *other = mixed_codec("f32");
    terse_codec *layout = codec_for("block:ratio=8", vector);
    terse_fault fault;
    assert_int_equal(match(made, same, &fault, NULL), TERSE_OK);
    assert_int_equal(match(made, other, &fault, NULL), TERSE_MISMATCH);
    assert_string_equal(fault.text, "codec: 7, expected 1");
    assert_int_equal(match(made, option, &fault, NULL), TERSE_MISMATCH);
    assert_string_equal(fault.text, "options: not those of block:ratio=8.5");
    assert_in_range(fault.offset, 64, 71);
    assert_int_equal(match(made, layout, &fault, NULL), TERSE_MISMATCH);
    assert_memory_equal(fault.text, "layout: hash ", 13);

    static const struct edit range = {.at = 40, .len = 8, .value = 32};
    assert_int_equal(match(made, same, &fault, &range), TERSE_MISMATCH);
    assert_string_equal(fault.text, "range: 32 elements from 0, expected 33 from 0");
    static const struct edit first = {.at = 32, .len = 8, .value = 1};
    assert_int_equal(match(made, same, &fault, &first), TERSE_MISMATCH);
    static const struct edit pass = {.at = 6, .len = 1, .value = 1};
    assert_int_equal(match(made, same, &fault, &pass), TERSE_BAD_FRAME);
    assert_int_equal(fault.offset, 6);
    assert_int_equal(terse_frame_match(NULL, same, &fault), TERSE_BAD_ARGUMENT);

    terse_codec_destroy(made);
    terse_codec_destroy(same);
    terse_codec_destroy(option);
    terse_codec_destroy(other);
    terse_codec_destroy(layout);
    terse_layout_destroy(vector);
}

static void a_codec_comes_only_from_a_sound_header(void **unused)
{
    (void)unused;
    static const struct edit edits[] = {
        {5, 1, 127, TERSE_BAD_VERSION, 5, NULL},        /* no such codec */
        {64, 8, 0, TERSE_BAD_FRAME, 64, NULL},          /* a ratio of 0 */
        {64, 8, UINT64_MAX, TERSE_BAD_FRAME, 64, NULL}, /* NaN */
        {72, 1, 1, TERSE_BAD_FRAME, 72, NULL},          /* padding */
        {79, 1, 1, TERSE_BAD_FRAME, 79, NULL},
        {6, 1, 1, TERSE_BAD_FRAME, 6, NULL},  /* no such pass */
        {5, 1, 1, TERSE_BAD_FRAME, 64, NULL}, /* f32 has no options */
    };
    terse_codec *codec = mixed_codec("block:ratio=8");
    const terse_layout *layout = terse_codec_layout(codec);
    for (size_t i = 0; i < sizeof edits / sizeof *edits; i++) {
        uint8_t frame[MAX_FRAME];
        terse_frame view;
        terse_fault fault = {0};
        terse_codec *made = NULL;
        const size_t len = seal(codec, 0, 0, frame);
        put(frame, &edits[i]);
        if (i == 6)
            memmove(frame + 64, frame + 70, 2); /* the ratio's bytes that are not zero */
        reseal(frame, len);
        assert_int_equal(terse_frame_open(frame, len, &view, NULL, &fault), TERSE_OK);
        assert_int_equal(terse_frame_codec(&view, layout, NULL, &made, &fault), edits[i].status);
        assert_int_equal(fault.offset, edits[i].offset);
        assert_null(made);
    }
    terse_codec_destroy(codec);
}

static void a_payload_of_an_impossible_length(void **unused)
{
    (void)unused;
    terse_codec *codec = mixed_codec("sign");
    uint8_t frame[MAX_FRAME];
    terse_frame view;
    terse_fault fault;
    terse_codec *made = NULL;
    size_t len = seal(codec, 0, 0, frame);
    frame[48]--;
    len--;
    reseal(frame, len);
    assert_int_equal(terse_frame_open(frame, len, &view, NULL, &fault), TERSE_OK);
    assert_int_equal(terse_frame_codec(&view, terse_codec_layout(codec), NULL, &made, &fault),
                     TERSE_BAD_FRAME);
    assert_int_equal(fault.offset, 48);
    assert_string_equal(fault.text, "payload length: 4, this codec and layout make 5");
    terse_codec_destroy(codec);
}

static void without_a_layout_there_is_none(void **unused)
{
    (void)unused;
    terse_codec *codec = mixed_codec("sign");
    uint8_t frame[MAX_FRAME];
    terse_frame view;
    terse_fault fault;
    terse_layout *layout = NULL;
    const size_t len = seal(codec, 0, 0, frame);
    assert_int_equal(terse_frame_open(frame, len, &view, NULL, &fault), TERSE_OK);
    assert_int_equal(terse_frame_layout(&view, &layout, &fault), TERSE_MISMATCH);
    assert_string_equal(fault.text, "layout: not included in this frame");
    assert_null(layout);
    terse_codec_destroy(codec);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(every_codec_there_and_back),
        cmocka_unit_test(a_payload_may_lie_anywhere),
        cmocka_unit_test(frames_follow_each_other),
        cmocka_unit_test(seal_refuses_what_no_codec_made),
        cmocka_unit_test(every_flipped_bit_is_noticed),
        cmocka_unit_test(every_lost_tail_is_noticed),
        cmocka_unit_test(every_rule_of_the_header),
        cmocka_unit_test(a_layout_that_breaks_a_rule),
        cmocka_unit_test(match_names_what_differs),
        cmocka_unit_test(a_codec_comes_only_from_a_sound_header),
        cmocka_unit_test(a_payload_of_an_impossible_length),
        cmocka_unit_test(without_a_layout_there_is_none),
    };
    return cmocka_run_group_tests_name("frame", tests, NULL, NULL);
}
