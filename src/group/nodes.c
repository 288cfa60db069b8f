/* A group of nodes: the ranks of a node together are one worker. All of them post the same
 * all-to-alls with the same bytes to send. The leader posts each on the outer group and passes what
 * it received on to the others; they post nothing outside.
 *
 * What is passed on is one message per all-to-all on the inner group, in the order of posting,
 * which is the same on all ranks of a node: the status of the outer all-to-all, the rank at fault,
 * then the bytes from all nodes one after the other. So one that fails is told to the whole node.
 */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/fault.h"
#include "group/group.h"

struct head {
    int32_t status;
    int32_t rank;
};

struct operation {
    terse_request outside; /* the leader's */
    terse_request inside;
    int passed; /* 1: `inside` is posted, and is still to be waited for */
    int done;   /* 1: the bytes from all nodes are where they belong */
    unsigned char *staging;
    size_t cap; /* of the staging */
    size_t len; /* of what is passed on */
    void **recv_at;
    size_t *recv_len;
};

struct nodes {
    terse_group *inner;
    terse_group *outer; /* NULL: this rank is not the leader */
    terse_group *itself;
    uint32_t workers;                   /* nodes */
    uint32_t queue[TERSE_MAX_REQUESTS]; /* slots in the order of posting, a ring */
    uint64_t posted;
    uint64_t completed; /* the leader's: passed on */
    struct operation operation[TERSE_MAX_REQUESTS];
    terse_fault why;
};

/* ---- one all-to-all ---- */

/* Room for its arrays and for `len` bytes to pass on, or as many as there may ever be: once for a
 * slot, whatever lengths follow. 0 without memory. */
static int reserve(const struct nodes *nodes, struct operation *operation, size_t len)
{
    const size_t longest = sizeof(struct head) + nodes->itself->longest;
    len = len > longest ? len : longest;
    if (!operation->recv_at)
        operation->recv_at = calloc(nodes->workers, sizeof *operation->recv_at);
    if (!operation->recv_len)
        operation->recv_len = calloc(nodes->workers, sizeof *operation->recv_len);
    if (operation->cap < len) {
        free(operation->staging);
        operation->staging = malloc(len);
        operation->cap = operation->staging ? len : 0;
    }
    return operation->recv_at && operation->recv_len && operation->cap >= len;
}

/* Copies between the staging and where the bytes of each node belong. */
static void move(const struct nodes *nodes, const struct operation *operation, int pack)
{
    unsigned char *at = operation->staging + sizeof(struct head);
    for (uint32_t r = 0; r < nodes->workers; r++) {
        const size_t len = operation->recv_len[r];
        if (len > 0 && pack)
            memcpy(at, operation->recv_at[r], len);
        else if (len > 0)
            memcpy(operation->recv_at[r], at, len);
        at += len;
    }
}

/* A failure inside the node: who it is has no number in this group. */
static terse_status failed_inside(struct nodes *nodes, terse_status status)
{
    char text[sizeof nodes->why.text];
    memcpy(text, nodes->why.text, sizeof text);
    (void)tsi_fail(&nodes->why, status, 0, "in this node: %.180s", text);
    return status;
}

static terse_status pass_on(struct nodes *nodes, struct operation *operation, terse_status outside,
                            int32_t rank)
{
    const struct head head = {outside, rank};
    memcpy(operation->staging, &head, sizeof head);
    if (outside == TERSE_OK)
        move(nodes, operation, 1);
    const terse_status status = terse_group_post_broadcast(
        nodes->inner, 0, operation->staging, operation->len, &operation->inside, &nodes->why);
    operation->passed = status == TERSE_OK;
    operation->done = 1;
    return status == TERSE_OK ? TERSE_OK : failed_inside(nodes, status);
}

/* Waits until what was passed on has reached the node: the slot can be used again then. */
static terse_status settle(struct nodes *nodes, struct operation *operation)
{
    if (!operation->passed)
        return TERSE_OK;
    operation->passed = 0;
    const terse_status status = terse_group_wait(nodes->inner, operation->inside, &nodes->why);
    return status == TERSE_OK ? TERSE_OK : failed_inside(nodes, status);
}

