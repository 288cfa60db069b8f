/* Numbers as people type and read them. */
#include "common/number.h"

#include "support/support.h"

static void whole_numbers_are_read_whole(void **state)
{
    static const char *const wrong[] = {
        "", " 1", "+1", "-1", "1 ", "1x", "0x10", "1.0", "9", "101", "18446744073709551616"};
    uint64_t value = 7;
    (void)state;
    assert_true(com_parse_u64("10", 10, 100, &value) && value == 10);
    assert_true(com_parse_u64("100", 10, 100, &value) && value == 100);
    for (size_t i = 0; i < sizeof wrong / sizeof wrong[0]; i++)
        assert_false(com_parse_u64(wrong[i], 10, 100, &value));
    assert_true(value == 100);
    assert_true(com_parse_u64("18446744073709551615", 0, UINT64_MAX, &value));
    assert_true(value == UINT64_MAX);
}

static void counts_have_units(void **state)
{
    uint64_t value = 0;
    (void)state;
    assert_true(com_parse_count("25M", 0, UINT64_MAX, &value) && value == 25000000);
    assert_true(com_parse_count("64k", 0, UINT64_MAX, &value) && value == 64000);
    assert_true(com_parse_count("1G", 0, UINT64_MAX, &value) && value == 1000000000);
    assert_false(com_parse_count("1T", 0, UINT64_MAX, &value));
    assert_false(com_parse_count("1kk", 0, UINT64_MAX, &value));
    assert_false(com_parse_count("20000000000G", 0, UINT64_MAX, &value)); /* overflows */
    assert_false(com_parse_count("2k", 0, 1999, &value));
}

static void reals_are_finite_and_in_range(void **state)
{
    static const char *const wrong[] = {"", "x", "1x", "nan", "inf", "1e999", "-0.1", "1.1"};
    double value = 0;
    (void)state;
    assert_true(com_parse_real("0.25", 0, 1, &value) && value == 0.25);
    for (size_t i = 0; i < sizeof wrong / sizeof wrong[0]; i++)
        assert_false(com_parse_real(wrong[i], 0, 1, &value));
}

static void numbers_are_shown(void **state)
{
    (void)state;
    assert_string_equal(com_show_count(0).text, "0");
    assert_string_equal(com_show_count(999).text, "999");
    assert_string_equal(com_show_count(1234567).text, "1,234,567");
    assert_string_equal(com_show_count(UINT64_MAX).text, "18,446,744,073,709,551,615");
    assert_string_equal(com_show_bytes(0).text, "0 B");
    assert_string_equal(com_show_bytes(999.4).text, "999 B");
    assert_string_equal(com_show_bytes(999.5).text, "1.0 kB");
    assert_string_equal(com_show_bytes(1.25e6).text, "1.2 MB");
    assert_string_equal(com_show_bytes(1.2e8).text, "120 MB");
    assert_string_equal(com_show_number(0.7249).text, "0.725");
    assert_string_equal(com_show_number(5.1e-7).text, "5.1e-07");
    assert_string_equal(com_show_number(1234.4).text, "1234");
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(whole_numbers_are_read_whole),
        cmocka_unit_test(counts_have_units),
        cmocka_unit_test(reals_are_finite_and_in_range),
        cmocka_unit_test(numbers_are_shown),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
