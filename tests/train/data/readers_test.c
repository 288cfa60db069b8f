/* What every reader accepts, and what it refuses: file, byte, reason. */
#include "data/read.h"

#include "support/folder.h"

/* Exact bytes, so that a sanitizer sees every step beyond. */
static struct trn_bytes exact(const void *bytes, size_t len)
{
    uint8_t *copy = test_alloc(len + (len == 0));
    if (len > 0)
        memcpy(copy, bytes, len);
    return (struct trn_bytes){.name = "f", .at = copy, .len = len};
}

static void release(struct trn_bytes in)
{
    free((void *)(uintptr_t)in.at);
}

static const uint8_t idx_images[] = {0, 0, 8, 3, 0, 0, 0, 2, 0, 0, 0,
                                     1, 0, 0, 0, 3, 1, 2, 3, 4, 5, 6};
static const uint8_t idx_labels[] = {0, 0, 8, 1, 0, 0, 0, 2, 7, 9};

static void test_idx(void **state)
{
    struct trn_bytes in = exact(idx_images, sizeof idx_images);
    struct trn_idx_images images;
    struct trn_idx_labels labels;
    (void)state;
    assert_int_equal(trn_idx_images(&in, &images, NULL), TERSE_OK);
    assert_int_equal(images.count, 2);
    assert_int_equal(images.height, 1);
    assert_int_equal(images.width, 3);
    assert_int_equal(images.pixels[5], 6);
    release(in);
    in = exact(idx_labels, sizeof idx_labels);
    assert_int_equal(trn_idx_labels(&in, &labels, NULL), TERSE_OK);
    assert_int_equal(labels.count, 2);
    assert_int_equal(labels.labels[1], 9);
    release(in);
}

static void expect_idx_refused(size_t at, uint8_t value, size_t len, uint64_t offset,
                               const char *why)
{
    uint8_t bytes[sizeof idx_images + 1] = {0};
    struct trn_idx_images images;
    terse_fault fault;
    memcpy(bytes, idx_images, sizeof idx_images);
    bytes[at] = value;
    const struct trn_bytes in = exact(bytes, len);
    test_refused(trn_idx_images(&in, &images, &fault), COM_BAD_FILE, &fault, why);
    assert_int_equal(fault.offset, offset);
    release(in);
}

static void test_idx_refuses(void **state)
{
    const size_t len = sizeof idx_images;
    (void)state;
    for (size_t cut = 0; cut < 16; cut++)
        expect_idx_refused(0, 0, cut, cut, "the file ends in its head");
    for (size_t cut = 16; cut < len; cut++)
        expect_idx_refused(0, 0, cut, cut, "the head announces 6");
    expect_idx_refused(0, 0, len + 1, len + 1, "7 bytes of values, the head announces 6");
    expect_idx_refused(0, 1, len, 0, "not an IDX file");
    expect_idx_refused(2, 9, len, 0, "not an IDX file");
    expect_idx_refused(3, 1, len, 0, "not an IDX file of bytes in 3 dimensions");
    expect_idx_refused(7, 0, len, 4, "dimension 0 is 0");
    expect_idx_refused(4, 255, len, len, "the head announces");
    expect_idx_refused(8, 255, len, 8, "dimension 1 is");
    expect_idx_refused(15, 0, len, 12, "dimension 2 is 0");
}

static void test_cifar(void **state)
{
    enum { LEN = 2 * (1 + TRN_CIFAR_PIXELS) };
    uint8_t *bytes = test_alloc(LEN + 1);
    uint32_t count;
    terse_fault fault;
    (void)state;
    bytes[1 + TRN_CIFAR_PIXELS] = 9;
    struct trn_bytes in = exact(bytes, LEN);
    assert_int_equal(trn_cifar_count(&in, &trn_cifar10, &count, NULL), TERSE_OK);
    assert_int_equal(count, 2);
    test_refused(trn_cifar_count(&in, &trn_cifar100, &count, &fault), COM_BAD_FILE, &fault,
                 "the last record has 3072 of 3074 bytes");
    assert_int_equal(fault.offset, 3074);
    release(in);
    bytes[1 + TRN_CIFAR_PIXELS] = 10;
    in = exact(bytes, LEN);
    test_refused(trn_cifar_count(&in, &trn_cifar10, &count, &fault), COM_BAD_FILE, &fault,
                 "f: byte 3073: label 10, the largest is 9");
    release(in);
    in = exact(bytes, 1 + TRN_CIFAR_PIXELS - 1);
    test_refused(trn_cifar_count(&in, &trn_cifar10, &count, &fault), COM_BAD_FILE, &fault,
                 "0 records");
    release(in);
    in = exact(bytes, 0);
    test_refused(trn_cifar_count(&in, &trn_cifar10, &count, &fault), COM_BAD_FILE, &fault,
                 "0 records");
    release(in);
    free(bytes);
}

