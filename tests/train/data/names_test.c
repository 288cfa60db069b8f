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
    assert_int_equal(count, 9);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_wrong_names),
        cmocka_unit_test(test_names_without_a_place),
        cmocka_unit_test(test_places_without_files),
        cmocka_unit_test(test_every_name_is_listed),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
