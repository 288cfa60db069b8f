/* Codecs against values worked out by hand: golden steps, grids, probabilities, the random block.
 */
#include <math.h>
#include <stdio.h>

#include "support/support.h"

/* Computes C(in) of a one-tensor codec for a random key. `residual` may be NULL. */
static void compress(const char *spec, const float *in, size_t count, const terse_rng_key *key,
                     float *decoded, float *residual)
{
    terse_layout *layout = NULL;
    terse_codec *codec = NULL;
    size_t len = 0;
    assert_int_equal(terse_layout_vector(count, &layout), TERSE_OK);
    assert_int_equal(terse_codec_create(spec, layout, NULL, &codec, NULL), TERSE_OK);
    const size_t bound = terse_codec_payload_bound(codec, 0);
    uint8_t *const payload = test_alloc(bound);
    float *const given = test_floats(count);
    memcpy(given, in, count * sizeof *in);
    memset(decoded, 0, count * sizeof *decoded);
    assert_int_equal(terse_codec_encode_take(codec, 0, key, given, payload, bound, &len), 0);
    assert_int_equal(terse_codec_decode_add(codec, 0, key, payload, len, decoded, NULL), 0);
    if (residual)
        memcpy(residual, given, count * sizeof *given);
    free(given);
    free(payload);
    terse_codec_destroy(codec);
    terse_layout_destroy(layout);
}

static const terse_rng_key origin = {0};

/* Quantized Adam's golden step: k=2, u=[.8,-.32,.11,.05]. */
static void log_grid_golden_step(void **unused)
{
    const float u[] = {.8f, -.32f, .11f, .05f};
    float decoded[4];
    float kept[4];
    (void)unused;
    compress("log:k=2", u, 4, &origin, decoded, kept);
    const double expected[] = {.8, -.4, .2, 0};
    const double residual[] = {0, .08, -.09, .05};
    for (size_t i = 0; i < 4; i++) {
        assert_true(fabs((double)decoded[i] - expected[i]) < 1e-7);
        assert_true(fabs((double)kept[i] - residual[i]) < 1e-7);
    }
    assert_true(decoded[0] == .8f && kept[0] == 0);
}

static void log_grid_ties_go_toward_zero(void **unused)
{
    const float u[] = {1, .75f, .375f, .125f, .76f, .38f, .126f, -.75f, -.376f};
    const float expected[] = {1, .5f, .25f, 0, 1, .5f, .25f, -.5f, -.5f};
    float decoded[9];
    (void)unused;
    compress("log:k=2", u, 9, &origin, decoded, NULL);
    for (size_t i = 0; i < 9; i++)
        assert_true(decoded[i] == expected[i]);
}

/* Every value is the nearest point of the grid, for every k, by brute force. */
static void log_grid_is_nearest(void **unused)
{
    enum { COUNT = 2000 };
    static float in[COUNT];
    static float decoded[COUNT];
    struct test_random random = {test_seed()};
    (void)unused;
    for (int k = 0; k <= 14; k++) {
        char spec[16];
        double largest = 0;
        (void)snprintf(spec, sizeof spec, "log:k=%d", k);
        for (size_t i = 0; i < COUNT; i++) {
            in[i] = (float)(test_normal(&random) * exp2(-10 * test_uniform(&random)));
            largest = fmax(largest, fabs((double)in[i]));
        }
        compress(spec, in, COUNT, &origin, decoded, NULL);
        for (size_t i = 0; i < COUNT; i++) {
            double best = 0;
            for (int j = k; j >= 0; j--) {
                const double point = largest * exp2(-j);
                if (fabs(fabs((double)in[i]) - point) < fabs(fabs((double)in[i]) - best))
                    best = point;
            }
            assert_true(fabs((double)decoded[i]) == best);
        }
    }
}

