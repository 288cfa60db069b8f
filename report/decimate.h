/* Fewer points that look the same: the least and the greatest value of every stretch stay. */
#ifndef REPORT_DECIMATE_H
#define REPORT_DECIMATE_H

#include <stddef.h>

/* Writes into `keep` (room for `limit`, at least 4) the indices of at most `limit` of the `count`
 * values, ascending: the first, the last, and the extremes of equal stretches between. NaN stays
 * only where a stretch holds nothing else. Returns how many. */
size_t rep_decimate(const double *values, size_t count, size_t limit, size_t *keep);

#endif
