/* The parts that experiments use: random numbers, claims, charts, runs side by side. */
#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "reproduce/descent.h"
#include "reproduce/random.h"
#include "reproduce/sheet.h"

/* ---- draws ---- */

static void normals_are_normal(void **state)
{
    (void)state;
    enum { COUNT = 4000000, CUTS = 5 };
    static const double cut[CUTS] = {0.5, 1, 2, 3, 3.6}; /* the last lies in the tail */
    size_t beyond[CUTS] = {0};
    double sum = 0;
    double squares = 0;
    double fourth = 0;
    struct rpr_random random = rpr_random(12, "test", 0);
    for (size_t i = 0; i < COUNT; i++) {
        const double x = rpr_normal(&random);
        sum += x;
        squares += x * x;
        fourth += x * x * x * x;
        for (size_t j = 0; j < CUTS; j++)
            beyond[j] += x > cut[j];
    }
    /* five standard errors each */
    assert_true(fabs(sum / COUNT) < 5 / sqrt(COUNT));
    assert_true(fabs(squares / COUNT - 1) < 5 * sqrt(2.0 / COUNT));
    assert_true(fabs(fourth / COUNT - 3) < 5 * sqrt(96.0 / COUNT));
    for (size_t j = 0; j < CUTS; j++) {
        const double p = 0.5 * erfc(cut[j] / sqrt(2));
        assert_true(fabs((double)beyond[j] / COUNT - p) < 5 * sqrt(p / COUNT));
    }
}

static void streams_are_keyed(void **state)
{
    (void)state;
    struct rpr_random same[2] = {rpr_random(1, "a", 2), rpr_random(1, "a", 2)};
    struct rpr_random other[3] = {rpr_random(2, "a", 2), rpr_random(1, "b", 2),
                                  rpr_random(1, "a", 3)};
    const uint64_t first = rpr_bits(&same[0]);
    assert_true(first == rpr_bits(&same[1]));
    for (int i = 0; i < 3; i++)
        assert_true(first != rpr_bits(&other[i]));
}

/* ---- claims ---- */

static struct rpr_sheet new_sheet(void)
{
    struct rpr_result *const result = calloc(1, sizeof *result);
    assert_non_null(result);
    result->paper = "test";
    result->title = "a <title>";
    result->citation = "nobody";
    result->seeds = 1;
    return (struct rpr_sheet){.result = result, .seed = 1, .threads = 2};
}

static void claims_are_computed(void **state)
{
    (void)state;
    struct rpr_sheet sheet = new_sheet();
    rpr_claim(&sheet, "most", 1.0, RPR_AT_MOST, 1.0, "%d", 7);
    rpr_claim(&sheet, "most", 1.001, RPR_AT_MOST, 1.0, "-");
    rpr_claim(&sheet, "least", 1.0, RPR_AT_LEAST, 1.0, "-");
    rpr_claim(&sheet, "least", 0.999, RPR_AT_LEAST, 1.0, "-");
    rpr_claim(&sheet, "nothing", (double)NAN, RPR_AT_LEAST, 1.0, "-");
    rpr_claim(&sheet, "nothing", (double)NAN, RPR_AT_MOST, 1.0, "-");
    rpr_claim_within(&sheet, "between", 1.0, 1.0, 2.0, "-");
    rpr_claim_within(&sheet, "between", 2.0, 1.0, 2.0, "-");
    rpr_claim_within(&sheet, "between", 0.999, 1.0, 2.0, "-");
    rpr_claim_within(&sheet, "between", 2.001, 1.0, 2.0, "-");
    rpr_claim_within(&sheet, "between", (double)NAN, 1.0, 2.0, "-");
    static const int expected[] = {1, 0, 1, 0, 0, 0, 1, 1, 0, 0, 0};
    enum { CLAIMS = sizeof expected / sizeof expected[0] };
    assert_int_equal(sheet.result->claims, CLAIMS);
    for (size_t i = 0; i < CLAIMS; i++)
        assert_int_equal(sheet.result->claim[i].holds, expected[i]);
    assert_string_equal(sheet.result->claim[0].text, "7");
    rpr_free(sheet.result);
}

static struct rpr_result *one_seed(double measured)
{
    struct rpr_sheet sheet = new_sheet();
    const double value[3] = {measured, 2 * measured, 3};
    rpr_claim(&sheet, "c", measured, RPR_AT_MOST, 2.5, "-");
    rpr_chart(&sheet, &(struct rpr_axes){"id", "t", "x", "y", RPR_LOG_Y, 3, NULL, 10});
    rpr_line(&sheet, value, "line %d", 1);
    assert_int_equal(sheet.status, TERSE_OK);
    return sheet.result;
}

static void seeds_become_one(void **state)
{
    (void)state;
    struct rpr_result *results[3] = {one_seed(1), one_seed(2), one_seed(3)};
    struct rpr_result *const all = rpr_merge(results, 3);
    assert_int_equal(all->seeds, 3);
    assert_false(all->claim[0].holds); /* not for 3 */
    assert_true(all->claim[0].measured == 2 && all->claim[0].low == 1 && all->claim[0].high == 3);
    assert_true(all->claim[0].deviation == 1);
    const struct rpr_line *const line = &all->chart[0].line[0];
    assert_string_equal(line->name, "line 1");
    assert_true(line->value[1] == 4 && line->low[1] == 2 && line->high[1] == 6);
    assert_true(all->chart[0].x[2] == 20);
    rpr_free(all);
}