static void nearest_grid_error_and_ties(void **unused)
{
    enum { COUNT = 1000 };
    static float in[COUNT];
    static float decoded[COUNT];
    struct test_random random = {test_seed()};
    (void)unused;
    const float ties[] = {1, .25f, .75f, -.25f, .251f};
    compress("nearest:k=1", ties, 5, &origin, decoded, NULL);
    const float expected[] = {1, 0, .5f, 0, .5f};
    for (size_t i = 0; i < 5; i++)
        assert_true(decoded[i] == expected[i]);
    for (int k = 1; k <= 14; k++) {
        char spec[16];
        double largest = 0;
        (void)snprintf(spec, sizeof spec, "nearest:k=%d", k);
        test_fill(&random, TEST_NORMAL, in, COUNT);
        for (size_t i = 0; i < COUNT; i++)
            largest = fmax(largest, fabs((double)in[i]));
        compress(spec, in, COUNT, &origin, decoded, NULL);
        for (size_t i = 0; i < COUNT; i++)
            assert_true(fabs((double)decoded[i] - (double)in[i]) <=
                        largest * exp2(-(k + 1)) * (1 + 1e-5));
    }
    const float wide[] = {3, -3, .2f};
    compress("nearest:k=1,range=0.5", wide, 3, &origin, decoded, NULL);
    assert_true(decoded[0] == .5f && decoded[1] == -.5f && decoded[2] == .25f);
}

/* The empirical variance of the uniform grid equals (norm/s)^2 sum f(1-f). */
static void uniform_grid_variance_is_the_formula(void **unused)
{
    enum { COUNT = 256, DRAWS = 3000 };
    float in[COUNT];
    float decoded[COUNT];
    struct test_random random = {test_seed()};
    (void)unused;
    test_fill(&random, TEST_NORMAL, in, COUNT);
    for (int bits = 2; bits <= 6; bits++) {
        for (int two = 0; two < 2; two++) {
            char spec[32];
            double norm = 0;
            double expected = 0;
            double measured = 0;
            (void)snprintf(spec, sizeof spec, "uniform:bits=%d,norm=%s", bits, two ? "2" : "inf");
            for (size_t i = 0; i < COUNT; i++)
                norm = two ? norm + (double)in[i] * (double)in[i] : fmax(norm, fabs((double)in[i]));
            norm = two ? sqrt(norm) : norm;
            const double s = exp2(bits - 1) - 1;
            for (size_t i = 0; i < COUNT; i++) {
                const double r = fabs((double)in[i]) * s / norm;
                expected += (norm / s) * (norm / s) * (r - floor(r)) * (1 - (r - floor(r)));
            }
            for (uint64_t step = 0; step < DRAWS; step++) {
                const terse_rng_key key = {.seed = test_seed(), .step = step};
                compress(spec, in, COUNT, &key, decoded, NULL);
                for (size_t i = 0; i < COUNT; i++)
                    measured += ((double)decoded[i] - (double)in[i]) *
                                ((double)decoded[i] - (double)in[i]) / DRAWS;
            }
            if (fabs(measured / expected - 1) > 0.02)
                fail_msg("%s: variance %g, formula %g", spec, measured, expected);
        }
    }
}

static void terngrad_has_three_levels(void **unused)
{
    enum { COUNT = 500 };
    float in[COUNT];
    float decoded[COUNT];
    float largest = 0;
    struct test_random random = {test_seed()};
    (void)unused;
    test_fill(&random, TEST_NORMAL, in, COUNT);
    for (size_t i = 0; i < COUNT; i++)
        largest = fmaxf(largest, fabsf(in[i]));
    compress("uniform:bits=2,norm=inf", in, COUNT, &origin, decoded, NULL);
    for (size_t i = 0; i < COUNT; i++)
        assert_true(decoded[i] == 0 || decoded[i] == copysignf(largest, in[i]));
}

