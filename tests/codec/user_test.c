/* Codecs of users: what is refused, and that one of them is as good as one that is built in. */
#include <stdatomic.h>
#include <stdio.h>

#include "support/support.h"

enum { COUNT = 1000, WORKERS = 3, STEPS = 6 };

/* "every": every p-th element, from one on that all workers share. */

static size_t first_of(const terse_user_call *call)
{
    return (size_t)((call->key->step + call->tensor) % (uint64_t)call->option[0]);
}

static size_t every_bound(const terse_user_call *call)
{
    return (call->count / (size_t)call->option[0] + 1) * sizeof(float);
}

static terse_status every_encode(const terse_user_call *call, const float *in, uint8_t *section,
                                 size_t *len)
{
    *len = 0;
    for (size_t i = first_of(call); i < call->count; i += (size_t)call->option[0]) {
        memcpy(section + *len, &in[i], sizeof(float));
        *len += sizeof(float);
    }
    return TERSE_OK;
}

static terse_status every_decode(const terse_user_call *call, const uint8_t *section, size_t len,
                                 size_t *used, float *out)
{
    *used = 0;
    for (size_t i = first_of(call); i < call->count; i += (size_t)call->option[0]) {
        float value;
        if (len - *used < sizeof value)
            return TERSE_BAD_FRAME;
        memcpy(&value, section + *used, sizeof value);
        out[i] += value;
        *used += sizeof value;
    }
    return TERSE_OK;
}

static const terse_option every_options[] = {{.name = "p",
                                              .range = "1..100",
                                              .initial = "2",
                                              .help = "one of p elements",
                                              .kind = TERSE_OPTION_INTEGER,
                                              .low = 1,
                                              .high = 100}};

static const terse_user_codec every = {.size = sizeof every,
                                       .name = "every",
                                       .summary = "every p-th element",
                                       .wire_id = 200,
                                       .traits = TERSE_CODEC_SELECTING | TERSE_CODEC_CONTRACTIVE |
                                                 TERSE_CODEC_RANDOM,
                                       .options = every_options,
                                       .option_count = 1,
                                       .bound = every_bound,
                                       .encode = every_encode,
                                       .decode_add = every_decode};

/* "copy": topk once more, by its public functions, one object a call. */

static terse_codec *topk_of(const terse_user_call *call)
{
    terse_layout *layout = NULL;
    terse_codec *codec = NULL;
    char spec[64];
    (void)snprintf(spec, sizeof spec, "topk:keep=%.9g", call->option[0]);
    assert_int_equal(terse_layout_vector(call->count, &layout), TERSE_OK);
    assert_int_equal(terse_codec_create(spec, layout, NULL, &codec, NULL), TERSE_OK);
    terse_layout_destroy(layout);
    return codec;
}

static size_t copy_bound(const terse_user_call *call)
{
    terse_codec *codec = topk_of(call);
    const size_t bound = terse_codec_payload_bound(codec, 0);
    terse_codec_destroy(codec);
    return bound;
}

static terse_status copy_encode(const terse_user_call *call, const float *in, uint8_t *section,
                                size_t *len)
{
    terse_codec *codec = topk_of(call);
    const terse_status status = terse_codec_encode(codec, 0, call->key, in, section,
                                                   terse_codec_payload_bound(codec, 0), len);
    terse_codec_destroy(codec);
    return status;
}

static terse_status copy_decode(const terse_user_call *call, const uint8_t *section, size_t len,
                                size_t *used, float *out)
{
    terse_codec *codec = topk_of(call);
    *used = terse_codec_payload_bound(codec, 0);
    const terse_status status =
        len < *used ? TERSE_BAD_FRAME
                    : terse_codec_decode_add(codec, 0, call->key, section, *used, out, NULL);
    terse_codec_destroy(codec);
    return status;
}

static const terse_option copy_options[] = {{.name = "keep",
                                             .range = "1e-9..1",
                                             .initial = "0.01",
                                             .help = "fraction",
                                             .kind = TERSE_OPTION_REAL,
                                             .low = 1e-9,
                                             .high = 1}};

static const terse_user_codec copy = {.size = sizeof copy,
                                      .name = "copy",
                                      .summary = "topk once more",
                                      .wire_id = 201,
                                      .traits = TERSE_CODEC_SELECTING | TERSE_CODEC_CONTRACTIVE |
                                                TERSE_CODEC_FIXED_LEN,
                                      .options = copy_options,
                                      .option_count = 1,
                                      .bound = copy_bound,
                                      .encode = copy_encode,
                                      .decode_add = copy_decode};

/* "lies": of another length than its bound, or it fails and tells why. */

static atomic_int lie; /* bytes too many, or one of these */
enum { FAILS = 1000, FAILS_IN_DECODE };

