/* Fewer points for the same picture: the least and the greatest value of every stretch stay. */
#ifndef REPORT_DECIMATE_H
#define REPORT_DECIMATE_H

#include <stddef.h>

/* Writes to `keep` (`limit` entries, at least 4) the indices of at most `limit` of the `count`
 * values, ascending: the first, the last, and the extremes of equal stretches between. NaN stays
 * only if a stretch has nothing else. Returns their number. */
size_t rep_decimate(const double *values, size_t count, size_t limit, size_t *keep);

#endif
