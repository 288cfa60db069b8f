#include "files/bytes.h"

#include <stdlib.h>
#include <string.h>

terse_status trn_bytes_copy(const struct trn_bytes *in, uint8_t **out, terse_fault *fault)
{
    uint8_t *const bytes = malloc(in->len + 1);
    if (!bytes)
        return com_fail(fault, TERSE_NO_MEMORY, "no memory to read '%s'", in->name);
    if (in->len > 0)
        memcpy(bytes, in->at, in->len);
    *out = bytes;
    return TERSE_OK;
}
