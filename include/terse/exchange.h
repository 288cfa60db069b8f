/* An exchange makes one gradient of many: every worker hands in its own, every worker gets the same
 * mean (or the majority's sign) back. It is memory + codec + wire + combine over a group: what a
 * communication hook or a foreign optimizer uses.
 *
 *     terse_exchange_create(group, layout, &options, &exchange, &fault);
 *     for (...) terse_exchange_run(exchange, gradient, &report, &fault);      // in place
 *
 * All workers make it with equal options and call it in the same order. A step happens on all of
 * them or on none: it opens with a header from every worker and ends with an agreement, and
 * `gradient` is written only after that. An exchange belongs to one thread at a time; it allocates
 * in create and in the first step. */
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

/* NULL and zero mean the default. Signs (combine vote) are voted on everywhere: no min, no plain.
 */
typedef struct terse_exchange_options {
    size_t size;         /* sizeof(terse_exchange_options), for later additions */
    const char *codec;   /* a codec spec; "f32" */
    const char *combine; /* allreduce, allgather, shard, parameter-server, sparse-allreduce or vote;
                            by default what suits the codec */
    const char *feedback; /* "residual" or "none"; default: residual where the codec may have it */
    const char *tie;      /* vote of an even number: "coin" (default) or "plus" */
    uint64_t seed;        /* of every draw */
    uint32_t threads;     /* of the codecs; 1 */
    uint32_t compare_every;     /* compare a hash of the result every so many steps; 0 never */
    uint32_t skip_finite_check; /* 1: the caller has checked that gradients are finite */
    uint64_t min;               /* tensors with fewer elements travel plain, as f32 */
    const char *plain; /* so do those whose name matches one of these: "*.bias|bn*"; NULL: none */
} terse_exchange_options;

/* The stages of a step, as the report tells their time. */
enum {
    TERSE_STAGE_DIRECTION, /* finite check, direction, adding to the residual */
    TERSE_STAGE_ENCODE,    /* codec: saying, the owner's part too */
    TERSE_STAGE_WIRE,      /* sealing and opening frames */
    TERSE_STAGE_GROUP,     /* posting and waiting */
    TERSE_STAGE_COMBINE,   /* adding or counting what was said */
    TERSE_STAGE_DECODE,    /* codec: hearing what came back */
    TERSE_STAGE_UPDATE,    /* writing the agreed gradient */
    TERSE_STAGES
};

/* What a step did. */
typedef struct terse_exchange_report {
    uint64_t step;
    uint64_t bytes_sent;     /* bytes this worker sent to others */
    uint64_t bytes_received; /* and received */
    uint64_t dense_bytes;    /* what it would have sent had it said every element as f32 */
    uint64_t nanoseconds[TERSE_STAGES];
    terse_status skipped; /* why nothing was exchanged: TERSE_NOT_FINITE or TERSE_OUT_OF_RANGE */
    int32_t skipped_by;   /* the worker whose gradient could not be said; -1: none, or the sum */
} terse_exchange_report;

/* Made by all workers together: settings that differ are TERSE_MISMATCH on every worker, the fault
 * naming setting and rank. The group must outlive the exchange; the layout is copied. */
TERSE_API TERSE_CHECK terse_status terse_exchange_create(terse_group *group,
                                                         const terse_layout *layout,
                                                         const terse_exchange_options *options,
                                                         terse_exchange **out, terse_fault *fault);
TERSE_API void terse_exchange_destroy(terse_exchange *exchange); /* NULL is fine */

/* One step, in place. A gradient that is not finite on one worker skips the step on all: TERSE_OK,
 * report->skipped says so, report->skipped_by names it, and gradient and memory are untouched. So
 * does what the codec cannot say (1e6 in f16) and a sum that overflows; this is found after the
 * gradient was added to the memory, which is then restored to rounding.
 * On any other failure the gradient is untouched, what was said is back in memory, and the exchange
 * answers TERSE_PEER_LOST from then on. Destroy the group before it then: requests under way may
 * still use its buffers. */
TERSE_API TERSE_CHECK terse_status terse_exchange_run(terse_exchange *exchange, float *gradient,
                                                      terse_exchange_report *report,
                                                      terse_fault *fault);

/* The same tensor by tensor while the caller still computes: post each bucket (tensors first ..
 * first+count-1 of the layout, at their place in the flat buffer) once per step as soon as it is
 * ready, every tensor once, then finish. Buckets and their order are the same on all workers. Bytes
 * and results do not depend on how tensors are put into buckets. A posted part of the gradient must
 * not be touched before finish has returned. */
TERSE_API TERSE_CHECK terse_status terse_exchange_post(terse_exchange *exchange,
                                                       const float *gradient, uint32_t first,
                                                       uint32_t count, terse_fault *fault);
TERSE_API TERSE_CHECK terse_status terse_exchange_finish(terse_exchange *exchange, float *gradient,
                                                         terse_exchange_report *report,
                                                         terse_fault *fault);

/* What was chosen: "codec=topk:keep=0.01,values=f32 combine=allgather feedback=residual"; belongs
 * to it.
 */
TERSE_API const char *terse_exchange_settings(const terse_exchange *exchange);

/* The error memory, terse_layout_count floats (NULL without): to look at, save or restore between
 * steps. The owner's memory of a sharded combine is the second. */
TERSE_API float *terse_exchange_residual(terse_exchange *exchange);
TERSE_API float *terse_exchange_owner_residual(terse_exchange *exchange);

/* The number of the next step; restoring sets it. */
TERSE_API uint64_t terse_exchange_step(const terse_exchange *exchange);
TERSE_API void terse_exchange_set_step(terse_exchange *exchange, uint64_t step);

#ifdef __cplusplus
}
#endif
#endif