static void natural_rounds_to_neighbouring_powers_of_two(void **unused)
{
    enum { COUNT = 4000 };
    static float in[COUNT];
    static float decoded[COUNT];
    struct test_random random = {test_seed()};
    (void)unused;
    test_fill(&random, TEST_NORMAL, in, COUNT);
    in[0] = 0.25f;
    in[1] = -8;
    compress("natural", in, COUNT, &origin, decoded, NULL);
    assert_true(decoded[0] == 0.25f && decoded[1] == -8); /* powers of two are exact */
    for (size_t i = 2; i < COUNT; i++) {
        int exponent;
        (void)frexpf(in[i], &exponent);
        const float upper = copysignf(ldexpf(1, exponent), in[i]);
        assert_true(decoded[i] == upper || decoded[i] == upper / 2);
    }
}

/* Workers and steps get different random numbers; the same key gives the same ones. */
static void random_numbers_are_keyed(void **unused)
{
    enum { COUNT = 1000 };
    float in[COUNT];
    float decoded[4][COUNT];
    struct test_random random = {test_seed()};
    const terse_rng_key keys[] = {
        {.seed = 1, .step = 5, .worker = 0},
        {.seed = 1, .step = 5, .worker = 0},
        {.seed = 1, .step = 5, .worker = 1},
        {.seed = 1, .step = UINT64_C(5) + (UINT64_C(1) << 32), .worker = 0}};
    (void)unused;
    test_fill(&random, TEST_NORMAL, in, COUNT);
    for (size_t i = 0; i < 4; i++)
        compress("uniform:bits=3", in, COUNT, &keys[i], decoded[i], NULL);
    assert_true(test_same_bits(decoded[0], decoded[1], COUNT));
    assert_false(test_same_bits(decoded[0], decoded[2], COUNT));
    assert_false(test_same_bits(decoded[0], decoded[3], COUNT));
}

/* The block has B elements in a row (wrapping), is shared by workers, is exact, and over
 * many steps every element is in it with probability B/n. */
static void random_blocks_cover_evenly(void **unused)
{
    enum { COUNT = 50, STEPS = 20000 };
    float in[COUNT];
    float decoded[COUNT];
    float other[COUNT];
    double hits[COUNT] = {0};
    int wrapped = 0;
    (void)unused;
    for (size_t i = 0; i < COUNT; i++)
        in[i] = (float)(i + 1);
    for (uint64_t step = 0; step < STEPS; step++) {
        const terse_rng_key key = {.seed = test_seed(), .step = step, .worker = 0};
        const terse_rng_key next = {.seed = test_seed(), .step = step, .worker = 1};
        size_t size = 0;
        size_t starts = 0;
        compress("block:ratio=7.1", in, COUNT, &key, decoded, NULL);
        if (step < 50) {
            compress("block:ratio=7.1", in, COUNT, &next, other, NULL);
            assert_true(test_same_bits(decoded, other, COUNT));
        }
        for (size_t i = 0; i < COUNT; i++) {
            assert_true(decoded[i] == 0 || decoded[i] == in[i]);
            size += decoded[i] != 0;
            starts += decoded[i] != 0 && decoded[(i + COUNT - 1) % COUNT] == 0;
            hits[i] += decoded[i] != 0;
        }
        assert_int_equal(size, 7);
        assert_int_equal(starts, 1);
        wrapped += decoded[0] != 0 && decoded[COUNT - 1] != 0;
    }
    assert_true(wrapped > 0);
    const double expected = STEPS * 7.0 / COUNT;
    for (size_t i = 0; i < COUNT; i++)
        assert_true(fabs(hits[i] - expected) < 5 * sqrt(expected));
}

static void scaled_sign_has_the_mean_magnitude(void **unused)
{
    const float in[] = {1, -2, 3, -6};
    float decoded[4];
    (void)unused;
    compress("scaled-sign", in, 4, &origin, decoded, NULL);
    const float expected[] = {3, -3, 3, -3};
    assert_memory_equal(decoded, expected, sizeof decoded);
}

