/* gzip files that are damaged or cut off are refused, at every byte; those that would fill the
 * memory too. */
#include <zlib.h>

#include "files/bytes.h"
#include "support/folder.h"

/* gzip of "terse " whose checksum is left at zero. */
static const uint8_t packed[] = {
    0x1f, 0x8b, 0x08, 0x00, 0x00, 0x00, 0x00, 0x00, 0x00, 0x03, 0x01, 0x06, 0x00, 0xf9, 0xff,
    't',  'e',  'r',  's',  'e',  ' ',  0,    0,    0,    0,    0x06, 0x00, 0x00, 0x00,
};

static void test_gzip_that_is_damaged(void **state)
{
    uint8_t copy[sizeof packed];
    uint8_t *bytes;
    size_t len;
    terse_fault fault;
    (void)state;
    const struct trn_bytes wrong_sum = {.name = "f.gz", .at = packed, .len = sizeof packed};
    test_refused(trn_gunzip(&wrong_sum, &bytes, &len, &fault), COM_BAD_FILE, &fault, "f.gz: byte ");
    for (size_t cut = 0; cut < sizeof packed; cut++) {
        memcpy(copy, packed, cut);
        uint8_t *exact = test_alloc(cut + (cut == 0));
        memcpy(exact, copy, cut);
        const struct trn_bytes in = {.name = "f.gz", .at = exact, .len = cut};
        assert_int_equal(trn_gunzip(&in, &bytes, &len, &fault), COM_BAD_FILE);
        free(exact);
    }
}

/* `mib` MiB of zeros, packed by zlib; the caller frees them. */
static struct trn_bytes pack_zeros(size_t mib)
{
    const size_t cap = mib * 8192 + 1024;
    static uint8_t zeros[1 << 20];
    uint8_t *out = test_alloc(cap);
    z_stream stream = {.next_out = out, .avail_out = (uInt)cap};
    assert_int_equal(deflateInit2(&stream, 1, Z_DEFLATED, 15 + 16, 9, Z_DEFAULT_STRATEGY), Z_OK);
    for (size_t i = 0; i < mib; i++) {
        stream.next_in = zeros;
        stream.avail_in = sizeof zeros;
        assert_int_equal(deflate(&stream, i + 1 == mib ? Z_FINISH : Z_NO_FLUSH),
                         i + 1 == mib ? Z_STREAM_END : Z_OK);
    }
    assert_int_equal(deflateEnd(&stream), Z_OK);
    return (struct trn_bytes){.name = "zeros.gz", .at = out, .len = stream.total_out};
}

static void test_a_small_file_does_not_fill_the_memory(void **state)
{
    uint8_t *bytes = NULL;
    size_t len = 0;
    terse_fault fault;
    (void)state;
    const struct trn_bytes few = pack_zeros(20);
    assert_int_equal(trn_gunzip(&few, &bytes, &len, &fault), TERSE_OK);
    assert_int_equal(len, (size_t)20 << 20);
    free(bytes);
    free((void *)(uintptr_t)few.at);
    const struct trn_bytes many = pack_zeros(150);
    test_refused(trn_gunzip(&many, &bytes, &len, &fault), COM_BAD_FILE, &fault,
                 "unpacks to more than 100 times its size");
    assert_true(fault.offset < many.len / 2); /* it was not unpacked to its end */
    free((void *)(uintptr_t)many.at);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_gzip_that_is_damaged),
        cmocka_unit_test(test_a_small_file_does_not_fill_the_memory),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
