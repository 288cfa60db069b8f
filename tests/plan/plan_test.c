/* terse plan: units, traces of real steps, and what a link makes of them. */
#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "plan/record.h"
#include "tests/plan/near.h"

/* ---- units ---- */

static void rates_and_times_are_read(void **state)
{
    double value = -1;
    (void)state;
    assert_true(pln_parse_rate("1gbit", &value));
    check_near(value, 1e9, 0);
    assert_true(pln_parse_rate("2.5Gbit/s", &value));
    check_near(value, 2.5e9, 1e-12);
    assert_true(pln_parse_rate("800kbit", &value));
    check_near(value, 8e5, 1e-12);
    assert_true(pln_parse_seconds("0.2ms", &value));
    check_near(value, 2e-4, 1e-12);
    assert_true(pln_parse_seconds("50us", &value));
    check_near(value, 5e-5, 1e-12);
    assert_true(pln_parse_seconds("1.5s", &value));
    check_near(value, 1.5, 0);
}

static void other_words_are_refused(void **state)
{
    static const char *const rates[] = {"",       "1",      "gbit",     "1gb",  "-1gbit",   "0gbit",
                                        "1mbyte", "1gbitx", "nan gbit", "1 gb", "1e999gbit"};
    static const char *const times[] = {"", "1", "ms", "-1ms", "0s", "1m", "1msec", "inf s"};
    double value = -1;
    (void)state;
    for (size_t i = 0; i < sizeof rates / sizeof rates[0]; i++)
        if (pln_parse_rate(rates[i], &value))
            fail_msg("'%s' was taken as a rate", rates[i]);
    for (size_t i = 0; i < sizeof times / sizeof times[0]; i++)
        if (pln_parse_seconds(times[i], &value))
            fail_msg("'%s' was taken as a time", times[i]);
    check_near(value, -1, 0);
}

static void shapes_are_read(void **state)
{
    static const char *const bad[] = {
        "", "64x", "64,", "x64", "0x4", "4,,4", "4y4", "-4", "1x1x1x1x1x1x1x1x1"};
    terse_layout *layout = NULL;
    terse_fault fault;
    terse_tensor tensor;
    (void)state;
    assert_int_equal(pln_layout_parse("64x3x7x7,64", &layout, &fault), TERSE_OK);
    assert_int_equal(terse_layout_count(layout), 64 * 3 * 49 + 64);
    assert_int_equal(terse_layout_tensor(layout, 0, &tensor), TERSE_OK);
    assert_int_equal(tensor.ndim, 4);
    terse_layout_destroy(layout);
    for (size_t i = 0; i < sizeof bad / sizeof bad[0]; i++)
        if (pln_layout_parse(bad[i], &layout, &fault) != TERSE_BAD_SPEC)
            fail_msg("'%s' was taken as shapes", bad[i]);
    assert_int_equal(pln_layout_of(2500001, &layout), TERSE_OK);
    assert_int_equal(terse_layout_count(layout), 2500001);
    terse_layout_destroy(layout);
}

/* ---- traces ---- */

static terse_layout *network(void)
{
    terse_layout *layout = NULL;
    terse_fault fault;
    assert_int_equal(pln_layout_parse("96x64,96,17x96,17,10x31x3", &layout, &fault), TERSE_OK);
    return layout;
}

static struct pln_trace *trace_of(const char *spec, uint32_t workers, const terse_layout *layout,
                                  uint64_t most)
{
    const struct pln_job job = {
        .spec = spec, .workers = workers, .layout = layout, .most = most, .threads = 1};
    struct pln_trace *trace = NULL;
    terse_fault fault = {0};
    const terse_status status = pln_record(&job, &trace, &fault);
    if (status != TERSE_OK)
        fail_msg("%s, %u workers: %s", spec, workers, fault.text);
    return trace;
}

/* The mean of the bytes that workers of a real group report in the same step. */
static double real_bytes(const char *spec, uint32_t workers, const terse_layout *layout)
{
    const terse_method_options options = {
        .size = sizeof options, .seed = 1, .steps = PLN_TRAINING, .threads = 1};
    const size_t count = (size_t)terse_layout_count(layout);
    float *const gradient = calloc((count + PLN_GAP) * workers, sizeof *gradient);
    float *const weights = calloc((count + 1) * workers, sizeof *weights);
    terse_method *methods[8];
    terse_method_report reports[8];
    const float *gradients[8];
    float *each[8];
    terse_fault fault = {0};
    double sum = 0;
    pln_gradients(gradient, count, workers);
    for (uint32_t r = 0; r < workers; r++) {
        gradients[r] = gradient + (count + PLN_GAP) * r;
        each[r] = weights + (count + 1) * r;
    }
    assert_int_equal(
        terse_method_create_all(spec, workers, layout, each, &options, methods, &fault), TERSE_OK);
    for (int i = 0; i < PLN_STEPS; i++)
        assert_int_equal(terse_method_step_all(methods, gradients, reports, &fault), TERSE_OK);
    for (uint32_t r = 0; r < workers; r++) {
        sum += (double)reports[r].exchange.bytes_sent / workers;
        terse_method_destroy(methods[r]);
    }
    free(gradient);
    free(weights);
    return sum;
}

