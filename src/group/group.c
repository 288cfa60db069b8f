#include "group/group.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "base/fault.h"

static const uint64_t second = 1000000000u; /* in nanoseconds */

/* ---- handles ---- */

terse_status terse_group_callbacks(const terse_group_ops *ops, void *context, uint32_t rank,
                                   uint32_t workers, terse_group **out)
{
    if (!ops || ops->size < sizeof *ops || !ops->post || !ops->test || !ops->wait || !out ||
        workers == 0 || workers > TERSE_MAX_WORKERS || rank >= workers)
        return TERSE_BAD_ARGUMENT;
    const size_t alltoallv_len = 2 * sizeof(void *) + 2 * sizeof(size_t);
    const size_t bytes_len = 1 + (size_t)TERSE_MAX_REQUESTS * workers;
    terse_group *const group = calloc(1, sizeof *group + workers * alltoallv_len + bytes_len);
    if (!group)
        return TERSE_NO_MEMORY;
    group->ops = *ops;
    group->context = context;
    group->rank = rank;
    group->workers = workers;
    group->in_process = workers == 1;
    group->timeout = 60 * second;
    group->free_count = TERSE_MAX_REQUESTS;
    for (uint32_t i = 0; i < TERSE_MAX_REQUESTS; i++)
        group->free_slots[i] = TERSE_MAX_REQUESTS - 1 - i;
    /* The arrays lie behind the struct, the bytes last. */
    group->send_at = (void *)(group + 1);
    group->recv_at = (void *)(group->send_at + workers);
    group->send_len = (void *)(group->recv_at + workers);
    group->recv_len = group->send_len + workers;
    group->bytes = (void *)(group->recv_len + workers);
    *out = group;
    return TERSE_OK;
}

void tsi_group_reserve(terse_group *group, size_t len)
{
    group->longest = len > group->longest ? len : group->longest;
}

void terse_group_destroy(terse_group *group)
{
    if (!group)
        return;
    const int in_flight = group->free_count < TERSE_MAX_REQUESTS;
    if (in_flight && !group->dead && group->ops.abandon)
        group->ops.abandon(group->context);
    if (group->ops.destroy)
        group->ops.destroy(group->context);
    free(group);
}

uint32_t terse_group_rank(const terse_group *group)
{
    return group->rank;
}

uint32_t terse_group_workers(const terse_group *group)
{
    return group->workers;
}

terse_status terse_group_set_timeout(terse_group *group, double seconds)
{
    if (!group || !(seconds >= 0.001 && seconds <= 1e9))
        return TERSE_BAD_ARGUMENT;
    group->timeout = (uint64_t)ceil(seconds * (double)second);
    return TERSE_OK;
}

void terse_group_traffic(const terse_group *group, uint64_t *sent, uint64_t *received)
{
    if (sent)
        *sent = group->sent;
    if (received)
        *received = group->received;
}

/* ---- failure ---- */

terse_status tsi_group_usable(const terse_group *group, const terse_request *request,
                              terse_fault *fault)
{
    if (!group)
        return tsi_fail(fault, TERSE_BAD_ARGUMENT, 0, "group is NULL");
    if (group->dead) {
        (void)tsi_fail(fault, TERSE_PEER_LOST, 0, "the group is dead: %.200s", group->cause.text);
        if (fault)
            fault->rank = group->cause.rank;
        return TERSE_PEER_LOST;
    }
    if (request && (request->slot >= TERSE_MAX_REQUESTS || !group->slots[request->slot].in_flight ||
                    group->slots[request->slot].generation != request->generation))
        return tsi_fail(fault, TERSE_BAD_ARGUMENT, 0,
                        "the request is not in flight: done already, or never posted");
    return TERSE_OK;
}

static void explain(terse_group *group, terse_status status, int32_t rank)
{
    const char *const why = group->ops.explain ? group->ops.explain(group->context) : NULL;
    char who[32] = "a worker";
    terse_fault *const cause = &group->cause;
    if (rank >= 0) {
        (void)tsi_fail(cause, status, 0, "rank %d", (int)rank);
        memcpy(who, cause->text, sizeof who);
    }
    if (why)
        (void)tsi_fail(cause, status, 0, "%s: %.180s", who, why);
    else if (status == TERSE_TIMEOUT)
        (void)tsi_fail(cause, status, 0, "%s: no message within the timeout of %g s", who,
                       (double)group->timeout / (double)second);
    else if (status == TERSE_MISMATCH)
        (void)tsi_fail(cause, status, 0, "%s: message lengths of sender and receiver differ", who);
    else
        (void)tsi_fail(cause, status, 0, "%s: left the group or cannot be reached", who);
    cause->rank = rank;
}

