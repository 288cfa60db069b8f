/* Options as rows: what is typed, shown, written down, read again and compared. */
#include "common/option.h"

#include "support/support.h"

struct values {
    const char *name;
    int loud;
    uint32_t batch;
    uint64_t steps;
    double rate;
};

static const char *colours(uint32_t index)
{
    static const char *const names[] = {"red", "green", "blue"};
    return index < 3 ? names[index] : NULL;
}

#define AT(member) .offset = offsetof(struct values, member)

enum { NAME, LOUD, BATCH, STEPS, RATE, ROWS };
static const struct com_option rows[ROWS] = {
    {.name = "name",
     .kind = COM_OPTION_TEXT,
     .word = "N",
     .usual = "red",
     .choices = colours,
     .help = "{choices}; default {default}",
     .key = "name",
     AT(name)},
    {.name = "loud",
     .letter = 'l',
     .kind = COM_OPTION_FLAG,
     .help = "shout",
     .key = "loud",
     AT(loud)},
    {.name = "batch",
     .kind = COM_OPTION_U32,
     .word = "B",
     .low = 1,
     .high = 65536,
     .usual = "32",
     .help =
         "a text that is so long that it does not fit into the first line and goes on below it; "
         "default {default}",
     .key = "batch",
     AT(batch)},
    {.name = "steps",
     .kind = COM_OPTION_U64,
     .word = "S",
     .high = 0x1p53,
     .help = "how many",
     .key = "steps",
     AT(steps)},
    {.name = "rate", .kind = COM_OPTION_REAL, .word = "R", .high = 1, .help = "0 to 1", AT(rate)},
};

static void typed_values_are_set(void **state)
{
    struct values values = {0};
    (void)state;
    static const char *const words[ROWS] = {"blue", NULL, "2k", "9007199254740992", "0.25"};
    for (int i = 0; i < ROWS; i++) {
        assert_true(com_option_is_zero(&rows[i], &values));
        assert_int_equal(com_option_set(&rows[i], words[i], &values, NULL), TERSE_OK);
        assert_false(com_option_is_zero(&rows[i], &values));
    }
    assert_string_equal(values.name, "blue");
    assert_int_equal(values.loud, 1);
    assert_int_equal(values.batch, 2000);
    assert_true(values.steps == UINT64_C(9007199254740992));
    assert_true(values.rate == 0.25);
}

static void wrong_numbers_name_option_and_range(void **state)
{
    struct values values = {.batch = 7, .rate = 0.5};
    terse_fault fault = {0};
    (void)state;
    assert_int_equal(com_option_set(&rows[BATCH], "0", &values, &fault), TERSE_BAD_SPEC);
    assert_string_equal(fault.text, "--batch: '0' is not a whole number from 1 to 65536");
    assert_int_equal(com_option_set(&rows[BATCH], "65537", &values, &fault), TERSE_BAD_SPEC);
    assert_int_equal(com_option_set(&rows[RATE], "1.5", &values, &fault), TERSE_BAD_SPEC);
    assert_string_equal(fault.text, "--rate: '1.5' is not a number from 0 to 1");
    assert_true(values.batch == 7 && values.rate == 0.5);
}

/* JSON that nobody could have typed is not read; 0 is "not given" where there is no default. */
static void numbers_out_of_range_are_not_read(void **state)
{
    static const struct {
        const char *text;
        int row;
        int is_read;
    } cases[] = {
        {"{\"batch\":0}", BATCH, 0},          {"{\"batch\":1}", BATCH, 1},
        {"{\"batch\":65536}", BATCH, 1},      {"{\"batch\":65537}", BATCH, 0},
        {"{\"batch\":4294967328}", BATCH, 0}, {"{\"batch\":1.5}", BATCH, 0},
        {"{\"batch\":-1}", BATCH, 0},         {"{\"batch\":\"2\"}", BATCH, 0},
        {"{\"steps\":0}", STEPS, 1},          {"{\"steps\":1e300}", STEPS, 0},
    };
    (void)state;
    for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++) {
        struct values values = {.batch = 7, .steps = 9};
        com_json *json = NULL;
        assert_int_equal(
            com_json_parse("j", (const uint8_t *)cases[i].text, strlen(cases[i].text), &json, NULL),
            TERSE_OK);
        assert_int_equal(com_option_read(&rows[cases[i].row], json, &values), cases[i].is_read);
        assert_true(cases[i].is_read || (values.batch == 7 && values.steps == 9));
        com_json_free(json);
    }
}

static void defaults_are_what_could_be_typed(void **state)
{
    struct values values = {.steps = 3};
    (void)state;
    for (int i = 0; i < ROWS; i++)
        com_option_set_usual(&rows[i], &values);
    assert_string_equal(values.name, "red");
    assert_int_equal(values.batch, 32);
    assert_true(values.steps == 3); /* no default: it stays */
}

static void help_is_filled_in_and_wrapped(void **state)
{
    struct com_text text = {0};
    (void)state;
    com_option_help(&rows[NAME], &text);
    com_option_help(&rows[LOUD], &text);
    com_option_help(&rows[BATCH], &text);
    assert_string_equal(text.bytes, "  --name N             red, green, blue; default red\n"
                                    "  -l, --loud           shout\n"
                                    "  --batch B            a text that is so long that it does "
                                    "not fit into the first line and\n"
                                    "                       goes on below it; default 32\n");
    com_text_free(&text);
}

