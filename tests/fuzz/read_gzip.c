/* Fuzzes .gz files. The output is at most as long as deflate allows for the input. */
#include <stdlib.h>

#include "files/bytes.h"
#include "fuzz/subject.h"

int LLVMFuzzerTestOneInput(const uint8_t *bytes, size_t len)
{
    const struct trn_bytes in = {.name = "f", .at = bytes, .len = len};
    terse_fault fault = {0};
    uint8_t *plain;
    size_t plain_len;
    const terse_status status = trn_gunzip(&in, &plain, &plain_len, &fault);
    if (status == TERSE_OK) {
        FUZZ_CHECK(plain_len <= 1032 * len);
        free(plain);
    } else {
        FUZZ_CHECK(status == COM_BAD_FILE && fault.text[0] && fault.offset <= len);
    }
    return 0;
}
