/* One suite for every codec of the registry. It tests the promises of codec.h for every spec below,
 * every kind of input, one and several threads. A codec that is not listed here fails the first
 * test. */
#include <math.h>
#include <stdio.h>

#include "codec/codec.h"
#include "support/support.h"

static const char *const specs[] = {
    "f32",
    "f16",
    "bf16",
    "sign",
    "sign:zero=coin",
    "sign:zero=keep",
    "scaled-sign",
    "scaled-sign:zero=coin",
    "topk",
    "topk:keep=0.001",
    "topk:keep=0.3",
    "topk:keep=1",
    "topk:keep=0.05,values=f16",
    "block",
    "block:ratio=3.7",
    "block:ratio=1",
    "log:k=0",
    "log:k=1",
    "log",
    "log:k=3",
    "log:k=14",
    "uniform",
    "uniform:bits=2",
    "uniform:bits=8,norm=2",
    "uniform:bits=16",
    "nearest",
    "nearest:k=14",
    "nearest:k=1,range=0.5",
    "natural",
    "low-rank",
    "low-rank:rank=1",
    "low-rank:rank=7",
};
#define SPECS (sizeof specs / sizeof specs[0])
#define LARGE 40000u

/* One worker's codec with its buffers. */
struct bench {
    terse_layout *layout;
    terse_codec *codec;
    terse_codec_about about;
    size_t count;
    uint8_t *payload[2]; /* by pass */
    size_t len[2];
    float *in;
    float *residual;
    float *decoded;
};

static const terse_rng_key key = {.seed = 7, .step = 3, .worker = 2};

static struct bench bench_new(const char *spec, uint32_t threads)
{
    struct bench b = {.layout = test_layout(LARGE)};
    const terse_codec_options options = {.threads = threads};
    terse_fault fault = {0};
    if (terse_codec_create(spec, b.layout, &options, &b.codec, &fault) != TERSE_OK)
        fail_msg("%s: %s", spec, fault.text);
    terse_codec_describe(b.codec, &b.about);
    b.count = (size_t)terse_layout_count(b.layout);
    for (uint32_t pass = 0; pass < b.about.passes; pass++)
        b.payload[pass] = test_alloc(terse_codec_payload_bound(b.codec, pass));
    b.in = test_floats(b.count);
    b.residual = test_floats(b.count);
    b.decoded = test_floats(b.count);
    return b;
}

static void bench_free(struct bench *b)
{
    terse_codec_destroy(b->codec);
    terse_layout_destroy(b->layout);
    free(b->payload[0]);
    free(b->payload[1]);
    free(b->in);
    free(b->residual);
    free(b->decoded);
}

/* Encodes and takes `residual`, and decodes into `decoded`, in all passes, as a group of one
 * worker. */
static void round_trip(struct bench *b)
{
    terse_fault fault = {0};
    memset(b->decoded, 0, b->count * sizeof *b->decoded);
    for (uint32_t pass = 0; pass < b->about.passes; pass++) {
        const size_t bound = terse_codec_payload_bound(b->codec, pass);
        assert_int_equal(terse_codec_encode_take(b->codec, pass, &key, b->residual,
                                                 b->payload[pass], bound, &b->len[pass]),
                         TERSE_OK);
        assert_true(b->len[pass] <= bound);
        if (b->about.traits & TERSE_CODEC_FIXED_LEN)
            assert_int_equal(b->len[pass], bound);
        if (terse_codec_decode_add(b->codec, pass, &key, b->payload[pass], b->len[pass], b->decoded,
                                   &fault) != TERSE_OK)
            fail_msg("%s: own payload refused at %llu: %s", terse_codec_spec(b->codec),
                     (unsigned long long)fault.offset, fault.text);
    }
}

static void fill(struct bench *b, enum test_kind kind, uint64_t salt)
{
    struct test_random random = {test_seed() * 1000 + salt};
    test_fill(&random, kind, b->in, b->count);
    memcpy(b->residual, b->in, b->count * sizeof *b->in);
}

