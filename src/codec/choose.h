/* Selects exactly the k elements of a piece with the largest scores, ties to the lowest index. */
#ifndef TSI_CHOOSE_H
#define TSI_CHOOSE_H

#include "codec/codec.h"

/* The k chosen elements, ascending. The arrays lie in the scratch given to tsi_choose. */
struct tsi_chosen {
    uint32_t *index;
    float *value;
};

size_t tsi_choose_scratch(size_t count, size_t k, unsigned threads);

/* Lists candidates while a piece is prescanned, from a threshold a little below the k-th score of
 * the last choice, which call->prescan_state (tsi_choose_prescan_len bytes) holds. Returns 0 before
 * the first choice and for small pieces, which are not prescanned. */
size_t tsi_choose_prescan_len(size_t count, size_t k);
int tsi_choose_prescan(const struct tsi_call *call, const float *in, size_t k, size_t first,
                       size_t count);

/* 1 <= k <= count. TERSE_NOT_FINITE if an element is not finite. */
TERSE_CHECK terse_status tsi_choose(const struct tsi_call *call, const float *in, size_t k,
                                    struct tsi_chosen *chosen);

#endif
