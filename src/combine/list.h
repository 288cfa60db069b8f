/* Sparse pieces as lists: u32 count, index stream, count floats. The sender chooses the count, so
 * only the sender knows a list's length. */
#ifndef TSI_LIST_H
#define TSI_LIST_H

#include "codec/object.h"

/* Scratch of a list that is written or read: as many entries as the piece has elements, plus what
 * collect_f32 needs beyond. */
struct tsi_list {
    uint32_t *index;
    float *value;
};

/* The length in bytes of a list of `count` elements of a piece of n; largest for count = n. */
size_t tsi_list_len(size_t n, size_t count);

/* Writes the nonzero elements of a piece of the flat buffer as a list; returns its length. */
size_t tsi_list_write(const struct tsi_list *list, const struct tsk_table *kernel,
                      const struct tsi_piece *piece, const float *floats, uint8_t *out);

/* Adds a list to its piece of the flat buffer; *used is its length. The bytes are untrusted. */
TERSE_CHECK terse_status tsi_list_add(const struct tsi_list *list, const struct tsk_table *kernel,
                                      const struct tsi_piece *piece, const uint8_t *bytes,
                                      size_t len, size_t *used, float *floats, terse_fault *fault);

#endif