static terse_status lies_encode(const terse_user_call *call, const float *in, uint8_t *section,
                                size_t *len)
{
    const int now = atomic_load(&lie);
    (void)in;
    *len = call->count * sizeof(float);
    if (now < FAILS)
        *len = now < 0 ? *len - (size_t)-now : *len + (size_t)now;
    memset(section, 0, call->count * sizeof(float));
    return now == FAILS ? TERSE_BAD_ARGUMENT : TERSE_OK;
}

static size_t lies_bound(const terse_user_call *call)
{
    return call->count * sizeof(float);
}

static terse_status lies_decode(const terse_user_call *call, const uint8_t *section, size_t len,
                                size_t *used, float *out)
{
    (void)section;
    (void)out;
    *used = lies_bound(call);
    return len < *used || atomic_load(&lie) == FAILS_IN_DECODE ? TERSE_BAD_FRAME : TERSE_OK;
}

static const char *lies_explain(void *context)
{
    return context;
}

static char reason[] = "the moon is full";

static const terse_user_codec lies = {.size = sizeof lies,
                                      .name = "lies",
                                      .summary = "breaks its word",
                                      .wire_id = 202,
                                      .traits = TERSE_CODEC_FIXED_LEN | TERSE_CODEC_CONTRACTIVE,
                                      .context = reason,
                                      .bound = lies_bound,
                                      .encode = lies_encode,
                                      .decode_add = lies_decode,
                                      .explain = lies_explain};

static int setup(void **unused)
{
    (void)unused;
    assert_int_equal(terse_codec_register(&lies, NULL), TERSE_OK);
    assert_int_equal(terse_codec_register(&every, NULL), TERSE_OK);
    assert_int_equal(terse_codec_register(&copy, NULL), TERSE_OK);
    return 0;
}

/* ---- what is refused ---- */

static void refuse(const terse_user_codec *codec, const char *piece)
{
    terse_fault fault = {0};
    assert_int_equal(terse_codec_register(codec, &fault), TERSE_BAD_ARGUMENT);
    if (!strstr(fault.text, piece))
        print_error("'%s' lacks '%s'\n", fault.text, piece);
    assert_non_null(strstr(fault.text, piece));
}

static void what_cannot_be_registered(void **unused)
{
    static const terse_option wide[] = {
        {.name = "a", .range = "0..1", .initial = "0", .kind = TERSE_OPTION_REAL, .high = 1},
        {.name = "b", .range = "0..1", .initial = "0", .kind = TERSE_OPTION_REAL, .high = 1},
        {.name = "c", .range = "0..1", .initial = "0", .kind = TERSE_OPTION_INTEGER, .high = 1}};
    terse_user_codec one = every;
    (void)unused;
    refuse(NULL, "NULL");
    refuse(&every, "there is a codec of this name");
    one.name = "other";
    refuse(&one, "there is a codec with this wire id");
    one.wire_id = 191;
    refuse(&one, "192..255");
    one.wire_id = 203;
    one.name = "Other";
    refuse(&one, "lower-case");
    one.name = "a:b";
    refuse(&one, "lower-case");
    one.name = "topk";
    refuse(&one, "there is a codec of this name");
    one.name = "other";
    one.traits = TERSE_CODEC_ADDITIVE;
    refuse(&one, "TERSE_CODEC_ADDITIVE");
    one.traits = 1u << 20;
    refuse(&one, "unknown bit");
    one.traits = 0;
    one.encode = NULL;
    refuse(&one, "NULL");
    one.encode = every_encode;
    one.option_count = 5;
    refuse(&one, "at most 4 options");
    one.options = wide;
    one.option_count = 3;
    refuse(&one, "16 bytes");
    one.size--;
    refuse(&one, "sizeof");
}

static void specs_of_users(void **unused)
{
    terse_codec_about about;
    terse_fault fault = {0};
    (void)unused;
    assert_int_equal(terse_codec_check("every:p=7", &about, NULL), TERSE_OK);
    assert_string_equal(about.summary, "every p-th element");
    assert_int_equal(terse_codec_check("every:p=101", NULL, &fault), TERSE_BAD_SPEC);
    assert_string_equal(fault.text, "p is a whole number in 1..100, not '101'; for example p=2");
    assert_int_equal(terse_codec_check("evry", NULL, &fault), TERSE_BAD_SPEC);
    assert_string_equal(fault.text, "no codec 'evry'; did you mean 'every'?");
}

/* ---- encoding ---- */

