/* The NPY header: whatever the bytes, it is refused with an offset inside the file, or it describes
 * exactly the bytes there are. */
#include <stdlib.h>

#include "npy.h"

int LLVMFuzzerTestOneInput(const uint8_t *bytes, size_t len);

int LLVMFuzzerTestOneInput(const uint8_t *bytes, size_t len)
{
    struct npy npy = {0};
    size_t data_at = 0;
    terse_fault fault = {0};
    if (!npy_parse(bytes, len, &npy, &data_at, &fault)) {
        if (fault.offset > len || fault.text[0] == '\0')
            abort();
        return 0;
    }
    uint64_t count = 1;
    for (uint32_t i = 0; i < npy.ndim; i++)
        count *= npy.dims[i];
    if (count != npy.count || data_at + count * sizeof(float) != len)
        abort();
    return 0;
}
