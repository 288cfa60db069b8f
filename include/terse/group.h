/* A group is a set of workers that communicate. Each worker holds a handle (a terse_group) with a
 * rank 0..workers-1.
 *
 * Every collective is built on one primitive: all-to-all with per-rank lengths (MPI_Alltoallv).
 * All-gather, broadcast, barrier and the ordered all-reduce are all-to-alls. So an engine (threads
 * of one process, MPI, your own functions) is one small table, and all engines give the same bits.
 *
 * All workers post the same collectives in the same order, and sender and receiver give the same
 * length for a message. Buffers belong to the group from post until the request is done. A handle
 * belongs to one thread at a time; several requests may be under way. After TERSE_TIMEOUT,
 * TERSE_PEER_LOST or TERSE_MISMATCH the group has failed: buffers of requests under way must live
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

/* The messages of an all-to-all. To and from each rank r: `len[r]` bytes at `at[r]`. at[r] may be
 * NULL where len[r] is 0. Post copies the arrays, not the bytes. */
typedef struct terse_alltoallv {
    const void *const *send_at;
    const size_t *send_len;
    void *const *recv_at;
    const size_t *recv_len;
} terse_alltoallv;

/* ---- handles ---- */

/* Creates all handles of a group within one process: `handles` has `workers` entries. Each handle
 * may be driven by its own thread, or all by one (post on each, then wait on each). The caller
 * destroys every handle. */
TERSE_API TERSE_CHECK terse_status terse_group_local(uint32_t workers, terse_group **handles);

/* An engine of the caller's own. `post` starts an all-to-all; it may return at once or when the
 * all-to-all is done. `test` and `wait` report whether it is done, and progress all requests under
 * way, not only the one asked about. The arrays of the all-to-all are valid during the call only,
 * so post copies what it needs later. The lengths of this rank itself are 0: the group copies those
 * bytes. A request is named by a slot (0..TERSE_MAX_REQUESTS-1) that the group assigns; a slot is
 * reused once its request is done.
 *
 * Each returns TERSE_OK; or TERSE_TIMEOUT, TERSE_PEER_LOST or TERSE_MISMATCH (sender and receiver
 * give different lengths) with the rank at fault in *rank (-1 if unknown), and the group has
 * failed; or TERSE_UNSUPPORTED or TERSE_NO_MEMORY, and nothing has happened. No two threads make a
 * call for one handle at the same time. */
typedef struct terse_group_ops {
    size_t size; /* sizeof(terse_group_ops), for later additions */
    terse_status (*post)(void *context, uint32_t slot, const terse_alltoallv *alltoallv,
                         int32_t *rank);
    terse_status (*test)(void *context, uint32_t slot, int *done, int32_t *rank);
    /* TERSE_TIMEOUT: not a byte has arrived for `nanoseconds`, counted from the call at the
     * earliest. An engine that cannot tell counts from the call. */
    terse_status (*wait)(void *context, uint32_t slot, uint64_t nanoseconds, int32_t *rank);
    /* The rest may be NULL. Called once, when the group has failed or is destroyed with requests
     * under way: nobody will wait for them. */
    void (*abandon)(void *context);
    void (*destroy)(void *context); /* the last call */
    /* Why the last call failed, one line without a full stop, or NULL; for the fault's text. */
    const char *(*explain)(void *context);
} terse_group_ops;

/* `ops` is copied; `context` is passed to every call and belongs to the caller. */
TERSE_API TERSE_CHECK terse_status terse_group_callbacks(const terse_group_ops *ops, void *context,
                                                         uint32_t rank, uint32_t workers,
                                                         terse_group **out);

/* A group whose workers are nodes: several ranks that together are one worker, because they share a
 * machine. `inner` connects the ranks of a node. `outer` connects the leaders, which are the ranks
 * 0 of the inner groups; the others give NULL. Rank and workers of the new group are the leader's
 * in `outer`, on all ranks of the node. Collective over `inner`. On success both belong to the new
 * group, which destroys them; `inner` may be used between steps, while none of its requests is
 * under way.
 *
 * All ranks of a node make the same calls with the same bytes to send. The leader alone sends them
 * to other nodes, and passes on what it receives. So a method of this group needs the same gradient
 * on all ranks of a node, as terse_group_allreduce on `inner` and a division make it; it has the
 * same state and weights on all of them, those of a worker with the mean gradient, bit for bit, and
 * one checkpoint per node is enough. terse_group_traffic and reports count the bytes between nodes,
 * alike on all ranks of a node. A failure between nodes is told to the whole node, with the number
 * of the node at fault; one inside a node (rank -1) ends the group there, and the other nodes miss
 * the node. */
TERSE_API TERSE_CHECK terse_status terse_group_nodes(terse_group *inner, terse_group *outer,
                                                     terse_group **out, terse_fault *fault);

/* Leaves the group: workers that wait for this rank get TERSE_PEER_LOST with its rank. NULL is
 * fine. */
