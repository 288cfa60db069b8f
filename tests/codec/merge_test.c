/* Lists of several ranks, merged: the sums of decoding one after the other, and nothing that
 * decoding would refuse. */
#include <float.h>
#include <math.h>

#include "combine/merge.h"
#include "support/support.h"

#define MOST_WORKERS 5u
#define LARGE 20000u

struct scene {
    terse_layout *layout;
    terse_codec *codec;
    struct tsi_merge merge;
    uint32_t workers;
    size_t count;
    size_t bound;
    uint8_t *payload[MOST_WORKERS];
    float *sum;    /* by decoding */
    float *listed; /* by merging */
};

static struct scene scene_new(const char *spec, uint32_t workers)
{
    struct scene scene = {.layout = test_layout(LARGE), .workers = workers};
    struct tsi_piece piece[16];
    const uint32_t tensors = terse_layout_tensors(scene.layout);
    assert_true(tensors <= 16);
    for (uint32_t t = 0; t < tensors; t++) {
        piece[t] = tsi_layout_piece(scene.layout, t);
        piece[t].plain = piece[t].count < 1000;
    }
    assert_int_equal(tsi_codec_create(spec, scene.layout, piece, tensors, NULL, &scene.codec, NULL),
                     TERSE_OK);
    assert_true(tsi_merge_create(&scene.merge, scene.codec, workers));
    scene.count = (size_t)terse_layout_count(scene.layout);
    scene.bound = terse_codec_payload_bound(scene.codec, 0);
    for (uint32_t r = 0; r < workers; r++)
        scene.payload[r] = test_alloc(scene.bound);
    scene.sum = test_floats(scene.count);
    scene.listed = test_floats(scene.count);
    return scene;
}

static void scene_free(struct scene *scene)
{
    for (uint32_t r = 0; r < scene->workers; r++)
        free(scene->payload[r]);
    free(scene->sum);
    free(scene->listed);
    tsi_merge_destroy(&scene->merge);
    terse_codec_destroy(scene->codec);
    terse_layout_destroy(scene->layout);
}

/* Every worker encodes numbers of its own. */
static void say(struct scene *scene, struct test_random *random, enum test_kind kind)
{
    const terse_rng_key key = {0};
    float *const in = test_floats(scene->count);
    for (uint32_t r = 0; r < scene->workers; r++) {
        size_t len = 0;
        test_fill(random, kind, in, scene->count);
        assert_int_equal(
            terse_codec_encode(scene->codec, 0, &key, in, scene->payload[r], scene->bound, &len),
            TERSE_OK);
        scene->merge.source[r] = (struct tsi_source){scene->payload[r], len, 1};
    }
    free(in);
}

static void write_down(float *listed, const struct tsi_span *span)
{
    assert_int_equal(span->kind, TSI_SPAN_LIST);
    for (size_t i = 0; i < span->count; i++) {
        assert_true(i == 0 || span->index[i] > span->index[i - 1]);
        assert_true(isnan(listed[span->first + span->index[i]])); /* once each */
        listed[span->first + span->index[i]] = span->value[i];
    }
}

static terse_status merge(struct scene *scene, int32_t *blamed)
{
    const terse_rng_key key = {0};
    terse_fault fault = {0};
    struct tsi_aggregate aggregate = {0};
    assert_true(tsi_aggregate_create(&aggregate, scene->codec->piece_count));
    const terse_status status = tsi_merge_lists(&scene->merge, &key, &aggregate, blamed, &fault);
    for (size_t i = 0; i < scene->count; i++)
        scene->listed[i] = NAN;
    for (uint32_t i = 0; i < aggregate.count && status == TERSE_OK; i++)
        write_down(scene->listed, &aggregate.span[i]);
    tsi_aggregate_destroy(&aggregate);
    return status;
}

/* The first failure, and who is to blame. */
static terse_status decode(struct scene *scene, int32_t *blamed)
{
    const terse_rng_key key = {0};
    memset(scene->sum, 0, scene->count * sizeof(float));
    for (uint32_t r = 0; r < scene->workers; r++) {
        const struct tsi_source *const source = &scene->merge.source[r];
        const terse_status status = terse_codec_decode_add(scene->codec, 0, &key, source->payload,
                                                           source->len, scene->sum, NULL);
        *blamed = (int32_t)r;
        if (status != TERSE_OK)
            return status;
    }
    *blamed = -1;
    return TERSE_OK;
}