/* ---- charts ---- */

/* Nothing to show, one point, points so dense that several share a column, zeros on a log axis. */
static void odd_charts_are_drawn(void **state)
{
    (void)state;
    enum { MANY = 5000 };
    struct rpr_sheet sheet = new_sheet();
    double *const value = malloc(MANY * sizeof *value);
    assert_non_null(value);
    struct rpr_random random = rpr_random(1, "charts", 0);
    for (size_t i = 0; i < MANY; i++)
        value[i] = i % 7 == 0 ? 0 : i % 11 == 0 ? NAN : exp(20 * rpr_normal(&random));
    rpr_claim(&sheet, "c<", 1, RPR_AT_MOST, 2, "a < b & \"c\"");
    rpr_claim_within(&sheet, "d", 1, 0.5, 2, "-");
    for (unsigned flags = 0; flags < 8; flags++) {
        const size_t counts[] = {1, 2, 64, MANY};
        for (size_t i = 0; i < 4; i++) {
            rpr_chart(&sheet, &(struct rpr_axes){"id", "<t>", "x", "y", flags, counts[i], NULL, 1});
            rpr_line(&sheet, value, "dense");
        }
    }
    const struct rpr_terminal terminal = {.bold = "", .good = "", .bad = "", .plain = ""};
    struct com_text text = {0};
    rpr_print(&text, sheet.result, &terminal);
    assert_false(text.failed);
    for (size_t i = 0; i < text.len; i++)
        assert_in_range((unsigned char)text.bytes[i], '\n', '~');
    com_text_free(&text);
    struct rpr_terminal unicode = terminal;
    unicode.unicode = 1;
    rpr_print(&text, sheet.result, &unicode);
    assert_non_null(strstr(text.bytes, "\u2713"));
    com_text_free(&text);
    rpr_page(&text, &sheet.result, 1);
    assert_false(text.failed);
    assert_null(strstr(text.bytes, "nan"));
    assert_null(strstr(text.bytes, "inf"));
    assert_null(strstr(text.bytes, "<t>"));
    assert_non_null(strstr(text.bytes, "a &lt; b &amp; &quot;c&quot;"));
    com_text_free(&text);
    rpr_free(sheet.result);
    free(value);
}

/* ---- descents ---- */

/* Without noise and compression a descent is known in closed form. */
static void descent_is_gradient_descent(void **state)
{
    (void)state;
    const float curvature[2] = {1, 0.5f};
    const float optimum[2] = {3, -1};
    const float start[2] = {1, 1};
    double loss[2][11];
    struct rpr_sheet sheet = new_sheet();
    struct rpr_descent run[2];
    for (size_t i = 0; i < 2; i++)
        run[i] = (struct rpr_descent){.spec = "dense:momentum=0,lr=0.1",
                                      .workers = 3,
                                      .count = 2,
                                      .curvature = curvature,
                                      .optimum = optimum,
                                      .start = start,
                                      .steps = 10,
                                      .tail = 2,
                                      .together = i > 0,
                                      .loss = loss[i]};
    rpr_descend(&sheet, run, 2);
    assert_int_equal(sheet.status, TERSE_OK);
    for (int step = 0; step <= 10; step++) {
        const double off = -2 * pow(0.9, step);
        const double other = 2 * pow(0.95, step);
        const double expected = 0.5 * off * off + 0.25 * other * other;
        assert_true(fabs(loss[0][step] / expected - 1) < 1e-5);
        assert_true(loss[0][step] == loss[1][step]);
    }
    assert_true(fabs(run[0].final - (loss[0][9] + loss[0][10]) / 2) < 1e-12);
    rpr_free(sheet.result);
}

static void failures_reach_the_sheet(void **state)
{
    (void)state;
    const float start[2] = {1, 1};
    struct rpr_sheet sheet = new_sheet();
    struct rpr_descent run = {
        .spec = "no-such-method", .workers = 1, .count = 2, .start = start, .steps = 3};
    rpr_descend(&sheet, &run, 1);
    assert_int_equal(sheet.status, TERSE_BAD_SPEC);
    assert_non_null(strstr(sheet.fault.text, "no-such-method"));
    rpr_free(sheet.result);
    struct rpr_result *result = NULL;
    terse_fault fault = {0};
    assert_int_equal(rpr_run("nothing", 1, 1, &result, &fault), TERSE_BAD_ARGUMENT);
    assert_null(result);
}

static void too_large_an_lr_diverges(void **state)
{
    (void)state;
    const float start[1] = {1};
    double loss[101];
    struct rpr_sheet sheet = new_sheet();
    struct rpr_descent run = {.spec = "dense:momentum=0,lr=3",
                              .workers = 1,
                              .count = 1,
                              .start = start,
                              .steps = 100,
                              .loss = loss};
    rpr_descend(&sheet, &run, 1);
    assert_int_equal(sheet.status, TERSE_OK);
    assert_true(run.diverged);
    assert_true(loss[100] == RPR_DIVERGED && run.final == RPR_DIVERGED);
    rpr_free(sheet.result);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(normals_are_normal),       cmocka_unit_test(streams_are_keyed),
        cmocka_unit_test(claims_are_computed),      cmocka_unit_test(seeds_become_one),
        cmocka_unit_test(odd_charts_are_drawn),     cmocka_unit_test(descent_is_gradient_descent),
        cmocka_unit_test(failures_reach_the_sheet), cmocka_unit_test(too_large_an_lr_diverges),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
