/* TernGrad's clipping of elements: limits worked out by hand, and by a sum in long doubles. */
#include <math.h>

#include "direction/clip.h"
#include "method/crew.h"

#define EIGHT 8

/* One worker at 0, lr 1: it moves by -s times -1, 0 or +1; an element at the limit surely moves. */
static void expect_move(const char *spec, const float *gradient, uint64_t steps,
                        const float *expected)
{
    struct crew crew = crew_new(
        &(struct crew_plan){.spec = spec, .workers = 1, .count = EIGHT, .seed = test_seed()});
    for (uint64_t step = 0; step < steps; step++) {
        memcpy(crew.gradient[0], gradient, EIGHT * sizeof *gradient);
        crew_step(&crew);
    }
    for (size_t i = 0; i < EIGHT; i++)
        if (crew.weights[0][i] != expected[i])
            fail_msg("%s, element %zu: %.9g, expected %.9g", spec, i, (double)crew.weights[0][i],
                     (double)expected[i]);
    crew_free(&crew);
}

/* Mean 0 and variance 32 / 8: the deviation is 2, the limit 3. */
static void far_elements_move_by_the_limit(void **unused)
{
    static const float gradient[EIGHT] = {4, 0, 0, -4};
    static const float whole[EIGHT] = {-4, 0, 0, 4};
    static const float clipped[EIGHT] = {-3, 0, 0, 3};
    static const float two_steps[EIGHT] = {-6, 0, 0, 6};
    static const float warm_first[EIGHT] = {-7, 0, 0, 7};
    static const float shorter[EIGHT] = {-2, 0, 0, 2};
    (void)unused;
    expect_move("terngrad:lr=1", gradient, 1, whole);
    expect_move("terngrad:lr=1,sigma=0", gradient, 1, whole);
    expect_move("terngrad:lr=1,sigma=2.5", gradient, 1, whole); /* 5: nothing lies beyond */
    expect_move("terngrad:lr=1,sigma=1.5", gradient, 1, clipped);
    expect_move("terngrad:lr=1,sigma=1.5", gradient, 2, two_steps);
    expect_move("terngrad:lr=1,sigma=1.5,every=2", gradient, 2, two_steps);
    expect_move("terngrad:lr=1,sigma=1.5,warmup=1", gradient, 2, warm_first);
    expect_move("terngrad:lr=1,sigma=1.5,min=9", gradient, 1, whole); /* it travels as f32 */
    /* elements first, then the norm: that of (3, 3) is cut to that of (2, 2), not (2.25, 2.25) */
    expect_move("terngrad:lr=1,sigma=1.5,clip=2.8284271247461903", gradient, 1, shorter);
}

/* The deviation is about the mean, over n, and the limit about 0. Mean 2, variance 32 / 8; about 0
 * the limit would be 4.2, over n - 1 3.2, and 5 if it were about the mean. */
static void the_deviation_is_about_the_mean(void **unused)
{
    static const float gradient[EIGHT] = {6, 2, 2, 2, 2, 2, 2, -2};
    float clipped[EIGHT];
    (void)unused;
    tsi_clip_elements(gradient, clipped, EIGHT, 1.5, 1);
    assert_true(clipped[0] == 3 && clipped[7] == -2);
    for (size_t i = 1; i < 7; i++)
        assert_true(clipped[i] == 2);
}

/* A scalar, a constant, an empty tensor: no deviation, so nothing lies far out. */
static void equal_elements_stay(void **unused)
{
    static const float same[EIGHT] = {.1f, .1f, .1f, .1f, .1f, .1f, .1f, .1f};
    const float odd[] = {1, NAN, 3, 1e30f, 1, INFINITY};
    float out[EIGHT];
    (void)unused;
    for (size_t count = 0; count <= EIGHT; count++) {
        tsi_clip_elements(same, out, count, 1e-3, 1);
        assert_memory_equal(out, same, count * sizeof *out);
    }
    /* what is not finite is found later, where it is */
    tsi_clip_elements(odd, out, 4, 1e-3, 1);
    assert_memory_equal(out, odd, 4 * sizeof *out);
    tsi_clip_elements(odd + 2, out, 4, 1e-3, 1);
    assert_memory_equal(out, odd + 2, 4 * sizeof *out);
}

