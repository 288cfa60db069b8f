/* Sharding by class: which worker owns which example, fixed for a run. */
#ifndef TRN_SHARD_H
#define TRN_SHARD_H

#include "data/object.h"
#include "data/order.h"

/* Writes the example numbers of `worker` to `own`, which holds trn_shard_size of them. */
TERSE_CHECK terse_status trn_shard_by_class(const struct trn_examples *train, uint32_t classes,
                                            const struct trn_order_options *options,
                                            uint32_t worker, uint32_t *own, terse_fault *fault);

/* The first of `count` examples that belongs to `worker` when parts are as equal as can be. */
static inline uint32_t trn_shard_start(uint32_t count, uint32_t workers, uint32_t worker)
{
    return (uint32_t)((uint64_t)count * worker / workers);
}

static inline uint32_t trn_shard_size(uint32_t count, uint32_t workers, uint32_t worker)
{
    return trn_shard_start(count, workers, worker + 1) - trn_shard_start(count, workers, worker);
}

#endif
