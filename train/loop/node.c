#include "loop/node.h"

#include <string.h>

#include "common/fault.h"
#include "loop/worker.h"

int trn_has_nodes(const struct trn_settings *settings)
{
    return settings->node_size > 1;
}

terse_status trn_check_nodes(const struct trn_settings *settings, uint32_t workers,
                             terse_fault *fault)
{
    const uint32_t size = settings->node_size;
    if (!trn_has_nodes(settings))
        return TERSE_OK;
    if (size != TRN_NODE_AUTO && workers % size != 0)
        return com_fail(fault, TERSE_BAD_ARGUMENT,
                        "--node-size %u: %u workers are not divisible into such nodes", size,
                        workers);
    if (settings->group && !settings->split)
        return com_fail(fault, TERSE_UNSUPPORTED,
                        "--node-size: these processes cannot be split into nodes");
    if (trn_weighs_shards(settings) || strcmp(settings->adversaries, "none") != 0)
        return com_fail(fault, TERSE_BAD_ARGUMENT,
                        "--node-size: a node's gradient is a plain mean; leave out "
                        "--worker-weights and --adversaries");
    return TERSE_OK;
}

terse_status trn_nodes_of_threads(const struct trn_settings *settings, uint32_t workers,
                                  struct trn_node *const *nodes, terse_fault *fault)
{
    terse_group *handles[TERSE_MAX_LOCAL_WORKERS];
    if (!trn_has_nodes(settings))
        return TERSE_OK;
    const uint32_t size = settings->node_size == TRN_NODE_AUTO ? workers : settings->node_size;
    const uint32_t count = workers / size;
    terse_status status = terse_group_local(count, handles);
    for (uint32_t n = 0; n < count && status == TERSE_OK; n++)
        nodes[n * size]->outer = handles[n];
    for (uint32_t n = 0; n < count && status == TERSE_OK; n++) {
        status = terse_group_local(size, handles);
        for (uint32_t r = 0; r < size && status == TERSE_OK; r++)
            nodes[n * size + r]->inner = handles[r];
        if (status == TERSE_OK)
            status = terse_group_local(size, handles);
        for (uint32_t r = 0; r < size && status == TERSE_OK; r++)
            nodes[n * size + r]->means = handles[r];
    }
    return status == TERSE_OK ? TERSE_OK
                              : com_fail(fault, status, "cannot create nodes of %u workers", size);
}

/* A node is a worker: nodes of unequal size would count alike in the mean, their ranks not. */
static terse_status compare_sizes(terse_group *group, const struct trn_node *node,
                                  terse_fault *fault)
{
    uint32_t sizes[TERSE_MAX_WORKERS] = {0};
    void *recv_at[TERSE_MAX_WORKERS];
    size_t recv_len[TERSE_MAX_WORKERS];
    const uint32_t mine = terse_group_workers(node->inner);
    for (uint32_t r = 0; r < terse_group_workers(group); r++) {
        recv_at[r] = &sizes[r];
        recv_len[r] = sizeof sizes[r];
    }
    const terse_status status =
        terse_group_allgatherv(group, &mine, sizeof mine, recv_at, recv_len, fault);
    for (uint32_t r = 1; r < terse_group_workers(group) && status == TERSE_OK; r++)
        if (sizes[r] != sizes[0])
            return com_fail(fault, TERSE_BAD_ARGUMENT,
                            "--node-size auto: rank %u is in a node of %u ranks, rank 0 in one of "
                            "%u; start equally many on every machine, or leave out --node-size",
                            r, sizes[r], sizes[0]);
    return status;
}

terse_status trn_node_of_process(const struct trn_settings *settings, struct trn_node *node,
                                 terse_fault *fault)
{
    terse_group *spare = NULL;
    const uint32_t size = settings->node_size == TRN_NODE_AUTO ? 0 : settings->node_size;
    if (!trn_has_nodes(settings))
        return TERSE_OK;
    terse_status status = settings->split(size, &node->inner, &node->outer, fault);
    if (status == TERSE_OK)
        status = settings->split(size, &node->means, &spare, fault);
    terse_group_destroy(spare);
    return status == TERSE_OK ? compare_sizes(settings->group, node, fault) : status;
}

terse_status trn_node_start(struct trn_node *node, double timeout, terse_fault *fault)
{
    if (!node->inner)
        return TERSE_OK;
    terse_status status = terse_group_set_timeout(node->inner, timeout);
    if (status == TERSE_OK)
        status = terse_group_set_timeout(node->means, timeout);
    if (status == TERSE_OK)
        status = terse_group_nodes(node->inner, node->outer, &node->group, fault);
    return status == TERSE_OK ? terse_group_set_timeout(node->group, timeout) : status;
}

void trn_node_leave(struct trn_node *node)
{
    terse_group_destroy(node->group ? node->group : node->inner);
    if (!node->group)
        terse_group_destroy(node->outer);
    terse_group_destroy(node->means);
    *node = (struct trn_node){.group = NULL};
}

int trn_node_leads(const struct trn_node *node)
{
    return !node->means || terse_group_rank(node->means) == 0;
}

terse_status trn_node_mean(const struct trn_node *node, float *floats, uint64_t count,
                           float *scratch, terse_fault *fault)
{
    if (!node->means)
        return TERSE_OK;
    const float ranks = (float)terse_group_workers(node->means);
    const terse_status status =
        terse_group_allreduce(node->means, floats, (size_t)count, scratch, fault);
    for (uint64_t i = 0; i < count && status == TERSE_OK; i++)
        floats[i] /= ranks;
    return status;
}
