/* gzip files that are damaged or cut off are refused, at every byte. */
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

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_gzip_that_is_damaged),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
