/* Layouts: building, limits, hash, and their description as bytes. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "base/hash.h"
#include "layout/layout.h"

static terse_layout *layout_new(void)
{
    terse_layout *layout;
    assert_int_equal(terse_layout_create(&layout), TERSE_OK);
    return layout;
}

static void add(terse_layout *layout, const char *name, uint32_t ndim, const uint64_t *dims)
{
    assert_int_equal(terse_layout_add(layout, name, ndim, dims), TERSE_OK);
}

/* A matrix, an empty tensor, a scalar and a vector: 12 + 0 + 1 + 5 elements. */
static terse_layout *mixed(void)
{
    terse_layout *layout = layout_new();
    add(layout, "conv.weight", 3, (const uint64_t[]){3, 2, 2});
    add(layout, "empty", 2, (const uint64_t[]){0, 7});
    add(layout, "scalar", 0, NULL);
    add(layout, "", 1, (const uint64_t[]){5});
    return layout;
}

static void tensors_follow_each_other(void **unused)
{
    (void)unused;
    terse_layout *layout = mixed();
    static const uint64_t counts[] = {12, 0, 1, 5};
    static const char *const names[] = {"conv.weight", "empty", "scalar", ""};
    uint64_t offset = 0;
    assert_int_equal(terse_layout_tensors(layout), 4);
    for (uint32_t i = 0; i < 4; i++) {
        terse_tensor tensor;
        assert_int_equal(terse_layout_tensor(layout, i, &tensor), TERSE_OK);
        assert_string_equal(tensor.name, names[i]);
        assert_int_equal(tensor.count, counts[i]);
        assert_int_equal(tensor.offset, offset);
        offset += counts[i];
    }
    assert_int_equal(terse_layout_count(layout), offset);
    terse_tensor none;
    assert_int_equal(terse_layout_tensor(layout, 4, &none), TERSE_BAD_ARGUMENT);
    terse_layout_destroy(layout);
    terse_layout_destroy(NULL);
}

static void names_and_dims_stay_in_place(void **unused)
{
    (void)unused;
    terse_layout *layout = layout_new();
    add(layout, "first", 2, (const uint64_t[]){4, 6});
    terse_tensor before;
    terse_tensor after;
    assert_int_equal(terse_layout_tensor(layout, 0, &before), TERSE_OK);
    for (int i = 0; i < 1000; i++)
        add(layout, "more", 1, (const uint64_t[]){1});
    assert_int_equal(terse_layout_tensor(layout, 0, &after), TERSE_OK);
    assert_ptr_equal(before.name, after.name);
    assert_ptr_equal(before.dims, after.dims);
    assert_int_equal(after.dims[1], 6);
    terse_layout_destroy(layout);
}

static void pieces_are_matrices(void **unused)
{
    (void)unused;
    terse_layout *layout = mixed();
    struct tsi_piece piece = tsi_layout_piece(layout, 0);
    assert_int_equal(piece.rows, 3);
    assert_int_equal(piece.cols, 4);
    piece = tsi_layout_piece(layout, 1);
    assert_int_equal(piece.count, 0);
    piece = tsi_layout_piece(layout, 2);
    assert_int_equal(piece.rows, 1);
    assert_int_equal(piece.cols, 1);
    piece = tsi_layout_piece(layout, 3);
    assert_int_equal(piece.tensor, 3);
    assert_int_equal(piece.offset, 13);
    assert_int_equal(piece.first, 0);
    assert_int_equal(piece.rows, 5);
    assert_int_equal(piece.cols, 1);
    terse_layout_destroy(layout);
}

