/* Codecs whose sections are codes of one width: a range decodes as the whole does, and what
 * decoding refuses is refused without decoding. */
#include <stdio.h>

#include "codec/object.h"
#include "support/support.h"

#define LARGE 70000u

static const char *const specs[] = {"f32",
                                    "f16",
                                    "bf16",
                                    "sign",
                                    "sign:zero=keep",
                                    "scaled-sign",
                                    "log",
                                    "log:k=5",
                                    "nearest",
                                    "nearest:k=14",
                                    "uniform",
                                    "uniform:bits=2",
                                    "uniform:bits=7,norm=2",
                                    "natural"};
enum { SPECS = sizeof specs / sizeof specs[0] };

struct scene {
    terse_layout *layout;
    terse_codec *codec;
    size_t count;
    struct tsi_pieces all;
    struct tsi_coded *coded;
    float *in;
    float *whole;
    float *other;
    uint8_t *payload;
    size_t len;
};

static const terse_rng_key key = {.seed = 3, .step = 9};

static struct scene scene_new(const char *spec, unsigned threads)
{
    const terse_codec_options options = {.threads = threads};
    struct scene scene = {.layout = test_layout(LARGE)};
    scene.count = (size_t)terse_layout_count(scene.layout);
    assert_int_equal(terse_codec_create(spec, scene.layout, &options, &scene.codec, NULL), 0);
    assert_true(scene.codec->ops->open_codes != NULL);
    scene.all.count = scene.codec->piece_count;
    scene.coded = test_alloc((scene.all.count + 1) * sizeof *scene.coded);
    scene.in = test_floats(scene.count);
    scene.whole = test_floats(scene.count);
    scene.other = test_floats(scene.count);
    scene.payload = test_alloc(terse_codec_payload_bound(scene.codec, 0));
    return scene;
}

static void scene_free(struct scene *scene)
{
    terse_codec_destroy(scene->codec);
    terse_layout_destroy(scene->layout);
    free(scene->coded);
    free(scene->in);
    free(scene->whole);
    free(scene->other);
    free(scene->payload);
}

static void encode(struct scene *scene)
{
    assert_int_equal(terse_codec_encode(scene->codec, 0, &key, scene->in, scene->payload,
                                        terse_codec_payload_bound(scene->codec, 0), &scene->len),
                     TERSE_OK);
}

/* All of a piece in ranges of any length, in any order that covers it. */
static void decode_ranges(const struct tsi_coded *coded, struct test_random *random, float *out)
{
    const size_t count = coded->call.piece->count;
    for (size_t at = 0; at < count;) {
        const size_t wanted = 8 * (1 + (size_t)(test_next(random) % 1000));
        const size_t here = wanted < count - at ? wanted : count - at;
        assert_int_equal(tsi_coded_add(coded, at, here, out + coded->call.piece->offset + at), 0);
        at += here;
    }
}

static void check_ranges(const char *spec, int fresh)
{
    struct test_random random = {test_seed()};
    struct scene scene = scene_new(spec, 1);
    for (int turn = 0; turn < 3; turn++) {
        test_fill(&random, TEST_NORMAL, scene.in, scene.count);
        encode(&scene);
        test_fill(&random, TEST_NORMAL, scene.other, scene.count);
        for (size_t i = 0; i < scene.count; i++)
            scene.whole[i] = fresh ? 0 : scene.other[i];
        assert_int_equal(terse_codec_decode_add(scene.codec, 0, &key, scene.payload, scene.len,
                                                scene.whole, NULL),
                         TERSE_OK);
        assert_int_equal(tsi_codec_open(scene.codec, &key, scene.all, scene.payload, scene.len,
                                        fresh, scene.coded, NULL),
                         TERSE_OK);
        for (uint32_t i = 0; i < scene.all.count; i++)
            decode_ranges(&scene.coded[i], &random, scene.other);
        if (!test_same_bits(scene.whole, scene.other, scene.count))
            fail_msg("%s: ranges decode to other values than the whole", spec);
    }
    scene_free(&scene);
}

static void a_range_decodes_as_the_whole_does(void **unused)
{
    (void)unused;
    for (size_t s = 0; s < SPECS; s++)
        for (int fresh = 0; fresh < 2; fresh++)
            check_ranges(specs[s], fresh);
}