/* ---- the leader ---- */

/* Completes all-to-alls in the order of posting: without `wait`, as long as they have arrived; with
 * it, up to that in `slot`. Earlier ones arrive as surely as that one: every node posts them
 * before it. */
static terse_status lead(struct nodes *nodes, uint32_t slot, int wait, int32_t *rank)
{
    while (nodes->completed < nodes->posted && !(wait && nodes->operation[slot].done)) {
        struct operation *const operation =
            &nodes->operation[nodes->queue[nodes->completed % TERSE_MAX_REQUESTS]];
        int done = 1;
        nodes->why.rank = -1;
        const terse_status outside =
            wait ? terse_group_wait(nodes->outer, operation->outside, &nodes->why)
                 : terse_group_test(nodes->outer, operation->outside, &done, &nodes->why);
        *rank = nodes->why.rank;
        if (outside == TERSE_OK && !done)
            return TERSE_OK;
        const terse_fault why = nodes->why;
        nodes->completed++;
        const terse_status inside = pass_on(nodes, operation, outside, *rank);
        if (outside != TERSE_OK)
            nodes->why = why;
        if (outside != TERSE_OK || inside != TERSE_OK)
            return outside != TERSE_OK ? outside : inside;
    }
    return TERSE_OK;
}

/* ---- the others ---- */

static terse_status follow(struct nodes *nodes, uint32_t slot, int wait, int32_t *rank)
{
    struct operation *const operation = &nodes->operation[slot];
    struct head head;
    int done = 1;
    if (operation->done)
        return TERSE_OK;
    terse_status status =
        wait ? terse_group_wait(nodes->inner, operation->inside, &nodes->why)
             : terse_group_test(nodes->inner, operation->inside, &done, &nodes->why);
    if (status != TERSE_OK)
        return failed_inside(nodes, status);
    if (!done)
        return TERSE_OK;
    operation->done = 1;
    memcpy(&head, operation->staging, sizeof head);
    if (head.status == TERSE_OK) {
        move(nodes, operation, 0);
        return TERSE_OK;
    }
    *rank = head.rank;
    status = (terse_status)head.status;
    (void)tsi_fail(&nodes->why, status, 0, "%s, as the leader of this node says",
                   terse_status_text(status));
    return status;
}

/* ---- the engine ---- */

static terse_status nodes_post(void *context, uint32_t slot, const terse_alltoallv *alltoallv,
                               int32_t *rank)
{
    struct nodes *const nodes = context;
    struct operation *const operation = &nodes->operation[slot];
    size_t len = sizeof(struct head);
    terse_status status = settle(nodes, operation);
    for (uint32_t r = 0; r < nodes->workers; r++)
        len += alltoallv->recv_len[r];
    if (status == TERSE_OK && !reserve(nodes, operation, len))
        status = TERSE_NO_MEMORY;
    if (status != TERSE_OK)
        return status;
    memcpy(operation->recv_at, alltoallv->recv_at, nodes->workers * sizeof *operation->recv_at);
    memcpy(operation->recv_len, alltoallv->recv_len, nodes->workers * sizeof *operation->recv_len);
    operation->len = len;
    operation->done = 0;
    nodes->why.rank = -1;
    if (!nodes->outer) {
        status = terse_group_post_broadcast(nodes->inner, 0, operation->staging, len,
                                            &operation->inside, &nodes->why);
        return status == TERSE_OK ? TERSE_OK : failed_inside(nodes, status);
    }
    status = terse_group_post_alltoallv(nodes->outer, alltoallv, &operation->outside, &nodes->why);
    *rank = nodes->why.rank;
    if (status != TERSE_UNSUPPORTED && status != TERSE_NO_MEMORY) /* else nothing has happened */
        nodes->queue[nodes->posted++ % TERSE_MAX_REQUESTS] = slot;
    return status;
}

