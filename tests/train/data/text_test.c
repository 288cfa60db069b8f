/* Words and pairs as ids. */
#include "data/data.h"
#include "support/folder.h"

enum { MOST = 16 };

static struct trn_data *news(const struct test_folder *folder)
{
    static const char train[] = "1,\"Hello, World\",\"hello  again\"\n"
                                "2,world hello,\n"
                                "3,!!!,...\n"
                                "4,caf\xc3\xa9 X1,y\n";
    char name[160];
    struct trn_data *data;
    test_put(folder, "train.csv", train, sizeof train - 1);
    test_put(folder, "test.csv", train, sizeof train - 1);
    (void)snprintf(name, sizeof name, "agnews:%s", folder->path);
    assert_int_equal(trn_data_open(name, 0, &data, NULL), TERSE_OK);
    assert_int_equal(trn_data_about(data)->kind, TRN_DATA_TEXT);
    assert_int_equal(trn_data_about(data)->classes, 4);
    return data;
}

static void tokens_of(const struct trn_data *data, uint32_t example, const struct trn_text *form,
                      int32_t tokens[MOST], uint32_t *len)
{
    const struct trn_place out = {.tokens = tokens, .lengths = len};
    memset(tokens, 0xff, MOST * sizeof *tokens);
    assert_int_equal(trn_data_batch(data, TRN_TRAIN, &example, 1, NULL, form, &out, NULL),
                     TERSE_OK);
    for (uint32_t i = 0; i < form->max_len; i++)
        assert_in_range(tokens[i], 0, form->buckets - 1);
    for (uint32_t i = *len; i < form->max_len; i++)
        assert_int_equal(tokens[i], 0);
}

static void test_words(void **state)
{
    const struct test_folder folder = test_folder_make();
    struct trn_data *data = news(&folder);
    const struct trn_text form = {.tokens = TRN_WORDS, .buckets = 1 << 20, .max_len = MOST};
    int32_t a[MOST];
    int32_t b[MOST];
    uint32_t len;
    (void)state;
    tokens_of(data, 0, &form, a, &len); /* hello world hello again */
    assert_int_equal(len, 4);
    assert_int_equal(a[0], a[2]);
    assert_int_not_equal(a[0], a[1]);
    for (uint32_t i = 0; i < len; i++)
        assert_true(a[i] >= 1);
    tokens_of(data, 1, &form, b, &len); /* world hello */
    assert_int_equal(len, 2);
    assert_int_equal(b[0], a[1]);
    assert_int_equal(b[1], a[0]);
    tokens_of(data, 2, &form, b, &len); /* nothing */
    assert_int_equal(len, 1);
    assert_int_equal(b[0], 0);
    tokens_of(data, 3, &form, b, &len); /* a byte above 127 is part of a word */
    assert_int_equal(len, 3);
    const struct trn_text two = {.tokens = TRN_WORDS, .buckets = 1 << 20, .max_len = 2};
    tokens_of(data, 0, &two, b, &len);
    assert_int_equal(len, 2);
    assert_memory_equal(a, b, 2 * sizeof *a);
    trn_data_close(data);
    test_folder_remove(&folder);
}

static void test_pairs(void **state)
{
    const struct test_folder folder = test_folder_make();
    struct trn_data *data = news(&folder);
    const struct trn_text form = {.tokens = TRN_NGRAMS, .buckets = 1 << 20, .max_len = MOST};
    const struct trn_text small = {.tokens = TRN_NGRAMS, .buckets = 4, .max_len = MOST};
    int32_t a[MOST];
    int32_t b[MOST];
    uint32_t len;
    (void)state;
    tokens_of(data, 0, &form, a, &len); /* four words, three pairs */
    assert_int_equal(len, 7);
    tokens_of(data, 1, &form, b, &len);
    assert_int_equal(len, 3);
    assert_int_equal(b[2], a[5]);     /* "world hello" in both */
    assert_int_not_equal(b[2], a[4]); /* "hello world" is another */
    tokens_of(data, 0, &small, a, &len);
    for (uint32_t i = 0; i < len; i++)
        assert_in_range(a[i], 1, 3);
    trn_data_close(data);
    test_folder_remove(&folder);
}

static void test_text_refuses_floats_and_no_buffer(void **state)
{
    const struct test_folder folder = test_folder_make();
    struct trn_data *data = news(&folder);
    const uint32_t first = 0;
    float x;
    int32_t token;
    uint32_t len;
    terse_fault fault;
    const struct trn_text narrow = {.buckets = 3, .max_len = 1};
    (void)state;
    test_refused(trn_data_batch(data, TRN_TRAIN, &first, 1, NULL, NULL,
                                &(struct trn_place){.x = &x}, &fault),
                 TERSE_BAD_ARGUMENT, &fault, "text has tokens");
    test_refused(trn_data_batch(data, TRN_TRAIN, &first, 1, NULL, &narrow,
                                &(struct trn_place){.tokens = &token, .lengths = &len}, &fault),
                 TERSE_BAD_ARGUMENT, &fault, "at least 4 buckets");
    trn_data_close(data);
    test_folder_remove(&folder);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_words),
        cmocka_unit_test(test_pairs),
        cmocka_unit_test(test_text_refuses_floats_and_no_buffer),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