static const struct pln_place slow = {
    .bits_per_second = 1e6, .latency = 1e-4, .compute = 0.01, .ranks_per_core = 1};

/* Every method and every combine that it can have: what the plan counts is what a step sends. */
static void bytes_are_those_of_a_real_step(void **state)
{
    terse_layout *const layout = network();
    terse_method_about about;
    unsigned tried = 0;
    (void)state;
    for (uint32_t m = 0; terse_method_list(m, &about) == TERSE_OK; m++)
        for (uint32_t c = 0; c == 0 || terse_combine_name(c - 1); c++)
            for (uint32_t workers = 2; workers <= 5; workers += 3) {
                char spec[256];
                (void)snprintf(spec, sizeof spec, "%s%s%s", about.name, c ? ":combine=" : "",
                               c ? terse_combine_name(c - 1) : "");
                if (terse_method_check(spec, NULL) != TERSE_OK)
                    continue;
                struct pln_trace *const trace = trace_of(spec, workers, layout, 0);
                const double counted = real_bytes(spec, workers, layout);
                const double planned = pln_simulate(trace, &slow).bytes_sent;
                if (fabs(planned - counted) > 1e-6)
                    fail_msg("%s, %u workers: planned %.3f bytes, sent %.3f", spec, workers,
                             planned, counted);
                pln_trace_free(trace);
                tried++;
            }
    assert_true(tried > 60);
    terse_layout_destroy(layout);
}

static void every_part_of_a_step_is_counted_once(void **state)
{
    terse_layout *const layout = network();
    struct pln_trace *const trace = trace_of("signum", 4, layout, 0);
    const struct pln_cost cost = pln_simulate(trace, &slow);
    (void)state;
    check_near(cost.compute_seconds, 0.01, 1e-12);
    assert_true(cost.codec_seconds > 0);
    assert_true(cost.hidden_seconds >= 0);
    check_near(cost.compute_seconds + cost.codec_seconds + cost.wire_seconds - cost.hidden_seconds,
               cost.seconds, 1e-9);
    pln_trace_free(trace);
    terse_layout_destroy(layout);
}

/* 2(K-1)/K n floats over the line, where the line is all that takes time. */
static void dense_takes_the_line_time(void **state)
{
    terse_layout *layout = NULL;
    (void)state;
    assert_int_equal(terse_layout_vector(400000, &layout), TERSE_OK);
    for (uint32_t workers = 2; workers <= 8; workers *= 2) {
        struct pln_trace *const trace = trace_of("dense", workers, layout, 0);
        const struct pln_place place = {.bits_per_second = 1e6};
        const double line = 2.0 * (workers - 1) / workers * 400000 * 32 / 1e6;
        check_near(pln_simulate(trace, &place).seconds, line, 0.01);
        pln_trace_free(trace);
    }
    terse_layout_destroy(layout);
}

/* All-gather: K-1 payloads. Parameter server: the server's link is the bottleneck, both ways. */
static void other_combines_take_theirs(void **state)
{
    terse_layout *layout = NULL;
    const struct pln_place place = {.bits_per_second = 1e6};
    (void)state;
    assert_int_equal(terse_layout_vector(100000, &layout), TERSE_OK);
    struct pln_trace *trace = trace_of("codec=f16,feedback=none,combine=allgather", 4, layout, 0);
    check_near(pln_simulate(trace, &place).seconds, 3 * 100000 * 16 / 1e6, 0.02);
    pln_trace_free(trace);
    trace = trace_of("codec=f16,feedback=none,combine=parameter-server", 4, layout, 0);
    check_near(pln_simulate(trace, &place).seconds, 2 * 3 * 100000 * 16 / 1e6, 0.02);
    pln_trace_free(trace);
    terse_layout_destroy(layout);
}

/* Messages that do nothing but wait for the latency: two records, and the two ways of a vote. */
static void latency_counts_once_per_round(void **state)
{
    terse_layout *const layout = network();
    struct pln_trace *const trace = trace_of("signsgd", 3, layout, 0);
    const struct pln_place far = {.bits_per_second = 1e13, .latency = 1};
    (void)state;
    check_near(pln_simulate(trace, &far).seconds, 4, 0.01);
    pln_trace_free(trace);
    terse_layout_destroy(layout);
}

