/* An exchange is a compressed all-reduce: each worker contributes a gradient and receives the mean,
 * or the majority sign. It is the stages feedback, codec, wire and combine over a group, for a
 * communication hook or an external optimizer.
 *
 *     terse_exchange_create(group, layout, &options, &exchange, &fault);
 *     for (...) terse_exchange_run(exchange, gradient, &report, &fault);      // in place
 *
 * All workers create it with equal options and call it in the same order. A step happens on all
 * workers or on none: it opens and closes with a record from every worker, and `gradient` is
 * written only after the closing records agree. An exchange belongs to one thread at a time. It
 * allocates in create and in the first steps only. */
#ifndef TERSE_EXCHANGE_H
#define TERSE_EXCHANGE_H

#include <stddef.h>
#include <stdint.h>

#include <terse/codec.h>
#include <terse/export.h>
#include <terse/group.h>
#include <terse/layout.h>
#include <terse/status.h>

#ifdef __cplusplus
extern "C" {
#endif

typedef struct terse_exchange terse_exchange;

/* NULL and zero mean the default. min and plain are refused with combine=vote. */
typedef struct terse_exchange_options {
    size_t size;         /* sizeof(terse_exchange_options), for later additions */
    const char *codec;   /* a codec spec; "f32" */
    const char *combine; /* allreduce, allgather, shard, parameter-server, sparse-allreduce, vote or
                            median; default: the one that suits the codec */
    const char *feedback;   /* "residual" or "none"; default: residual where the codec allows it */
    const char *tie;        /* sign of a tied vote: "coin" (default) or "plus" */
    uint64_t seed;          /* seed of all random keys */
    uint32_t threads;       /* threads of codecs and kernels; default 1. Never changes a result. */
    uint32_t compare_every; /* Every so many steps the ranks compare a hash of the aggregate.
                             * It is part of the closing record and costs no message.
                             * 0: never. */
    uint32_t skip_finite_check; /* 1: the caller has checked that gradients are finite */
    uint64_t min;               /* tensors with fewer elements are sent as f32 */
    const char *plain; /* so are tensors whose name matches one of these: "*.bias|bn*"; NULL: none
                        */
} terse_exchange_options;

/* The stages of a step whose time is reported. */
enum {
    TERSE_STAGE_DIRECTION, /* finite check, direction, adding to the residual */
    TERSE_STAGE_ENCODE,    /* the codec encodes, at the owner too */
    TERSE_STAGE_WIRE,      /* sealing and opening frames */
    TERSE_STAGE_GROUP,     /* posting messages and waiting for them */
    TERSE_STAGE_COMBINE,   /* adding payloads, counting votes, finding medians */
    TERSE_STAGE_DECODE,    /* the codec decodes what owners sent back */
    TERSE_STAGE_UPDATE,    /* writing the aggregate or the weights */
    TERSE_STAGES
};

/* What a step did. */
typedef struct terse_exchange_report {
    uint64_t step;
    uint64_t bytes_sent;     /* by this worker to others */
    uint64_t bytes_received; /* by this worker from others */
    uint64_t dense_bytes;    /* what a dense f32 all-reduce would have sent */
    uint64_t nanoseconds[TERSE_STAGES];
    terse_status skipped; /* why the step was skipped: TERSE_NOT_FINITE or TERSE_OUT_OF_RANGE;
                             TERSE_OK: it was not */
    int32_t skipped_by;   /* the rank whose gradient was the cause; -1: none, the sum, or
                             the weights */
} terse_exchange_report;

/* Collective: settings that differ are TERSE_MISMATCH on every worker, and the fault names setting
 * and rank. The group must outlive the exchange; the layout is copied. */
TERSE_API TERSE_CHECK terse_status terse_exchange_create(terse_group *group,
                                                         const terse_layout *layout,
                                                         const terse_exchange_options *options,
                                                         terse_exchange **out, terse_fault *fault);
TERSE_API void terse_exchange_destroy(terse_exchange *exchange); /* NULL is fine */

/* One step, in place. It is committed, skipped or failed, on all workers alike.
 *
 * Skipped: TERSE_OK with report->skipped != TERSE_OK. The cause is a gradient that is not finite, a
 * value outside the range of the codec (1e6 in f16), or a sum that overflows, on any worker.
 * Gradient and residuals are untouched, bit for bit.
 *
 * Failed: a lost peer, a timeout, a damaged message or ranks that differ. Gradient and residuals
 * are untouched, and every later step returns TERSE_PEER_LOST. Destroy the group before the
 * exchange then: requests under way may still use its buffers. */
TERSE_API TERSE_CHECK terse_status terse_exchange_run(terse_exchange *exchange, float *gradient,
                                                      terse_exchange_report *report,
                                                      terse_fault *fault);

/* The same bucket by bucket while the caller still computes. A bucket is the tensors first ..
 * first+count-1 of the layout, at their offsets in the flat buffer. Post each bucket as soon as it
 * is ready, every tensor once per step, then finish. Buckets and their order must be the same on
 * all workers. Payloads and results do not depend on how tensors are grouped into buckets. A posted
 * part of the gradient must not be changed before finish has returned. */
TERSE_API TERSE_CHECK terse_status terse_exchange_post(terse_exchange *exchange,
                                                       const float *gradient, uint32_t first,
                                                       uint32_t count, terse_fault *fault);
TERSE_API TERSE_CHECK terse_status terse_exchange_finish(terse_exchange *exchange, float *gradient,
                                                         terse_exchange_report *report,
                                                         terse_fault *fault);

/* The names of all combines, from 0; NULL past the last. */
TERSE_API const char *terse_combine_name(uint32_t index);

/* The settings that were chosen: "codec=topk:keep=0.01,values=f32 combine=allgather
 * feedback=residual". The text belongs to the exchange. */
TERSE_API const char *terse_exchange_settings(const terse_exchange *exchange);

/* The residual, terse_layout_count floats; NULL without error feedback. Read it to save, write it
 * to restore. The pointer is valid until the next step, which may swap it with a second buffer: ask
 * again after each step. The second function returns the owner's residual of combine=shard and
 * parameter-server. */
TERSE_API float *terse_exchange_residual(terse_exchange *exchange);
TERSE_API float *terse_exchange_owner_residual(terse_exchange *exchange);

/* The number of the next step. Set it when a checkpoint is restored. */
TERSE_API uint64_t terse_exchange_step(const terse_exchange *exchange);
TERSE_API void terse_exchange_set_step(terse_exchange *exchange, uint64_t step);

#ifdef __cplusplus
}
#endif
#endif