static void every_codec_is_in_this_suite(void **unused)
{
    (void)unused;
    terse_codec_about about;
    uint32_t listed = 0;
    for (; terse_codec_list(listed, &about) == TERSE_OK; listed++) {
        int found = 0;
        for (size_t i = 0; i < SPECS; i++)
            found |= strncmp(specs[i], about.name, strlen(about.name)) == 0 &&
                     strchr(":", specs[i][strlen(about.name)]) != NULL;
        if (!found)
            fail_msg("codec %s has no spec in this suite", about.name);
        assert_false(about.traits & TERSE_CODEC_CONTRACTIVE &&
                     about.traits & TERSE_CODEC_UNBIASED &&
                     !(about.traits & TERSE_CODEC_SELECTING));
    }
    assert_true(listed >= 12);
}

/* decoded + residual = input: bit for bit where the codec selects (up to the sign of zero), to one
 * rounding of the larger of the two where it quantizes. A ternary codec decodes signs. */
static void decoded_plus_residual_is_input(void **unused)
{
    (void)unused;
    for (size_t s = 0; s < SPECS; s++) {
        struct bench b = bench_new(specs[s], 1);
        for (enum test_kind kind = 0; kind < TEST_KINDS; kind++) {
            fill(&b, kind, s);
            round_trip(&b);
            for (size_t i = 0; i < b.count; i++) {
                const double sum = (double)b.decoded[i] + (double)b.residual[i];
                const double off = fabs(sum - (double)b.in[i]);
                const double larger = fmax(fabs((double)b.decoded[i]), fabs((double)b.residual[i]));
                const double slack =
                    b.about.traits & TERSE_CODEC_SELECTING ? 0 : larger * 0x1p-23 + 0x1p-149;
                if (!(off <= slack))
                    fail_msg("%s, %s, element %zu: decoded %.9g residual %.9g input %.9g", specs[s],
                             test_kind_names[kind], i, (double)b.decoded[i], (double)b.residual[i],
                             (double)b.in[i]);
                if (b.about.traits & TERSE_CODEC_TERNARY)
                    assert_true(b.decoded[i] == (float)((b.in[i] > 0) - (b.in[i] < 0)));
            }
        }
        bench_free(&b);
    }
}

/* A selecting codec encodes an element whole or not at all (f16 values leave their rounding
 * error). */
static void selecting_is_all_or_nothing(void **unused)
{
    (void)unused;
    for (size_t s = 0; s < SPECS; s++) {
        struct bench b = bench_new(specs[s], 1);
        if (b.about.traits & TERSE_CODEC_SELECTING && !strstr(specs[s], "f16")) {
            fill(&b, TEST_NORMAL, s);
            round_trip(&b);
            for (size_t i = 0; i < b.count; i++)
                assert_true(b.decoded[i] == 0 || b.residual[i] == 0);
        }
        bench_free(&b);
    }
}

static void encode_and_encode_take_give_the_same_payload(void **unused)
{
    (void)unused;
    for (size_t s = 0; s < SPECS; s++) {
        struct bench taking = bench_new(specs[s], 1);
        struct bench reading = bench_new(specs[s], 1);
        fill(&taking, TEST_HEAVY, s);
        fill(&reading, TEST_HEAVY, s);
        round_trip(&taking);
        for (uint32_t pass = 0; pass < reading.about.passes; pass++) {
            const size_t bound = terse_codec_payload_bound(reading.codec, pass);
            assert_int_equal(terse_codec_encode(reading.codec, pass, &key, reading.in,
                                                reading.payload[pass], bound, &reading.len[pass]),
                             TERSE_OK);
            assert_int_equal(reading.len[pass], taking.len[pass]);
            assert_memory_equal(reading.payload[pass], taking.payload[pass], taking.len[pass]);
            assert_int_equal(terse_codec_decode_add(reading.codec, pass, &key,
                                                    reading.payload[pass], reading.len[pass],
                                                    reading.decoded, NULL),
                             TERSE_OK);
        }
        assert_true(test_same_bits(reading.in, reading.residual, reading.count));
        bench_free(&taking);
        bench_free(&reading);
    }
}

