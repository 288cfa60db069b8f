/* Top-k: exactly k, exactly the right ones, whatever path finds them. The judge is a full sort. */
#include <math.h>
#include <stdio.h>

#include "codec/index_stream.h"
#include "support/support.h"

struct entry {
    uint32_t score;
    size_t index;
};

static uint32_t magnitude_bits(float x)
{
    uint32_t bits;
    memcpy(&bits, &x, sizeof bits);
    return bits & 0x7fffffffu;
}

/* Larger score first, then lower index. */
static int better(const void *a, const void *b)
{
    const struct entry *const x = a;
    const struct entry *const y = b;
    if (x->score != y->score)
        return x->score > y->score ? -1 : 1;
    return x->index < y->index ? -1 : 1;
}

/* Says `in` and compares with the sorted truth; patches may be none. */
static void check(const float *in, size_t count, double keep, const uint64_t *patched,
                  const float *score, size_t patch_count, const char *what)
{
    char spec[64];
    terse_layout *layout = NULL;
    terse_codec *codec = NULL;
    const terse_codec_options options = {.threads = 2};
    const terse_rng_key key = {0};
    size_t len = 0;
    (void)snprintf(spec, sizeof spec, "topk:keep=%.17g", keep);
    assert_int_equal(terse_layout_vector(count, &layout), TERSE_OK);
    assert_int_equal(terse_codec_create(spec, layout, &options, &codec, NULL), TERSE_OK);
    const size_t bound = terse_codec_payload_bound(codec, 0);
    uint8_t *const payload = test_alloc(bound);
    float *const memory = test_floats(count);
    float *const said = test_floats(count);
    struct entry *const truth = test_alloc(count * sizeof *truth);
    memcpy(memory, in, count * sizeof *in);
    for (size_t i = 0; i < count; i++)
        truth[i] = (struct entry){magnitude_bits(in[i]), i};
    for (size_t p = 0; p < patch_count; p++) {
        const uint32_t bits = magnitude_bits(score[p]);
        if (bits < truth[patched[p]].score)
            truth[patched[p]].score = bits;
    }
    qsort(truth, count, sizeof *truth, better);
    assert_int_equal(terse_codec_set_scores(codec, patched, score, patch_count), TERSE_OK);
    assert_int_equal(terse_codec_encode_take(codec, 0, &key, memory, payload, bound, &len), 0);
    assert_int_equal(terse_codec_decode_add(codec, 0, &key, payload, len, said, NULL), 0);

    size_t k = (size_t)(keep * (double)count + 1e-6);
    k = k == 0 ? 1 : k;
    for (size_t i = 0; i < k; i++) {
        const size_t at = truth[i].index;
        if (said[at] != in[at] || memory[at] != 0)
            fail_msg("%s: element %zu of rank %zu was not said", what, at, i);
    }
    for (size_t i = k; i < count; i++)
        if (said[truth[i].index] != 0)
            fail_msg("%s: element %zu of rank %zu was said", what, truth[i].index, i);
    free(truth);
    free(said);
    free(memory);
    free(payload);
    terse_codec_destroy(codec);
    terse_layout_destroy(layout);
}

static void it_is_exact_for_every_kind_and_size(void **unused)
{
    static const size_t counts[] = {1, 2, 3, 100, 8191, 8192, 8193, 20000, 131072, 500009};
    static const double keeps[] = {0.0001, 0.001, 0.01, 0.1, 0.5, 1};
    (void)unused;
    for (size_t c = 0; c < sizeof counts / sizeof counts[0]; c++) {
        float *const in = test_floats(counts[c]);
        for (enum test_kind kind = 0; kind < TEST_KINDS; kind++) {
            struct test_random random = {test_seed() * 31 + c * 7 + kind};
            test_fill(&random, kind, in, counts[c]);
            for (size_t k = 0; k < sizeof keeps / sizeof keeps[0]; k++)
                check(in, counts[c], keeps[k], NULL, NULL, 0, test_kind_names[kind]);
        }
        free(in);
    }
}

/* Everything large lies in one place, so that a sample misses it or a list overflows. */
static void it_is_exact_where_a_sample_misleads(void **unused)
{
    enum { COUNT = 400000 };
    float *const in = test_floats(COUNT);
    struct test_random random = {test_seed()};
    (void)unused;
    for (size_t i = 0; i < COUNT; i++)
        in[i] = (float)(test_normal(&random) * (i >= 250000 && i < 256000 ? 100 : 0.001));
    check(in, COUNT, 0.01, NULL, NULL, 0, "one cluster");
    for (size_t i = 0; i < COUNT; i++)
        in[i] = (float)i;
    check(in, COUNT, 0.01, NULL, NULL, 0, "ascending");
    check(in, COUNT, 0.2, NULL, NULL, 0, "ascending");
    for (size_t i = 0; i < COUNT; i++)
        in[i] = -1;
    check(in, COUNT, 0.01, NULL, NULL, 0, "all equal");
    memset(in, 0, COUNT * sizeof *in);
    for (size_t i = 0; i < 300; i++)
        in[399000 + i] = (float)(300 - i);
    check(in, COUNT, 0.01, NULL, NULL, 0, "fewer than k are not zero");
    free(in);
}