static void same_sums(const struct scene *scene)
{
    for (size_t i = 0; i < scene->count; i++) {
        const float listed = isnan(scene->listed[i]) ? 0 : scene->listed[i];
        assert_true(test_same_bits(&listed, &scene->sum[i], 1));
    }
}

static const char *const specs[] = {"topk:keep=0.01", "topk:keep=0.2,values=f16",
                                    "topk:keep=0.0001", "topk:keep=1"};

static void merged_is_decoded_one_after_the_other(void **unused)
{
    struct test_random random = {test_seed()};
    (void)unused;
    for (size_t s = 0; s < sizeof specs / sizeof specs[0]; s++) {
        for (uint32_t workers = 1; workers <= MOST_WORKERS; workers++) {
            struct scene scene = scene_new(specs[s], workers);
            for (int kind = 0; kind < TEST_KINDS; kind++) {
                int32_t blamed = 0;
                say(&scene, &random, (enum test_kind)kind);
                assert_int_equal(decode(&scene, &blamed), TERSE_OK);
                assert_int_equal(merge(&scene, &blamed), TERSE_OK);
                assert_int_equal(blamed, -1);
                same_sums(&scene);
            }
            scene_free(&scene);
        }
    }
}

/* A payload with a few bits flipped, or cut off: both accept it and agree, or both refuse it and
 * blame the same rank; and the next payloads are merged as if nothing had been. */
static void damage_is_refused_as_decoding_refuses_it(void **unused)
{
    struct test_random random = {test_seed()};
    struct scene scene = scene_new("topk:keep=0.05", 3);
    int refused = 0;
    (void)unused;
    for (int turn = 0; turn < 300; turn++) {
        const uint32_t rank = (uint32_t)(test_next(&random) % 3);
        int32_t by_decoding = 0;
        int32_t by_merging = 0;
        say(&scene, &random, TEST_NORMAL);
        for (int flips = 0; flips < turn % 4; flips++)
            scene.payload[rank][test_next(&random) % scene.merge.source[rank].len] ^=
                (uint8_t)(1u << test_next(&random) % 8);
        if (turn % 7 == 0)
            scene.merge.source[rank].len -= 1 + test_next(&random) % 100;
        const terse_status decoded = decode(&scene, &by_decoding);
        const terse_status merged = merge(&scene, &by_merging);
        if (decoded == TERSE_OK && merged == TERSE_OUT_OF_RANGE)
            continue; /* decoding leaves it to others to look at the sum */
        assert_int_equal(merged, decoded);
        assert_int_equal(by_merging, by_decoding);
        refused += decoded != TERSE_OK;
        if (decoded == TERSE_OK)
            same_sums(&scene);
    }
    assert_true(refused > 50);
    scene_free(&scene);
}

static void a_sum_that_overflows_is_nobodys_fault(void **unused)
{
    const terse_rng_key key = {0};
    struct scene scene = scene_new("topk:keep=0.01", 2);
    float *const in = test_floats(scene.count);
    int32_t blamed = 0;
    (void)unused;
    in[scene.count - 5] = FLT_MAX;
    for (uint32_t r = 0; r < 2; r++) {
        size_t len = 0;
        assert_int_equal(
            terse_codec_encode(scene.codec, 0, &key, in, scene.payload[r], scene.bound, &len), 0);
        scene.merge.source[r] = (struct tsi_source){scene.payload[r], len, 1};
    }
    assert_int_equal(merge(&scene, &blamed), TERSE_OUT_OF_RANGE);
    assert_int_equal(blamed, -1);
    free(in);
    scene_free(&scene);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(merged_is_decoded_one_after_the_other),
        cmocka_unit_test(damage_is_refused_as_decoding_refuses_it),
        cmocka_unit_test(a_sum_that_overflows_is_nobodys_fault),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