/* Bytes, residual and decoded values do not depend on threads or kernel set. */
static void threads_and_kernel_sets_change_nothing(void **unused)
{
    (void)unused;
    for (size_t s = 0; s < SPECS; s++) {
        for (enum test_kind kind = 0; kind < TEST_KINDS; kind++) {
            assert_int_equal(terse_kernel_set_select("ref", NULL), TERSE_OK);
            struct bench ref = bench_new(specs[s], 1);
            fill(&ref, kind, s);
            round_trip(&ref);
            terse_kernel_set_about set;
            for (uint32_t l = 0; terse_kernel_set_list(l, &set) == TERSE_OK; l++) {
                if (!set.supported)
                    continue;
                assert_int_equal(terse_kernel_set_select(set.name, NULL), TERSE_OK);
                for (uint32_t threads = 1; threads <= 3; threads++) {
                    struct bench b = bench_new(specs[s], threads);
                    fill(&b, kind, s);
                    round_trip(&b);
                    for (uint32_t pass = 0; pass < b.about.passes; pass++) {
                        assert_int_equal(b.len[pass], ref.len[pass]);
                        if (memcmp(b.payload[pass], ref.payload[pass], b.len[pass]) != 0)
                            fail_msg("%s, %s, set %s, %u threads: other bytes", specs[s],
                                     test_kind_names[kind], set.name, threads);
                    }
                    assert_true(test_same_bits(b.residual, ref.residual, b.count));
                    assert_true(test_same_bits(b.decoded, ref.decoded, b.count));
                    bench_free(&b);
                }
            }
            bench_free(&ref);
        }
    }
    assert_int_equal(terse_kernel_set_select(NULL, NULL), TERSE_OK);
}

/* Contractive: |x - C(x)| <= |x| for every input, and strictly on average over steps with error
 * feedback: the residual of a repeated gradient stays bounded. */
static void contractive_residual_stays_bounded(void **unused)
{
    (void)unused;
    for (size_t s = 0; s < SPECS; s++) {
        struct bench b = bench_new(specs[s], 1);
        if (b.about.traits & TERSE_CODEC_CONTRACTIVE) {
            for (enum test_kind kind = 0; kind < TEST_KINDS; kind++) {
                fill(&b, kind, s);
                round_trip(&b);
                double given = 0;
                double kept = 0;
                for (size_t i = 0; i < b.count; i++) {
                    given += (double)b.in[i] * (double)b.in[i];
                    kept += (double)b.residual[i] * (double)b.residual[i];
                }
                if (!(kept <= given * (1 + 1e-6)))
                    fail_msg("%s, %s: kept %g of %g", specs[s], test_kind_names[kind], kept, given);
            }
        }
        bench_free(&b);
    }
}

/* Unbiased: the mean of many encodings of one element is within five standard errors of it. */
static void unbiased_codecs_are_right_on_average(void **unused)
{
    enum { COUNT = 64, DRAWS = 4000 };
    (void)unused;
    for (size_t s = 0; s < SPECS; s++) {
        terse_layout *layout = NULL;
        terse_codec *codec = NULL;
        terse_codec_about about;
        assert_int_equal(terse_layout_vector(COUNT, &layout), TERSE_OK);
        assert_int_equal(terse_codec_create(specs[s], layout, NULL, &codec, NULL), TERSE_OK);
        terse_codec_describe(codec, &about);
        const size_t bound = terse_codec_payload_bound(codec, 0);
        uint8_t *const payload = test_alloc(bound);
        struct test_random random = {test_seed() + s};
        float in[COUNT];
        double sum[COUNT] = {0};
        double squares[COUNT] = {0};
        test_fill(&random, TEST_NORMAL, in, COUNT);
        for (uint64_t step = 0; about.traits & TERSE_CODEC_UNBIASED && step < DRAWS; step++) {
            const terse_rng_key here = {.seed = test_seed(), .step = step};
            float decoded[COUNT] = {0};
            size_t len;
            assert_int_equal(terse_codec_encode(codec, 0, &here, in, payload, bound, &len), 0);
            assert_int_equal(terse_codec_decode_add(codec, 0, &here, payload, len, decoded, NULL),
                             0);
            for (size_t i = 0; i < COUNT; i++) {
                sum[i] += (double)decoded[i];
                squares[i] += (double)decoded[i] * (double)decoded[i];
            }
        }
        for (size_t i = 0; about.traits & TERSE_CODEC_UNBIASED && i < COUNT; i++) {
            const double mean = sum[i] / DRAWS;
            const double variance = fmax(0, squares[i] / DRAWS - mean * mean);
            const double error = 5 * sqrt(variance / DRAWS) + 1e-6;
            if (fabs(mean - (double)in[i]) > error)
                fail_msg("%s, element %zu: mean %g of %g", specs[s], i, mean, (double)in[i]);
        }
        free(payload);
        terse_codec_destroy(codec);
        terse_layout_destroy(layout);
    }
}

