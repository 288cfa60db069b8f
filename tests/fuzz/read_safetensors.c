/* Fuzzes safetensors files. Accepted tensors are within the file and are found by name. */
#include <string.h>

#include "files/safetensors.h"
#include "fuzz/subject.h"

int LLVMFuzzerTestOneInput(const uint8_t *bytes, size_t len)
{
    const struct trn_bytes in = {.name = "f", .at = bytes, .len = len};
    struct trn_safetensors *file;
    terse_fault fault = {0};
    uint64_t covered = 0;
    uint32_t sum = 0;
    const terse_status status = trn_safetensors_parse(&in, &file, &fault);
    if (status != TERSE_OK) {
        FUZZ_CHECK(status == COM_BAD_FILE && fault.text[0] && fault.offset <= len);
        return 0;
    }
    for (uint32_t i = 0; i < trn_safetensors_count(file); i++) {
        const struct trn_stored *tensor = trn_safetensors_at(file, i);
        FUZZ_CHECK(trn_safetensors_find(file, tensor->name) == tensor);
        for (uint64_t j = 0; j < tensor->len; j++)
            sum += ((const uint8_t *)tensor->bytes)[j];
        covered += tensor->len;
    }
    FUZZ_CHECK(covered <= len);
    trn_safetensors_free(file);
    return sum == UINT32_MAX ? -1 : 0;
}