static void a_refused_tensor_changes_nothing(void **unused)
{
    (void)unused;
    static const uint64_t huge[] = {UINT64_C(1) << 32, UINT64_C(1) << 32};
    static const uint64_t limit[] = {TERSE_MAX_TENSOR_COUNT};
    static const uint64_t above[] = {(uint64_t)TERSE_MAX_TENSOR_COUNT + 1};
    static const uint64_t hidden[] = {UINT64_C(1) << 63, 0, 2};
    static const uint64_t ones[9] = {1, 1, 1, 1, 1, 1, 1, 1, 1};
    char name[TERSE_MAX_NAME + 2];
    memset(name, 'n', sizeof name);
    name[TERSE_MAX_NAME + 1] = '\0';

    terse_layout *layout = mixed();
    const uint64_t hash = terse_layout_hash(layout);
    assert_int_equal(terse_layout_add(layout, "huge", 2, huge), TERSE_BAD_ARGUMENT);
    assert_int_equal(terse_layout_add(layout, "above", 1, above), TERSE_BAD_ARGUMENT);
    assert_int_equal(terse_layout_add(layout, "hidden", 3, hidden), TERSE_BAD_ARGUMENT);
    assert_int_equal(terse_layout_add(layout, "ndim", 9, ones), TERSE_BAD_ARGUMENT);
    assert_int_equal(terse_layout_add(layout, "dims", 1, NULL), TERSE_BAD_ARGUMENT);
    assert_int_equal(terse_layout_add(layout, NULL, 1, ones), TERSE_BAD_ARGUMENT);
    assert_int_equal(terse_layout_add(layout, name, 1, ones), TERSE_BAD_ARGUMENT);
    assert_int_equal(terse_layout_add(layout, "tab\there", 1, ones), TERSE_BAD_ARGUMENT);
    assert_int_equal(terse_layout_add(layout, "last\x1f", 1, ones), TERSE_BAD_ARGUMENT);
    assert_int_equal(terse_layout_add(layout, "del\x7f", 1, ones), TERSE_BAD_ARGUMENT);
    assert_int_equal(terse_layout_tensors(layout), 4);
    assert_int_equal(terse_layout_count(layout), 18);
    assert_true(terse_layout_hash(layout) == hash);

    name[TERSE_MAX_NAME] = '\0';
    add(layout, name, 8, ones);
    add(layout, " ~\x80", 1, ones);
    add(layout, "caf\xc3\xa9", 1, limit);
    terse_layout_destroy(layout);
}

static void the_sum_of_all_tensors_has_a_limit(void **unused)
{
    (void)unused;
    static const uint64_t quarter[] = {UINT64_C(1) << 30};
    terse_layout *layout = layout_new();
    for (int i = 0; i < 1024; i++)
        add(layout, "", 1, quarter);
    assert_true(terse_layout_count(layout) == TERSE_MAX_COUNT);
    assert_int_equal(terse_layout_add(layout, "", 0, NULL), TERSE_BAD_ARGUMENT);
    add(layout, "", 1, (const uint64_t[]){0});
    terse_layout_destroy(layout);
}

static void the_number_of_tensors_has_a_limit(void **unused)
{
    (void)unused;
    terse_layout *layout = layout_new();
    for (uint32_t i = 0; i < TERSE_MAX_TENSORS; i++)
        add(layout, "", 0, NULL);
    assert_int_equal(terse_layout_add(layout, "", 0, NULL), TERSE_BAD_ARGUMENT);
    terse_layout_destroy(layout);
}

static void the_hash_is_that_of_the_description(void **unused)
{
    (void)unused;
    /* XXH64 of 00 00 00 00, and of 01 00 00 00 | 00 | 01 | 05 00 00 00 00 00 00 00, as the second
     * decoder computes them. */
    terse_layout *empty = layout_new();
    assert_true(terse_layout_hash(empty) == UINT64_C(0x3aefa6fd5cf2deb4));
    terse_layout *five;
    assert_int_equal(terse_layout_vector(5, &five), TERSE_OK);
    assert_true(terse_layout_hash(five) == UINT64_C(0x621928c8c40fb7d6));

    terse_layout *other = mixed();
    terse_layout *same = mixed();
    assert_true(terse_layout_hash(other) == terse_layout_hash(same));
    add(other, "", 0, NULL);
    assert_true(terse_layout_hash(other) != terse_layout_hash(same));
    add(same, "", 1, (const uint64_t[]){1});
    assert_true(terse_layout_hash(other) != terse_layout_hash(same));
    terse_layout_destroy(empty);
    terse_layout_destroy(five);
    terse_layout_destroy(other);
    terse_layout_destroy(same);
}

static void a_copy_is_equal_and_apart(void **unused)
{
    (void)unused;
    terse_layout *layout = mixed();
    terse_layout *copy;
    assert_int_equal(tsi_layout_copy(layout, &copy), TERSE_OK);
    assert_true(terse_layout_hash(copy) == terse_layout_hash(layout));
    const uint64_t before = terse_layout_hash(copy);
    add(copy, "later", 1, (const uint64_t[]){3});
    assert_true(terse_layout_hash(copy) != before);
    assert_int_equal(terse_layout_count(layout), 18);
    assert_int_equal(terse_layout_count(copy), 21);
    terse_layout_destroy(layout);
    terse_layout_destroy(copy);
}

