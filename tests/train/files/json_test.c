#include "files/json.h"

#include <math.h>

#include "train/folder.h"

static trn_json *parse(const char *text, terse_fault *fault)
{
    trn_json *json = NULL;
    const size_t len = strlen(text);
    char *exact = test_alloc(len + (len == 0));
    memcpy(exact, text, len);
    const terse_status status = trn_json_parse("f", exact, len, &json, fault);
    free(exact);
    assert_true(status == TERSE_OK || status == TRN_BAD_FILE);
    return status == TERSE_OK ? json : NULL;
}

static void test_written_then_read(void **state)
{
    const struct test_folder folder = test_folder_make();
    const char *path = test_path(&folder, "run.json");
    trn_json *json = trn_json_object();
    trn_json *list = trn_json_array();
    const char *text;
    double real;
    uint64_t whole;
    int flag;
    (void)state;
    trn_json_put_text(json, "name", "a \"quoted\" line\n");
    trn_json_put_real(json, "lr", 0.1);
    trn_json_put_real(json, "nan", (double)NAN);
    trn_json_put_u64(json, "step", UINT64_C(9007199254740991));
    assert_true(trn_json_get_u64(json, "step", &whole));
    assert_true(whole == UINT64_C(9007199254740991));
    trn_json_put_hex(json, "seed", UINT64_MAX);
    trn_json_put_flag(json, "ok", 2);
    trn_json_append_real(list, 1.5);
    trn_json_append_text(list, "x");
    trn_json_put(json, "list", list);
    assert_int_equal(trn_json_write(path, json, NULL), TERSE_OK);
    trn_json_free(json);
    assert_int_equal(trn_json_read(path, &json, NULL), TERSE_OK);
    assert_true(trn_json_get_text(json, "name", &text));
    assert_string_equal(text, "a \"quoted\" line\n");
    assert_true(trn_json_get_real(json, "lr", &real) && real == 0.1);
    assert_false(trn_json_get_real(json, "nan", &real));
    assert_true(trn_json_get_u64(json, "step", &whole));
    assert_true(whole == UINT64_C(9007199254740991));
    assert_true(trn_json_get_u64(json, "seed", &whole));
    assert_true(whole == UINT64_MAX);
    assert_true(trn_json_get_flag(json, "ok", &flag) && flag == 1);
    assert_false(trn_json_get_flag(json, "lr", &flag));
    assert_false(trn_json_get_text(json, "LR", &text));
    assert_string_equal(trn_json_text(trn_json_next(trn_json_first(trn_json_get(json, "list")))),
                        "x");
    trn_json_free(json);
    test_folder_remove(&folder);
}

static void test_a_lack_of_memory_is_remembered(void **state)
{
    trn_json *json = trn_json_object();
    char *text;
    (void)state;
    trn_json_put(json, "child", NULL); /* what an allocation that failed looks like */
    trn_json_put_real(json, "x", 1);
    assert_int_equal(trn_json_print(json, 0, &text, NULL), TERSE_NO_MEMORY);
    assert_int_equal(trn_json_print(NULL, 0, &text, NULL), TERSE_NO_MEMORY);
    trn_json_free(json);
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
        trn_json *json = parse(bad[i], &fault);
        if (json)
            fail_msg("'%s' was taken", bad[i]);
    }
    trn_json *good = parse(" {\"a\":{\"a\":[]}}\n", &fault);
    assert_non_null(good);
    trn_json_free(good);
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
        trn_json *json = parse(bad[i], &fault);
        assert_non_null(json);
        if (trn_json_u64(json, &value))
            fail_msg("%s was taken", bad[i]);
        trn_json_free(json);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_written_then_read),
        cmocka_unit_test(test_a_lack_of_memory_is_remembered),
        cmocka_unit_test(test_what_is_not_json_is_refused),
        cmocka_unit_test(test_whole_numbers_are_exact_or_refused),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
