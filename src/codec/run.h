/* Runs of unencoded floats, for f32, block and the plain tensors of low-rank. */
#ifndef TSI_RUN_H
#define TSI_RUN_H

#include "codec/codec.h"

/* Scratch bytes for runs of at most `count` floats. */
size_t tsi_run_scratch(size_t count);

/* Copies `count` floats to `out`, and clears `take` (NULL, or `in` without its const).
 * TERSE_NOT_FINITE: a float is not finite; `take` is unchanged. */
TERSE_CHECK terse_status tsi_run_copy(const struct tsi_call *call, const float *in, float *take,
                                      size_t count, uint8_t *out);

/* out += the floats at section + at; refuses non-finite ones. */
TERSE_CHECK terse_status tsi_run_add(const struct tsi_call *call, const uint8_t *section, size_t at,
                                     size_t count, float *out, terse_fault *fault);

#endif
