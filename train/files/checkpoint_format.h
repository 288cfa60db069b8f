/* Numbers of the checkpoint format (files/checkpoint.h) that writer and reader share. */
#ifndef TRN_CHECKPOINT_FORMAT_H
#define TRN_CHECKPOINT_FORMAT_H

#include <stddef.h>
#include <stdint.h>
#include <string.h>

#include "files/checkpoint.h"

#define TRN_CHECKPOINT_MAGIC "TERSECKP"

enum {
    TRN_CHECKPOINT_HEAD_LEN = 32,
    TRN_BLOB_HEAD_LEN = 24,
    TRN_CHECKPOINT_TAIL_LEN = 8,
    TRN_CHECKPOINT_ALIGNMENT = 8,
};

/* Zeros that follow `len` bytes. */
static inline size_t trn_checkpoint_padding(uint64_t len)
{
    return (size_t)((TRN_CHECKPOINT_ALIGNMENT - len % TRN_CHECKPOINT_ALIGNMENT) %
                    TRN_CHECKPOINT_ALIGNMENT);
}

/* The order of blobs in a file. */
static inline int trn_blob_compare(const struct trn_blob *a, const struct trn_blob *b)
{
    const int names = strcmp(a->name, b->name);
    return names != 0 ? names : (a->worker > b->worker) - (a->worker < b->worker);
}

/* 1 .. TRN_MAX_BLOB_NAME bytes without control characters. */
static inline int trn_blob_name_is_good(const char *name, size_t len)
{
    for (size_t i = 0; i < len; i++)
        if ((unsigned char)name[i] < 0x20 || name[i] == 0x7F)
            return 0;
    return len >= 1 && len <= TRN_MAX_BLOB_NAME;
}

#endif
