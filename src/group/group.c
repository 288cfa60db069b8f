#include "group/group.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "base/fault.h"

static const uint64_t second = 1000000000u; /* in nanoseconds */

/* ---- handles ---- */

static int has_ops(const terse_group_ops *ops)
{
    return ops && ops->size >= sizeof *ops && ops->post && ops->test && ops->wait;
}

/* The arrays lie behind the struct, the bytes last. */
static void carve(terse_group *group)
{
    const size_t workers = group->workers;
    char *tail = (char *)(group + 1);
    group->send_at = (void *)tail;
    tail += workers * sizeof *group->send_at;
    group->recv_at = (void *)tail;
    tail += workers * sizeof *group->recv_at;
    group->send_len = (void *)tail;
    tail += workers * sizeof *group->send_len;
    group->recv_len = (void *)tail;
    tail += workers * sizeof *group->recv_len;
    group->bytes = (void *)tail;
}

terse_status terse_group_callbacks(const terse_group_ops *ops, void *context, uint32_t rank,
                                   uint32_t workers, terse_group **out)
{
    if (!has_ops(ops) || !out || workers == 0 || workers > TERSE_MAX_WORKERS || rank >= workers)
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
    group->timeout = 60 * second;
    group->free_count = TERSE_MAX_REQUESTS;
    for (uint32_t i = 0; i < TERSE_MAX_REQUESTS; i++)
        group->free_slots[i] = TERSE_MAX_REQUESTS - 1 - i;
    carve(group);
    *out = group;
    return TERSE_OK;
}

void terse_group_destroy(terse_group *group)
{
    if (!group)
        return;
    const int waits = group->free_count < TERSE_MAX_REQUESTS;
    if (waits && !group->dead && group->ops.abandon)
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

/* ---- a group dies once ---- */

terse_status tsi_group_alive(const terse_group *group, terse_fault *fault)
{
    if (!group)
        return tsi_fail(fault, TERSE_BAD_ARGUMENT, 0, "no group");
    if (!group->dead)
        return TERSE_OK;
    (void)tsi_fail(fault, TERSE_PEER_LOST, 0, "the group is dead: %.200s", group->cause.text);
    if (fault)
        fault->rank = group->cause.rank;
    return TERSE_PEER_LOST;
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
        (void)tsi_fail(cause, status, 0, "%s was not heard of within %g s", who,
                       (double)group->timeout / (double)second);
    else if (status == TERSE_MISMATCH)
        (void)tsi_fail(cause, status, 0, "%s names another length for the same bytes", who);
    else
        (void)tsi_fail(cause, status, 0, "%s left the group or cannot be reached", who);
    cause->rank = rank;
}

/* What the engine could not do. It may refuse a call (the wrong thread, say) and nothing has
 * happened; anything else is the end of the group. */
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

void tsi_group_clear(terse_group *group)
{
    const size_t workers = group->workers;
    memset(group->send_at, 0, workers * sizeof *group->send_at);
    memset(group->recv_at, 0, workers * sizeof *group->recv_at);
    memset(group->send_len, 0, workers * sizeof *group->send_len);
    memset(group->recv_len, 0, workers * sizeof *group->recv_len);
}

static terse_status check_alltoallv(const terse_group *group, terse_fault *fault)
{
    const uint32_t me = group->rank;
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
        return tsi_fail(fault, TERSE_BAD_ARGUMENT, 0, "%u requests are under way",
                        (unsigned)TERSE_MAX_REQUESTS);
    return TERSE_OK;
}

/* Takes this rank's own bytes out of the all-to-all. */
static void copy_own(terse_group *group)
{
    const uint32_t me = group->rank;
    if (group->send_len[me] && group->recv_at[me] != group->send_at[me])
        memmove(group->recv_at[me], group->send_at[me], group->send_len[me]);
    group->send_len[me] = 0;
    group->recv_len[me] = 0;
}

terse_status tsi_group_post(terse_group *group, terse_request *out, terse_fault *fault)
{
    terse_status status = check_alltoallv(group, fault);
    if (status)
        return status;
    copy_own(group);
    const terse_alltoallv alltoallv = {group->send_at, group->send_len, group->recv_at,
                                       group->recv_len};
    const uint32_t slot = group->free_slots[group->free_count - 1];
    int32_t rank = -1;
    status = group->ops.post(group->context, slot, &alltoallv, &rank);
    if (status)
        return failed(group, status, rank, fault);
    struct request_slot *const request = &group->slots[slot];
    group->free_count--;
    request->under_way = 1;
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

static terse_status find(terse_group *group, terse_request request, terse_fault *fault)
{
    const terse_status status = tsi_group_alive(group, fault);
    if (status)
        return status;
    if (request.slot >= TERSE_MAX_REQUESTS || !group->slots[request.slot].under_way ||
        group->slots[request.slot].generation != request.generation)
        return tsi_fail(fault, TERSE_BAD_ARGUMENT, 0, "this request is not under way");
    return TERSE_OK;
}

static void finish(terse_group *group, uint32_t slot)
{
    group->received += group->slots[slot].received;
    group->slots[slot].under_way = 0;
    group->free_slots[group->free_count++] = slot;
}

terse_status terse_group_test(terse_group *group, terse_request request, int *done,
                              terse_fault *fault)
{
    terse_status status = done ? find(group, request, fault) : TERSE_BAD_ARGUMENT;
    if (status)
        return status;
    int is_done = 0;
    int32_t rank = -1;
    status = group->ops.test(group->context, request.slot, &is_done, &rank);
    if (status)
        return failed(group, status, rank, fault);
    if (is_done)
        finish(group, request.slot);
    *done = is_done != 0;
    return TERSE_OK;
}

terse_status terse_group_wait(terse_group *group, terse_request request, terse_fault *fault)
{
    terse_status status = find(group, request, fault);
    if (status)
        return status;
    int32_t rank = -1;
    status = group->ops.wait(group->context, request.slot, group->timeout, &rank);
    if (status)
        return failed(group, status, rank, fault);
    finish(group, request.slot);
    return TERSE_OK;
}
