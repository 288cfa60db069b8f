/* terse plan: samples of layouts that are too large to run beside recordings of all. */
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

/* The same job as it is, and by samples: of it, or of jobs with fewer workers. */
static void compare_with_all(const char *spec, uint32_t workers, const terse_layout *layout,
                             uint64_t most, uint64_t bucket, uint32_t ranks)
{
    const struct pln_place place = {.bits_per_second = 1e8, .latency = 1e-5, .compute = 0.3};
    struct pln_job job = {
        .spec = spec, .workers = workers, .layout = layout, .bucket = bucket, .threads = 1};
    struct pln_cost cost[2];
    terse_fault fault = {0};
    for (int i = 0; i < 2; i++, job.most = most) {
        struct pln_trace *trace = NULL;
        if (pln_record(&job, &trace, &fault) != TERSE_OK)
            fail_msg("%s, %u workers: %s", spec, workers, fault.text);
        assert_int_equal(trace->scale > 1, i);
        assert_int_equal(trace->ranks, i == 0 ? workers : ranks);
        for (uint32_t r = 0; r < trace->ranks; r++) /* what is left does not vary */
            for (size_t e = 0; e < trace->rank[r].count; e++)
                if (trace->rank[r].event[e].kind == PLN_CPU)
                    trace->rank[r].event[e].amount = 0;
        cost[i] = pln_simulate(trace, &place);
        pln_trace_free(trace);
    }
    print_message("%s, %u workers: %.4g of %.4g s, wire %.4g of %.4g s, %.6g of %.6g bytes\n", spec,
                  workers, cost[1].seconds, cost[0].seconds, cost[1].wire_seconds,
                  cost[0].wire_seconds, cost[1].bytes_sent, cost[0].bytes_sent);
    check_near(cost[1].bytes_sent, cost[0].bytes_sent, 0.01);
    check_near(cost[1].wire_seconds, cost[0].wire_seconds, 0.1);
    check_near(cost[1].hidden_seconds, cost[0].hidden_seconds, 0.1);
    check_near(cost[1].seconds, cost[0].seconds, 0.03);
}

/* Owners have equal slices of a sample, as they have of the whole, and buckets are as many. */
static void samples_have_the_slices_of_all(void **state)
{
    static const char *const specs[] = {"dense",
                                        "signum",
                                        "qadam",
                                        "qsgd",
                                        "codec=f32,feedback=none,combine=median",
                                        "codec=f16,feedback=none,combine=parameter-server"};
    terse_layout *layout = NULL;
    terse_fault fault;
    (void)state;
    assert_int_equal(pln_layout_parse("1024x520,1024x520,1024x520,1024x430,600", &layout, &fault),
                     TERSE_OK);
    for (size_t i = 0; i < sizeof specs / sizeof specs[0]; i++)
        compare_with_all(specs[i], 16, layout, 5000000, 2 << 20, 16);
    terse_layout_destroy(layout);
}

/* Short tensors make owners uneven, by as much in a sample as in the whole. */
static void uneven_slices_do_not_grow(void **state)
{
    terse_layout *layout = NULL;
    terse_fault fault;
    (void)state;
    assert_int_equal(
        pln_layout_parse("1024x1100,1024x1100,120x130,70x200,100x90,600", &layout, &fault),
        TERSE_OK);
    compare_with_all("fp16", 16, layout, 2500000, 2 << 20, 16);
    terse_layout_destroy(layout);
}

/* Tensors that are too short for every owner to have a slice: none is left out, or cut shorter. */
static void short_tensors_stay_whole(void **state)
{
    terse_layout *layout = NULL;
    terse_fault fault;
    (void)state;
    assert_int_equal(pln_layout_parse("80x80,90x90,30x200,100x80,120x110,600", &layout, &fault),
                     TERSE_OK);
    const struct pln_job job = {
        .spec = "signum", .workers = 40, .layout = layout, .most = 1600000, .threads = 1};
    struct pln_trace *trace = NULL;
    assert_int_equal(pln_record(&job, &trace, &fault), TERSE_OK);
    assert_int_equal(trace->ranks, 40);
    check_near(trace->scale, 1, 0);
    pln_trace_free(trace);
    terse_layout_destroy(layout);
}

/* So many workers that slices of a sample would be short: extrapolated from fewer. */
static void slices_that_are_short_are_extrapolated(void **state)
{
    terse_layout *layout = NULL;
    terse_fault fault;
    (void)state;
    assert_int_equal(pln_layout_parse("1024x520,1024x520", &layout, &fault), TERSE_OK);
    compare_with_all("signum", 48, layout, 4000000, 2 << 20, 2);
    terse_layout_destroy(layout);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(samples_have_the_slices_of_all),
        cmocka_unit_test(uneven_slices_do_not_grow),
        cmocka_unit_test(short_tensors_stay_whole),
        cmocka_unit_test(slices_that_are_short_are_extrapolated),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