/* RegTop-k's use: the elements said last time stand lower this time. */
static void patches_lower_standings(void **unused)
{
    enum { COUNT = 200000, PATCHES = 2000 };
    float *const in = test_floats(COUNT);
    uint64_t index[PATCHES];
    float score[PATCHES];
    struct test_random random = {test_seed()};
    (void)unused;
    test_fill(&random, TEST_NORMAL, in, COUNT);
    size_t found = 0;
    for (size_t i = 0; i < COUNT && found < PATCHES; i++) {
        if (fabsf(in[i]) < 2.5f)
            continue;
        index[found] = i;
        score[found] = (float)test_uniform(&random) * 6; /* above the magnitude counts as it */
        found++;
    }
    check(in, COUNT, 0.01, index, score, found, "patched top");
    for (size_t i = 0; i < found; i++)
        score[i] = 0;
    check(in, COUNT, 0.01, index, score, found, "silenced top");
    for (size_t i = 0; i < PATCHES; i++) {
        index[i] = i * 97;
        score[i] = 0;
    }
    check(in, COUNT, 0.01, index, score, PATCHES, "silenced anywhere");
    check(in, 5000, 0.1, index, score, 50, "small and silenced");
    free(in);
}

static void bad_patches_are_refused(void **unused)
{
    terse_layout *layout = NULL;
    terse_codec *topk = NULL;
    terse_codec *sign = NULL;
    (void)unused;
    assert_int_equal(terse_layout_vector(10, &layout), TERSE_OK);
    assert_int_equal(terse_codec_create("topk", layout, NULL, &topk, NULL), TERSE_OK);
    assert_int_equal(terse_codec_create("sign", layout, NULL, &sign, NULL), TERSE_OK);
    const uint64_t index[] = {3, 3};
    const uint64_t past[] = {10};
    const float score[] = {1, 1};
    const float wrong[] = {NAN};
    const float negative[] = {-1};
    assert_int_equal(terse_codec_set_scores(topk, index, score, 2), TERSE_BAD_ARGUMENT);
    assert_int_equal(terse_codec_set_scores(topk, past, score, 1), TERSE_BAD_ARGUMENT);
    assert_int_equal(terse_codec_set_scores(topk, index, wrong, 1), TERSE_BAD_ARGUMENT);
    assert_int_equal(terse_codec_set_scores(topk, index, negative, 1), TERSE_BAD_ARGUMENT);
    assert_int_equal(terse_codec_set_scores(sign, index, score, 1), TERSE_BAD_ARGUMENT);
    assert_int_equal(terse_codec_set_scores(topk, index, score, 1), TERSE_OK);
    terse_codec_destroy(topk);
    terse_codec_destroy(sign);
    terse_layout_destroy(layout);
}

static double log2_choose(double n, double k)
{
    return (lgamma(n + 1) - lgamma(k + 1) - lgamma(n - k + 1)) / log(2);
}

static void index_bits_are_near_the_information_bound(void **unused)
{
    static const double keeps[] = {0.1, 0.01, 0.001};
    (void)unused;
    for (uint64_t n = 10000; n <= 100000000; n *= 10) {
        for (size_t i = 0; i < 3; i++) {
            const size_t k = (size_t)(keeps[i] * (double)n + 1e-6);
            const struct tsi_index_shape shape = tsi_index_shape(n, k);
            const double bits = 8.0 * (double)shape.len;
            const double over = bits / log2_choose((double)n, (double)k);
            printf("n %9llu keep %5g: %.3f bits per index, %.4f of the bound\n",
                   (unsigned long long)n, keeps[i], bits / (double)k, over);
            assert_true(over >= 1 && over <= 1.15);
        }
    }
}

/* Every set of indices below a small n, written and read back; then larger ones at random. */
static void index_streams_read_back(void **unused)
{
    (void)unused;
    for (uint32_t n = 1; n <= 12; n++) {
        for (uint32_t set = 1; set < 1u << n; set++) {
            uint32_t index[12];
            uint32_t back[12];
            uint8_t bytes[64];
            size_t k = 0;
            for (uint32_t i = 0; i < n; i++)
                if (set >> i & 1u)
                    index[k++] = i;
            const struct tsi_index_shape shape = tsi_index_shape(n, k);
            struct tsi_index_reader reader;
            tsi_index_write(&shape, index, bytes);
            assert_int_equal(tsi_index_open(&shape, bytes, &reader, NULL), TERSE_OK);
            assert_int_equal(tsi_index_next(&reader, k, NULL, back, NULL), TERSE_OK);
            assert_memory_equal(index, back, k * sizeof *index);
        }
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(it_is_exact_for_every_kind_and_size),
        cmocka_unit_test(it_is_exact_where_a_sample_misleads),
        cmocka_unit_test(patches_lower_standings),
        cmocka_unit_test(bad_patches_are_refused),
        cmocka_unit_test(index_bits_are_near_the_information_bound),
        cmocka_unit_test(index_streams_read_back),
    };
    return cmocka_run_group_tests_name("topk", tests, NULL, NULL);
}