/* zero=plus encodes +1 for both zeros; zero=coin is fair; zero=keep encodes 0. */
static void zeros_get_the_sign_asked_for(void **unused)
{
    enum { COUNT = 10000 };
    static float in[COUNT];
    static float decoded[COUNT];
    double plus = 0;
    (void)unused;
    for (size_t i = 0; i < COUNT; i++)
        in[i] = i % 2 ? -0.0f : 0.0f;
    compress("sign", in, COUNT, &origin, decoded, NULL);
    for (size_t i = 0; i < COUNT; i++)
        assert_true(decoded[i] == 1);
    compress("sign:zero=coin", in, COUNT, &origin, decoded, NULL);
    for (size_t i = 0; i < COUNT; i++)
        plus += decoded[i] == 1;
    assert_true(fabs(plus - COUNT / 2.0) < 5 * sqrt(COUNT) / 2);
    for (size_t i = 0; i < COUNT; i += 3)
        in[i] = i % 2 ? -0x1p-149f : 3e38f;
    compress("sign:zero=keep", in, COUNT, &origin, decoded, NULL);
    for (size_t i = 0; i < COUNT; i++)
        assert_true(decoded[i] == (float)((in[i] > 0) - (in[i] < 0)));
}

/* A matrix of rank r is exact after a few steps, and the residual goes to zero. */
static void low_rank_finds_a_matrix_of_that_rank(void **unused)
{
    enum { ROWS = 40, COLS = 30, RANK = 3 };
    float left[ROWS][RANK];
    float right[RANK][COLS];
    float matrix[ROWS * COLS];
    float residual[ROWS * COLS] = {0};
    float decoded[ROWS * COLS];
    terse_layout *layout = NULL;
    terse_codec *codec = NULL;
    struct test_random random = {test_seed()};
    uint8_t payload[4 * RANK * ROWS];
    (void)unused;
    test_fill(&random, TEST_NORMAL, &left[0][0], (size_t)ROWS * RANK);
    test_fill(&random, TEST_NORMAL, &right[0][0], (size_t)RANK * COLS);
    for (size_t i = 0; i < ROWS; i++)
        for (size_t j = 0; j < COLS; j++) {
            matrix[i * COLS + j] = 0;
            for (size_t c = 0; c < RANK; c++)
                matrix[i * COLS + j] += left[i][c] * right[c][j];
        }
    assert_int_equal(terse_layout_create(&layout), TERSE_OK);
    assert_int_equal(terse_layout_add(layout, "m", 2, (const uint64_t[]){ROWS, COLS}), TERSE_OK);
    assert_int_equal(terse_codec_create("low-rank:rank=3", layout, NULL, &codec, NULL), TERSE_OK);
    double kept = 0;
    double given = 0;
    memcpy(residual, matrix, sizeof residual);
    memset(decoded, 0, sizeof decoded);
    for (uint32_t pass = 0; pass < 2; pass++) {
        size_t len;
        assert_int_equal(
            terse_codec_encode_take(codec, pass, &origin, residual, payload, sizeof payload, &len),
            TERSE_OK);
        assert_int_equal(terse_codec_decode_add(codec, pass, &origin, payload, len, decoded, NULL),
                         TERSE_OK);
    }
    for (size_t i = 0; i < (size_t)ROWS * COLS; i++) {
        kept += (double)residual[i] * (double)residual[i];
        given += (double)matrix[i] * (double)matrix[i];
    }
    assert_true(kept < 1e-9 * given);
    size_t len;
    assert_int_equal(terse_codec_encode(codec, 2, &origin, residual, payload, sizeof payload, &len),
                     TERSE_BAD_ARGUMENT);
    terse_codec_destroy(codec);
    terse_layout_destroy(layout);
}