static void options_are_typed_as_a_shell_reads_them(void **state)
{
    const struct values values = {"it's *", 1, 9, 1 << 20, 0.05};
    const struct values usual = {"red", 0, 32, 0, 0};
    struct com_text text = {0};
    (void)state;
    for (int i = 0; i < ROWS; i++)
        com_option_type(&rows[i], &values, &text);
    assert_string_equal(text.bytes,
                        " --name 'it'\\''s *' --loud --batch 9 --steps 1048576 --rate 0.05");
    const size_t len = text.len;
    for (int i = 0; i < ROWS; i++)
        com_option_type(&rows[i], &usual, &text);
    assert_true(text.len == len);
    com_text_free(&text);
}

static void written_values_are_read_again(void **state)
{
    const struct values old = {"a \"b\"", 1, 9, 1 << 20, 0.5};
    struct values values = {0};
    char text[200];
    com_json *const json = com_json_object();
    (void)state;
    for (int i = 0; i < ROWS; i++)
        com_option_write(&rows[i], &old, json);
    for (int i = 0; i < ROWS; i++)
        assert_int_equal(com_option_read(&rows[i], json, &values), rows[i].key != NULL);
    assert_string_equal(values.name, old.name);
    assert_true(values.loud == 1 && values.batch == 9 && values.steps == 1 << 20);
    assert_true(values.rate == 0); /* it has no key */
    for (int i = 0; i < RATE; i++)
        assert_false(com_option_differs(&rows[i], &old, json, text, sizeof text));
    com_json_free(json);
}

static void differences_are_described(void **state)
{
    const struct values old = {"red", 0, 8, 5, 0};
    const struct values now = {"blue", 1, 4, 6, 0};
    static const char *const expected[RATE] = {"has name 'red', not 'blue'", "is without loud",
                                               "has batch 8, not 4", "has steps 5, not 6"};
    char text[200];
    com_json *const json = com_json_object();
    com_json *const empty = com_json_object();
    (void)state;
    for (int i = 0; i < ROWS; i++)
        com_option_write(&rows[i], &old, json);
    for (int i = 0; i < RATE; i++) {
        assert_true(com_option_differs(&rows[i], &now, json, text, sizeof text));
        assert_string_equal(text, expected[i]);
        assert_true(com_option_differs(&rows[i], &now, empty, text, sizeof text));
    }
    for (int i = 0; i < RATE; i++) { /* what has a default is always written; what was not given may
                                        be of a file of before there was the option */
        struct values usual = {0};
        com_option_set_usual(&rows[i], &usual);
        assert_int_equal(com_option_differs(&rows[i], &usual, empty, text, sizeof text),
                         rows[i].usual != NULL);
    }
    com_json_free(json);
    com_json_free(empty);
}

/* It stands for a number that cannot be typed, and is a word in JSON. */
static void a_word_may_stand_for_a_number(void **state)
{
    const struct com_option row = {.name = "size",
                                   .kind = COM_OPTION_U32,
                                   .word = "N",
                                   .low = 1,
                                   .high = 9,
                                   .also = "auto",
                                   .usual = "1",
                                   .help = "{default}",
                                   .key = "size",
                                   AT(batch)};
    struct values values = {0};
    struct values again = {0};
    const struct values two = {.batch = 2};
    const char *word = NULL;
    char text[200];
    struct com_text typed = {0};
    terse_fault fault = {0};
    com_json *const json = com_json_object();
    (void)state;
    assert_int_equal(com_option_set(&row, "x", &values, &fault), TERSE_BAD_SPEC);
    assert_string_equal(fault.text, "--size: 'x' is not auto or a whole number from 1 to 9");
    assert_int_equal(com_option_set(&row, "4294967295", &values, &fault), TERSE_BAD_SPEC);
    assert_int_equal(com_option_set(&row, "auto", &values, &fault), TERSE_OK);
    assert_true(values.batch == COM_OPTION_ALSO);
    com_option_type(&row, &values, &typed);
    assert_string_equal(typed.bytes, " --size auto");
    com_option_write(&row, &values, json);
    assert_true(com_json_get_text(json, "size", &word));
    assert_string_equal(word, "auto");
    assert_true(com_option_read(&row, json, &again));
    assert_true(again.batch == COM_OPTION_ALSO);
    assert_false(com_option_differs(&row, &values, json, text, sizeof text));
    assert_true(com_option_differs(&row, &two, json, text, sizeof text));
    assert_string_equal(text, "has size auto, not 2");
    com_text_free(&typed);
    com_json_free(json);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(typed_values_are_set),
        cmocka_unit_test(wrong_numbers_name_option_and_range),
        cmocka_unit_test(numbers_out_of_range_are_not_read),
        cmocka_unit_test(defaults_are_what_could_be_typed),
        cmocka_unit_test(help_is_filled_in_and_wrapped),
        cmocka_unit_test(options_are_typed_as_a_shell_reads_them),
        cmocka_unit_test(written_values_are_read_again),
        cmocka_unit_test(differences_are_described),
        cmocka_unit_test(a_word_may_stand_for_a_number),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
