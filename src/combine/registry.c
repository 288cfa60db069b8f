/* The list of combines. */
#include "combine/combine.h"

const struct tsi_combine_ops *const tsi_combines[] = {
    &tsi_combine_reduce, &tsi_combine_gather, &tsi_combine_shard,
    &tsi_combine_vote,   &tsi_combine_server, &tsi_combine_union,
};

const size_t tsi_combine_count = sizeof tsi_combines / sizeof tsi_combines[0];
