/* Names of data: the nearest is suggested, missing files are named. */
#include "data/data.h"
#include "support/folder.h"

static void expect(const char *name, terse_status expected, const char *piece)
{
    struct trn_data *data;
    terse_fault fault = {0};
    test_refused(trn_data_open(name, 0, &data, &fault), expected, &fault, piece);
}

static void test_wrong_names(void **state)
{
    (void)state;
    expect("fasion", TERSE_BAD_SPEC, "did you mean 'fashion'?");
    expect("digit", TERSE_BAD_SPEC, "did you mean 'digits'?");
    expect("cifar:x", TERSE_BAD_SPEC, "did you mean 'cifar10:DIR'?");
    expect("cifar-100:x", TERSE_BAD_SPEC, "did you mean 'cifar100:DIR'?");
    expect("libsmv:x", TERSE_BAD_SPEC, "did you mean 'libsvm:FILE'?");
    expect("imagenet", TERSE_BAD_SPEC, "there are fashion, digits");
    expect("", TERSE_BAD_SPEC, "no data named ''");
    expect("a-name-that-is-much-longer-than-any-name-of-data-could-ever-be:x", TERSE_BAD_SPEC,
           "no data named");
}

static void test_names_without_a_place(void **state)
{
    (void)state;
    expect("cifar10", TERSE_BAD_SPEC, "write cifar10:DIR");
    expect("cifar10:", TERSE_BAD_SPEC, "write cifar10:DIR");
    expect("libsvm", TERSE_BAD_SPEC, "write libsvm:FILE");
    expect("digits:x", TERSE_BAD_SPEC, "'digits' takes no path");
}

static void test_places_without_files(void **state)
{
    (void)state;
    expect("idx:/no/such", COM_NO_FILE, "train-images-idx3-ubyte");
    expect("agnews:/no/such", COM_NO_FILE, "tools/get-data agnews");
    expect("libsvm:/no/such", COM_NO_FILE, "cannot open '/no/such'");
}

static void test_every_name_is_listed(void **state)
{
    uint32_t count = 0;
    (void)state;
    while (trn_data_name(count))
        count++;
    assert_int_equal(count, 10);
}

static uint64_t hash_of(const char *name, uint64_t seed)
{
    struct trn_data *data;
    terse_fault fault = {0};
    if (trn_data_open(name, seed, &data, &fault) != TERSE_OK)
        fail_msg("%s: %s", name, fault.text);
    const uint64_t hash = trn_data_hash(data);
    trn_data_close(data);
    return hash;
}

/* Two files of a kind, and the same with one character changed. */
static void expect_another_hash(const char *kind, const char *train, const char *test)
{
    const struct test_folder folder = test_folder_make();
    char name[200];
    const char *const files[2] = {train, test};
    uint64_t seen[3];
    const int is_text = strcmp(kind, "agnews") == 0;
    (void)snprintf(name, sizeof name, "%s:%s", kind,
                   is_text ? folder.path : test_path(&folder, "set"));
    for (int change = 0; change < 3; change++) {
        for (int i = 0; i < 2; i++) {
            char text[200];
            (void)snprintf(text, sizeof text, "%s", files[i]);
            if (change == i + 1)
                *strrchr(text, '7') = '8';
            test_put(&folder,
                     is_text ? (i ? "test.csv" : "train.csv")
                     : i     ? "set.t"
                             : "set",
                     text, strlen(text));
        }
        seen[change] = hash_of(name, 1);
        assert_true(hash_of(name, 2) == seen[change]); /* files do not depend on the seed */
    }
    assert_true(seen[0] != seen[1] && seen[0] != seen[2] && seen[1] != seen[2]);
    test_folder_remove(&folder);
}

static void test_contents_have_a_hash(void **state)
{
    (void)state;
    assert_true(hash_of("regression", 1) == hash_of("regression", 1));
    assert_true(hash_of("regression", 1) != hash_of("regression", 2));
    assert_true(hash_of("digits", 1) != hash_of("digits", 2));
    expect_another_hash("libsvm", "1 1:2 3:7\n-1 2:1\n", "1 1:2 3:7\n");  /* a value */
    expect_another_hash("libsvm", "1 1:2 7:1\n-1 8:1\n", "1 1:2 7:1\n");  /* a column */
    expect_another_hash("libsvm", "1.5 1:2 3:5\n1.7 2:1\n", "1.7 1:2\n"); /* a target */
    expect_another_hash("agnews", "\"1\",\"a\",\"b 7\"\n\"2\",\"c\",\"d\"\n",
                        "\"1\",\"a 7\",\"b\"\n"); /* a text */
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_wrong_names),          cmocka_unit_test(test_names_without_a_place),
        cmocka_unit_test(test_places_without_files), cmocka_unit_test(test_every_name_is_listed),
        cmocka_unit_test(test_contents_have_a_hash),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
