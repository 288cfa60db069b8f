/* Exactly the k elements of a piece with the largest scores, ties to the lowest index, in one read
 * pass: a list takes every element whose score reaches a threshold; whenever it is full, counting
 * finds its k largest, the others go, and the k-th is the new threshold. A sample guesses where the
 * threshold may start, so that the list rarely fills up; a guess that was too high is tried again
 * from zero. The result does not depend on guesses, threads or kernels. */
#ifndef TSI_CHOOSE_H
#define TSI_CHOOSE_H

#include "codec/codec.h"

/* The k chosen elements, ascending. Lives in the scratch given to tsi_choose. */
struct tsi_chosen {
    uint32_t *index;
    float *value;
};

size_t tsi_choose_scratch(size_t count, size_t k, unsigned threads);

/* Lists what is shown of a piece before it is chosen from, starting a little below what was just
 * enough the last time: call->prescan_state (of tsi_choose_prescan_len bytes) remembers. Returns 0
 * while nothing is known of a last time, and for pieces that are small anyway. */
size_t tsi_choose_prescan_len(size_t count, size_t k);
int tsi_choose_prescan(const struct tsi_call *call, const float *in, size_t k, size_t first,
                       size_t count);

/* 1 <= k <= count. TERSE_NOT_FINITE if an element is not finite. */
TERSE_CHECK terse_status tsi_choose(const struct tsi_call *call, const float *in, size_t k,
                                    struct tsi_chosen *chosen);

#endif
