/* The internal interface of a layout: its tensors as pieces, and its canonical description. */
#ifndef TSI_LAYOUT_H
#define TSI_LAYOUT_H

#include <terse/layout.h>

/* A run of elements of one tensor, the unit of encoding: a whole tensor, or a slice of one. */
struct tsi_piece {
    uint32_t tensor; /* its number in the layout, a part of the random key */
    uint64_t
        first; /* first element, counted in the tensor; a multiple of 2048; keys random numbers */
    uint64_t offset; /* first element, counted in the flat buffer */
    size_t count;    /* elements */
    size_t rows;     /* as a matrix: dims[0] x the rest; a vector has rows = count, cols = 1 */
    size_t cols;
    int plain;   /* 1: encoded as f32 by every codec */
    size_t slot; /* its number among the slices of all tensors: tensor * workers + slice */
};

struct tsi_piece tsi_layout_piece(const terse_layout *layout, uint32_t tensor);

TERSE_CHECK terse_status tsi_layout_copy(const terse_layout *layout, terse_layout **out);

/* The canonical description (docs/wire-format.md, section "Layout"), the input of the hash. */
size_t tsi_layout_len(const terse_layout *layout);
void tsi_layout_write(const terse_layout *layout, uint8_t *out); /* tsi_layout_len bytes */

/* tsi_layout_check applies every rule of tsi_layout_read and allocates nothing. `count` (total
 * elements) may be NULL. Fault offsets count from `bytes`. */
TERSE_CHECK terse_status tsi_layout_check(const uint8_t *bytes, size_t len, uint64_t *count,
                                          terse_fault *fault);
TERSE_CHECK terse_status tsi_layout_read(const uint8_t *bytes, size_t len, terse_layout **out,
                                         terse_fault *fault);

#endif
