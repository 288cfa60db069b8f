/* Nodes: ranks of one machine that are one worker of the method together. They average their
 * gradients exactly, and the first of them, the leader, speaks for them (terse_group_nodes). */
#ifndef TRN_NODE_H
#define TRN_NODE_H

#include "loop/train.h"

/* The groups of one rank. Without nodes all are NULL. */
struct trn_node {
    terse_group *means; /* the ranks of this node: mean gradients, also while `inner` is in use */
    terse_group *inner; /* the same ranks: what the leader passes on; owned by `group`, if any */
    terse_group *outer; /* the leaders; NULL on other ranks; owned by `group`, if any */
    terse_group *group; /* the nodes, after trn_node_start: what the method communicates with */
};

/* Do the settings ask for nodes? TERSE_BAD_ARGUMENT, TERSE_UNSUPPORTED: they cannot be had. */
int trn_has_nodes(const struct trn_settings *settings);
TERSE_CHECK terse_status trn_check_nodes(const struct trn_settings *settings, uint32_t workers,
                                         terse_fault *fault);

/* Consecutive threads are nodes; with auto, all of them are one. */
TERSE_CHECK terse_status trn_nodes_of_threads(const struct trn_settings *settings, uint32_t workers,
                                              struct trn_node *const *nodes, terse_fault *fault);
/* The node of this process; collective. TERSE_BAD_ARGUMENT: nodes have unequal numbers of ranks. */
TERSE_CHECK terse_status trn_node_of_process(const struct trn_settings *settings,
                                             struct trn_node *node, terse_fault *fault);

/* Makes `group`, by the thread that uses it; collective over the node. */
TERSE_CHECK terse_status trn_node_start(struct trn_node *node, double timeout, terse_fault *fault);
void trn_node_leave(struct trn_node *node);

/* The rank whose state is that of the node: the leader. 1 on every rank without nodes. */
int trn_node_leads(const struct trn_node *node);

/* Floats become their mean over the ranks of the node, added in rank order; collective over the
 * node. Without nodes they stay. `scratch` is that of an all-reduce of all ranks. */
TERSE_CHECK terse_status trn_node_mean(const struct trn_node *node, float *floats, uint64_t count,
                                       float *scratch, terse_fault *fault);

#endif