TERSE_API void terse_group_destroy(terse_group *group);

TERSE_API uint32_t terse_group_rank(const terse_group *group);
TERSE_API uint32_t terse_group_workers(const terse_group *group);

/* The longest that wait waits without a byte from any rank, in seconds: at least 0.001, default
 * 60. A transfer that is slow but moves is not ended. */
TERSE_API TERSE_CHECK terse_status terse_group_set_timeout(terse_group *group, double seconds);

/* Bytes that this handle has sent to and received from other ranks since it was created. */
TERSE_API void terse_group_traffic(const terse_group *group, uint64_t *sent, uint64_t *received);

/* ---- collectives: post, then test or wait ---- */

typedef struct terse_request {
    uint32_t slot;
    uint32_t generation; /* guards against waiting twice */
} terse_request;

/* All-to-all: the bytes at send_at[r] here arrive at recv_at[this rank] on rank r. */
TERSE_API TERSE_CHECK terse_status terse_group_post_alltoallv(terse_group *group,
                                                              const terse_alltoallv *alltoallv,
                                                              terse_request *out,
                                                              terse_fault *fault);

/* All-gather: `send` arrives on every rank r at recv_at[this rank]. recv_len[this rank] = send_len.
 */
TERSE_API TERSE_CHECK terse_status terse_group_post_allgatherv(
    terse_group *group, const void *send, size_t send_len, void *const *recv_at,
    const size_t *recv_len, terse_request *out, terse_fault *fault);

/* Broadcast: `len` bytes of the root's buffer arrive in that of every rank. The root sends them to
 * each rank in turn: use it for small messages and at the start. */
TERSE_API TERSE_CHECK terse_status terse_group_post_broadcast(terse_group *group, uint32_t root,
                                                              void *bytes, size_t len,
                                                              terse_request *out,
                                                              terse_fault *fault);

/* Barrier: done when every rank has posted it. */
TERSE_API TERSE_CHECK terse_status terse_group_post_barrier(terse_group *group, terse_request *out,
                                                            terse_fault *fault);

/* *done = 1: the request is done, its buffers are the caller's again, and it must not be used
 * again. */
TERSE_API TERSE_CHECK terse_status terse_group_test(terse_group *group, terse_request request,
                                                    int *done, terse_fault *fault);

/* Waits until the request is done or no byte has arrived for the timeout. With TERSE_TIMEOUT and
 * TERSE_PEER_LOST the fault names the rank. */
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

/* All-reduce: the sum of the workers' buffers, element by element in rank order 0..workers-1,
 * replaces every worker's buffer. The bits are the same on every rank and with every engine.
 * `scratch` holds terse_group_allreduce_scratch(group, count) floats. NaN and infinity propagate as
 * in additions. Between processes every segment carries a check: TERSE_BAD_CHECKSUM means that one
 * arrived damaged, the fault names its sender, and the group is still usable. On failure `floats`
 * is undefined. */
TERSE_API size_t terse_group_allreduce_scratch(const terse_group *group, size_t count);
TERSE_API TERSE_CHECK terse_status terse_group_allreduce(terse_group *group, float *floats,
                                                         size_t count, float *scratch,
                                                         terse_fault *fault);

/* The same in three calls, for a thread that drives several handles (each call for every handle,
 * then the next) or computes between them: post sends the slices; advance waits for them, adds them
 * and sends the sums; wait waits for the sums. Several may be under way. An all-reduce takes up to
 * TERSE_ALLREDUCE_SEGMENTS + 1 requests. Call wait also after TERSE_BAD_CHECKSUM from advance. */
#define TERSE_ALLREDUCE_SEGMENTS 31u

typedef struct terse_allreduce {
    float *floats;
    float *scratch;
    size_t count;
    size_t slice;   /* floats that one rank adds */
    size_t segment; /* floats of one message */
    uint32_t segments;
    uint32_t largest; /* bits of the largest magnitude of this rank's sums */
    uint64_t key;     /* key of the checks */
    uint64_t agreed;  /* hash of the checks of all sums, equal on all ranks; 0 in one process */
    terse_request checks;
    terse_request requests[TERSE_ALLREDUCE_SEGMENTS];
} terse_allreduce;

TERSE_API TERSE_CHECK terse_status terse_group_allreduce_post(terse_group *group, float *floats,
                                                              size_t count, float *scratch,
                                                              terse_allreduce *out,
                                                              terse_fault *fault);
TERSE_API TERSE_CHECK terse_status terse_group_allreduce_advance(terse_group *group,
                                                                 terse_allreduce *allreduce,
                                                                 terse_fault *fault);
TERSE_API TERSE_CHECK terse_status terse_group_allreduce_wait(terse_group *group,
                                                              terse_allreduce *allreduce,
                                                              terse_fault *fault);

#ifdef __cplusplus
}
#endif
#endif
