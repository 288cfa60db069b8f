/* Fuzzes libsvm text. Accepted rows have ascending columns below the number of features. */
#include <math.h>

#include "data/read.h"
#include "fuzz/subject.h"

static void check_row(const struct trn_examples *examples, uint32_t row, uint32_t features)
{
    FUZZ_CHECK(isfinite(examples->targets[row]));
    for (size_t i = examples->row_at[row]; i < examples->row_at[row + 1]; i++) {
        FUZZ_CHECK(examples->columns[i] < features && isfinite(examples->values[i]));
        if (i > examples->row_at[row])
            FUZZ_CHECK(examples->columns[i - 1] < examples->columns[i]);
    }
}

int LLVMFuzzerTestOneInput(const uint8_t *bytes, size_t len)
{
    const struct trn_bytes in = {.name = "f", .at = bytes, .len = len};
    struct trn_examples examples;
    uint32_t features = 0;
    terse_fault fault = {0};
    const terse_status status = trn_libsvm_read(&in, &examples, &features, &fault);
    if (status == TERSE_OK)
        for (uint32_t i = 0; i < examples.count; i++)
            check_row(&examples, i, features);
    else
        FUZZ_CHECK(status == COM_BAD_FILE && fault.text[0] && fault.offset <= len);
    trn_examples_free(&examples);
    return 0;
}
