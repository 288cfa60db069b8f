/* A group handle: requests by slot, and the cause of failure. The engine behind `ops` executes the
 * all-to-alls. */
#ifndef TSI_GROUP_H
#define TSI_GROUP_H

#include <terse/group.h>

struct request_slot {
    uint64_t received; /* bytes received by this request, counted when it is done */
    uint32_t generation;
    int in_flight;
    int arrived; /* in flight, and the engine has said that it is done */
};

struct terse_group {
    terse_group_ops ops;
    void *context;
    uint32_t rank;
    uint32_t workers;
    uint64_t timeout; /* nanoseconds */
    uint64_t sent;
    uint64_t received;
    uint64_t allreduces; /* posted so far: keys their checks */
    int in_process; /* bytes never leave this process, or there is one worker: nothing is checked */
    terse_fault cause; /* why it is dead */
    int dead;
    size_t longest; /* bytes that an all-to-all may bring from all ranks, see tsi_group_reserve */

    struct request_slot slots[TERSE_MAX_REQUESTS];
    uint32_t free_slots[TERSE_MAX_REQUESTS]; /* a stack: the slot used last is used next */
    uint32_t free_count;

    /* The all-to-all that is being built, `workers` entries each. */
    const void **send_at;
    size_t *send_len;
    void **recv_at;
    size_t *recv_len;
    uint8_t *bytes; /* buffers of barriers: 1 byte to send, then `workers` to receive per slot */
};

/* terse_group_allreduce_post with a key of the caller's, equal on all ranks, for the checks. */
TERSE_CHECK terse_status tsi_allreduce_post(terse_group *group, float *floats, size_t count,
                                            float *scratch, uint64_t key, terse_allreduce *out,
                                            terse_fault *fault);

/* TERSE_OK, or why nothing can be done with this group, or with this request (may be NULL). */
TERSE_CHECK terse_status tsi_group_usable(const terse_group *group, const terse_request *request,
                                          terse_fault *fault);

/* Whoever will post all-to-alls says, when it is created, how long they may be: at most `len` bytes
 * from all ranks. An engine that needs room of its own has so much from the start. */
void tsi_group_reserve(terse_group *group, size_t len);
/* The same for an all-reduce of so many floats. */
void tsi_allreduce_reserve(terse_group *group, size_t count);

/* Would a wait for this request return at once? It is still to be waited for. */
TERSE_CHECK terse_status tsi_group_arrived(terse_group *group, terse_request request, int *arrived,
                                           terse_fault *fault);
/* The same for what advance or wait of an all-reduce would wait for next. */
TERSE_CHECK terse_status tsi_allreduce_arrived(terse_group *group, const terse_allreduce *all,
                                               int *arrived, terse_fault *fault);

/* Posts the all-to-all whose arrays have been filled in: the lengths of all messages, the addresses
 * of those that are not empty. The message of this rank to itself is copied at once; the engine
 * gets the others. */
TERSE_CHECK terse_status tsi_group_post(terse_group *group, terse_request *out, terse_fault *fault);

#endif
