/* Sparse pieces as lists: u32 count, index stream, count floats. The count is the sender's to say,
 * so a list's length is known to its sender alone. */
#ifndef TSI_LIST_H
#define TSI_LIST_H

#include "codec/object.h"

/* A list that is being written or read: room for the elements of a piece, and for what
 * collect_f32 asks. */
struct tsi_list {
    uint32_t *index;
    float *value;
};

/* The length of a list of `count` elements of a piece of n; none is longer than that of all. */
size_t tsi_list_len(size_t n, size_t count);

/* Lists what is not zero in a piece of the flat buffer; returns its length. */
size_t tsi_list_write(const struct tsi_list *list, const struct tsk_table *kernel,
                      const struct tsi_piece *piece, const float *floats, uint8_t *out);

/* Adds a list to its piece of the flat buffer; *used is its length. The bytes may come from an
 * enemy. */
TERSE_CHECK terse_status tsi_list_add(const struct tsi_list *list, const struct tsk_table *kernel,
                                      const struct tsi_piece *piece, const uint8_t *bytes,
                                      size_t len, size_t *used, float *floats, terse_fault *fault);

#endif