/* Handles a failure of the engine. TERSE_UNSUPPORTED and TERSE_NO_MEMORY refuse one call (from the
 * wrong thread, for example) and change nothing; any other status ends the group. */
static terse_status failed(terse_group *group, terse_status status, int32_t rank,
                           terse_fault *fault)
{
    if (status == TERSE_UNSUPPORTED || status == TERSE_NO_MEMORY) {
        const char *const why = group->ops.explain ? group->ops.explain(group->context) : NULL;
        return tsi_fail(fault, status, 0, "%.200s", why ? why : terse_status_text(status));
    }
    if (status != TERSE_TIMEOUT && status != TERSE_MISMATCH)
        status = TERSE_PEER_LOST;
    if (rank >= (int32_t)group->workers || rank < 0)
        rank = -1;
    explain(group, status, rank);
    group->dead = 1;
    if (group->ops.abandon)
        group->ops.abandon(group->context);
    if (fault)
        *fault = group->cause;
    return status;
}

/* ---- post ---- */

terse_status tsi_group_post(terse_group *group, terse_request *out, terse_fault *fault)
{
    const uint32_t me = group->rank;
    terse_status status = tsi_group_usable(group, NULL, fault);
    if (status)
        return status;
    for (uint32_t r = 0; r < group->workers; r++)
        if ((group->send_len[r] && !group->send_at[r]) ||
            (group->recv_len[r] && !group->recv_at[r]))
            return tsi_fail(fault, TERSE_BAD_ARGUMENT, 0, "alltoallv: no address for rank %u",
                            (unsigned)r);
    if (group->send_len[me] != group->recv_len[me])
        return tsi_fail(fault, TERSE_BAD_ARGUMENT, 0,
                        "alltoallv: rank %u sends itself %zu bytes and receives %zu", (unsigned)me,
                        group->send_len[me], group->recv_len[me]);
    if (group->free_count == 0)
        return tsi_fail(fault, TERSE_BAD_ARGUMENT, 0,
                        "all %u requests are in flight; wait for one first",
                        (unsigned)TERSE_MAX_REQUESTS);
    if (group->send_len[me] && group->recv_at[me] != group->send_at[me])
        memmove(group->recv_at[me], group->send_at[me], group->send_len[me]);
    group->send_len[me] = 0;
    group->recv_len[me] = 0;

    const terse_alltoallv alltoallv = {group->send_at, group->send_len, group->recv_at,
                                       group->recv_len};
    const uint32_t slot = group->free_slots[group->free_count - 1];
    int32_t rank = -1;
    status = group->ops.post(group->context, slot, &alltoallv, &rank);
    if (status)
        return failed(group, status, rank, fault);
    struct request_slot *const request = &group->slots[slot];
    group->free_count--;
    request->in_flight = 1;
    request->arrived = 0;
    request->generation++;
    request->received = 0;
    for (uint32_t r = 0; r < group->workers; r++) {
        group->sent += group->send_len[r];
        request->received += group->recv_len[r];
    }
    *out = (terse_request){slot, request->generation};
    return TERSE_OK;
}

/* ---- test and wait ---- */

static void finish(terse_group *group, uint32_t slot)
{
    group->received += group->slots[slot].received;
    group->slots[slot].in_flight = 0;
    group->free_slots[group->free_count++] = slot;
}

terse_status tsi_group_arrived(terse_group *group, terse_request request, int *arrived,
                               terse_fault *fault)
{
    terse_status status = tsi_group_usable(group, &request, fault);
    if (status)
        return status;
    struct request_slot *const slot = &group->slots[request.slot];
    int32_t rank = -1;
    if (!slot->arrived)
        status = group->ops.test(group->context, request.slot, &slot->arrived, &rank);
    if (status)
        return failed(group, status, rank, fault);
    *arrived = slot->arrived != 0;
    return TERSE_OK;
}

terse_status terse_group_test(terse_group *group, terse_request request, int *done,
                              terse_fault *fault)
{
    int arrived = 0;
    const terse_status status =
        done ? tsi_group_arrived(group, request, &arrived, fault) : TERSE_BAD_ARGUMENT;
    if (status)
        return status;
    *done = arrived;
    if (arrived)
        finish(group, request.slot);
    return TERSE_OK;
}

terse_status terse_group_wait(terse_group *group, terse_request request, terse_fault *fault)
{
    terse_status status = tsi_group_usable(group, &request, fault);
    if (status)
        return status;
    int32_t rank = -1;
    if (!group->slots[request.slot].arrived)
        status = group->ops.wait(group->context, request.slot, group->timeout, &rank);
    if (status)
        return failed(group, status, rank, fault);
    finish(group, request.slot);
    return TERSE_OK;
}

/* ---- collectives, each an all-to-all with some of its messages empty ---- */

