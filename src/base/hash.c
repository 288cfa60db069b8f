#include "base/hash.h"

#include <xxhash.h>

uint64_t tsi_hash64(const void *bytes, size_t len)
{
    return XXH64(bytes, len, 0);
}
