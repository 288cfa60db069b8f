/* Sheets of characters: words, dots, what is outside, names from files. */
#include "common/grid.h"

#include "support/support.h"

static void expect(struct com_grid *grid, const char *lines)
{
    char *const text = com_grid_text(grid);
    assert_non_null(text);
    assert_string_equal(text, lines);
    free(text);
}

static void words_are_cut_off_and_cleaned(void **state)
{
    struct com_grid grid;
    (void)state;
    assert_true(com_grid_make(&grid, 6, 3, 0));
    com_grid_words(&grid, 3, 0, "abcdef");
    com_grid_words(&grid, -2, 1, "xyz");
    com_grid_words(&grid, 0, 2, "\xC3\xA9\x1B\xFF!");
    com_grid_put(&grid, 0, 3, 'x');
    com_grid_put(&grid, 6, 0, 'x');
    expect(&grid, "   abc\nz\n\xC3\xA9?"
                  "?!\n");
}

static void ascii_has_no_other_characters(void **state)
{
    struct com_grid grid;
    (void)state;
    assert_true(com_grid_make(&grid, 6, 2, 1));
    com_grid_words(&grid, 0, 0, "a\xC3\xA9 b");
    com_grid_dot(&grid, 1, 1, 2, 0);
    expect(&grid, "a? b\n   *\n");
}

static void dots_share_a_cell(void **state)
{
    struct com_grid grid;
    (void)state;
    assert_true(com_grid_make(&grid, 2, 1, 0));
    assert_int_equal(com_grid_dots_across(&grid, 2), 4);
    assert_int_equal(com_grid_dots_down(&grid, 1), 4);
    com_grid_dot(&grid, 0, 0, 0, 0);
    com_grid_dot(&grid, 0, 0, 1, 3);
    com_grid_dot(&grid, 0, 0, 2, 1);
    expect(&grid, "\xE2\xA2\x81\xE2\xA0\x82\n"); /* U+2881, U+2802 */
}

static void free_cells_are_found(void **state)
{
    struct com_grid grid;
    (void)state;
    assert_true(com_grid_make(&grid, 5, 1, 1));
    com_grid_put(&grid, 2, 0, 'x');
    assert_true(com_grid_is_free(&grid, 0, 0, 2));
    assert_false(com_grid_is_free(&grid, 0, 0, 3));
    assert_false(com_grid_is_free(&grid, 3, 0, 3)); /* the last is outside */
    assert_int_equal(com_grid_width_of("a\xC3\xA9", 9), 2);
    assert_int_equal(com_grid_width_of("abcdef", 4), 4);
    expect(&grid, "  x\n");
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(words_are_cut_off_and_cleaned),
        cmocka_unit_test(ascii_has_no_other_characters),
        cmocka_unit_test(dots_share_a_cell),
        cmocka_unit_test(free_cells_are_found),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
