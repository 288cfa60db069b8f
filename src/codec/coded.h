/* The loop of all grid codecs: quantize a tile to codes, take it, pack it; and back. A tsi_grid is
 * one grid. */
#ifndef TSI_CODED_H
#define TSI_CODED_H

#include "codec/section.h"

#define TSI_OFF_GRID "a code is not on the grid"

struct tsi_grid {
    const struct tsi_call *call;
    unsigned bits;   /* per code: sign and magnitude */
    uint32_t levels; /* the largest magnitude */
    float scale;     /* a factor of |x|, or the largest point: each grid defines it */
    float unit;      /* the distance of neighbours, in uniform grids */
    const float *thresholds;
    struct tsk_stream stream;

    /* Writes the codes of `count` elements; `first` is the first one's number in its tensor. */
    void (*codes)(const struct tsi_grid *grid, const float *in, size_t count, uint64_t first,
                  uint16_t *codes);
    /* NULL, or `codes` followed by `add` with -1, in one pass. */
    void (*take)(const struct tsi_grid *grid, float *residual, size_t count, uint16_t *codes);
    /* out += sign * value, sign +1 or -1. Returns 1 if a code is not on the grid, else 0. */
    uint32_t (*add)(const struct tsi_grid *grid, float *out, const uint16_t *codes, size_t count,
                    float sign);
};

/* Writes the packed codes of a piece to `packed` (tsi_packed_len bytes), and subtracts the decoded
 * values from `take` unless that is NULL. The caller has checked the range of the piece. */
void tsi_codes_encode(const struct tsi_grid *grid, const float *in, float *take, uint8_t *packed);

/* Decodes packed codes: the slot `add_codes` of a codec with this grid. */
uint32_t tsi_codes_add(const struct tsi_grid *grid, const struct tsi_codes *codes, size_t first,
                       size_t count, float *out);

#endif
