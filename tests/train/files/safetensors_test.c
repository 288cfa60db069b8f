#include "files/safetensors.h"

#include <math.h>

#include "files/bytes.h"
#include "support/folder.h"

static const char header_text[] =
    "{\"b\":{\"dtype\":\"F32\",\"shape\":[2],\"data_offsets\":[3,11]},"
    "\"a\":{\"dtype\":\"U8\",\"shape\":[3],\"data_offsets\":[0,3]}}";

/* A file of a header and `data_len` bytes of data; exact, so that a sanitizer sees every step
 * beyond. */
static uint8_t *make(const char *header, size_t data_len, size_t *len)
{
    const size_t header_len = strlen(header);
    *len = 8 + header_len + data_len;
    uint8_t *bytes = test_alloc(*len);
    trn_put_u64(bytes, header_len);
    memcpy(bytes + 8, header, header_len);
    for (size_t i = 0; i < data_len; i++)
        bytes[8 + header_len + i] = (uint8_t)i;
    return bytes;
}

static terse_status parse(const char *header, size_t data_len, struct trn_safetensors **out,
                          terse_fault *fault)
{
    size_t len;
    uint8_t *bytes = make(header, data_len, &len);
    const struct trn_bytes in = {.name = "w", .at = bytes, .len = len};
    const terse_status status = trn_safetensors_parse(&in, out, fault);
    free(bytes);
    return status;
}

static void test_a_foreign_file_is_read(void **state)
{
    struct trn_safetensors *file;
    (void)state;
    assert_int_equal(parse(header_text, 11, &file, NULL), TERSE_OK);
    assert_int_equal(trn_safetensors_count(file), 2);
    const struct trn_stored *b = trn_safetensors_find(file, "b");
    assert_non_null(b);
    assert_int_equal(b->dtype, TRN_F32);
    assert_int_equal(b->ndim, 1);
    assert_int_equal(b->dims[0], 2);
    assert_int_equal(((const uint8_t *)b->bytes)[0], 3);
    assert_null(trn_safetensors_find(file, "c"));
    assert_string_equal(trn_safetensors_at(file, 0)->name, "a");
    trn_safetensors_free(file);
}

static void test_malformed_files_are_refused(void **state)
{
    static const struct {
        const char *header;
        size_t data_len;
        const char *why;
    } cases[] = {
        {"", 0, "not a JSON object"},
        {"[]", 0, "not a JSON object"},
        {"{\"a\":", 0, "not valid JSON"},
        {"{} x", 0, "bytes after the JSON value"},
        {"{}", 4, "belong to no tensor"},
        {"{\"a\":1}", 0, "has no dtype"},
        {"{\"a\":{\"dtype\":\"X\",\"shape\":[],\"data_offsets\":[0,4]}}", 4, "unknown dtype"},
        {"{\"a\":{\"dtype\":\"F32\",\"data_offsets\":[0,4]}}", 4, "has no shape"},
        {"{\"a\":{\"dtype\":\"F32\",\"shape\":[-1],\"data_offsets\":[0,4]}}", 4, "not a count"},
        {"{\"a\":{\"dtype\":\"F32\",\"shape\":[1.5],\"data_offsets\":[0,4]}}", 4, "not a count"},
        {"{\"a\":{\"dtype\":\"F32\",\"shape\":[1,1,1,1,1,1,1,1,1],\"data_offsets\":[0,4]}}", 4,
         "too many dimensions"},
        {"{\"a\":{\"dtype\":\"F32\",\"shape\":[4294967296,4294967296],\"data_offsets\":[0,0]}}", 0,
         "too large"},
        {"{\"a\":{\"dtype\":\"F32\",\"shape\":[1]}}", 4, "no data_offsets"},
        {"{\"a\":{\"dtype\":\"F32\",\"shape\":[1],\"data_offsets\":[0]}}", 4, "no data_offsets"},
        {"{\"a\":{\"dtype\":\"F32\",\"shape\":[1],\"data_offsets\":[0,8]}}", 4, "outside"},
        {"{\"a\":{\"dtype\":\"F32\",\"shape\":[1],\"data_offsets\":[4,0]}}", 4, "outside"},
        {"{\"a\":{\"dtype\":\"F32\",\"shape\":[2],\"data_offsets\":[0,4]}}", 4, "than its shape"},
        {"{\"a\":{\"dtype\":\"U8\",\"shape\":[1],\"data_offsets\":[1,2]}}", 2, "a gap"},
        {"{\"a\":{\"dtype\":\"U8\",\"shape\":[2],\"data_offsets\":[0,2]},"
         "\"b\":{\"dtype\":\"U8\",\"shape\":[2],\"data_offsets\":[1,3]}}",
         3, "overlap"},
        {"{\"a\":{\"dtype\":\"U8\",\"shape\":[0],\"data_offsets\":[0,0]},"
         "\"a\":{\"dtype\":\"U8\",\"shape\":[0],\"data_offsets\":[0,0]}}",
         0, "is given twice"},
    };
    struct trn_safetensors *file;
    terse_fault fault;
    (void)state;
    for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++)
        test_refused(parse(cases[i].header, cases[i].data_len, &file, &fault), COM_BAD_FILE, &fault,
                     cases[i].why);
}

static void test_every_cut_is_refused(void **state)
{
    size_t len;
    uint8_t *whole = make(header_text, 11, &len);
    (void)state;
    for (size_t cut = 0; cut < len; cut++) {
        struct trn_safetensors *file;
        terse_fault fault = {0};
        const struct trn_bytes in = {.name = "w", .at = whole, .len = cut};
        assert_int_equal(trn_safetensors_parse(&in, &file, &fault), COM_BAD_FILE);
        assert_true(fault.offset <= len);
    }
    free(whole);
}

