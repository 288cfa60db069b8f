/* A handle: requests by slot, and what a dead group answers. The engine behind `ops` does the
 * all-to-alls.
 */
#ifndef TSI_GROUP_H
#define TSI_GROUP_H

#include <terse/group.h>

struct request_slot {
    uint64_t received; /* bytes that arrive when it is done */
    uint32_t generation;
    int under_way;
};

struct terse_group {
    terse_group_ops ops;
    void *context;
    uint32_t rank;
    uint32_t workers;
    uint64_t timeout; /* nanoseconds */
    uint64_t sent;
    uint64_t received;
    terse_fault cause; /* why it is dead */
    int dead;

    struct request_slot slots[TERSE_MAX_REQUESTS];
    uint32_t free_slots[TERSE_MAX_REQUESTS]; /* a stack: the slot used last is used next */
    uint32_t free_count;

    /* The all-to-all that is being built, `workers` entries each. */
    const void **send_at;
    size_t *send_len;
    void **recv_at;
    size_t *recv_len;
    uint8_t *bytes; /* what barriers exchange: one to say, then `workers` to hear for each slot */
};

/* TERSE_OK, or why nothing more can be done with this group. */
TERSE_CHECK terse_status tsi_group_alive(const terse_group *group, terse_fault *fault);

/* Empties the all-to-all that is being built. */
void tsi_group_clear(terse_group *group);

/* Posts it. What it holds for this rank itself is copied at once; the engine sees the rest. */
TERSE_CHECK terse_status tsi_group_post(terse_group *group, terse_request *out, terse_fault *fault);

#endif