/* Additive: the sum of two workers' payloads is the payload of the sum of their vectors. Small
 * integers keep the float sums exact; products of low-rank are compared to rounding. */
static void additive_payloads_add_up(void **unused)
{
    (void)unused;
    for (size_t s = 0; s < SPECS; s++) {
        struct bench a = bench_new(specs[s], 1);
        struct bench b = bench_new(specs[s], 1);
        struct bench both = bench_new(specs[s], 1);
        struct test_random random = {test_seed() + s};
        for (size_t i = 0; i < a.count; i++) {
            a.residual[i] = (float)((int)(test_next(&random) % 201) - 100);
            b.residual[i] = (float)((int)(test_next(&random) % 201) - 100);
            both.residual[i] = a.residual[i] + b.residual[i];
        }
        if (a.about.traits & TERSE_CODEC_ADDITIVE) {
            const size_t bound = terse_codec_payload_bound(a.codec, 0);
            struct bench *const all[] = {&a, &b, &both};
            for (size_t i = 0; i < 3; i++)
                assert_int_equal(terse_codec_encode(all[i]->codec, 0, &key, all[i]->residual,
                                                    all[i]->payload[0], bound, &all[i]->len[0]),
                                 TERSE_OK);
            for (size_t at = 0; at < a.len[0]; at += sizeof(float)) {
                float x[3];
                for (size_t i = 0; i < 3; i++)
                    memcpy(&x[i], all[i]->payload[0] + at, sizeof(float));
                const float slack = a.about.passes > 1 ? 1e-2f : 0;
                assert_true(fabsf(x[0] + x[1] - x[2]) <= slack);
            }
        }
        bench_free(&a);
        bench_free(&b);
        bench_free(&both);
    }
}

/* NaN or infinity in an encoded element is a status, and the residual is unchanged, bit for bit. */
/* Does it read every element? A codec whose runs are known before a gradient is reads those. */
static int reads_all(const terse_codec_about *about)
{
    for (size_t i = 0; tsi_codec_at(i); i++)
        if (strcmp(tsi_codec_at(i)->name, about->name) == 0)
            return !tsi_codec_at(i)->support;
    return 1;
}

static void non_finite_input_is_refused_and_nothing_is_lost(void **unused)
{
    static const float poison[] = {NAN, INFINITY, -INFINITY};
    (void)unused;
    for (size_t s = 0; s < SPECS; s++) {
        struct bench b = bench_new(specs[s], 2);
        for (size_t p = 0; p < 3; p++) {
            struct test_random random = {test_seed() + 10 * s + p};
            for (size_t i = 0; i < b.count; i++)
                b.in[i] = (float)((int)(test_next(&random) % 65) - 32);
            const size_t spots[] = {0,           539,         618,
                                    b.count / 2, b.count - 1, test_next(&random) % b.count};
            for (size_t k = 0; k < sizeof spots / sizeof spots[0]; k++) {
                memcpy(b.residual, b.in, b.count * sizeof *b.in);
                b.residual[spots[k]] = poison[p];
                float *const before = test_floats(b.count);
                memcpy(before, b.residual, b.count * sizeof *before);
                terse_status status = TERSE_OK;
                for (uint32_t pass = 0; pass < b.about.passes && status == TERSE_OK; pass++) {
                    const size_t bound = terse_codec_payload_bound(b.codec, pass);
                    status = terse_codec_encode_take(b.codec, pass, &key, b.residual,
                                                     b.payload[pass], bound, &b.len[pass]);
                    if (status == TERSE_OK)
                        assert_int_equal(terse_codec_decode_add(b.codec, pass, &key,
                                                                b.payload[pass], b.len[pass],
                                                                b.decoded, NULL),
                                         TERSE_OK);
                }
                if (reads_all(&b.about))
                    assert_int_equal(status, TERSE_NOT_FINITE);
                const int exact =
                    strncmp(specs[s], "low-rank", 8) != 0 && strncmp(specs[s], "uniform", 7) != 0 &&
                    strncmp(specs[s], "log", 3) != 0 && strncmp(specs[s], "scaled", 6) != 0 &&
                    strncmp(specs[s], "nearest", 7) != 0;
                for (size_t i = 0; status != TERSE_OK && i < b.count; i++) {
                    if (i == spots[k])
                        continue;
                    const float off = fabsf(b.residual[i] - before[i]);
                    if (!(off <= (exact ? 0 : fabsf(before[i]) * 1e-5f + 1e-4f)))
                        fail_msg("%s: element %zu was %g, is %g", specs[s], i, (double)before[i],
                                 (double)b.residual[i]);
                }
                free(before);
            }
        }
        bench_free(&b);
    }
}

