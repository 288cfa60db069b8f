/* Clipping the elements of a gradient (TernGrad): what lies far out would make the one scale of a
 * tensor, and with it the noise of all its elements, large. */
#ifndef TSI_CLIP_H
#define TSI_CLIP_H

#include <stddef.h>

/* Writes `in` to `out`, which may be the same buffer: magnitudes above sigma standard deviations of
 * these elements become that large. The deviation is about the mean, over n. Elements that are all
 * the same have none, and are left as they are; so are those of which one is not finite. The
 * result has the same bits for any number of threads. */
void tsi_clip_elements(const float *in, float *out, size_t count, double sigma, unsigned threads);

#endif
