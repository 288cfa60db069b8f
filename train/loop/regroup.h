/* The state of a method for another number of workers than it was saved with.
 *
 * An aggregate is a mean over the workers, so what is outstanding is the mean of their residuals:
 * it must not change. Every new worker gets that mean, and the means of the moments. Means are
 * weighted where the workers are. */
#ifndef TRN_REGROUP_H
#define TRN_REGROUP_H

#include <terse/terse.h>

/* Writes `len` bytes of a part of this kind for any new worker. `old` has the part of every old
 * worker, `old_workers` >= 1 of them, and `weight` their weights; NULL: all are equal. A hint is
 * left as it is. */
void trn_regroup(terse_state_kind kind, const void *const *old, const double *weight,
                 uint32_t old_workers, void *out, size_t len);

#endif
