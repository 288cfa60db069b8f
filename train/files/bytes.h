/* Bytes of a file or from memory, and the little-endian numbers in them, on any machine. */
#ifndef TRN_BYTES_H
#define TRN_BYTES_H

#include <stddef.h>
#include <stdint.h>

#include "common/fault.h"

/* Bytes and the name of their source. Readers take these. */
struct trn_bytes {
    const char *name; /* for messages */
    const uint8_t *at;
    size_t len;
};

/* A copy that the caller frees (never NULL on success). */
TERSE_CHECK terse_status trn_bytes_copy(const struct trn_bytes *in, uint8_t **out,
                                        terse_fault *fault);

/* The contents of a gzip file, all members; the caller frees *bytes. Memory grows with the bytes
 * unpacked; no size in the file is trusted. COM_BAD_FILE: the data is damaged, or unpacks to more
 * than 64 MiB and more than 100 times its size. */
TERSE_CHECK terse_status trn_gunzip(const struct trn_bytes *packed, uint8_t **bytes, size_t *len,
                                    terse_fault *fault);

static inline uint32_t trn_get_u32(const uint8_t *at)
{
    return (uint32_t)at[0] | (uint32_t)at[1] << 8 | (uint32_t)at[2] << 16 | (uint32_t)at[3] << 24;
}

static inline uint64_t trn_get_u64(const uint8_t *at)
{
    return (uint64_t)trn_get_u32(at) | (uint64_t)trn_get_u32(at + 4) << 32;
}

static inline void trn_put_u32(uint8_t *at, uint32_t value)
{
    for (int i = 0; i < 4; i++)
        at[i] = (uint8_t)(value >> (8 * i));
}

static inline void trn_put_u64(uint8_t *at, uint64_t value)
{
    for (int i = 0; i < 8; i++)
        at[i] = (uint8_t)(value >> (8 * i));
}

#endif