/* The second pass needs the aggregate of the first. */
static void low_rank_passes_come_in_order(void **unused)
{
    float matrix[20 * 20] = {1};
    uint8_t payload[4 * 4 * 20];
    terse_layout *layout = NULL;
    terse_codec *codec = NULL;
    size_t len;
    (void)unused;
    assert_int_equal(terse_layout_create(&layout), TERSE_OK);
    assert_int_equal(terse_layout_add(layout, "m", 2, (const uint64_t[]){20, 20}), TERSE_OK);
    assert_int_equal(terse_codec_create("low-rank", layout, NULL, &codec, NULL), TERSE_OK);
    assert_int_equal(terse_codec_encode(codec, 1, &origin, matrix, payload, sizeof payload, &len),
                     TERSE_BAD_ARGUMENT);
    assert_int_equal(
        terse_codec_decode_add(codec, 1, &origin, payload, sizeof payload, matrix, NULL),
        TERSE_BAD_ARGUMENT);
    terse_codec_destroy(codec);
    terse_layout_destroy(layout);
}

static void too_large_for_the_format_is_a_status(void **unused)
{
    static const struct {
        const char *spec;
        float value;
        terse_status status;
    } cases[] = {
        {"f16", 65504, TERSE_OK},
        {"f16", 65519, TERSE_OK},
        {"f16", 65520, TERSE_OUT_OF_RANGE},
        {"bf16", 3.38e38f, TERSE_OK},
        {"bf16", 3.4e38f, TERSE_OUT_OF_RANGE},
        {"natural", 1.6e38f, TERSE_OK},
        {"natural", 1.8e38f, TERSE_OUT_OF_RANGE},
        {"topk:keep=1,values=f16", 70000, TERSE_OUT_OF_RANGE},
        {"uniform:norm=2", 3.4e38f, TERSE_OUT_OF_RANGE},
        {"uniform:bits=8", 3.4028235e38f, TERSE_OUT_OF_RANGE},
        {"uniform:bits=8", 3.39e38f, TERSE_OK},
    };
    (void)unused;
    for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++) {
        float residual[] = {1, cases[i].value, cases[i].value, 2};
        const float before[] = {1, cases[i].value, cases[i].value, 2};
        uint8_t payload[64];
        terse_layout *layout = NULL;
        terse_codec *codec = NULL;
        size_t len;
        assert_int_equal(terse_layout_vector(4, &layout), TERSE_OK);
        assert_int_equal(terse_codec_create(cases[i].spec, layout, NULL, &codec, NULL), TERSE_OK);
        const terse_status status =
            terse_codec_encode_take(codec, 0, &origin, residual, payload, sizeof payload, &len);
        if (status != cases[i].status)
            fail_msg("%s with %g: %s", cases[i].spec, (double)cases[i].value,
                     terse_status_text(status));
        if (status != TERSE_OK)
            assert_memory_equal(residual, before, sizeof residual);
        terse_codec_destroy(codec);
        terse_layout_destroy(layout);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(log_grid_golden_step),
        cmocka_unit_test(log_grid_ties_go_toward_zero),
        cmocka_unit_test(log_grid_is_nearest),
        cmocka_unit_test(nearest_grid_error_and_ties),
        cmocka_unit_test(uniform_grid_variance_is_the_formula),
        cmocka_unit_test(terngrad_has_three_levels),
        cmocka_unit_test(natural_rounds_to_neighbouring_powers_of_two),
        cmocka_unit_test(random_numbers_are_keyed),
        cmocka_unit_test(random_blocks_cover_evenly),
        cmocka_unit_test(scaled_sign_has_the_mean_magnitude),
        cmocka_unit_test(zeros_get_the_sign_asked_for),
        cmocka_unit_test(low_rank_finds_a_matrix_of_that_rank),
        cmocka_unit_test(low_rank_passes_come_in_order),
        cmocka_unit_test(too_large_for_the_format_is_a_status),
    };
    return cmocka_run_group_tests_name("values", tests, NULL, NULL);
}