/* A gradient of zeros stays zeros, and no codec fails. */
static void zeros_stay_zeros(void **unused)
{
    (void)unused;
    for (size_t s = 0; s < SPECS; s++) {
        struct bench b = bench_new(specs[s], 1);
        if (strncmp(specs[s], "sign", 4) != 0) {
            fill(&b, TEST_ZERO, 0);
            for (int step = 0; step < 3; step++)
                round_trip(&b);
            for (size_t i = 0; i < b.count; i++)
                assert_true(b.decoded[i] == 0 && b.residual[i] == 0);
        }
        bench_free(&b);
    }
}

/* Truncations and a growing number of bit flips of a payload: each is refused or decodes within the
 * output; asan and the end of the allocation detect other accesses. */
static void damaged_payloads_do_no_harm(void **unused)
{
    (void)unused;
    for (size_t s = 0; s < SPECS; s++) {
        struct bench b = bench_new(specs[s], 1);
        const uint32_t last = b.about.passes - 1;
        struct test_random random = {test_seed() + s};
        fill(&b, TEST_NORMAL, s);
        round_trip(&b);
        for (int i = 0; i < 60; i++) {
            const size_t len = test_next(&random) % b.len[last];
            uint8_t *const cut = malloc(len ? len : 1);
            assert_non_null(cut);
            memcpy(cut, b.payload[last], len);
            terse_fault fault = {0};
            assert_int_equal(
                terse_codec_decode_add(b.codec, last, &key, cut, len, b.decoded, &fault),
                TERSE_BAD_FRAME);
            assert_true(fault.offset <= len && fault.text[0] != '\0');
            free(cut);
            const size_t at = test_next(&random) % b.len[last];
            b.payload[last][at] ^= (uint8_t)(1u << test_next(&random) % 8);
            const terse_status status = terse_codec_decode_add(b.codec, last, &key, b.payload[last],
                                                               b.len[last], b.decoded, &fault);
            assert_true(status == TERSE_OK || status == TERSE_BAD_FRAME);
        }
        bench_free(&b);
    }
}

static void a_spec_survives_text_and_bytes(void **unused)
{
    (void)unused;
    for (size_t s = 0; s < SPECS; s++) {
        struct bench b = bench_new(specs[s], 1);
        struct bench again = bench_new(terse_codec_spec(b.codec), 1);
        uint8_t option_bytes[TERSE_OPTION_BYTES];
        terse_codec *opened = NULL;
        assert_string_equal(terse_codec_spec(b.codec), terse_codec_spec(again.codec));
        terse_codec_option_bytes(b.codec, option_bytes);
        assert_int_equal(
            terse_codec_open(b.about.wire_id, option_bytes, b.layout, NULL, &opened, NULL),
            TERSE_OK);
        assert_string_equal(terse_codec_spec(b.codec), terse_codec_spec(opened));
        terse_codec_destroy(opened);
        bench_free(&b);
        bench_free(&again);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(every_codec_is_in_this_suite),
        cmocka_unit_test(decoded_plus_residual_is_input),
        cmocka_unit_test(selecting_is_all_or_nothing),
        cmocka_unit_test(encode_and_encode_take_give_the_same_payload),
        cmocka_unit_test(threads_and_kernel_sets_change_nothing),
        cmocka_unit_test(contractive_residual_stays_bounded),
        cmocka_unit_test(unbiased_codecs_are_right_on_average),
        cmocka_unit_test(additive_payloads_add_up),
        cmocka_unit_test(non_finite_input_is_refused_and_nothing_is_lost),
        cmocka_unit_test(zeros_stay_zeros),
        cmocka_unit_test(damaged_payloads_do_no_harm),
        cmocka_unit_test(a_spec_survives_text_and_bytes),
    };
    return cmocka_run_group_tests_name("conform", tests, NULL, NULL);
}
