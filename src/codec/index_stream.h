/* Sorted indices in Elias-Fano form (Elias 1974; Fano 1971): one string of bits, first the upper
 * bits of the indices in unary, then the lower `width` bits of each side by side. Its length
 * depends on n and k alone and is within 15 % of log2(C(n, k)) bits from keep 0.1 to 0.001
 * (tests/codec/topk_test.c). Layout: docs/wire-format.md, "topk". */
#ifndef TSI_INDEX_STREAM_H
#define TSI_INDEX_STREAM_H

#include <stddef.h>
#include <stdint.h>

#include <terse/status.h>

/* k indices below n, 1 <= k <= n < 2^32. */
struct tsi_index_shape {
    uint64_t n;
    size_t k;
    unsigned width;     /* bits of the lower part of an index */
    uint64_t high_bits; /* length of the unary part */
    size_t len;         /* bytes of the whole */
};

struct tsi_index_shape tsi_index_shape(uint64_t n, size_t k);

/* Writes shape->len bytes; the indices ascend strictly. */
void tsi_index_write(const struct tsi_index_shape *shape, const uint32_t *index, uint8_t *out);

/* A reader: opening checks the padding and the number of ones, then batches of indices are decoded.
 * The stream is untrusted input. */
struct tsi_index_reader {
    struct tsi_index_shape shape;
    const uint8_t *stream;
    const uint8_t *end; /* end of the stream: nothing is read from here on */
    size_t safe;        /* entries whose lower part is eight bytes or more before that end */
    uint64_t word;      /* remaining ones of the current 64 bits of the unary part */
    size_t word_at;     /* byte offset of that word */
    size_t done;        /* number of the next index */
    size_t done_end;    /* number of the first index that belongs to the next reader */
    int64_t first;      /* the first index decoded so far, or -1 */
    int64_t last;       /* the last one, or -1 */
};

/* `stream` holds shape->len bytes. */
TERSE_CHECK terse_status tsi_index_open(const struct tsi_index_shape *shape, const uint8_t *stream,
                                        struct tsi_index_reader *reader, terse_fault *fault);

/* Splits an opened stream into `parts` consecutive readers. When all are read to their ends,
 * tsi_index_joined checks that the indices ascend from each reader to the next. */
void tsi_index_split(const struct tsi_index_reader *whole, size_t parts,
                     struct tsi_index_reader *reader);
TERSE_CHECK terse_status tsi_index_joined(const struct tsi_index_reader *reader, size_t parts,
                                          terse_fault *fault);

/* Decodes the next `count` indices (at most those left). Refuses indices that do not ascend or are
 * >= n. Prefetches their elements of `soon` unless that is NULL. */
TERSE_CHECK terse_status tsi_index_next(struct tsi_index_reader *reader, size_t count,
                                        const float *soon, uint32_t *index, terse_fault *fault);

#endif
