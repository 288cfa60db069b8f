#include "common/json.h"

#include <math.h>

#include "support/folder.h"

static com_json *parse(const char *text, terse_fault *fault)
{
    com_json *json = NULL;
    const size_t len = strlen(text);
    char *exact = test_alloc(len + (len == 0));
    memcpy(exact, text, len);
    const terse_status status = com_json_parse("f", exact, len, &json, fault);
    free(exact);
    assert_true(status == TERSE_OK || status == COM_BAD_FILE);
    return status == TERSE_OK ? json : NULL;
}

static void test_written_then_read(void **state)
{
    const struct test_folder folder = test_folder_make();
    const char *path = test_path(&folder, "run.json");
    com_json *json = com_json_object();
    com_json *list = com_json_array();
    const char *text;
    double real;
    uint64_t whole;
    int flag;
    (void)state;
    com_json_put_text(json, "name", "a \"quoted\" line\n");
    com_json_put_real(json, "lr", 0.1);
    com_json_put_real(json, "nan", (double)NAN);
    com_json_put_u64(json, "step", UINT64_C(9007199254740991));
    assert_true(com_json_get_u64(json, "step", &whole));
    assert_true(whole == UINT64_C(9007199254740991));
    com_json_put_hex(json, "seed", UINT64_MAX);
    com_json_put_flag(json, "ok", 2);
    com_json_append_real(list, 1.5);
    com_json_append_text(list, "x");
    com_json_put(json, "list", list);
    assert_int_equal(com_json_write(path, json, NULL), TERSE_OK);
    com_json_free(json);
    assert_int_equal(com_json_read(path, &json, NULL), TERSE_OK);
    assert_true(com_json_get_text(json, "name", &text));
    assert_string_equal(text, "a \"quoted\" line\n");
    assert_true(com_json_get_real(json, "lr", &real) && real == 0.1);
    assert_false(com_json_get_real(json, "nan", &real));
    assert_true(com_json_get_u64(json, "step", &whole));
    assert_true(whole == UINT64_C(9007199254740991));
    assert_true(com_json_get_u64(json, "seed", &whole));
    assert_true(whole == UINT64_MAX);
    assert_true(com_json_get_flag(json, "ok", &flag) && flag == 1);
    assert_false(com_json_get_flag(json, "lr", &flag));
    assert_false(com_json_get_text(json, "LR", &text));
    assert_string_equal(com_json_text(com_json_next(com_json_first(com_json_get(json, "list")))),
                        "x");
    com_json_free(json);
    test_folder_remove(&folder);
}

static void test_a_lack_of_memory_is_remembered(void **state)
{
    com_json *json = com_json_object();
    char *text;
    (void)state;
    com_json_put(json, "child", NULL); /* what an allocation that failed looks like */
    com_json_put_real(json, "x", 1);
    assert_int_equal(com_json_print(json, 0, &text, NULL), TERSE_NO_MEMORY);
    assert_int_equal(com_json_print(NULL, 0, &text, NULL), TERSE_NO_MEMORY);
    com_json_free(json);
}

static void test_what_is_not_json_is_refused(void **state)
{
    static const char *const bad[] = {"",
                                      " ",
                                      "{",
                                      "{\"a\":1,}",
                                      "{} {}",
                                      "\"a",
                                      "{\"a\" 1}",
                                      "[1 2]",
                                      "{a:1}",
                                      "nul",
                                      "{\"a\":1}x",
                                      "{\"a\":1,\"a\":2}",
                                      "[{\"b\":{\"a\":1,\"a\":2}}]"};
    terse_fault fault;
    (void)state;
    for (size_t i = 0; i < sizeof bad / sizeof bad[0]; i++) {
        com_json *json = parse(bad[i], &fault);
        if (json)
            fail_msg("'%s' was taken", bad[i]);
    }
    com_json *good = parse(" {\"a\":{\"a\":[]}}\n", &fault);
    assert_non_null(good);
    com_json_free(good);
}

static void test_whole_numbers_are_exact_or_refused(void **state)
{
    static const char *const bad[] = {"-1",     "1.5",    "1e300",   "9007199254740994",
                                      "\"12\"", "\"0x\"", "\"0xg\"", "\"0x10000000000000000\"",
                                      "true"};
    terse_fault fault;
    uint64_t value;
    (void)state;
    for (size_t i = 0; i < sizeof bad / sizeof bad[0]; i++) {
        com_json *json = parse(bad[i], &fault);
        assert_non_null(json);
        if (com_json_u64(json, &value))
            fail_msg("%s was taken", bad[i]);
        com_json_free(json);
    }
}

static void test_text_that_is_no_utf8_stays_readable(void **state)
{
    com_json *const json = com_json_object();
    com_json *const list = com_json_array();
    const char *text = "";
    char *printed;
    (void)state;
    com_json_put_text(json, "name", "\xC3\xA9 \xFF\xC0\x80 b");
    com_json_append_u64(list, UINT64_MAX);
    com_json_append_real(list, (double)INFINITY);
    com_json_put(json, "list", list);
    assert_true(com_json_get_text(json, "name", &text));
    assert_string_equal(text, "\xC3\xA9 ?"
                              "?"
                              "? b");
    assert_int_equal(com_json_count(list), 2);
    assert_int_equal(com_json_print(json, 0, &printed, NULL), TERSE_OK);
    assert_non_null(strstr(printed, "[18446744073709551615,null]"));
    free(printed);
    com_json_free(json);
}

static void test_kinds(void **state)
{
    com_json *const json = parse("[null,1.5,1e999,\"x\"]", NULL);
    const com_json *item = com_json_first(json);
    double real = 0;
    (void)state;
    assert_non_null(json);
    assert_true(com_json_is_null(item) && !com_json_is_number(item));
    item = com_json_next(item);
    assert_true(com_json_is_number(item) && com_json_real(item, &real) && real == 1.5);
    item = com_json_next(item);
    assert_true(com_json_is_number(item) && !com_json_real(item, &real)); /* out of range */
    item = com_json_next(item);
    assert_true(!com_json_is_number(item) && !com_json_is_null(item));
    com_json_free(json);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_text_that_is_no_utf8_stays_readable),
        cmocka_unit_test(test_kinds),
        cmocka_unit_test(test_written_then_read),
        cmocka_unit_test(test_a_lack_of_memory_is_remembered),
        cmocka_unit_test(test_what_is_not_json_is_refused),
        cmocka_unit_test(test_whole_numbers_are_exact_or_refused),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
