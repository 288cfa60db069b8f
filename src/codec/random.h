/* Everything random is keyed by (seed, purpose, step, tensor, element, worker), never by thread,
 * lane or order of arrival. A stream is all of that but the element. */
#ifndef TSI_RANDOM_H
#define TSI_RANDOM_H

#include <terse/codec.h>

#include "kernels/kernels.h"

/* What a draw is for. The numbers are part of the wire format: never reused. */
enum tsi_purpose {
    TSI_RANDOM_BLOCK = 1,    /* where the random block starts; shared */
    TSI_RANDOM_ROUNDING = 2, /* stochastic rounding */
    TSI_RANDOM_COIN = 3,     /* the sign of an exact zero */
    TSI_RANDOM_LOW_RANK = 4, /* the first right factor; shared, always of step 0 */
    TSI_RANDOM_TIE = 5,      /* the sign of a tied vote; shared, drawn by the owner */
};

/* Workers from 0; the key holds worker + 1, and 0 stands for "shared by all". */
#define TSI_RANDOM_MAX_WORKER 0xfffffeu

static inline struct tsk_stream tsi_stream(const terse_rng_key *key, uint32_t who,
                                           enum tsi_purpose purpose, uint32_t tensor)
{
    return (struct tsk_stream){
        .key = {(uint32_t)key->seed, (uint32_t)(key->seed >> 32) ^ (uint32_t)(key->step >> 32)},
        .counter = {tensor, (uint32_t)key->step, who << 8 | (uint32_t)purpose},
    };
}

/* Numbers that all workers draw alike. */
static inline struct tsk_stream tsi_stream_shared(const terse_rng_key *key,
                                                  enum tsi_purpose purpose, uint32_t tensor)
{
    return tsi_stream(key, 0, purpose, tensor);
}

/* Numbers of this worker alone: were they shared, averaging would not reduce their variance. */
static inline struct tsk_stream tsi_stream_own(const terse_rng_key *key, enum tsi_purpose purpose,
                                               uint32_t tensor)
{
    return tsi_stream(key, key->worker + 1, purpose, tensor);
}

#endif
