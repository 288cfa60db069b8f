/* Bytes by tensor: their sum is the worker's payload for every method, codec and combine, and each
 * is what the format says. */
#include <stdio.h>

#include "method/subjects.h"

#define MAX_TENSORS 16u

static uint64_t sum_of(const uint64_t *bytes, uint32_t tensors)
{
    uint64_t sum = 0;
    for (uint32_t t = 0; t < tensors; t++)
        sum += bytes[t];
    return sum;
}

/* The payload by the report, which counts whole payloads. */
static uint64_t payload_of(const struct crew *crew, uint32_t rank)
{
    return (uint64_t)(crew->report[rank].bits * (double)crew->count / 8 + 0.5);
}

/* Steps of all workers; every rank's bytes add up to its payload, and a local step changes none. */
static void expect_sums(const char *spec, uint32_t workers)
{
    terse_layout *const layout = subject_layout();
    const uint32_t tensors = terse_layout_tensors(layout);
    const struct crew_plan plan = subject_plan(spec, workers, layout);
    struct crew crew = crew_new(&plan);
    uint64_t before[MAX_TENSORS] = {0};
    uint64_t bytes[MAX_TENSORS];
    assert_int_equal(terse_method_tensor_bytes(crew.method[0], bytes), TERSE_OK);
    assert_int_equal(sum_of(bytes, tensors), 0);
    for (uint64_t step = 0; step < 6; step++) {
        crew_gradients(&crew, TEST_NORMAL, step);
        crew_step(&crew);
        for (uint32_t r = workers; r-- > 0;) {
            assert_int_equal(terse_method_tensor_bytes(crew.method[r], bytes), TERSE_OK);
            if (crew.report[r].exchanged && sum_of(bytes, tensors) != payload_of(&crew, r))
                fail_msg("%s, %u workers, step %d, rank %u: %llu bytes of tensors, %llu of payload",
                         spec, workers, (int)step, r, (unsigned long long)sum_of(bytes, tensors),
                         (unsigned long long)payload_of(&crew, r));
        }
        assert_int_equal(bytes[1], 0); /* the tensor without elements */
        if (!crew.report[0].exchanged)
            assert_memory_equal(bytes, before, tensors * sizeof *bytes);
        memcpy(before, bytes, sizeof before);
    }
    assert_true(sum_of(bytes, tensors) > 0);
    crew_free(&crew);
    terse_layout_destroy(layout);
}

static void every_method_adds_up(void **unused)
{
    const char *spec;
    (void)unused;
    for (uint32_t s = 0; (spec = subject(s)) != NULL; s++) {
        terse_method_description about = {.size = sizeof about};
        assert_int_equal(terse_method_describe(spec, &about, NULL), TERSE_OK);
        for (uint32_t workers = 1; workers <= 3 && strcmp(about.scope, "tensor") == 0; workers++)
            expect_sums(spec, workers);
    }
}

static void every_codec_adds_up_with_every_combine(void **unused)
{
    terse_codec_about codec;
    uint32_t pairs = 0;
    const char *combine;
    (void)unused;
    for (uint32_t c = 0; terse_codec_list(c, &codec) == TERSE_OK; c++) {
        for (uint32_t i = 0; (combine = terse_combine_name(i)) != NULL; i++) {
            char spec[200];
            (void)snprintf(spec, sizeof spec, "codec=%s,combine=%s", codec.name, combine);
            if (terse_method_check(spec, NULL) != TERSE_OK)
                continue;
            expect_sums(spec, 3);
            pairs++;
        }
    }
    printf("%u pairs of codec and combine\n", pairs);
    assert_true(pairs > 30);
}

/* ---- known lengths ---- */

