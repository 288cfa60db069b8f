/* Fuzzes CIFAR batches. Accepted records are whole and have labels of the set. */
#include "data/read.h"
#include "fuzz/subject.h"

static void check(const struct trn_bytes *in, const struct trn_cifar_form *form)
{
    terse_fault fault = {0};
    uint32_t count = 0;
    const terse_status status = trn_cifar_count(in, form, &count, &fault);
    const size_t record = form->label_len + (size_t)TRN_CIFAR_PIXELS;
    if (status != TERSE_OK) {
        FUZZ_CHECK(status == COM_BAD_FILE && fault.text[0] && fault.offset <= in->len);
        return;
    }
    FUZZ_CHECK(count > 0 && count * record == in->len);
    for (uint32_t i = 0; i < count; i++)
        FUZZ_CHECK(in->at[i * record + form->label_len - 1] < form->limits[form->label_len - 1]);
}

int LLVMFuzzerTestOneInput(const uint8_t *bytes, size_t len)
{
    const struct trn_bytes in = {.name = "f", .at = bytes, .len = len};
    check(&in, &trn_cifar10);
    check(&in, &trn_cifar100);
    return 0;
}
