/* options.aggregate_out: the aggregate for an external optimizer, with private_output too. (That it
 * is what the method would subtract: tests/python/hook.py.) */
#include <math.h>

#include "method/crew.h"

static const char *const specs[] = {
    "topk:keep=0.01",
    "regtopk:keep=0.02",
    "regtopk:keep=0.02,combine=sparse-allreduce",
    "regtopk:keep=0.02,warmup=3",
    "topk:keep=0.3", /* more entries than the sparse clearing records */
    "ef:ratio=8",
    "signsgd",
    "dense",
    "codec=topk:keep=0.01,values=f16,feedback=residual,combine=allgather"};

/* A step of both with the same gradients; one gradient is not finite in step 4: all skip. */
static void step(struct crew *plain, struct crew *kept, uint64_t number, const char *spec)
{
    struct crew *const both[] = {plain, kept};
    for (int i = 0; i < 2; i++) {
        crew_gradients(both[i], TEST_NORMAL, number);
        if (number == 4)
            both[i]->gradient[both[i]->workers - 1][10] = NAN;
        assert_int_equal(terse_method_step_all(both[i]->method,
                                               (const float *const *)both[i]->gradient,
                                               both[i]->report, NULL),
                         TERSE_OK);
    }
    assert_int_equal(kept->report[0].exchange.skipped, plain->report[0].exchange.skipped);
    assert_int_equal(plain->report[0].exchange.skipped, number == 4 ? TERSE_NOT_FINITE : TERSE_OK);
    for (uint32_t r = 0; r < kept->workers && number != 4; r++)
        if (!test_same_bits(plain->weights[r], kept->weights[r], kept->count))
            fail_msg("%s: the aggregate of step %d differs with private_output", spec, (int)number);
}

static void a_private_output_has_the_same_aggregate(void **unused)
{
    terse_layout *const layout = test_layout(30000);
    float *const start = test_floats((size_t)terse_layout_count(layout));
    (void)unused;
    for (size_t i = 0; i < (size_t)terse_layout_count(layout); i++)
        start[i] = 7; /* not cleared by the caller */
    for (size_t s = 0; s < sizeof specs / sizeof specs[0]; s++) {
        for (uint32_t workers = 1; workers <= 3; workers++) {
            struct crew_plan plan = {.spec = specs[s],
                                     .workers = workers,
                                     .layout = layout,
                                     .start = start,
                                     .steps = 20,
                                     .aggregate_out = 1};
            struct crew plain = crew_new(&plan);
            plan.private_output = 1;
            struct crew kept = crew_new(&plan);
            struct crew fresh = crew_new(&plan);
            for (uint64_t number = 0; number < 8; number++)
                step(&plain, &kept, number, specs[s]);
            crew_copy(&fresh, &plain); /* again with new methods and buffers */
            crew_copy(&fresh, &kept);
            for (uint64_t number = 5; number < 12; number++)
                step(&plain, &kept, number, specs[s]);
            crew_free(&fresh);
            crew_free(&plain);
            crew_free(&kept);
        }
    }
    free(start);
    terse_layout_destroy(layout);
}

/* Where signs are made of a sum of floats, they are those of the sum, in every chunk. */
static void signs_of_a_sum(void **unused)
{
    enum { COUNT = 50000, WORKERS = 3 };
    static const char *const summed[] = {"signsgd:warmup=2",
                                         "codec=sign,combine=allgather,update=signed"};
    (void)unused;
    for (size_t s = 0; s < 2; s++) {
        struct crew crew = crew_new(&(struct crew_plan){.spec = summed[s],
                                                        .workers = WORKERS,
                                                        .count = COUNT,
                                                        .seed = test_seed(),
                                                        .steps = 20,
                                                        .aggregate_out = 1});
        crew_gradients(&crew, TEST_NORMAL, 1);
        crew_step(&crew);
        for (size_t i = 0; i < COUNT; i++) {
            double sum = 0;
            for (uint32_t r = 0; r < WORKERS; r++) {
                const double g = (double)crew.gradient[r][i];
                sum += s == 0 ? g : g < 0 ? -1 : 1;
            }
            if (fabs(sum) > 1e-5 && (double)crew.weights[1][i] != (sum < 0 ? -1 : 1))
                fail_msg("%s, element %zu: %g of a sum of %g", summed[s], i,
                         (double)crew.weights[1][i], sum);
        }
        crew_free(&crew);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {cmocka_unit_test(a_private_output_has_the_same_aggregate),
                                       cmocka_unit_test(signs_of_a_sum)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}
