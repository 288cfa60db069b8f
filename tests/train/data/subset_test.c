/* Holding out: every training example is once in one of the two parts, whatever its kind, and the
 * parts are the same with every seed. Classes: exactly the examples of those, in their order. */
#include "data/data.h"
#include "support/folder.h"

enum { MOST_FLOATS = 1024, MOST_TOKENS = 8 };

/* An example as one number: FNV-1a over its floats or tokens and its target. */
static uint64_t number_of(const struct trn_data *data, enum trn_split split, uint32_t example)
{
    const struct trn_text form = {.tokens = TRN_WORDS, .buckets = 1 << 20, .max_len = MOST_TOKENS};
    struct {
        float x[MOST_FLOATS];
        int32_t tokens[MOST_TOKENS];
        uint32_t length;
        float target;
    } seen;
    uint64_t hash = UINT64_C(0xcbf29ce484222325);
    const int is_text = trn_data_about(data)->kind == TRN_DATA_TEXT;
    memset(&seen, 0, sizeof seen);
    const struct trn_place out = {.x = is_text ? NULL : seen.x,
                                  .tokens = is_text ? seen.tokens : NULL,
                                  .lengths = is_text ? &seen.length : NULL,
                                  .targets = &seen.target};
    assert_int_equal(trn_data_batch(data, split, &example, 1, NULL, &form, &out, NULL), TERSE_OK);
    for (size_t i = 0; i < sizeof seen; i++)
        hash = (hash ^ ((const uint8_t *)&seen)[i]) * UINT64_C(0x100000001b3);
    return hash;
}

static int by_size(const void *a, const void *b)
{
    const uint64_t x = *(const uint64_t *)a;
    const uint64_t y = *(const uint64_t *)b;
    return (x > y) - (x < y);
}

/* Holds out a fifth and compares all numbers with those before; the order of training stays. */
static void check_parts(const char *name)
{
    struct trn_data *whole;
    struct trn_data *parted;
    assert_int_equal(trn_data_open(name, 1, &whole, NULL), TERSE_OK);
    assert_int_equal(trn_data_open(name, 1, &parted, NULL), TERSE_OK);
    assert_int_equal(trn_data_hold_out(parted, 0.2, NULL), TERSE_OK);
    const uint32_t count = trn_data_about(whole)->count[TRN_TRAIN];
    const uint32_t held = trn_data_about(parted)->count[TRN_TEST];
    const uint32_t kept = trn_data_about(parted)->count[TRN_TRAIN];
    assert_int_equal(held, count / 5);
    assert_int_equal(kept, count - held);
    uint64_t *before = test_alloc(count * sizeof *before);
    uint64_t *after = test_alloc(count * sizeof *after);
    uint32_t at = 0;
    for (uint32_t i = 0; i < count; i++)
        before[i] = number_of(whole, TRN_TRAIN, i);
    for (uint32_t i = 0; i < kept; i++) {
        after[i] = number_of(parted, TRN_TRAIN, i);
        while (at < count && before[at] != after[i])
            at++;
        assert_true(at < count);
    }
    for (uint32_t i = 0; i < held; i++)
        after[kept + i] = number_of(parted, TRN_TEST, i);
    qsort(before, count, sizeof *before, by_size);
    qsort(after, count, sizeof *after, by_size);
    assert_memory_equal(before, after, count * sizeof *before);
    free(before);
    free(after);
    trn_data_close(whole);
    trn_data_close(parted);
}

static void test_generated(void **state)
{
    (void)state;
    check_parts("digits");     /* images */
    check_parts("regression"); /* vectors and real targets */
}

static void test_rows_of_varying_length(void **state)
{
    const struct test_folder folder = test_folder_make();
    char lines[4096];
    char csv[4096];
    char name[200];
    int used = 0;
    int written = 0;
    (void)state;
    for (int i = 0; i < 60; i++) {
        used += snprintf(lines + used, sizeof lines - (size_t)used, "%s", i % 2 ? "-1" : "+1");
        for (int c = 0; c < i % 7; c++) /* some have no entries */
            used += snprintf(lines + used, sizeof lines - (size_t)used, " %d:%d", 1 + c, i);
        used += snprintf(lines + used, sizeof lines - (size_t)used, "\n");
        written += snprintf(csv + written, sizeof csv - (size_t)written, "%d,title%d,%.*s\n",
                            1 + i % 4, i, i % 9, "a b c d e");
    }
    test_put(&folder, "a", lines, (size_t)used);
    test_put(&folder, "a.t", lines, (size_t)used);
    (void)snprintf(name, sizeof name, "libsvm:%s", test_path(&folder, "a"));
    check_parts(name);
    test_put(&folder, "train.csv", csv, (size_t)written);
    test_put(&folder, "test.csv", csv, (size_t)written);
    (void)snprintf(name, sizeof name, "agnews:%s", folder.path);
    check_parts(name);
    test_folder_remove(&folder);
}

