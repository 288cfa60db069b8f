/* A prescan saves time and never changes a payload. */
#include <math.h>
#include <stdio.h>

#include "base/parallel.h"
#include "codec/object.h"
#include "codec/statistics.h"
#include "support/support.h"

#define LARGE 70000u

static const char *const specs[] = {
    "sign",           "sign:zero=coin", "sign:zero=keep",
    "topk:keep=0.01", "topk:keep=0.3",  "topk:keep=0.001,values=f16",
    "topk:keep=1",    "scaled-sign",    "log",
    "nearest",        "uniform",        "uniform:norm=2",
    "natural"};

/* Codecs that may leave a residual. */
static int takes_residual(const char *spec)
{
    return strncmp(spec, "topk", 4) == 0 || strcmp(spec, "scaled-sign") == 0 ||
           strcmp(spec, "log") == 0;
}

/* The same codec twice: one prescans. */
struct pair {
    terse_layout *layout;
    terse_codec *codec[2];
    float *residual[2];
    uint8_t *payload[2];
    size_t count;
    size_t bound;
};

static struct pair pair_new(const char *spec, unsigned threads)
{
    const terse_codec_options options = {.threads = threads};
    struct pair pair = {.layout = test_layout(LARGE)};
    pair.count = (size_t)terse_layout_count(pair.layout);
    for (int i = 0; i < 2; i++) {
        assert_int_equal(terse_codec_create(spec, pair.layout, &options, &pair.codec[i], NULL), 0);
        pair.bound = terse_codec_payload_bound(pair.codec[i], 0);
        pair.payload[i] = test_alloc(pair.bound);
        pair.residual[i] = test_floats(pair.count);
    }
    assert_int_equal(tsi_codec_enable_prescan(pair.codec[1]), TERSE_OK);
    return pair;
}

static void pair_free(struct pair *pair)
{
    for (int i = 0; i < 2; i++) {
        terse_codec_destroy(pair->codec[i]);
        free(pair->payload[i]);
        free(pair->residual[i]);
    }
    terse_layout_destroy(pair->layout);
}

/* Prescans the whole buffer, in runs of any length, of whole chunks or at once. */
static void show(const struct pair *pair, const terse_rng_key *key, struct test_random *random)
{
    const int in_chunks = test_next(random) % 2 == 0;
    for (size_t at = 0; at < pair->count;) {
        const size_t left = pair->count - at;
        const size_t wanted = in_chunks ? TSI_CHUNK * (1 + test_next(random) % 2)
                                        : 1 + (size_t)(test_uniform(random) * 9000);
        const size_t run = test_next(random) % 3 == 0 ? left : wanted < left ? wanted : left;
        tsi_codec_prescan(pair->codec[1], key, pair->residual[1], at, run);
        at += run;
    }
}

static void encoded_alike(struct pair *pair, const terse_rng_key *key, int takes, const char *spec)
{
    size_t len[2] = {0};
    terse_status status[2];
    for (int i = 0; i < 2; i++)
        status[i] = (takes ? terse_codec_encode_take(pair->codec[i], 0, key, pair->residual[i],
                                                     pair->payload[i], pair->bound, &len[i])
                           : terse_codec_encode(pair->codec[i], 0, key, pair->residual[i],
                                                pair->payload[i], pair->bound, &len[i]));
    if (status[0] != status[1])
        fail_msg("%s: %d without prescan_state, %d with", spec, status[0], status[1]);
    if (status[0] == TERSE_OK &&
        (len[0] != len[1] || memcmp(pair->payload[0], pair->payload[1], len[0]) != 0))
        fail_msg("%s: the prescan changed the payload", spec);
    assert_true(test_same_bits(pair->residual[0], pair->residual[1], pair->count));
}

/* Scores below the magnitudes of some elements, as RegTop-k has them. */
static size_t scores(const struct pair *pair, struct test_random *random, uint64_t *index,
                     float *score)
{
    size_t count = 0;
    for (size_t i = 0; i < pair->count; i += 1 + (size_t)(test_next(random) % 200)) {
        index[count] = i;
        score[count++] = fabsf(pair->residual[0][i]) * (float)test_uniform(random);
    }
    return count;
}

static void check(const char *spec, unsigned threads, enum test_kind kind)
{
    struct test_random random = {test_seed()};
    struct pair pair = pair_new(spec, threads);
    float *const gradient = test_floats(pair.count);
    uint64_t *const index = test_alloc(pair.count * sizeof *index);
    float *const score = test_floats(pair.count);
    for (uint64_t step = 0; step < 6; step++) {
        const terse_rng_key key = {.seed = 7, .step = step};
        test_fill(&random, kind, gradient, pair.count);
        for (size_t i = 0; i < pair.count; i++) /* step 4: the last threshold is useless */
            gradient[i] *= step == 4 ? 1e-3f : 1;
        for (int m = 0; m < 2; m++)
            for (size_t i = 0; i < pair.count; i++)
                pair.residual[m][i] = (step == 4 ? 0 : 0.5f * pair.residual[m][i]) + gradient[i];
        if (strncmp(spec, "topk", 4) == 0) {
            const size_t count = scores(&pair, &random, index, score);
            for (int i = 0; i < 2; i++)
                assert_int_equal(terse_codec_set_scores(pair.codec[i], index, score, count), 0);
        }
        show(&pair, &key, &random);
        encoded_alike(&pair, &key, step % 2 == 0 && takes_residual(spec), spec);
    }
    free(score);
    free(index);
    free(gradient);
    pair_free(&pair);
}

