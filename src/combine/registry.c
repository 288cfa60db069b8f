/* The list of combines. */
#include "combine/combine.h"

const struct tsi_combine_ops *const tsi_combines[] = {
    &tsi_combine_allreduce, &tsi_combine_allgather,        &tsi_combine_shard,
    &tsi_combine_vote,      &tsi_combine_parameter_server, &tsi_combine_sparse_allreduce,
    &tsi_combine_median,
};

const size_t tsi_combine_count = sizeof tsi_combines / sizeof tsi_combines[0];

const char *terse_combine_name(uint32_t index)
{
    return index < tsi_combine_count ? tsi_combines[index]->name : NULL;
}