static void test_a_layout_goes_and_comes_back(void **state)
{
    const struct test_folder folder = test_folder_make();
    const char *path = test_path(&folder, "w.safetensors");
    const uint64_t dims[2] = {3, 5};
    const uint64_t none = 0;
    const uint8_t blob[3] = {1, 2, 3};
    const struct trn_stored more = {
        .name = "blob", .dtype = TRN_U8, .ndim = 1, .dims = {3}, .bytes = blob, .len = 3};
    struct test_random random = {test_seed()};
    terse_layout *layout;
    terse_layout *other;
    struct trn_safetensors *file;
    terse_fault fault;
    float flat[17];
    float back[17] = {0};
    (void)state;
    assert_int_equal(terse_layout_create(&layout), TERSE_OK);
    assert_int_equal(terse_layout_add(layout, "conv \"1\".weight", 2, dims), TERSE_OK);
    assert_int_equal(terse_layout_add(layout, "empty", 1, &none), TERSE_OK);
    assert_int_equal(terse_layout_add(layout, "scalar", 0, NULL), TERSE_OK);
    assert_int_equal(terse_layout_add(layout, "bias", 1, (const uint64_t[]){1}), TERSE_OK);
    test_fill(&random, TEST_NORMAL, flat, 17);
    assert_int_equal(trn_safetensors_write_layout(path, layout, flat, &more, 1, "step 7", &fault),
                     TERSE_OK);
    assert_int_equal(trn_safetensors_read(path, &file, &fault), TERSE_OK);
    assert_int_equal(trn_safetensors_to_layout(file, layout, NULL, back, &fault), TERSE_OK);
    assert_true(test_same_bits(flat, back, 17));
    memset(back, 0, sizeof back);
    assert_int_equal(trn_safetensors_to_layout(file, layout, "conv*,scalar", back, &fault),
                     TERSE_OK);
    for (int i = 0; i < 16; i++)
        assert_true(back[i] == 0); /* left out, so as they were */
    assert_true(test_same_bits(flat + 16, back + 16, 1));
    assert_memory_equal(trn_safetensors_find(file, "blob")->bytes, blob, 3);
    assert_int_equal(terse_layout_vector(17, &other), TERSE_OK);
    test_refused(trn_safetensors_to_layout(file, other, NULL, back, &fault), TERSE_MISMATCH, &fault,
                 "no tensor");
    terse_layout_destroy(other);
    assert_int_equal(terse_layout_create(&other), TERSE_OK);
    assert_int_equal(terse_layout_add(other, "bias", 1, (const uint64_t[]){2}), TERSE_OK);
    test_refused(trn_safetensors_to_layout(file, other, NULL, back, &fault), TERSE_MISMATCH, &fault,
                 "'bias' has the shape 1 in the file, 2 in the network");
    terse_layout_destroy(other);
    assert_int_equal(terse_layout_create(&other), TERSE_OK);
    assert_int_equal(terse_layout_add(other, "blob", 1, (const uint64_t[]){3}), TERSE_OK);
    test_refused(trn_safetensors_to_layout(file, other, NULL, back, &fault), TERSE_MISMATCH, &fault,
                 "not F32");
    terse_layout_destroy(other);
    trn_safetensors_free(file);
    flat[3] = NAN;
    assert_int_equal(trn_safetensors_write_layout(path, layout, flat, NULL, 0, NULL, &fault),
                     TERSE_OK);
    assert_int_equal(trn_safetensors_read(path, &file, &fault), TERSE_OK);
    memset(back, 0, sizeof back);
    test_refused(trn_safetensors_to_layout(file, layout, NULL, back, &fault), TERSE_MISMATCH,
                 &fault, "is not finite");
    assert_true(back[16] == 0); /* nothing was written */
    terse_layout_destroy(layout);
    trn_safetensors_free(file);
    test_folder_remove(&folder);
}

static void test_what_cannot_be_written_is_refused(void **state)
{
    const struct test_folder folder = test_folder_make();
    const char *path = test_path(&folder, "w.safetensors");
    const float value = 1;
    struct trn_stored two[2] = {{.name = "a", .bytes = &value, .len = 4},
                                {.name = "a", .bytes = &value, .len = 4}};
    terse_fault fault;
    (void)state;
    test_refused(trn_safetensors_write(path, two, 2, NULL, &fault), TERSE_BAD_ARGUMENT, &fault,
                 "two tensors are named 'a'");
    two[1].name = "";
    test_refused(trn_safetensors_write(path, two, 2, NULL, &fault), TERSE_BAD_ARGUMENT, &fault,
                 "cannot be named");
    two[1] = (struct trn_stored){.name = "b", .ndim = 1, .dims = {2}, .bytes = &value, .len = 4};
    test_refused(trn_safetensors_write(path, two, 2, NULL, &fault), TERSE_BAD_ARGUMENT, &fault,
                 "has 4 bytes, its shape 8");
    assert_int_equal(test_entries(&folder), 0);
    test_folder_remove(&folder);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_a_foreign_file_is_read),
        cmocka_unit_test(test_malformed_files_are_refused),
        cmocka_unit_test(test_every_cut_is_refused),
        cmocka_unit_test(test_a_layout_goes_and_comes_back),
        cmocka_unit_test(test_what_cannot_be_written_is_refused),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
