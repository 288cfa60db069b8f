/* Parallel loops over parts of a fixed size: results never depend on the number of threads. */
#ifndef TSI_PARALLEL_H
#define TSI_PARALLEL_H

#include <stddef.h>

#define TSI_CHUNK ((size_t)16384) /* elements; a multiple of TSI_TILE */
#define TSI_TILE ((size_t)2048)   /* elements whose codes and coins stay in the first-level cache */

/* Calls `work` once for every part 0 .. parts-1, on up to `threads` threads. */
typedef void tsi_part_fn(void *context, size_t part);
void tsi_each_part(unsigned threads, size_t parts, tsi_part_fn *work, void *context);

/* Splits `count` elements into chunks and calls `work` once for each, with its number and its
 * elements first .. first+count-1. */
typedef void tsi_chunk_fn(void *context, size_t chunk, size_t first, size_t count);
void tsi_each_chunk(unsigned threads, size_t count, tsi_chunk_fn *work, void *context);

static inline size_t tsi_chunk_total(size_t count)
{
    return count / TSI_CHUNK + (count % TSI_CHUNK != 0);
}

#endif
