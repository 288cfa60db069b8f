/* The collectives, each an all-to-all with some of its parts empty. */
#include <string.h>

#include "base/fault.h"
#include "group/group.h"

terse_status terse_group_post_alltoallv(terse_group *group, const terse_alltoallv *alltoallv,
                                        terse_request *out, terse_fault *fault)
{
    const terse_status status = tsi_group_alive(group, fault);
    if (status)
        return status;
    if (!out || !alltoallv || !alltoallv->send_at || !alltoallv->send_len || !alltoallv->recv_at ||
        !alltoallv->recv_len)
        return tsi_fail(fault, TERSE_BAD_ARGUMENT, 0, "alltoallv: an array is missing");
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
    const terse_status status = tsi_group_alive(group, fault);
    if (status)
        return status;
    if (!out || !recv_at || !recv_len)
        return tsi_fail(fault, TERSE_BAD_ARGUMENT, 0, "allgatherv: an array is missing");
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
    const terse_status status = tsi_group_alive(group, fault);
    if (status)
        return status;
    if (!out || root >= group->workers || (len && !bytes))
        return tsi_fail(fault, TERSE_BAD_ARGUMENT, 0, "broadcast: no such root or no buffer");
    tsi_group_clear(group);
    if (group->rank != root) {
        group->recv_at[root] = bytes;
        group->recv_len[root] = len;
        return tsi_group_post(group, out, fault);
    }
    for (uint32_t r = 0; r < group->workers; r++) {
        group->send_at[r] = bytes;
        group->send_len[r] = r == root ? 0 : len;
    }
    return tsi_group_post(group, out, fault);
}

terse_status terse_group_post_barrier(terse_group *group, terse_request *out, terse_fault *fault)
{
    const terse_status status = tsi_group_alive(group, fault);
    if (status)
        return status;
    if (!out || group->free_count == 0)
        return tsi_fail(fault, TERSE_BAD_ARGUMENT, 0, "barrier: no request is free");
    /* The slot that post will take: each has bytes of its own. */
    const uint32_t slot = group->free_slots[group->free_count - 1];
    uint8_t *const heard = group->bytes + 1 + (size_t)slot * group->workers;
    for (uint32_t r = 0; r < group->workers; r++) {
        group->send_at[r] = group->bytes;
        group->recv_at[r] = heard + r;
        group->send_len[r] = group->recv_len[r] = r != group->rank;
    }
    return tsi_group_post(group, out, fault);
}

/* ---- blocking ---- */

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
