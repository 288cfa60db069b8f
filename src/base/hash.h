/* The only hash of the format: it identifies layouts and detects damaged frames. It does not detect
 * forgery. */
#ifndef TSI_HASH_H
#define TSI_HASH_H

#include <stddef.h>
#include <stdint.h>

/* XXH64 with seed 0. */
uint64_t tsi_hash64(const void *bytes, size_t len);

/* XXH3 of the bytes, seeded by the XXH3 of a key: checks of messages between ranks. */
uint64_t tsi_hash_keyed(const void *key, size_t key_len, const void *bytes, size_t len);

#endif