static void slower_links_take_longer(void **state)
{
    static const char *const specs[] = {"dense", "signum", "topk", "powersgd", "qadam"};
    terse_layout *const layout = network();
    (void)state;
    for (size_t i = 0; i < sizeof specs / sizeof specs[0]; i++) {
        struct pln_trace *const trace = trace_of(specs[i], 4, layout, 0);
        struct pln_place place = slow;
        double last = INFINITY;
        for (int power = 5; power < 11; power++) {
            place.bits_per_second = pow(10, power);
            const double seconds = pln_simulate(trace, &place).seconds;
            assert_true(seconds <= last);
            last = seconds;
        }
        place.latency *= 2;
        assert_true(pln_simulate(trace, &place).seconds > last);
        place.ranks_per_core = 4;
        const double shared = pln_simulate(trace, &place).codec_seconds;
        place.ranks_per_core = 1;
        check_near(shared, 4 * pln_simulate(trace, &place).codec_seconds, 0.3);
        pln_trace_free(trace);
    }
    terse_layout_destroy(layout);
}

static void break_even_is_where_both_take_as_long(void **state)
{
    terse_layout *layout = NULL;
    struct pln_place place = slow;
    (void)state;
    assert_int_equal(terse_layout_vector(300000, &layout), TERSE_OK);
    struct pln_trace *const dense = trace_of("dense", 4, layout, 0);
    struct pln_trace *const natural = trace_of("natural", 4, layout, 0);
    const double rate = pln_break_even(natural, dense, &place);
    assert_true(rate > 1e6 && rate < PLN_FASTEST);
    place.bits_per_second = rate / 1.1;
    assert_true(pln_simulate(natural, &place).seconds < pln_simulate(dense, &place).seconds);
    place.bits_per_second = rate * 1.1;
    assert_true(pln_simulate(natural, &place).seconds > pln_simulate(dense, &place).seconds);
    assert_true(pln_break_even(dense, dense, &place) == 0);
    pln_trace_free(dense);
    pln_trace_free(natural);
    terse_layout_destroy(layout);
}

/* On a fast link everything but the last bucket is hidden: both ways of the others. It is so fast
 * that CPU times, with sanitizers too, stay small beside the line's. */
static void fast_links_hide_all_but_the_last_bucket(void **state)
{
    terse_layout *layout = NULL;
    terse_fault fault;
    struct pln_trace *trace = NULL;
    double after[2];
    (void)state;
    assert_int_equal(pln_layout_parse("100x100,300x300,300x300,300x300,300x300", &layout, &fault),
                     TERSE_OK);
    for (uint64_t i = 0; i < 2; i++) {
        const struct pln_job job = {
            .spec = "dense", .workers = 3, .layout = layout, .bucket = i * 300000, .threads = 1};
        const struct pln_place place = {.bits_per_second = 2e8, .latency = 1e-6, .compute = 1};
        assert_int_equal(pln_record(&job, &trace, &fault), TERSE_OK);
        after[i] = pln_simulate(trace, &place).seconds - place.compute;
        pln_trace_free(trace);
    }
    assert_true(after[1] < 0.3 * after[0]);
    terse_layout_destroy(layout);
}

/* Buckets travel while the backward pass goes on; the same bytes, a few headers more. */
static void overlap_hides_what_travels_early(void **state)
{
    terse_layout *layout = NULL;
    terse_fault fault;
    (void)state;
    assert_int_equal(pln_layout_parse("300x300,300x300,300x300,300x300", &layout, &fault),
                     TERSE_OK);
    struct pln_job job = {.spec = "dense", .workers = 2, .layout = layout, .threads = 1};
    const struct pln_place place = {
        .bits_per_second = 1e8, .latency = 1e-4, .compute = 0.2, .ranks_per_core = 1};
    struct pln_trace *trace = NULL;
    assert_int_equal(pln_record(&job, &trace, &fault), TERSE_OK);
    const struct pln_cost whole = pln_simulate(trace, &place);
    pln_trace_free(trace);
    job.bucket = 300000;
    assert_int_equal(pln_record(&job, &trace, &fault), TERSE_OK);
    const struct pln_cost buckets = pln_simulate(trace, &place);
    pln_trace_free(trace);
    check_near(buckets.compute_seconds, 0.2, 1e-9);
    check_near(buckets.bytes_sent, whole.bytes_sent, 0.01);
    assert_true(buckets.hidden_seconds > whole.hidden_seconds + 0.02);
    assert_true(buckets.seconds < whole.seconds - 0.02);
    terse_layout_destroy(layout);
}

