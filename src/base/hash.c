#include "base/hash.h"

#include <xxhash.h>

uint64_t tsi_hash64(const void *bytes, size_t len)
{
    return XXH64(bytes, len, 0);
}

uint64_t tsi_hash_keyed(const void *key, size_t key_len, const void *bytes, size_t len)
{
    return XXH3_64bits_withSeed(bytes, len, XXH3_64bits(key, key_len));
}
