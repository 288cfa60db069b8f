/* XXH64 with seed 0, at once or in parts: checksums of checkpoints, buckets of words. */
#ifndef TRN_HASH_H
#define TRN_HASH_H

#include <stddef.h>
#include <stdint.h>

struct trn_hash;

uint64_t trn_hash64(const void *bytes, size_t len, uint64_t seed);

struct trn_hash *trn_hash_create(void); /* NULL: no memory */
void trn_hash_add(struct trn_hash *hash, const void *bytes, size_t len);
uint64_t trn_hash_value(const struct trn_hash *hash);
void trn_hash_destroy(struct trn_hash *hash); /* NULL is fine */

#endif