static void expect_text(const struct trn_examples *examples, uint32_t i, uint32_t label,
                        const char *text)
{
    const size_t len = examples->text_at[i + 1] - examples->text_at[i];
    assert_int_equal(examples->labels[i], label);
    assert_int_equal(len, strlen(text));
    assert_memory_equal(examples->text + examples->text_at[i], text, len);
}

static void test_csv(void **state)
{
    static const char text[] = "\"4\",\"A \"\"title\"\"\",\"two\nlines, and a comma\"\r\n"
                               "1,bare title,\n"
                               "\"1000\",\"\",\"x\"";
    const struct trn_bytes in = exact(text, sizeof text - 1);
    struct trn_examples examples;
    (void)state;
    assert_int_equal(trn_csv_read(&in, &examples, NULL), TERSE_OK);
    assert_int_equal(examples.count, 3);
    expect_text(&examples, 0, 3, "A \"title\" two\nlines, and a comma");
    expect_text(&examples, 1, 0, "bare title ");
    expect_text(&examples, 2, 999, " x");
    trn_examples_free(&examples);
    release(in);
}

struct bad_text {
    const char *text;
    uint64_t offset;
    const char *why;
};

static void test_csv_refuses(void **state)
{
    static const struct bad_text cases[] = {
        {"", 0, "the file is empty"},
        {"1,a\n", 3, "a comma is missing"},
        {"1,a,b,c\n", 5, "text after the description"},
        {"x,a,b\n", 0, "the class is not a number"},
        {"0,a,b\n", 0, "not in 1..1000"},
        {"1001,a,b\n", 0, "not in 1..1000"},
        {"99999999999999999999,a,b\n", 0, "not in 1..1000"},
        {",a,b\n", 0, "not in 1..1000"},
        {"1,a,b\n\n", 6, "not in 1..1000"},
        {"1,\"a,b\n", 2, "never closed"},
        {"1,a\"b,c\n", 3, "a quote inside a bare field"},
        {"1,\"a\"x,b\n", 5, "a comma is missing"},
        {"1,a,\"b\"x\n", 7, "text after the description"},
        {"1,a,b\r1,a,b", 6, "text after the description"},
    };
    (void)state;
    for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++) {
        const struct trn_bytes in = exact(cases[i].text, strlen(cases[i].text));
        struct trn_examples examples;
        terse_fault fault;
        test_refused(trn_csv_read(&in, &examples, &fault), COM_BAD_FILE, &fault, cases[i].why);
        assert_int_equal(fault.offset, cases[i].offset);
        trn_examples_free(&examples);
        release(in);
    }
}

static void test_libsvm(void **state)
{
    static const char text[] = "-1 3:1 11:0.5 \r\n\n# a remark\n+1 1:-2e-1 # another\n2.5";
    const struct trn_bytes in = exact(text, sizeof text - 1);
    struct trn_examples examples;
    uint32_t features;
    (void)state;
    assert_int_equal(trn_libsvm_read(&in, &examples, &features, NULL), TERSE_OK);
    assert_int_equal(examples.count, 3);
    assert_int_equal(features, 11);
    assert_int_equal(examples.row_at[1], 2);
    assert_int_equal(examples.row_at[3], 3);
    assert_int_equal(examples.columns[1], 10);
    assert_true(examples.values[1] == 0.5f && examples.values[2] == -0.2f);
    assert_true(examples.targets[0] == -1.0f && examples.targets[2] == 2.5f);
    trn_examples_free(&examples);
    release(in);
}