/* A sample of the layout has the bytes of the whole, but for what padding and headers make. */
static void large_layouts_are_sampled(void **state)
{
    static const char *const specs[] = {"dense", "signum", "qsgd", "topk", "powersgd"};
    terse_layout *layout = NULL;
    terse_fault fault;
    (void)state;
    assert_int_equal(pln_layout_parse("2048x1000,1000x1200,752x1000", &layout, &fault), TERSE_OK);
    for (size_t i = 0; i < sizeof specs / sizeof specs[0]; i++) {
        struct pln_trace *const all = trace_of(specs[i], 2, layout, 0);
        struct pln_trace *const sample = trace_of(specs[i], 2, layout, 1000000);
        check_near(all->scale, 1, 0);
        check_near(sample->scale, 8, 0.05);
        check_near(pln_simulate(sample, &slow).bytes_sent, pln_simulate(all, &slow).bytes_sent,
                   0.005);
        pln_trace_free(all);
        pln_trace_free(sample);
    }
    terse_layout_destroy(layout);
}

/* Tensors of one shape are left out, not all shrunk: slices stay as even as those of the whole. */
static void samples_keep_whole_tensors(void **state)
{
    const struct pln_place place = {.bits_per_second = 1e6};
    terse_layout *layout = NULL;
    (void)state;
    assert_int_equal(pln_layout_of(UINT64_C(8) << 20, &layout), TERSE_OK);
    struct pln_trace *const trace = trace_of("fp16", 16, layout, UINT64_C(16) << 20);
    check_near(trace->scale, 8, 0.01);
    check_near(pln_simulate(trace, &place).seconds, 2 * 15.0 / 16 * 16 * (8 << 20) / 1e6, 0.02);
    pln_trace_free(trace);
    terse_layout_destroy(layout);
}

/* Beyond the ranks that can run, in the combines' own proportions. */
static void many_workers_are_extrapolated(void **state)
{
    terse_layout *layout = NULL;
    (void)state;
    assert_int_equal(pln_layout_of(200000, &layout), TERSE_OK);
    struct pln_trace *const dense = trace_of("dense", 1000, layout, 0);
    struct pln_trace *const topk = trace_of("topk", 1000, layout, 0);
    struct pln_trace *const few = trace_of("topk", 8, layout, 0);
    assert_int_equal(dense->ranks, 2);
    check_near(pln_simulate(dense, &slow).bytes_sent, 2 * 0.999 * 200000 * 4, 0.15);
    check_near(pln_simulate(topk, &slow).bytes_sent,
               999.0 / 7 * pln_simulate(few, &slow).bytes_sent, 0.02);
    pln_trace_free(dense);
    pln_trace_free(topk);
    pln_trace_free(few);
    terse_layout_destroy(layout);
}

static void local_steps_share_an_exchange(void **state)
{
    terse_layout *const layout = network();
    struct pln_trace *const one = trace_of("def", 2, layout, 0);
    struct pln_trace *const four = trace_of("def:every=4", 2, layout, 0);
    (void)state;
    check_near(pln_simulate(four, &slow).bytes_sent, pln_simulate(one, &slow).bytes_sent / 4, 1e-9);
    check_near(pln_simulate(four, &slow).compute_seconds, slow.compute, 1e-9);
    pln_trace_free(one);
    pln_trace_free(four);
    terse_layout_destroy(layout);
}

static void bad_jobs_are_refused(void **state)
{
    terse_layout *const layout = network();
    struct pln_job job = {.spec = "dense", .workers = 0, .layout = layout, .threads = 1};
    struct pln_trace *trace = NULL;
    terse_fault fault = {0};
    (void)state;
    assert_int_equal(pln_record(&job, &trace, &fault), TERSE_BAD_ARGUMENT);
    assert_non_null(strstr(fault.text, "0 workers"));
    job.workers = PLN_MOST_WORKERS + 1;
    assert_int_equal(pln_record(&job, &trace, &fault), TERSE_BAD_ARGUMENT);
    job.workers = 2;
    job.spec = "no-such-method";
    assert_int_equal(pln_record(&job, &trace, &fault), TERSE_BAD_SPEC);
    assert_null(trace);
    terse_layout_destroy(layout);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(rates_and_times_are_read),
        cmocka_unit_test(other_words_are_refused),
        cmocka_unit_test(shapes_are_read),
        cmocka_unit_test(bytes_are_those_of_a_real_step),
        cmocka_unit_test(every_part_of_a_step_is_counted_once),
        cmocka_unit_test(dense_takes_the_line_time),
        cmocka_unit_test(other_combines_take_theirs),
        cmocka_unit_test(latency_counts_once_per_round),
        cmocka_unit_test(slower_links_take_longer),
        cmocka_unit_test(break_even_is_where_both_take_as_long),
        cmocka_unit_test(fast_links_hide_all_but_the_last_bucket),
        cmocka_unit_test(overlap_hides_what_travels_early),
        cmocka_unit_test(large_layouts_are_sampled),
        cmocka_unit_test(samples_keep_whole_tensors),
        cmocka_unit_test(many_workers_are_extrapolated),
        cmocka_unit_test(local_steps_share_an_exchange),
        cmocka_unit_test(bad_jobs_are_refused),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