static void a_prescan_does_not_change_payloads(void **unused)
{
    (void)unused;
    for (size_t s = 0; s < sizeof specs / sizeof specs[0]; s++)
        for (int kind = 0; kind < TEST_KINDS; kind++)
            for (unsigned threads = 1; threads <= 3; threads += 2)
                check(specs[s], threads, (enum test_kind)kind);
}

/* A prescan counts for one buffer, read in order, and for one encode. */
static void an_invalid_prescan_is_not_used(void **unused)
{
    const terse_rng_key key = {0};
    struct test_random random = {test_seed()};
    (void)unused;
    for (size_t s = 0; s < sizeof specs / sizeof specs[0]; s++) {
        struct pair pair = pair_new(specs[s], 1);
        float *const other = test_floats(pair.count);
        for (int turn = 0; turn < 5; turn++) {
            test_fill(&random, TEST_NORMAL, other, pair.count);
            test_fill(&random, TEST_NORMAL, pair.residual[0], pair.count);
            memcpy(pair.residual[1], pair.residual[0], pair.count * sizeof(float));
            if (turn == 1) /* another buffer */
                tsi_codec_prescan(pair.codec[1], &key, other, 0, pair.count);
            if (turn == 2) /* half of it */
                tsi_codec_prescan(pair.codec[1], &key, pair.residual[1], 0, pair.count / 2);
            if (turn == 3) /* with a gap */
                tsi_codec_prescan(pair.codec[1], &key, pair.residual[1], 2048, pair.count - 2048);
            if (turn == 4) { /* used already, then other numbers */
                tsi_codec_prescan(pair.codec[1], &key, pair.residual[1], 0, pair.count);
                encoded_alike(&pair, &key, 0, specs[s]);
                for (size_t i = 0; i < pair.count; i++)
                    pair.residual[0][i] = pair.residual[1][i] = -other[i];
            }
            encoded_alike(&pair, &key, 0, specs[s]);
        }
        free(other);
        pair_free(&pair);
    }
}

static void non_finite_values_are_refused_with_and_without(void **unused)
{
    const terse_rng_key key = {0};
    struct test_random random = {test_seed()};
    (void)unused;
    for (size_t s = 0; s < sizeof specs / sizeof specs[0]; s++) {
        struct pair pair = pair_new(specs[s], 1);
        for (int turn = 0; turn < 3; turn++) {
            for (int i = 0; i < 2; i++) {
                struct test_random same = random;
                test_fill(&same, TEST_NORMAL, pair.residual[i], pair.count);
                if (turn == 1)
                    pair.residual[i][pair.count - 3] = NAN;
            }
            show(&pair, &key, &random);
            encoded_alike(&pair, &key, 0, specs[s]);
        }
        pair_free(&pair);
    }
}

/* In double, where payloads would round a difference away. */
static void a_prescanned_sum_has_the_bits_of_the_sum(void **unused)
{
    const terse_rng_key key = {0};
    struct test_random random = {test_seed()};
    struct pair pair = pair_new("scaled-sign", 1);
    const uint32_t large = pair.codec[1]->piece_count - 1;
    struct tsi_call call = tsi_codec_call(pair.codec[1], &key, 0, large);
    (void)unused;
    test_fill(&random, TEST_NORMAL, pair.residual[1], pair.count);
    const float *const in = pair.residual[1] + call.piece->offset;
    const double sum = tsi_magnitude_sum(&call, in);
    for (size_t at = 0; at < LARGE; at += TSI_CHUNK)
        assert_int_equal(
            tsi_prescan_magnitudes(&call, in, at, LARGE - at < TSI_CHUNK ? LARGE - at : TSI_CHUNK),
            1);
    call.prescanned = 1;
    assert_true(tsi_prescanned(&call, TSI_MAGNITUDES, in) == sum);
    assert_int_equal(tsi_prescan_magnitudes(&call, in, 2048, 100), 0); /* not of whole chunks */
    pair_free(&pair);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_prescan_does_not_change_payloads),
        cmocka_unit_test(an_invalid_prescan_is_not_used),
        cmocka_unit_test(a_prescanned_sum_has_the_bits_of_the_sum),
        cmocka_unit_test(non_finite_values_are_refused_with_and_without),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