static void test_libsvm_refuses(void **state)
{
    static const struct bad_text cases[] = {
        {"", 0, "no line with a label"},
        {"# only a remark\n", 0, "no line with a label"},
        {"x 1:1\n", 0, "not a number"},
        {"nan 1:1\n", 0, "not a number"},
        {"0x10 1:1\n", 0, "not a number"},
        {"1e99 1:1\n", 0, "float can hold"},
        {"1 1\n", 3, "a colon is missing"},
        {"1 :1\n", 2, "float can hold"},
        {"1 1:\n", 4, "float can hold"},
        {"1 0:1\n", 2, "from 1 to 16777216"},
        {"1 1.5:1\n", 2, "from 1 to 16777216"},
        {"1 16777217:1\n", 2, "from 1 to 16777216"},
        {"1 -3:1\n", 2, "from 1 to 16777216"},
        {"1 2:1 2:1\n", 6, "do not ascend"},
        {"1 2:1 1:1\n", 6, "do not ascend"},
        {"1 2:1:1\n", 4, "not a number"},
        {"1 2:inf\n", 4, "not a number"},
        {"1 2:1000000000000000000000000000000000000000000000000000000000000000\n", 4,
         "float can hold"},
    };
    (void)state;
    for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++) {
        const struct trn_bytes in = exact(cases[i].text, strlen(cases[i].text));
        struct trn_examples examples;
        uint32_t features;
        terse_fault fault;
        test_refused(trn_libsvm_read(&in, &examples, &features, &fault), COM_BAD_FILE, &fault,
                     cases[i].why);
        assert_int_equal(fault.offset, cases[i].offset);
        trn_examples_free(&examples);
        release(in);
    }
}

/* Whole folders through trn_data_open. */

static terse_status open_as(const char *kind, const char *where, struct trn_data **data,
                            terse_fault *fault)
{
    char name[400];
    (void)snprintf(name, sizeof name, "%s:%.380s", kind, where);
    return trn_data_open(name, 0, data, fault);
}

static void test_an_idx_folder(void **state)
{
    const struct test_folder folder = test_folder_make();
    static const uint8_t three[] = {0, 0, 8, 1, 0, 0, 0, 3, 0, 1, 2};
    static const uint8_t beyond[] = {0, 0, 8, 1, 0, 0, 0, 2, 0, 200};
    struct trn_data *data;
    terse_fault fault;
    (void)state;
    test_refused(open_as("idx", folder.path, &data, &fault), COM_NO_FILE, &fault,
                 "no train-images-idx3-ubyte or .gz in");
    test_put(&folder, "train-images-idx3-ubyte", idx_images, sizeof idx_images);
    test_put(&folder, "train-labels.idx1-ubyte", idx_labels, sizeof idx_labels);
    test_put(&folder, "t10k-images-idx3-ubyte", idx_images, sizeof idx_images);
    test_put(&folder, "t10k-labels-idx1-ubyte", three, sizeof three);
    test_refused(open_as("idx", folder.path, &data, &fault), COM_BAD_FILE, &fault,
                 "t10k-labels-idx1-ubyte: byte 4: 3 labels for 2 images");
    test_put(&folder, "t10k-labels-idx1-ubyte", beyond, sizeof beyond);
    test_refused(open_as("idx", folder.path, &data, &fault), COM_BAD_FILE, &fault,
                 "test example 1 has label 200, the largest in training is 9");
    test_put(&folder, "t10k-labels-idx1-ubyte", idx_labels, sizeof idx_labels);
    assert_int_equal(open_as("idx", folder.path, &data, &fault), TERSE_OK);
    assert_int_equal(trn_data_about(data)->classes, 10);
    trn_data_close(data);
    test_put(&folder, "t10k-images-idx3-ubyte", idx_images, sizeof idx_images - 1);
    test_refused(open_as("idx", folder.path, &data, &fault), COM_BAD_FILE, &fault,
                 "t10k-images-idx3-ubyte: byte 21");
    test_folder_remove(&folder);
}