static terse_status nodes_test(void *context, uint32_t slot, int *done, int32_t *rank)
{
    struct nodes *const nodes = context;
    const terse_status status =
        nodes->outer ? lead(nodes, slot, 0, rank) : follow(nodes, slot, 0, rank);
    *done = status == TERSE_OK && nodes->operation[slot].done;
    return status;
}

static terse_status nodes_wait(void *context, uint32_t slot, uint64_t nanoseconds, int32_t *rank)
{
    struct nodes *const nodes = context;
    const double seconds = (double)nanoseconds * 1e-9;
    const terse_status status =
        terse_group_set_timeout(nodes->outer ? nodes->outer : nodes->inner, seconds);
    if (status != TERSE_OK)
        return status;
    return nodes->outer ? lead(nodes, slot, 1, rank) : follow(nodes, slot, 1, rank);
}

/* The group has failed: the leader tells the others, who wait for all that was posted, and stays
 * until they know. */
static void nodes_abandon(void *context)
{
    struct nodes *const nodes = context;
    const terse_fault why = nodes->why;
    while (nodes->completed < nodes->posted) {
        const uint32_t slot = nodes->queue[nodes->completed++ % TERSE_MAX_REQUESTS];
        (void)!pass_on(nodes, &nodes->operation[slot], TERSE_PEER_LOST, why.rank);
    }
    for (uint32_t slot = 0; slot < TERSE_MAX_REQUESTS; slot++)
        (void)!settle(nodes, &nodes->operation[slot]);
    nodes->why = why;
}

static const char *nodes_explain(void *context)
{
    const struct nodes *const nodes = context;
    return nodes->why.text[0] != '\0' ? nodes->why.text : NULL;
}

/* What was passed on last may still be on its way to the node. The groups end before the staging
 * that their messages lie in. */
static void nodes_destroy(void *context)
{
    struct nodes *const nodes = context;
    for (uint32_t slot = 0; slot < TERSE_MAX_REQUESTS; slot++)
        (void)!settle(nodes, &nodes->operation[slot]);
    terse_group_destroy(nodes->inner);
    terse_group_destroy(nodes->outer);
    for (uint32_t slot = 0; slot < TERSE_MAX_REQUESTS; slot++) {
        free(nodes->operation[slot].staging);
        free(nodes->operation[slot].recv_at);
        free(nodes->operation[slot].recv_len);
    }
    free(nodes);
}

terse_status terse_group_nodes(terse_group *inner, terse_group *outer, terse_group **out,
                               terse_fault *fault)
{
    static const terse_group_ops ops = {.size = sizeof ops,
                                        .post = nodes_post,
                                        .test = nodes_test,
                                        .wait = nodes_wait,
                                        .abandon = nodes_abandon,
                                        .destroy = nodes_destroy,
                                        .explain = nodes_explain};
    if (!inner || !out)
        return tsi_fail(fault, TERSE_BAD_ARGUMENT, 0, "inner or out is NULL");
    if ((terse_group_rank(inner) == 0) != (outer != NULL))
        return tsi_fail(fault, TERSE_BAD_ARGUMENT, 0,
                        "rank %u of a node: the leader, rank 0, gives the outer group, and nobody "
                        "else does",
                        terse_group_rank(inner));
    uint32_t place[2] = {0, 0}; /* rank and workers */
    if (outer) {
        place[0] = terse_group_rank(outer);
        place[1] = terse_group_workers(outer);
    }
    terse_status status = terse_group_broadcast(inner, 0, place, sizeof place, fault);
    if (status != TERSE_OK)
        return status;
    struct nodes *const nodes = calloc(1, sizeof *nodes);
    if (!nodes)
        return tsi_fail(fault, TERSE_NO_MEMORY, 0, "out of memory");
    nodes->inner = inner;
    nodes->outer = outer;
    nodes->workers = place[1];
    status = terse_group_callbacks(&ops, nodes, place[0], place[1], &nodes->itself);
    if (status != TERSE_OK) {
        free(nodes);
        return tsi_fail(fault, status, 0, "node %u of %u: no group", place[0], place[1]);
    }
    *out = nodes->itself;
    return TERSE_OK;
}
