/* Inside view of a layout: its tensors as pieces, and its canonical description in bytes. */
#ifndef TSI_LAYOUT_H
#define TSI_LAYOUT_H

#include <terse/layout.h>

/* A run of elements of one tensor: what a codec works on. Today every piece is a whole tensor. */
struct tsi_piece {
    uint32_t tensor; /* its number in the layout: keys the draws */
    uint64_t first;  /* of the run inside the tensor: keys the draws, a multiple of 2048 */
    uint64_t offset; /* of the run in the flat buffer */
    size_t count;    /* elements */
    size_t rows;     /* as a matrix: dims[0] x the rest; rows = count, cols = 1 for a vector */
    size_t cols;
    int plain;   /* said as f32, whatever the codec */
    size_t slot; /* among all slices of all tensors: tensor * workers + slice */
};

struct tsi_piece tsi_layout_piece(const terse_layout *layout, uint32_t tensor);

TERSE_CHECK terse_status tsi_layout_copy(const terse_layout *layout, terse_layout **out);

/* The canonical description (docs/wire-format.md, section "Layout"): what the hash is taken over.
 */
size_t tsi_layout_len(const terse_layout *layout);
void tsi_layout_write(const terse_layout *layout, uint8_t *out); /* tsi_layout_len bytes */

/* Checks a description without allocating anything: every rule that tsi_layout_read has. `count`
 * (elements in all) may be NULL. Fault offsets count from `bytes`. */
TERSE_CHECK terse_status tsi_layout_check(const uint8_t *bytes, size_t len, uint64_t *count,
                                          terse_fault *fault);
TERSE_CHECK terse_status tsi_layout_read(const uint8_t *bytes, size_t len, terse_layout **out,
                                         terse_fault *fault);

#endif