static void test_cifar_folders(void **state)
{
    const struct test_folder folder = test_folder_make();
    uint8_t *bytes = test_alloc(4 * 3074);
    struct trn_data *data;
    terse_fault fault;
    (void)state;
    test_refused(open_as("cifar10", folder.path, &data, &fault), COM_NO_FILE, &fault,
                 "tools/get-data cifar10");
    test_put(&folder, "data_batch_2.bin", bytes, 2 * 3073);
    test_put(&folder, "data_batch_4.bin", bytes, 3073);
    test_refused(open_as("cifar10", folder.path, &data, &fault), COM_NO_FILE, &fault,
                 "test_batch.bin");
    test_put(&folder, "test_batch.bin", bytes, 3073);
    assert_int_equal(open_as("cifar10", folder.path, &data, &fault), TERSE_OK);
    assert_int_equal(trn_data_about(data)->count[TRN_TRAIN], 3);
    assert_string_equal(trn_data_about(data)->notes, "2 of 5 training batches are there: 3 images");
    trn_data_close(data);
    test_refused(open_as("cifar100", folder.path, &data, &fault), COM_NO_FILE, &fault,
                 "tools/get-data cifar100");
    bytes[1] = 99;
    test_put(&folder, "train.bin", bytes, 3 * 3074);
    test_put(&folder, "test.bin", bytes, 3074);
    assert_int_equal(open_as("cifar100", folder.path, &data, &fault), TERSE_OK);
    uint32_t label;
    const uint32_t first = 0;
    assert_int_equal(trn_data_batch(data, TRN_TRAIN, &first, 1, NULL, NULL,
                                    &(struct trn_place){.labels = &label}, NULL),
                     TERSE_OK);
    assert_int_equal(label, 99);
    assert_int_equal(trn_data_about(data)->classes, 100);
    trn_data_close(data);
    bytes[0] = 20;
    test_put(&folder, "test.bin", bytes, 3074);
    test_refused(open_as("cifar100", folder.path, &data, &fault), COM_BAD_FILE, &fault,
                 "test.bin: byte 0: label 20, the largest is 19");
    free(bytes);
    test_folder_remove(&folder);
}

static void test_a_libsvm_pair(void **state)
{
    const struct test_folder folder = test_folder_make();
    const char *where = test_path(&folder, "a");
    char named[340];
    struct trn_data *data;
    terse_fault fault;
    (void)state;
    test_put(&folder, "a", "-1 1:1\n+1 2:1\n", 14);
    test_refused(open_as("libsvm", where, &data, &fault), COM_NO_FILE, &fault, "test=FILE2");
    test_put(&folder, "a.t", "+1 5:1\n", 7);
    test_put(&folder, "b", "3 1:1\n", 6);
    assert_int_equal(open_as("libsvm", where, &data, &fault), TERSE_OK);
    assert_int_equal(trn_data_about(data)->features, 5);
    assert_int_equal(trn_data_about(data)->classes, 2);
    trn_data_close(data);
    (void)snprintf(named, sizeof named, "%s,test=%s", where, test_path(&folder, "b"));
    test_refused(open_as("libsvm", named, &data, &fault), COM_BAD_FILE, &fault,
                 "label 3, which the training set lacks");
    test_put(&folder, "a", "-1.5 1:1\n+1 2:1\n", 16);
    assert_int_equal(open_as("libsvm", named, &data, &fault), TERSE_OK);
    assert_int_equal(trn_data_about(data)->classes, 0); /* real targets */
    trn_data_close(data);
    test_folder_remove(&folder);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_idx),
        cmocka_unit_test(test_idx_refuses),
        cmocka_unit_test(test_cifar),
        cmocka_unit_test(test_csv),
        cmocka_unit_test(test_csv_refuses),
        cmocka_unit_test(test_libsvm),
        cmocka_unit_test(test_libsvm_refuses),
        cmocka_unit_test(test_an_idx_folder),
        cmocka_unit_test(test_cifar_folders),
        cmocka_unit_test(test_a_libsvm_pair),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
