/* The only file of train/ that uses xxHash. `struct trn_hash` is its XXH64_state_t. */
#include "files/hash.h"

#include <xxhash.h>

uint64_t trn_hash64(const void *bytes, size_t len, uint64_t seed)
{
    return XXH64(bytes, len, seed);
}

struct trn_hash *trn_hash_create(void)
{
    XXH64_state_t *state = XXH64_createState();
    if (state && XXH64_reset(state, 0) != XXH_OK) {
        (void)XXH64_freeState(state);
        return NULL;
    }
    return (struct trn_hash *)state;
}

void trn_hash_add(struct trn_hash *hash, const void *bytes, size_t len)
{
    if (len > 0)
        (void)XXH64_update((XXH64_state_t *)hash, bytes, len);
}

uint64_t trn_hash_value(const struct trn_hash *hash)
{
    return XXH64_digest((const XXH64_state_t *)hash);
}

void trn_hash_destroy(struct trn_hash *hash)
{
    (void)XXH64_freeState((XXH64_state_t *)hash);
}