/* Counts around the lanes, the chunks and the batches of chunks; in place too. */
static void every_length_and_thread_count(void **unused)
{
    static const size_t counts[] = {2,     15,    16,    17,      1000,    16383,
                                    16384, 16385, 40000, 1048576, 1048577, 1100000};
    struct test_random random = {test_seed()};
    (void)unused;
    for (size_t c = 0; c < sizeof counts / sizeof counts[0]; c++) {
        const size_t count = counts[c];
        float *const in = test_floats(count);
        float *const out = test_floats(count);
        long double mean = 0;
        long double square = 0;
        test_fill(&random, TEST_NORMAL, in, count);
        for (size_t i = 0; i < count; i++)
            mean += ((long double)(in[i] += 0.5f)) / (long double)count;
        for (size_t i = 0; i < count; i++)
            square += ((long double)in[i] - mean) * ((long double)in[i] - mean);
        const double limit = (double)(1.25L * sqrtl(square / (long double)count));
        tsi_clip_elements(in, out, count, 1.25, 3);
        for (size_t i = 0; i < count; i++)
            if (fabs((double)out[i] - fmax(-limit, fmin(limit, (double)in[i]))) > 1e-6 * limit)
                fail_msg("%zu elements, element %zu: %.9g of %.9g, limit %.9g", count, i,
                         (double)out[i], (double)in[i], limit);
        tsi_clip_elements(in, in, count, 1.25, 1);
        assert_memory_equal(in, out, count * sizeof *in);
        free(in);
        free(out);
    }
}

/* Workers clip by their own deviations, each tensor by its own, and owners clip nothing: the mean
 * of many draws is the mean of the clipped gradients, to 5.5 standard deviations of what was seen.
 */
static void means_are_of_clipped_gradients(void **unused)
{
    enum { WORKERS = 3, DRAWS = 4000, HALF = 40, BOTH = 2 * HALF };
    static const char *const specs[] = {"terngrad:lr=1,sigma=1.2",
                                        "terngrad:lr=1,sigma=1.2,combine=allgather"};
    (void)unused;
    for (size_t s = 0; s < 2; s++) {
        terse_layout *layout = NULL;
        double sum[BOTH] = {0};
        double square[BOTH] = {0};
        double expected[BOTH] = {0};
        double seen = 0;
        assert_int_equal(terse_layout_create(&layout), TERSE_OK);
        assert_int_equal(terse_layout_add(layout, "a", 1, &(uint64_t){HALF}), TERSE_OK);
        assert_int_equal(terse_layout_add(layout, "b", 1, &(uint64_t){HALF}), TERSE_OK);
        struct crew crew = crew_new(&(struct crew_plan){
            .spec = specs[s], .workers = WORKERS, .layout = layout, .seed = test_seed()});
        crew_gradients(&crew, TEST_NORMAL, 1);
        for (uint32_t r = 0; r < WORKERS; r++) {
            float clipped[BOTH];
            for (size_t i = HALF; i < BOTH; i++)
                crew.gradient[r][i] *= (float)(10 + r);
            tsi_clip_elements(crew.gradient[r], clipped, HALF, 1.2, 1);
            tsi_clip_elements(crew.gradient[r] + HALF, clipped + HALF, HALF, 1.2, 1);
            for (size_t i = 0; i < BOTH; i++)
                expected[i] += (double)clipped[i] / WORKERS;
        }
        for (uint64_t draw = 0; draw < DRAWS; draw++) {
            memset(crew.weights[0], 0, BOTH * sizeof(float));
            for (uint32_t r = 1; r < WORKERS; r++)
                memset(crew.weights[r], 0, BOTH * sizeof(float));
            crew_step(&crew);
            for (size_t i = 0; i < BOTH; i++) {
                sum[i] -= (double)crew.weights[0][i];
                square[i] += (double)crew.weights[0][i] * (double)crew.weights[0][i];
            }
        }
        for (size_t i = 0; i < BOTH; i++) {
            const double mean = sum[i] / DRAWS;
            const double deviation = sqrt(fmax(square[i] / DRAWS - mean * mean, 0) / DRAWS);
            seen += fabs(crew_mean(&crew, NULL, i) - expected[i]) > 12 * deviation;
            if (fabs(mean - expected[i]) > 5.5 * deviation + 1e-6)
                fail_msg("%s, element %zu: mean %.6g, expected %.6g, deviation %.3g", specs[s], i,
                         mean, expected[i], deviation);
        }
        assert_true(seen > 0); /* the gradients' own means would have been noticed */
        crew_free(&crew);
        terse_layout_destroy(layout);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(far_elements_move_by_the_limit),
        cmocka_unit_test(the_deviation_is_about_the_mean),
        cmocka_unit_test(equal_elements_stay),
        cmocka_unit_test(every_length_and_thread_count),
        cmocka_unit_test(means_are_of_clipped_gradients),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