terse_status terse_group_post_alltoallv(terse_group *group, const terse_alltoallv *alltoallv,
                                        terse_request *out, terse_fault *fault)
{
    if (!group || !out || !alltoallv || !alltoallv->send_at || !alltoallv->send_len ||
        !alltoallv->recv_at || !alltoallv->recv_len)
        return tsi_fail(fault, TERSE_BAD_ARGUMENT, 0,
                        "alltoallv: the group, an array or out is NULL");
    const size_t workers = group->workers;
    memcpy(group->send_at, alltoallv->send_at, workers * sizeof *group->send_at);
    memcpy(group->send_len, alltoallv->send_len, workers * sizeof *group->send_len);
    memcpy(group->recv_at, alltoallv->recv_at, workers * sizeof *group->recv_at);
    memcpy(group->recv_len, alltoallv->recv_len, workers * sizeof *group->recv_len);
    return tsi_group_post(group, out, fault);
}

terse_status terse_group_post_allgatherv(terse_group *group, const void *send, size_t send_len,
                                         void *const *recv_at, const size_t *recv_len,
                                         terse_request *out, terse_fault *fault)
{
    if (!group || !out || !recv_at || !recv_len)
        return tsi_fail(fault, TERSE_BAD_ARGUMENT, 0,
                        "allgatherv: the group, an array or out is NULL");
    for (uint32_t r = 0; r < group->workers; r++) {
        group->send_at[r] = send;
        group->send_len[r] = send_len;
        group->recv_at[r] = recv_at[r];
        group->recv_len[r] = recv_len[r];
    }
    return tsi_group_post(group, out, fault);
}

terse_status terse_group_post_broadcast(terse_group *group, uint32_t root, void *bytes, size_t len,
                                        terse_request *out, terse_fault *fault)
{
    if (!group || !out || root >= group->workers || (len && !bytes))
        return tsi_fail(fault, TERSE_BAD_ARGUMENT, 0,
                        "broadcast: no rank %u, or the group, the buffer or out is NULL",
                        (unsigned)root);
    for (uint32_t r = 0; r < group->workers; r++) {
        const int sends = group->rank == root && r != root;
        const int receives = group->rank != root && r == root;
        group->send_at[r] = group->recv_at[r] = bytes;
        group->send_len[r] = sends ? len : 0;
        group->recv_len[r] = receives ? len : 0;
    }
    return tsi_group_post(group, out, fault);
}

terse_status terse_group_post_barrier(terse_group *group, terse_request *out, terse_fault *fault)
{
    if (!group || !out)
        return tsi_fail(fault, TERSE_BAD_ARGUMENT, 0, "barrier: the group or out is NULL");
    /* The slot that tsi_group_post will use, if one is free; each slot has bytes of its own. */
    const uint32_t slot = group->free_count > 0 ? group->free_slots[group->free_count - 1] : 0;
    uint8_t *const received = group->bytes + 1 + (size_t)slot * group->workers;
    for (uint32_t r = 0; r < group->workers; r++) {
        group->send_at[r] = group->bytes;
        group->recv_at[r] = received + r;
        group->send_len[r] = group->recv_len[r] = r != group->rank;
    }
    return tsi_group_post(group, out, fault);
}

/* ---- blocking collectives ---- */

static terse_status then_wait(terse_group *group, terse_status posted, const terse_request *request,
                              terse_fault *fault)
{
    return posted ? posted : terse_group_wait(group, *request, fault);
}

terse_status terse_group_alltoallv(terse_group *group, const terse_alltoallv *alltoallv,
                                   terse_fault *fault)
{
    terse_request request = {0};
    const terse_status posted = terse_group_post_alltoallv(group, alltoallv, &request, fault);
    return then_wait(group, posted, &request, fault);
}

terse_status terse_group_allgatherv(terse_group *group, const void *send, size_t send_len,
                                    void *const *recv_at, const size_t *recv_len,
                                    terse_fault *fault)
{
    terse_request request = {0};
    const terse_status posted =
        terse_group_post_allgatherv(group, send, send_len, recv_at, recv_len, &request, fault);
    return then_wait(group, posted, &request, fault);
}

terse_status terse_group_broadcast(terse_group *group, uint32_t root, void *bytes, size_t len,
                                   terse_fault *fault)
{
    terse_request request = {0};
    const terse_status posted =
        terse_group_post_broadcast(group, root, bytes, len, &request, fault);
    return then_wait(group, posted, &request, fault);
}

terse_status terse_group_barrier(terse_group *group, terse_fault *fault)
{
    terse_request request = {0};
    const terse_status posted = terse_group_post_barrier(group, &request, fault);
    return then_wait(group, posted, &request, fault);
}
