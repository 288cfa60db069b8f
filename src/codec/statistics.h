/* Statistics of a whole piece, computed by chunk and combined in a fixed order. */
#ifndef TSI_STATISTICS_H
#define TSI_STATISTICS_H

#include "codec/codec.h"

enum tsi_statistic {
    TSI_MAX,        /* the bits of the largest magnitude, an integer */
    TSI_MAGNITUDES, /* the sum of magnitudes */
    TSI_SQUARES,    /* the sum of squares */
};

/* Bytes of scratch that the functions below need. */
size_t tsi_statistics_scratch(const struct tsi_piece *piece);

/* Of all elements of the piece at `in`. */
double tsi_magnitude_sum(const struct tsi_call *call, const float *in);
double tsi_square_sum(const struct tsi_call *call, const float *in);

/* For codecs that need one statistic before they encode: the slots prescan_len and prescan, and the
 * statistic: that of the prescan where it has read the piece, else computed here. */
size_t tsi_statistic_len(const double *option, const struct tsi_piece *piece);
int tsi_prescan_max(const struct tsi_call *call, const float *in, size_t first, size_t count);
int tsi_prescan_magnitudes(const struct tsi_call *call, const float *in, size_t first,
                           size_t count);
int tsi_prescan_squares(const struct tsi_call *call, const float *in, size_t first, size_t count);
double tsi_prescanned(const struct tsi_call *call, enum tsi_statistic which, const float *in);

/* Magnitude bits of 65520: from here on f16 rounds to infinity. */
#define TSI_F16_LIMIT 0x477ff000u

/* TERSE_NOT_FINITE or TERSE_OUT_OF_RANGE if the largest magnitude bits reach `limit`. */
terse_status tsi_within(uint32_t magnitude_bits, uint32_t limit);

/* TERSE_NOT_FINITE if an element of the piece is not finite. For codecs that would otherwise find
 * it only after they have changed the residual. */
terse_status tsi_check_finite(const struct tsi_call *call, const float *in);

#endif