static void a_payload_cut_short_or_too_long_is_refused(void **unused)
{
    struct test_random random = {test_seed()};
    terse_layout *layout = test_layout(5000);
    const size_t count = (size_t)terse_layout_count(layout);
    const terse_rng_key key = {.seed = 1, .step = 5, .worker = 1};
    terse_codec *codec = NULL;
    terse_codec *opened = NULL;
    uint8_t bytes[TERSE_OPTION_BYTES];
    size_t len = 0;
    (void)unused;
    assert_int_equal(terse_codec_create("every:p=3", layout, NULL, &codec, NULL), TERSE_OK);
    const size_t bound = terse_codec_payload_bound(codec, 0);
    uint8_t *payload = test_alloc(bound + 1);
    float *in = test_floats(count);
    float *residual = test_floats(count);
    test_fill(&random, TEST_NORMAL, in, count);
    memcpy(residual, in, count * sizeof *in);
    assert_int_equal(terse_codec_encode_take(codec, 0, &key, residual, payload, bound, &len),
                     TERSE_OK);
    assert_true(len > 0 && len <= bound);
    terse_codec_option_bytes(codec, bytes);
    assert_int_equal(terse_codec_open(200, bytes, layout, NULL, &opened, NULL), TERSE_OK);
    terse_fault fault = {0};
    assert_int_equal(terse_codec_decode_add(opened, 0, &key, payload, len - 1, in, &fault),
                     TERSE_BAD_FRAME);
    assert_non_null(strstr(fault.text, "codec every refuses"));
    assert_int_equal(terse_codec_decode_add(opened, 0, &key, payload, len + 1, residual, &fault),
                     TERSE_BAD_FRAME);
    terse_codec_destroy(codec);
    terse_codec_destroy(opened);
    terse_layout_destroy(layout);
    free(payload);
    free(in);
    free(residual);
}

static void taking_loses_nothing(void **unused)
{
    struct test_random random = {test_seed()};
    terse_layout *layout = test_layout(5000);
    const size_t count = (size_t)terse_layout_count(layout);
    const terse_rng_key key = {.seed = 1, .step = 5, .worker = 1};
    terse_codec *codec = NULL;
    size_t len = 0;
    (void)unused;
    assert_int_equal(terse_codec_create("every:p=3", layout, NULL, &codec, NULL), TERSE_OK);
    const size_t bound = terse_codec_payload_bound(codec, 0);
    uint8_t *payload = test_alloc(bound);
    float *in = test_floats(count);
    float *residual = test_floats(count);
    test_fill(&random, TEST_HEAVY, in, count);
    memcpy(residual, in, count * sizeof *in);
    assert_int_equal(terse_codec_encode_take(codec, 0, &key, residual, payload, bound, &len),
                     TERSE_OK);
    assert_false(test_same_bits(residual, in, count));
    assert_int_equal(terse_codec_decode_add(codec, 0, &key, payload, len, residual, NULL),
                     TERSE_OK);
    assert_true(test_same_bits(residual, in, count));
    terse_codec_destroy(codec);
    terse_layout_destroy(layout);
    free(payload);
    free(in);
    free(residual);
}

/* A length other than the bound would move the sections behind it; what fails is explained. */
static void lengths_and_failures_are_told(void **unused)
{
    static const struct {
        int lie;
        const char *text;
    } cases[] = {
        {-4, "codec lies encoded 10 elements to 36 bytes; its bound is exactly 40"},
        {4, "codec lies encoded 10 elements to 44 bytes; its bound is exactly 40"},
        {FAILS, "codec lies cannot encode: the moon is full"},
        {FAILS_IN_DECODE, "codec lies cannot take what it encoded: the moon is full"},
    };
    const terse_rng_key key = {.seed = 1};
    float in[10] = {1, 2, 3};
    uint8_t payload[64];
    size_t len = 99;
    terse_layout *layout = NULL;
    terse_codec *codec = NULL;
    terse_fault fault = {0};
    (void)unused;
    assert_int_equal(terse_layout_vector(10, &layout), TERSE_OK);
    assert_int_equal(terse_codec_create("lies", layout, NULL, &codec, NULL), TERSE_OK);
    for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++) {
        atomic_store(&lie, cases[i].lie);
        assert_int_not_equal(
            terse_codec_encode_take(codec, 0, &key, in, payload, sizeof payload, &len), TERSE_OK);
        assert_string_equal(terse_codec_failure(codec), cases[i].text);
        assert_true(len == 99 && in[1] == 2);
    }
    assert_int_equal(terse_codec_decode_add(codec, 0, &key, payload, 40, in, &fault),
                     TERSE_BAD_FRAME);
    assert_string_equal(fault.text, "codec lies refuses the section: the moon is full");
    atomic_store(&lie, 0);
    assert_int_equal(terse_codec_encode_take(codec, 0, &key, in, payload, sizeof payload, &len),
                     TERSE_OK);
    assert_string_equal(terse_codec_failure(codec), "");
    terse_codec_destroy(codec);
    terse_layout_destroy(layout);
}