static void test_too_little_is_refused(void **state)
{
    struct trn_data *data;
    terse_fault fault;
    (void)state;
    assert_int_equal(trn_data_open("regression", 1, &data, NULL), TERSE_OK);
    const uint64_t hash = trn_data_hash(data);
    test_refused(trn_data_hold_out(data, 1e-9, &fault), TERSE_BAD_ARGUMENT, &fault,
                 "and 0 for evaluation");
    test_refused(trn_data_hold_out(data, 1, &fault), TERSE_BAD_ARGUMENT, &fault,
                 "leaves 0 for training");
    assert_int_equal(trn_data_hash(data), hash);
    trn_data_close(data);
}

/* Those examples of the whole set that are kept, one after the other, with their new labels. */
static void check_kept(const struct trn_data *whole, const struct trn_data *kept,
                       const uint32_t new_label[10])
{
    for (enum trn_split split = 0; split < TRN_SPLITS; split++) {
        uint32_t at = 0;
        for (uint32_t i = 0; i < trn_data_about(whole)->count[split]; i++) {
            uint32_t label[2];
            static float x[2][MOST_FLOATS];
            const struct trn_place old = {.x = x[0], .labels = &label[0]};
            const struct trn_place now = {.x = x[1], .labels = &label[1]};
            assert_int_equal(trn_data_batch(whole, split, &i, 1, NULL, NULL, &old, NULL), TERSE_OK);
            if (new_label[label[0]] == UINT32_MAX)
                continue;
            assert_int_equal(trn_data_batch(kept, split, &at, 1, NULL, NULL, &now, NULL), TERSE_OK);
            assert_int_equal(label[1], new_label[label[0]]);
            assert_memory_equal(x[0], x[1], trn_data_about(whole)->features * sizeof(float));
            at++;
        }
        assert_int_equal(at, trn_data_about(kept)->count[split]);
        assert_true(at > 0);
    }
}

static void classes_are_kept_and_numbered_anew(void **state)
{
    static const char *const wrong[] = {"", "10", "0-10", "4-2", "1,1", "0-3,2", "a", "1-", "1;2"};
    static const uint32_t new_label[10] = {UINT32_MAX, 0,          1,          2, UINT32_MAX,
                                           UINT32_MAX, UINT32_MAX, UINT32_MAX, 3, UINT32_MAX};
    struct trn_data *whole;
    struct trn_data *kept;
    terse_fault fault;
    (void)state;
    assert_int_equal(trn_data_open("digits", 1, &whole, NULL), TERSE_OK);
    assert_int_equal(trn_data_open("digits", 1, &kept, NULL), TERSE_OK);
    for (size_t i = 0; i < sizeof wrong / sizeof wrong[0]; i++)
        test_refused(trn_data_keep_classes(kept, wrong[i], &fault), TERSE_BAD_SPEC, &fault,
                     "is not a list of different classes from 0 to 9");
    assert_true(trn_data_hash(whole) == trn_data_hash(kept)); /* as before */
    assert_int_equal(trn_data_keep_classes(kept, "8,1-3", &fault), TERSE_OK);
    assert_int_equal(trn_data_about(kept)->classes, 4);
    check_kept(whole, kept, new_label);
    trn_data_close(kept);
    trn_data_close(whole);
    assert_int_equal(trn_data_open("regression", 1, &whole, NULL), TERSE_OK);
    test_refused(trn_data_keep_classes(whole, "0", &fault), TERSE_BAD_SPEC, &fault,
                 "there are no classes");
    trn_data_close(whole);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_generated),
        cmocka_unit_test(test_rows_of_varying_length),
        cmocka_unit_test(test_too_little_is_refused),
        cmocka_unit_test(classes_are_kept_and_numbered_anew),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