static void a_description_reads_back(void **unused)
{
    (void)unused;
    terse_layout *layout = mixed();
    const size_t len = tsi_layout_len(layout);
    uint8_t *bytes = malloc(len);
    uint8_t *again = malloc(len);
    assert_non_null(bytes);
    assert_non_null(again);
    tsi_layout_write(layout, bytes);
    assert_true(tsi_hash64(bytes, len) == terse_layout_hash(layout));

    terse_fault fault;
    uint64_t count = 0;
    assert_int_equal(tsi_layout_check(bytes, len, &count, &fault), TERSE_OK);
    assert_int_equal(count, 18);
    terse_layout *read;
    assert_int_equal(tsi_layout_read(bytes, len, &read, &fault), TERSE_OK);
    assert_int_equal(tsi_layout_len(read), len);
    tsi_layout_write(read, again);
    assert_memory_equal(bytes, again, len);
    terse_layout_destroy(read);

    /* No prefix is a description, and none with bytes after its end. */
    for (size_t cut = 0; cut < len; cut++) {
        uint8_t *tight = malloc(cut ? cut : 1);
        assert_non_null(tight);
        memcpy(tight, bytes, cut);
        assert_int_equal(tsi_layout_read(tight, cut, &read, &fault), TERSE_BAD_FRAME);
        assert_true(fault.offset <= cut);
        free(tight);
    }
    uint8_t *more = calloc(1, len + 1);
    assert_non_null(more);
    memcpy(more, bytes, len);
    assert_int_equal(tsi_layout_read(more, len + 1, &read, &fault), TERSE_BAD_FRAME);
    assert_int_equal(fault.offset, len);
    assert_string_equal(fault.text, "layout: bytes after the last tensor");
    free(more);
    free(again);
    free(bytes);
    terse_layout_destroy(layout);
}

static void bad_descriptions_are_refused(void **unused)
{
    (void)unused;
    static const struct {
        const char *bytes;
        size_t len;
        uint64_t offset;
        const char *rule;
    } cases[] = {
        {"\x01\0\x10\0", 4, 0, "layout: more than 2^20 tensors"},
        {"\x01\0\0\0\3a\nb\0", 9, 6, "layout: control character in a name"},
        {"\x01\0\0\0\1\x7f\0", 7, 5, "layout: control character in a name"},
        {"\x01\0\0\0\0\x09", 6, 5, "layout: more than 8 dimensions"},
        {"\x01\0\0\0\0\1\0\0\0\0\1\0\0\0", 14, 6, "layout: more than 2^32-1 elements in a tensor"},
        {"\x01\0\0\0\0\2\0\0\0\x80\0\0\0\0\2\0\0\0\0\0\0\0", 22, 6,
         "layout: more than 2^32-1 elements in a tensor"},
        {"\x02\0\0\0\0\0", 6, 6, "layout: ends inside a name"},
        {"\x01\0\0\0\5ab", 7, 5, "layout: ends inside a name"},
        {"\x01\0\0\0\2ab", 7, 7, "layout: ends inside the dimensions"},
        {"\0\0\0", 3, 3, "layout: ends inside the tensor count"},
    };
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        terse_fault fault = {0};
        terse_layout *layout = NULL;
        const uint8_t *bytes = (const uint8_t *)cases[i].bytes;
        assert_int_equal(tsi_layout_read(bytes, cases[i].len, &layout, &fault), TERSE_BAD_FRAME);
        assert_null(layout);
        assert_string_equal(fault.text, cases[i].rule);
        assert_int_equal(fault.offset, cases[i].offset);
        terse_fault checked = {0};
        assert_int_equal(tsi_layout_check(bytes, cases[i].len, NULL, &checked), TERSE_BAD_FRAME);
        assert_string_equal(checked.text, fault.text);
        assert_int_equal(tsi_layout_check(bytes, cases[i].len, NULL, NULL), TERSE_BAD_FRAME);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(tensors_follow_each_other),
        cmocka_unit_test(names_and_dims_stay_in_place),
        cmocka_unit_test(pieces_are_matrices),
        cmocka_unit_test(a_refused_tensor_changes_nothing),
        cmocka_unit_test(the_sum_of_all_tensors_has_a_limit),
        cmocka_unit_test(the_number_of_tensors_has_a_limit),
        cmocka_unit_test(the_hash_is_that_of_the_description),
        cmocka_unit_test(a_copy_is_equal_and_apart),
        cmocka_unit_test(a_description_reads_back),
        cmocka_unit_test(bad_descriptions_are_refused),
    };
    return cmocka_run_group_tests_name("layout", tests, NULL, NULL);
}
