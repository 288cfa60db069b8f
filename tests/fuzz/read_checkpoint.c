/* Fuzzes checkpoints, unchanged and with a valid checksum, so that the rules behind it are reached.
 * Accepted tensors are found by name and worker, and are within the file. */
#include <stdlib.h>
#include <string.h>

#include "files/bytes.h"
#include "files/checkpoint.h"
#include "files/hash.h"
#include "fuzz/subject.h"

static uint32_t check(const uint8_t *bytes, size_t len)
{
    const struct trn_bytes in = {.name = "f", .at = bytes, .len = len};
    struct trn_checkpoint *checkpoint;
    terse_fault fault = {0};
    uint64_t covered = 0;
    uint32_t sum = 0;
    const terse_status status = trn_checkpoint_parse(&in, &checkpoint, &fault);
    if (status != TERSE_OK) {
        FUZZ_CHECK(status == COM_BAD_FILE || status == TERSE_BAD_VERSION ||
                   status == TERSE_BAD_CHECKSUM);
        FUZZ_CHECK(fault.text[0] && fault.offset <= len);
        return 0;
    }
    FUZZ_CHECK(com_json_is_object(trn_checkpoint_settings(checkpoint)));
    for (uint32_t i = 0; i < trn_checkpoint_count(checkpoint); i++) {
        const struct trn_blob *blob = trn_checkpoint_at(checkpoint, i);
        FUZZ_CHECK(trn_checkpoint_find(checkpoint, blob->name, blob->worker) == blob);
        for (uint64_t j = 0; j < blob->len; j++)
            sum += ((const uint8_t *)blob->bytes)[j];
        covered += blob->len;
    }
    FUZZ_CHECK(covered <= len);
    trn_checkpoint_free(checkpoint);
    return sum;
}

int LLVMFuzzerTestOneInput(const uint8_t *bytes, size_t len)
{
    uint32_t sum = check(bytes, len);
    if (len >= 8) {
        uint8_t *fitting = fuzz_room(len);
        memcpy(fitting, bytes, len);
        trn_put_u64(fitting + len - 8, trn_hash64(fitting, len - 8, 0));
        sum += check(fitting, len);
        free(fitting);
    }
    return sum == UINT32_MAX ? -1 : 0;
}