/* One step of two workers: the bytes of rank 1. */
static void expect_bytes(const char *spec, const uint64_t expected[6])
{
    terse_layout *const layout = subject_layout();
    const struct crew_plan plan = subject_plan(spec, 2, layout);
    struct crew crew = crew_new(&plan);
    uint64_t bytes[MAX_TENSORS];
    crew_train(&crew, TEST_NORMAL, 0, 1);
    assert_int_equal(terse_method_tensor_bytes(crew.method[1], bytes), TERSE_OK);
    for (uint32_t t = 0; t < 6; t++)
        if (bytes[t] != expected[t])
            fail_msg("%s: tensor %u has %llu bytes, %llu expected", spec, t,
                     (unsigned long long)bytes[t], (unsigned long long)expected[t]);
    crew_free(&crew);
    terse_layout_destroy(layout);
}

/* Tensors of 540 (12 x 45), 0, 1, 77, 1767 (31 x 57) and 700 elements; docs/wire-format.md. */
static void tensors_have_the_bytes_of_the_format(void **unused)
{
    (void)unused;
    expect_bytes("dense", (const uint64_t[]){2160, 0, 4, 308, 7068, 2800});
    expect_bytes("fp16", (const uint64_t[]){1080, 0, 2, 154, 3534, 1400});
    expect_bytes("def:ratio=10", (const uint64_t[]){216, 0, 4, 28, 704, 280});
    expect_bytes("def:ratio=10,plain=bias", (const uint64_t[]){216, 0, 4, 308, 704, 280});
    /* Both factors of a matrix; vectors travel as they are. */
    expect_bytes("powersgd:rank=2",
                 (const uint64_t[]){2 * (12 + 45) * 4, 0, 4, 308, 2 * (31 + 57) * 4, 2800});
    expect_bytes("signsgd", (const uint64_t[]){68, 0, 1, 10, 221, 88});
}

/* ---- what is not counted ---- */

static void skipped_steps_leave_the_last_exchange(void **unused)
{
    const struct crew_plan plan = {.spec = "topk:keep=0.1", .workers = 2, .count = 1000};
    struct crew crew = crew_new(&plan);
    uint64_t before = 0;
    uint64_t after = 0;
    (void)unused;
    crew_train(&crew, TEST_NORMAL, 0, 1);
    assert_int_equal(terse_method_tensor_bytes(crew.method[0], &before), TERSE_OK);
    assert_true(before > 0);
    memset(crew.gradient[1], 0xff, sizeof(float)); /* NaN */
    assert_int_equal(
        terse_method_step_all(crew.method, (const float *const *)crew.gradient, crew.report, NULL),
        TERSE_OK);
    assert_int_equal(crew.report[0].exchange.skipped, TERSE_NOT_FINITE);
    assert_int_equal(terse_method_tensor_bytes(crew.method[0], &after), TERSE_OK);
    assert_int_equal(after, before);
    crew_free(&crew);
}

static void one_piece_has_no_bytes_of_a_tensor(void **unused)
{
    const struct crew_plan plan = {
        .spec = "topk:keep=0.1,scope=model,warmup=1", .workers = 2, .count = 1000};
    struct crew crew = crew_new(&plan);
    uint64_t bytes = 7;
    (void)unused;
    crew_train(&crew, TEST_NORMAL, 0, 2);
    assert_int_equal(terse_method_tensor_bytes(crew.method[0], &bytes), TERSE_UNSUPPORTED);
    assert_int_equal(bytes, 7);
    assert_int_equal(terse_method_tensor_bytes(NULL, &bytes), TERSE_BAD_ARGUMENT);
    assert_int_equal(terse_method_tensor_bytes(crew.method[0], NULL), TERSE_BAD_ARGUMENT);
    crew_free(&crew);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(every_method_adds_up),
        cmocka_unit_test(every_codec_adds_up_with_every_combine),
        cmocka_unit_test(tensors_have_the_bytes_of_the_format),
        cmocka_unit_test(skipped_steps_leave_the_last_exchange),
        cmocka_unit_test(one_piece_has_no_bytes_of_a_tensor),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
