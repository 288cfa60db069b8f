/* Random numbers are keyed by (seed, purpose, step, tensor, element, worker), never by thread, lane
 * or order of arrival. A stream is that key without the element. */
#ifndef TSI_RANDOM_H
#define TSI_RANDOM_H

#include <terse/codec.h>

#include "kernels/kernels.h"

/* The purpose of a random number. The values are part of the wire format and never reused. */
enum tsi_purpose {
    TSI_RANDOM_BLOCK = 1,    /* the start of the random block; shared */
    TSI_RANDOM_ROUNDING = 2, /* stochastic rounding; of a worker */
    TSI_RANDOM_COIN = 3,     /* the sign of an exact zero; of a worker */
    TSI_RANDOM_LOW_RANK = 4, /* the first right factor; shared, step is always 0 */
    TSI_RANDOM_TIE = 5,      /* the sign of a tied vote; shared, drawn by the owner */
};

/* Workers count from 0; the key holds worker + 1, and 0 means "shared by all". */
#define TSI_RANDOM_MAX_WORKER 0xfffffeu

/* The stream of a purpose. A shared one has the same numbers on all workers; the others are of this
 * worker alone: if they were shared, averaging would not reduce their variance. */
static inline struct tsk_stream tsi_stream(const terse_rng_key *key, enum tsi_purpose purpose,
                                           uint32_t tensor)
{
    const int own = purpose == TSI_RANDOM_ROUNDING || purpose == TSI_RANDOM_COIN;
    const uint32_t who = own ? key->worker + 1 : 0;
    return (struct tsk_stream){
        .key = {(uint32_t)key->seed, (uint32_t)(key->seed >> 32) ^ (uint32_t)(key->step >> 32)},
        .counter = {tensor, (uint32_t)key->step, who << 8 | (uint32_t)purpose},
    };
}

#endif
