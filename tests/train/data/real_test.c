/* Real data, where it is: TERSE_TEST_DATA, by default ../shared/data beside the project. */
#include <math.h>

#include "data/data.h"
#include "support/folder.h"

static struct trn_data *open_real(const char *kind, const char *below)
{
    char where[400];
    char name[420];
    struct trn_data *data;
    terse_fault fault;
    const char *base = getenv("TERSE_TEST_DATA");
    const char *source = getenv("TERSE_SOURCE");
    (void)snprintf(where, sizeof where, "%s%s/%s",
                   base     ? base
                   : source ? source
                            : ".",
                   base ? "" : "/../shared/data", below);
    if (access(where, R_OK) != 0) {
        print_message("skip: no %s; set TERSE_TEST_DATA\n", where);
        skip();
    }
    (void)snprintf(name, sizeof name, "%s:%s", kind, where);
    const terse_status status = trn_data_open(name, 0, &data, &fault);
    if (status != TERSE_OK)
        fail_msg("%s", fault.text);
    return data;
}

static void count_labels(const struct trn_data *data, enum trn_split split, uint32_t *counts)
{
    const uint32_t count = trn_data_about(data)->count[split];
    for (uint32_t i = 0; i < count; i++) {
        uint32_t label;
        assert_int_equal(trn_data_batch(data, split, &i, 1, NULL, NULL,
                                        &(struct trn_place){.labels = &label}, NULL),
                         TERSE_OK);
        counts[label]++;
    }
}

static void expect_near(double value, double expected, double tolerance)
{
    if (fabs(value - expected) > tolerance)
        fail_msg("%g, expected %g", value, expected);
}

static void test_fashion(void **state)
{
    struct trn_data *data;
    terse_fault fault;
    uint32_t counts[10] = {0};
    (void)state;
    const terse_status status = trn_data_open("fashion", 0, &data, &fault);
    if (status == COM_NO_FILE) {
        print_message("skip: %s\n", fault.text);
        skip();
    }
    assert_int_equal(status, TERSE_OK);
    const struct trn_about *about = trn_data_about(data);
    assert_int_equal(about->count[TRN_TRAIN], 60000);
    assert_int_equal(about->count[TRN_TEST], 10000);
    assert_int_equal(about->features, 784);
    assert_int_equal(about->classes, 10);
    expect_near((double)about->mean[0], 0.2860, 1e-4);
    expect_near((double)about->std[0], 0.3530, 1e-4);
    count_labels(data, TRN_TRAIN, counts);
    for (int c = 0; c < 10; c++)
        assert_int_equal(counts[c], 6000);
    trn_data_close(data);
}

static void test_cifar10(void **state)
{
    struct trn_data *data = open_real("cifar10", "cifar10");
    const struct trn_about *about = trn_data_about(data);
    static const double mean[3] = {0.491, 0.482, 0.447};
    uint32_t counts[10] = {0};
    (void)state;
    print_message("%s\n", about->notes);
    assert_int_equal(about->count[TRN_TRAIN] % 10000, 0);
    assert_int_equal(about->count[TRN_TEST], 10000);
    for (int c = 0; c < 3; c++)
        expect_near((double)about->mean[c], mean[c], 5e-3);
    count_labels(data, TRN_TEST, counts);
    for (int c = 0; c < 10; c++)
        assert_int_equal(counts[c], 1000);
    trn_data_close(data);
}

static void test_agnews(void **state)
{
    struct trn_data *data = open_real("agnews", "ag_news");
    const struct trn_about *about = trn_data_about(data);
    const struct trn_text form = {.tokens = TRN_WORDS, .buckets = 20000, .max_len = 64};
    uint32_t counts[4] = {0};
    uint64_t words = 0;
    (void)state;
    assert_true(about->count[TRN_TRAIN] >= 30000);
    assert_int_equal(about->count[TRN_TEST], 7600);
    assert_int_equal(about->classes, 4);
    count_labels(data, TRN_TEST, counts);
    for (int c = 0; c < 4; c++)
        assert_int_equal(counts[c], 1900);
    for (uint32_t i = 0; i < 7600; i++) {
        int32_t tokens[64];
        uint32_t len;
        const struct trn_place out = {.tokens = tokens, .lengths = &len};
        assert_int_equal(trn_data_batch(data, TRN_TEST, &i, 1, NULL, &form, &out, NULL), TERSE_OK);
        words += len;
    }
    expect_near((double)words / 7600, 39, 4);
    trn_data_close(data);
}

static void test_a9a(void **state)
{
    struct trn_data *data = open_real("libsvm", "libsvm/a9a");
    const struct trn_about *about = trn_data_about(data);
    uint32_t counts[2] = {0};
    float x[123];
    const uint32_t first = 0;
    double sum = 0;
    (void)state;
    assert_int_equal(about->count[TRN_TRAIN], 32561);
    assert_int_equal(about->count[TRN_TEST], 16281);
    assert_int_equal(about->features, 123);
    assert_int_equal(about->classes, 2);
    count_labels(data, TRN_TRAIN, counts);
    assert_int_equal(counts[1], 7841); /* people with more than 50,000 a year */
    assert_int_equal(
        trn_data_batch(data, TRN_TRAIN, &first, 1, NULL, NULL, &(struct trn_place){.x = x}, NULL),
        TERSE_OK);
    for (int i = 0; i < 123; i++)
        sum += (double)x[i];
    assert_true(sum == 14 && x[2] == 1.0f && x[82] == 1.0f && x[0] == 0.0f);
    trn_data_close(data);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_fashion),
        cmocka_unit_test(test_cifar10),
        cmocka_unit_test(test_agnews),
        cmocka_unit_test(test_a9a),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
