/* Fuzzes IDX files. Accepted data fill the file exactly. */
#include "data/read.h"
#include "fuzz/subject.h"

int LLVMFuzzerTestOneInput(const uint8_t *bytes, size_t len)
{
    const struct trn_bytes in = {.name = "f", .at = bytes, .len = len};
    struct trn_idx_images images;
    struct trn_idx_labels labels;
    terse_fault fault = {0};
    uint32_t sum = 0;
    terse_status status = trn_idx_images(&in, &images, &fault);
    if (status == TERSE_OK) {
        const size_t count = (size_t)images.count * images.height * images.width;
        FUZZ_CHECK(images.pixels + count == bytes + len);
        for (size_t i = 0; i < count; i++)
            sum += images.pixels[i];
    } else {
        FUZZ_CHECK(status == COM_BAD_FILE && fault.text[0] && fault.offset <= len);
    }
    status = trn_idx_labels(&in, &labels, &fault);
    if (status == TERSE_OK)
        for (uint32_t i = 0; i < labels.count; i++)
            sum += labels.labels[i];
    FUZZ_CHECK(status == TERSE_OK || status == COM_BAD_FILE);
    return sum == UINT32_MAX ? -1 : 0; /* every byte was read */
}
