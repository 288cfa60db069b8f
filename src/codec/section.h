/* Checks that every section needs. */
#ifndef TSI_SECTION_H
#define TSI_SECTION_H

#include <math.h>

#include "base/bytes.h"
#include "base/fault.h"
#include "codec/codec.h"

static inline size_t tsi_packed_len(size_t count, unsigned bits)
{
    return (size_t)(((uint64_t)count * bits + 7) / 8);
}

/* Checks that `needed` bytes are there. */
static inline terse_status tsi_section_len(size_t len, size_t needed, terse_fault *fault)
{
    if (len >= needed)
        return TERSE_OK;
    return tsi_fail(fault, TERSE_BAD_FRAME, len, "section needs %zu bytes, %zu are left", needed,
                    len);
}

/* Reads a scale or norm, which must be finite, not negative and not minus zero. */
static inline terse_status tsi_section_scale(const uint8_t *section, size_t at, float *scale,
                                             terse_fault *fault)
{
    const float value = tsi_load_f32(section + at);
    if (!isfinite(value) || signbit(value))
        return tsi_fail(fault, TERSE_BAD_FRAME, at, "scale is not finite or negative");
    *scale = value;
    return TERSE_OK;
}

/* Checks that in the last byte of a string of `bits` bits at section + at the other bits are 0. */
static inline terse_status tsi_section_padding(const uint8_t *section, size_t at, uint64_t bits,
                                               terse_fault *fault)
{
    const unsigned used = (unsigned)(bits % 8);
    const size_t last = at + (size_t)(bits / 8);
    if (used != 0 && section[last] >> used != 0)
        return tsi_fail(fault, TERSE_BAD_FRAME, last, "padding bits are not zero");
    return TERSE_OK;
}

#endif
