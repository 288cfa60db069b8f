/* Axes of charts: ranges, positions of values, marks. */
#include "common/axis.h"

#include <math.h>

#include "support/support.h"

static void ticks_lie_on_the_axis(void **state)
{
    (void)state;
    static const struct com_axis ranges[] = {
        {0, 1, 0},       {-3, 17, 0},    {0.2, 0.21, 0},  {1e-30, 1e30, 1}, {1, 8, 1},
        {0.03, 0.05, 1}, {3, 3.0001, 0}, {1e5, 1.2e5, 0}, {0.9, 110, 1},    {-1e-9, 1e-9, 0},
    };
    for (size_t i = 0; i < sizeof ranges / sizeof ranges[0]; i++) {
        double tick[7];
        const size_t count = com_axis_ticks(&ranges[i], tick, 7);
        assert_in_range(count, 1, 7);
        for (size_t j = 0; j < count; j++) {
            const double place = com_axis_place(&ranges[i], tick[j]);
            assert_true(place > -0.01 && place < 1.01);
            assert_true(j == 0 || tick[j] > tick[j - 1]);
        }
    }
}

static void empty_and_single_values_have_width(void **state)
{
    (void)state;
    struct com_axis axis = com_axis_empty(0);
    com_axis_include(&axis, NAN);
    com_axis_include(&axis, INFINITY);
    com_axis_settle(&axis);
    assert_true(axis.low == 0 && axis.high == 1);
    axis = com_axis_empty(0);
    com_axis_include(&axis, 0.9);
    com_axis_settle(&axis);
    assert_true(axis.low < 0.9 && axis.high > 0.9 && axis.high < 1);
    axis = com_axis_empty(0);
    com_axis_include(&axis, 0);
    com_axis_settle(&axis);
    assert_true(axis.low == -0.5 && axis.high == 0.5);
}

static void a_logarithmic_axis_leaves_out_zero(void **state)
{
    (void)state;
    struct com_axis axis = com_axis_empty(1);
    com_axis_include(&axis, 0);
    com_axis_include(&axis, -1);
    com_axis_include(&axis, 1);
    com_axis_include(&axis, 10000);
    com_axis_settle(&axis);
    assert_true(axis.log && axis.low == 1 && axis.high == 10000);
    assert_true(fabs(com_axis_place(&axis, 100) - 0.5) < 1e-12);
    assert_true(isnan(com_axis_place(&axis, 0)));
    assert_true(isnan(com_axis_place(&axis, NAN)));
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(ticks_lie_on_the_axis),
        cmocka_unit_test(empty_and_single_values_have_width),
        cmocka_unit_test(a_logarithmic_axis_leaves_out_zero),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
