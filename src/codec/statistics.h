/* Statistics of a whole piece, computed by chunk and combined in a fixed order. */
#ifndef TSI_STATISTICS_H
#define TSI_STATISTICS_H

#include "codec/codec.h"

/* Bytes of scratch that the functions below need. */
size_t tsi_statistics_scratch(const struct tsi_piece *piece);

uint32_t tsi_magnitude_max(const struct tsi_call *call, const float *in); /* magnitude bits */
double tsi_magnitude_sum(const struct tsi_call *call, const float *in);
double tsi_square_sum(const struct tsi_call *call, const float *in);

/* Magnitude bits of 65520: from here on f16 rounds to infinity. */
#define TSI_F16_LIMIT 0x477ff000u

/* TERSE_NOT_FINITE or TERSE_OUT_OF_RANGE if the largest magnitude bits reach `limit`. */
terse_status tsi_within(uint32_t magnitude_bits, uint32_t limit);

/* tsi_within for a whole piece. For codecs that would otherwise find the value only after they have
 * changed the residual. */
terse_status tsi_check(const struct tsi_call *call, const float *in, uint32_t limit);

#endif
