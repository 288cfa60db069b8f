/* NPY: whatever the bytes, the header is refused with an offset inside the file, or it describes
 * exactly the bytes there are; as data to train on, examples with labels below the classes or a
 * reason. The first two bytes say how many of the others are the first of the two files. */
#include <stdlib.h>

#include "common/npy.h"
#include "data/read.h"

int LLVMFuzzerTestOneInput(const uint8_t *bytes, size_t len);

static void check_header(const uint8_t *bytes, size_t len)
{
    struct com_npy npy = {0};
    terse_fault fault = {0};
    if (!com_npy_parse(bytes, len, COM_NPY_F32 | COM_NPY_INTEGERS, &npy, &fault)) {
        if (fault.offset > len || fault.text[0] == '\0')
            abort();
        return;
    }
    uint64_t count = 1;
    for (uint32_t i = 0; i < npy.ndim; i++)
        count *= npy.dims[i];
    if (count != npy.count || npy.data_at + count * npy.width != len)
        abort();
}

int LLVMFuzzerTestOneInput(const uint8_t *bytes, size_t len)
{
    if (len < 2)
        return 0;
    const size_t asked = bytes[0] | (size_t)bytes[1] << 8;
    const size_t first = asked < len - 2 ? asked : len - 2;
    const struct trn_bytes x = {"x.npy", bytes + 2, first};
    const struct trn_bytes y = {"y.npy", bytes + 2 + first, len - 2 - first};
    struct trn_examples examples = {0};
    struct trn_about about = {0};
    terse_fault fault = {0};
    check_header(x.at, x.len);
    check_header(y.at, y.len);
    if (trn_npy_read(&x, &y, &examples, &about, &fault) == TERSE_OK) {
        if (examples.count == 0 || about.features == 0 || (!examples.labels && !examples.targets) ||
            (!examples.pixels && !examples.dense))
            abort();
    } else if (fault.text[0] == '\0') {
        abort();
    }
    trn_examples_free(&examples);
    return 0;
}
