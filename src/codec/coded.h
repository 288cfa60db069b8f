/* What the grids share: quantize a tile to codes, take it, pack it; and back. A grid says how. */
#ifndef TSI_CODED_H
#define TSI_CODED_H

#include "codec/section.h"

struct tsi_grid {
    const struct tsi_call *call;
    unsigned bits;   /* per code: sign and magnitude */
    uint32_t levels; /* the largest magnitude */
    float scale;     /* what the grid makes of it: multiplied with |x|, or the largest point */
    float unit;      /* the distance of neighbours, where they are equidistant */
    const float *thresholds;
    struct tsk_stream stream;

    /* Codes of `count` elements, the first of which is number `first` of its tensor. */
    void (*codes)(const struct tsi_grid *grid, const float *in, size_t count, uint64_t first,
                  uint16_t *codes);
    /* NULL, or codes and then add with -1, in one pass. */
    void (*take)(const struct tsi_grid *grid, float *memory, size_t count, uint16_t *codes);
    /* out += sign * value, sign +1 or -1. Returns 1 if a code is not one, else 0. */
    uint32_t (*add)(const struct tsi_grid *grid, float *out, const uint16_t *codes, size_t count,
                    float sign);
};

/* Scratch bytes of tsi_codes_decode. */
size_t tsi_codes_scratch(const struct tsi_piece *piece);

/* Writes the packed codes of a piece, finite as the grid demands, to `packed`
 * (tsi_packed_len bytes), and takes what they say out of `take` unless that is NULL. */
void tsi_codes_encode(const struct tsi_grid *grid, const float *in, float *take, uint8_t *packed);

/* Makes a grid for a piece from the scale its section starts with. */
typedef struct tsi_grid tsi_grid_fn(const struct tsi_call *call, float scale);

/* A whole section of f32 scale and packed codes, as log and nearest have it. */
TERSE_CHECK terse_status tsi_scaled_decode(const struct tsi_call *call, tsi_grid_fn *grid_of,
                                           const uint8_t *section, size_t len, size_t *used,
                                           float *out, terse_fault *fault);

/* Adds what the packed codes at section + at say. */
TERSE_CHECK terse_status tsi_codes_decode(const struct tsi_grid *grid, const uint8_t *section,
                                          size_t at, float *out, terse_fault *fault);

#endif