/* ---- in a method ---- */

/* The step fails on every worker, and the fault names rank, codec and reason. */
static void a_failure_ends_the_step(void **unused)
{
    float first[10] = {0};
    float second[10] = {0};
    float *weights[2] = {first, second};
    const float gradient[10] = {1};
    const float *const gradients[2] = {gradient, gradient};
    terse_layout *layout = NULL;
    terse_method *methods[2];
    terse_fault fault = {0};
    (void)unused;
    assert_int_equal(terse_layout_vector(10, &layout), TERSE_OK);
    assert_int_equal(terse_method_create_all("codec=lies,feedback=residual,lr=0.1", 2, layout,
                                             weights, NULL, methods, NULL),
                     TERSE_OK);
    atomic_store(&lie, FAILS);
    assert_int_equal(terse_method_step_all(methods, gradients, NULL, &fault), TERSE_BAD_ARGUMENT);
    assert_string_equal(fault.text, "rank 0: codec lies cannot encode: the moon is full");
    assert_true(first[0] == 0 && second[0] == 0);
    atomic_store(&lie, 0);
    terse_method_destroy(methods[0]);
    terse_method_destroy(methods[1]);
    terse_layout_destroy(layout);
}

/* Weights after some steps of WORKERS workers. */
static void train(const char *spec, float *out)
{
    struct test_random random = {test_seed()};
    terse_layout *layout = NULL;
    float *weights[WORKERS];
    float *gradients[WORKERS];
    terse_method *methods[WORKERS];
    terse_fault fault = {0};
    assert_int_equal(terse_layout_vector(COUNT, &layout), TERSE_OK);
    for (int w = 0; w < WORKERS; w++) {
        weights[w] = test_floats(COUNT);
        gradients[w] = test_floats(COUNT);
    }
    const terse_status made =
        terse_method_create_all(spec, WORKERS, layout, weights, NULL, methods, &fault);
    if (made != TERSE_OK)
        print_error("%s: %s\n", spec, fault.text);
    assert_int_equal(made, TERSE_OK);
    for (int step = 0; step < STEPS; step++) {
        for (int w = 0; w < WORKERS; w++)
            test_fill(&random, TEST_NORMAL, gradients[w], COUNT);
        assert_int_equal(
            terse_method_step_all(methods, (const float *const *)gradients, NULL, &fault),
            TERSE_OK);
    }
    memcpy(out, weights[0], COUNT * sizeof *out);
    for (int w = 0; w < WORKERS; w++)
        assert_true(test_same_bits(weights[w], out, COUNT));
    for (int w = 0; w < WORKERS; w++)
        terse_method_destroy(methods[w]);
    for (int w = 0; w < WORKERS; w++) {
        free(weights[w]);
        free(gradients[w]);
    }
    terse_layout_destroy(layout);
}

static void a_copy_trains_like_the_original(void **unused)
{
    static const char *const combines[] = {"allgather", "shard", "parameter-server",
                                           "sparse-allreduce"};
    float *original = test_floats(COUNT);
    float *copied = test_floats(COUNT);
    (void)unused;
    for (size_t i = 0; i < sizeof combines / sizeof combines[0]; i++) {
        char spec[160];
        (void)snprintf(spec, sizeof spec,
                       "codec=topk:keep=0.05,feedback=residual,combine=%s,lr=0.1", combines[i]);
        train(spec, original);
        (void)snprintf(spec, sizeof spec,
                       "codec=copy:keep=0.05,feedback=residual,combine=%s,lr=0.1", combines[i]);
        train(spec, copied);
        assert_true(test_same_bits(original, copied, COUNT));
    }
    free(original);
    free(copied);
}

/* Lengths that vary travel first: 1000 elements are 333 or 334 of three. */
static void lengths_may_vary(void **unused)
{
    float *weights = test_floats(COUNT);
    float *zeros = test_floats(COUNT);
    (void)unused;
    train("codec=every:p=3,feedback=residual,lr=0.1", weights);
    assert_false(test_same_bits(weights, zeros, COUNT));
    train("codec=every:p=3,feedback=residual,combine=shard,lr=0.1", weights);
    free(weights);
    free(zeros);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(what_cannot_be_registered),
        cmocka_unit_test(specs_of_users),
        cmocka_unit_test(a_payload_cut_short_or_too_long_is_refused),
        cmocka_unit_test(taking_loses_nothing),
        cmocka_unit_test(lengths_and_failures_are_told),
        cmocka_unit_test(a_failure_ends_the_step),
        cmocka_unit_test(a_copy_trains_like_the_original),
        cmocka_unit_test(lengths_may_vary),
    };
    return cmocka_run_group_tests(tests, setup, NULL);
}
