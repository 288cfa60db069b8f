/* What an owner makes of the sum over its slices before it encodes it for all. */
#ifndef TSI_OWNER_H
#define TSI_OWNER_H

#include <stddef.h>
#include <stdint.h>

enum tsi_owner_kind {
    TSI_OWNER_MEAN,     /* the mean itself, in place of the sum */
    TSI_OWNER_RESIDUAL, /* the mean and what earlier steps left: next = now + mean */
    TSI_OWNER_WEIGHTS,  /* its full-precision weights: next = now - mean */
};

/* State of an owner: flat buffers, of which its slices are used. A step writes `next`; a commit
 * swaps the two. */
struct tsi_owner {
    enum tsi_owner_kind kind;
    float *now;
    float *next;
};

/* Elements first .. first+count-1, whose sum over `workers` lies at `sum`. Returns 1 if all that
 * was made of it is finite, else 0. */
int tsi_owner_update(const struct tsi_owner *owner, float *sum, uint64_t first, size_t count,
                     float workers);

#endif
