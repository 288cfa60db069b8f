/* A group is where workers meet. Each worker holds a handle (a terse_group) with a rank
 * 0..workers-1.
 *
 * Everything a group does is one collective, the all-to-all: every worker hands every worker some
 * bytes. All-gather, broadcast, barrier and the ordered sum are all-to-alls. So an engine (threads
 * of one process, MPI, your own functions) is one small table, and every engine gives the same
 * bits.
 *
 * All workers post the same collectives in the same order; lengths that two workers name for the
 * same bytes are equal. Buffers stay with the group from post until the request is done. A handle
 * belongs to one thread at a time; several requests may be under way. After TERSE_TIMEOUT,
 * TERSE_PEER_LOST or TERSE_MISMATCH the group is dead: buffers of requests under way must live
 * until terse_group_destroy, and every later call returns TERSE_PEER_LOST. */
#ifndef TERSE_GROUP_H
#define TERSE_GROUP_H

#include <stddef.h>
#include <stdint.h>

#include <terse/export.h>
#include <terse/status.h>

#ifdef __cplusplus
extern "C" {
#endif

#define TERSE_MAX_WORKERS 4096u
#define TERSE_MAX_LOCAL_WORKERS 64u
#define TERSE_MAX_REQUESTS 256u /* under way at once on one handle */

typedef struct terse_group terse_group;

/* One side of an all-to-all, for each rank r: `len[r]` bytes at `at[r]`. at[r] may be NULL where
 * len[r] is 0. The arrays are copied by post, the bytes are not. */
typedef struct terse_alltoallv {
    const void *const *send_at;
    const size_t *send_len;
    void *const *recv_at;
    const size_t *recv_len;
} terse_alltoallv;

/* ---- handles ---- */

/* All handles of a group of threads: `handles` has room for `workers`. Each handle may be driven by
 * its own thread, or all by one (post for each, then finish for each). The caller destroys every
 * handle.
 */
TERSE_API TERSE_CHECK terse_status terse_group_local(uint32_t workers, terse_group **handles);

/* An engine of the caller's own. post starts an all-to-all and returns at once or when it is done;
 * test and wait tell, and drive all all-to-alls under way, not only the one they are asked about.
 * The arrays of the all-to-all belong to the call, so post copies what it needs later; the lengths
 * of this rank itself are 0, the group copies those bytes. A request is named by the slot
 * (0..TERSE_MAX_REQUESTS-1) the group gives it; a slot is used again once its request is done.
 *
 * Each returns TERSE_OK; or TERSE_TIMEOUT, TERSE_PEER_LOST, TERSE_MISMATCH (another length for the
 * same bytes) with the rank to blame in *rank (-1 if unknown), and the group is dead; or
 * TERSE_UNSUPPORTED, TERSE_NO_MEMORY, and nothing has happened. No call is made by two threads at
 * once for one handle. */
typedef struct terse_group_ops {
    size_t size; /* sizeof(terse_group_ops), for later additions */
    terse_status (*post)(void *context, uint32_t slot, const terse_alltoallv *alltoallv,
                         int32_t *rank);
    terse_status (*test)(void *context, uint32_t slot, int *done, int32_t *rank);
    /* Waits at most `nanoseconds`; TERSE_TIMEOUT when they have passed. */
    terse_status (*wait)(void *context, uint32_t slot, uint64_t nanoseconds, int32_t *rank);
    /* The rest may be NULL. Once, when the group is dead or left with requests under way: nobody
     * will wait for them. */
    void (*abandon)(void *context);
    void (*destroy)(void *context); /* last of all */
    /* Why the last call failed, one line without a full stop, or NULL; for the fault's text. */
    const char *(*explain)(void *context);
} terse_group_ops;

/* `ops` is copied; `context` is handed to every call and stays the caller's. */
TERSE_API TERSE_CHECK terse_status terse_group_callbacks(const terse_group_ops *ops, void *context,
                                                         uint32_t rank, uint32_t workers,
                                                         terse_group **out);

/* Leaves the group: workers that wait for this one get TERSE_PEER_LOST with its rank. NULL is fine.
 */
TERSE_API void terse_group_destroy(terse_group *group);

TERSE_API uint32_t terse_group_rank(const terse_group *group);
TERSE_API uint32_t terse_group_workers(const terse_group *group);

/* How long wait waits, in seconds; 60 at first. At least 0.001. */
TERSE_API TERSE_CHECK terse_status terse_group_set_timeout(terse_group *group, double seconds);

/* Bytes this handle has sent to and received from others since it was made (not to itself). */
TERSE_API void terse_group_traffic(const terse_group *group, uint64_t *sent, uint64_t *received);

/* ---- collectives: post, then test or wait ---- */

typedef struct terse_request {
    uint32_t slot;
    uint32_t generation; /* guards against waiting twice */
} terse_request;

/* All-to-all: what is at send_at[r] here arrives at recv_at[this rank] on r. */
TERSE_API TERSE_CHECK terse_status terse_group_post_alltoallv(terse_group *group,
                                                              const terse_alltoallv *alltoallv,
                                                              terse_request *out,
                                                              terse_fault *fault);

/* All-gather: `send` arrives on every rank r at recv_at[this rank]. recv_len[this rank] = send_len.
 */
TERSE_API TERSE_CHECK terse_status terse_group_post_allgatherv(
    terse_group *group, const void *send, size_t send_len, void *const *recv_at,
    const size_t *recv_len, terse_request *out, terse_fault *fault);

/* `len` bytes of `root`'s buffer arrive in everybody's. The root sends it to each worker: for small
 * things and beginnings. */
TERSE_API TERSE_CHECK terse_status terse_group_post_broadcast(terse_group *group, uint32_t root,
                                                              void *bytes, size_t len,
                                                              terse_request *out,
                                                              terse_fault *fault);

/* Done when everybody has posted it. */
TERSE_API TERSE_CHECK terse_status terse_group_post_barrier(terse_group *group, terse_request *out,
                                                            terse_fault *fault);

/* *done = 1: the request is over, its buffers are the caller's again, and it must not be named
 * again. */
TERSE_API TERSE_CHECK terse_status terse_group_test(terse_group *group, terse_request request,
                                                    int *done, terse_fault *fault);

/* Until done or the timeout. TERSE_TIMEOUT and TERSE_PEER_LOST name the rank in the fault. */
TERSE_API TERSE_CHECK terse_status terse_group_wait(terse_group *group, terse_request request,
                                                    terse_fault *fault);

/* ---- the same, blocking ---- */

TERSE_API TERSE_CHECK terse_status terse_group_alltoallv(terse_group *group,
                                                         const terse_alltoallv *alltoallv,
                                                         terse_fault *fault);
TERSE_API TERSE_CHECK terse_status terse_group_allgatherv(terse_group *group, const void *send,
                                                          size_t send_len, void *const *recv_at,
                                                          const size_t *recv_len,
                                                          terse_fault *fault);
TERSE_API TERSE_CHECK terse_status terse_group_broadcast(terse_group *group, uint32_t root,
                                                         void *bytes, size_t len,
                                                         terse_fault *fault);
TERSE_API TERSE_CHECK terse_status terse_group_barrier(terse_group *group, terse_fault *fault);

/* Adds the workers' buffers, element by element in rank order 0..workers-1, into everybody's: the
 * same bits on every rank and every engine. `scratch` has room for
 * terse_group_allreduce_scratch(group, count) floats. NaN and infinity spread as additions do. On
 * failure `floats` holds anything. */
TERSE_API size_t terse_group_allreduce_scratch(const terse_group *group, size_t count);
TERSE_API TERSE_CHECK terse_status terse_group_allreduce(terse_group *group, float *floats,
                                                         size_t count, float *scratch,
                                                         terse_fault *fault);

/* The same in three calls, for a thread that drives several handles (each call for every handle,
 * then the next) or has other things to do between them: post says the slices, advance waits for
 * them, adds and says the sums, wait waits for these. Several sums may be under way. Takes up to
 * TERSE_ALLREDUCE_SEGMENTS requests. All workers use the same form for the same sum;
 * terse_group_allreduce is the faster one for large counts on slow lines. */
#define TERSE_ALLREDUCE_SEGMENTS 32u

typedef struct terse_allreduce {
    float *floats;
    float *scratch;
    size_t count;
    size_t slice;   /* floats that a rank adds */
    size_t segment; /* floats of a slice that travel together */
    uint32_t segments;
    terse_request requests[TERSE_ALLREDUCE_SEGMENTS];
} terse_allreduce;

TERSE_API TERSE_CHECK terse_status terse_group_allreduce_post(terse_group *group, float *floats,
                                                              size_t count, float *scratch,
                                                              terse_allreduce *out,
                                                              terse_fault *fault);
TERSE_API TERSE_CHECK terse_status terse_group_allreduce_advance(terse_group *group,
                                                                 terse_allreduce *sum,
                                                                 terse_fault *fault);
TERSE_API TERSE_CHECK terse_status terse_group_allreduce_wait(terse_group *group,
                                                              terse_allreduce *sum,
                                                              terse_fault *fault);

#ifdef __cplusplus
}
#endif
#endif