/* Zeros too: a section of the codec uniform has no codes then. */
static void what_was_there_before_does_not_matter(void **unused)
{
    struct test_random random = {test_seed()};
    (void)unused;
    for (size_t s = 0; s < 2 * (size_t)SPECS; s++) {
        struct scene scene = scene_new(specs[s / 2], (unsigned)(1 + s % 3));
        for (size_t i = 0; i < scene.count; i++)
            scene.in[i] = s % 2 == 0 ? 0 : (float)test_normal(&random);
        encode(&scene);
        test_fill(&random, TEST_NORMAL, scene.other, scene.count);
        memset(scene.whole, 0, scene.count * sizeof *scene.whole);
        assert_int_equal(terse_codec_decode_add(scene.codec, 0, &key, scene.payload, scene.len,
                                                scene.whole, NULL),
                         TERSE_OK);
        assert_int_equal(tsi_codec_decode(scene.codec, 0, &key, scene.all, scene.payload, scene.len,
                                          1, scene.other, NULL),
                         TERSE_OK);
        if (!test_same_bits(scene.whole, scene.other, scene.count))
            fail_msg("%s: something is left of what was there before", specs[s / 2]);
        scene_free(&scene);
    }
}

/* Opens all sections and checks their codes, without decoding to anywhere. */
static terse_status check_only(struct scene *scene, size_t len, terse_fault *fault)
{
    terse_status status =
        tsi_codec_open(scene->codec, &key, scene->all, scene->payload, len, 1, scene->coded, fault);
    for (uint32_t i = 0; i < scene->all.count && status == TERSE_OK; i++)
        if (scene->coded[i].call.piece->count > 0)
            status = tsi_coded_decode(&scene->coded[i], NULL, fault);
    return status;
}

/* Damages up to four bytes of the payload, or cuts it. Returns 1 if its codes were refused. */
static int refused_alike(struct scene *scene, struct test_random *random, const char *spec)
{
    terse_fault decoded = {.rank = -1};
    terse_fault checked = {.rank = -1};
    const size_t at = (size_t)(test_next(random) % scene->len);
    const size_t len = test_next(random) % 8 == 0 ? at : scene->len;
    const size_t bytes = scene->len - at < 4 ? scene->len - at : 4;
    const int fill = test_next(random) % 2 == 0; /* with ones: no float is finite then */
    uint8_t before[4];
    memcpy(before, scene->payload + at, bytes);
    for (size_t i = 0; i < bytes && len == scene->len; i++)
        scene->payload[at + i] = fill ? 0xff : (uint8_t)test_next(random);
    const terse_status status =
        terse_codec_decode_add(scene->codec, 0, &key, scene->payload, len, scene->whole, &decoded);
    const terse_status opened = check_only(scene, len, &checked);
    if (status != opened || (status != TERSE_OK && (decoded.offset != checked.offset ||
                                                    strcmp(decoded.text, checked.text) != 0)))
        fail_msg("%s, byte %zu of %zu: %d \"%s\" at %zu decoded, %d \"%s\" at %zu checked", spec,
                 at, len, status, decoded.text, (size_t)decoded.offset, opened, checked.text,
                 (size_t)checked.offset);
    memcpy(scene->payload + at, before, bytes);
    const char *const bad = scene->codec->ops->bad_code;
    return status != TERSE_OK && bad && strcmp(checked.text, bad) == 0;
}

static void what_decoding_refuses_is_refused_unread(void **unused)
{
    struct test_random random = {test_seed()};
    (void)unused;
    for (size_t s = 0; s < SPECS; s++) {
        struct scene scene = scene_new(specs[s], (unsigned)(1 + s % 2 * 2));
        int refused = 0;
        test_fill(&random, TEST_NORMAL, scene.in, scene.count);
        encode(&scene);
        for (int turn = 0; turn < 300; turn++)
            refused += refused_alike(&scene, &random, specs[s]);
        const int may_refuse = scene.codec->ops->bad_code && scene.coded[0].codes.bits > 1;
        if (may_refuse && refused == 0)
            fail_msg("%s: no invalid code among 300 damaged payloads", specs[s]);
        scene_free(&scene);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_range_decodes_as_the_whole_does),
        cmocka_unit_test(what_was_there_before_does_not_matter),
        cmocka_unit_test(what_decoding_refuses_is_refused_unread),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
