/* What codecs with one code per element share: opening a section, and the loops that quantize, take
 * and pack a tile of codes, and back. */
#ifndef TSI_CODES_H
#define TSI_CODES_H

#include "codec/section.h"

#define TSI_OFF_GRID "a code is not on the grid"

/* The slot `open_codes` of sections of `bits` per element: with `scaled` behind an f32 scale, else
 * without a header. */
TERSE_CHECK terse_status tsi_codes_open(const struct tsi_call *call, int scaled, unsigned bits,
                                        const uint8_t *section, size_t len, struct tsi_codes *out,
                                        terse_fault *fault);

/* A grid to quantize to. Its codes are a sign and a magnitude of bits - 1 bits. */
struct tsi_grid {
    const struct tsi_call *call;
    unsigned bits;
    uint32_t levels; /* the largest magnitude */
    float scale;     /* a factor of |x|, or the largest point: each grid defines it */
    float unit;      /* the distance of neighbours, in uniform grids */
    const float *thresholds;
    struct tsk_stream stream;

    /* Writes the codes of `count` elements at `in` and, unless `take` is NULL, subtracts their
     * values there; `first` is the first one's number in its tensor. */
    void (*quantize)(const struct tsi_grid *grid, const float *in, float *take, size_t count,
                     uint64_t first, uint16_t *codes);
};

/* Writes the packed codes of a piece to `packed` (tsi_packed_len bytes), and subtracts the decoded
 * values from `take` unless that is NULL. The caller has checked the range of the piece. */
void tsi_codes_encode(const struct tsi_grid *grid, const float *in, float *take, uint8_t *packed);

/* The slot `add_codes` of a grid: out += factor * point for each code, by a kernel that returns 1
 * if a code is not on the grid. */
typedef uint32_t tsi_add_fn(float *out, const uint16_t *codes, size_t count, uint32_t levels,
                            unsigned mag_bits, float factor);
uint32_t tsi_codes_add(const struct tsi_call *call, const struct tsi_codes *codes, tsi_add_fn *add,
                       uint32_t levels, float factor, size_t first, size_t count, float *out);

#endif
