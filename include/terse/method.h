/* A method is a distributed optimizer: it takes each worker's gradient and updates the weights. It
 * is one choice per stage: where the gradient is taken (point), what it becomes (direction), what
 * is done with the compression error (feedback), how it is encoded (codec), how the workers'
 * payloads become one aggregate (combine), and what the aggregate does to the weights (update).
 *
 *     terse_method_create("def:ratio=64,lambda=0.3,lr=0.05", group, layout, weights, &options,
 *                         &method, &fault);
 *     for (...) {
 *         const float *at = terse_method_point(method);            // take the gradient here
 *         ...
 *         terse_method_step(method, gradient, &report, &fault);    // updates the weights
 *     }
 *
 * `terse_method_list` lists the named methods; a spec may also compose one from stages:
 * "direction=momentum,feedback=residual,codec=topk:keep=0.01,combine=allgather,update=subtract".
 *
 * All workers create it with equal spec, options and weights and call it in the same order. After
 * a step the weights are equal on all workers. A step happens on all workers or on none. A method
 * belongs to one thread at a time. It allocates in create and in the first steps only. */
#ifndef TERSE_METHOD_H
#define TERSE_METHOD_H

#include <stddef.h>
#include <stdint.h>

#include <terse/codec.h>
#include <terse/exchange.h>
#include <terse/export.h>
#include <terse/group.h>
#include <terse/layout.h>
#include <terse/status.h>

#ifdef __cplusplus
extern "C" {
#endif

#define TERSE_MAX_METHOD_SPEC 2048u /* bytes of a complete spec, its end included */
#define TERSE_MAX_ENTRY 256u        /* bytes of one value in it, its end included */

typedef struct terse_method terse_method;

/* Zero means the default. */
typedef struct terse_method_options {
    size_t size;            /* sizeof(terse_method_options), for later additions */
    uint64_t seed;          /* seed of all random keys */
    uint64_t steps;         /* length of the training, for schedules and bit budgets; 0: unknown */
    uint32_t threads;       /* threads of codecs and kernels; default 1. Never changes a result. */
    uint32_t compare_every; /* Every so many exchanges the ranks compare a hash of the
                             * aggregate. It is part of the closing record and costs no
                             * message. 0: never. */
    uint32_t measure_every; /* Every so many steps the report has the norm of the residual and
                             * the compression error. 0: never. */
    uint32_t skip_finite_check; /* 1: the caller has checked that gradients are finite */

    /* 1: do not update weights; write the aggregate (mean or majority sign) to `weights`, for an
     * external optimizer. The buffer is undefined after a skipped step. lr, weight decay and the
     * momentum of the update do not exist then; methods whose aggregate is weights, and every > 1,
     * are refused. */
    uint32_t aggregate_out;
    uint32_t private_output; /* 1: only the method writes to that buffer. The cost of a sparse
                              * aggregate is then proportional to its entries, not to all
                              * elements. */

    /* The weight of this worker's contribution, for example the number of examples of its shard: a
     * mean is then sum w_k a_k / sum w_k. The only option that may differ between workers; all give
     * one (finite, above 0) or none does. It multiplies what is decoded, never a residual. Equal
     * weights change no bit, and votes stay one per worker. 0: all are equal. */
    double worker_weight;
} terse_method_options;

/* What a step did. */
typedef struct terse_method_report {
    terse_exchange_report exchange; /* all zero for a local step (every=H) */
    uint64_t step;                  /* its number, from 0 */
    double lr;
    double bits;              /* bits per element of this worker's payload */
    double residual_norm;     /* |e| after the step; NaN if not measured or without a residual */
    double compression_error; /* |e| / |what was to be encoded|; NaN likewise */
    uint32_t exchanged;       /* 0: a local step */
    uint32_t capped;          /* sections of this worker for which the rule of bits asked for more
                               * than 16 bits and got 16: the error is larger than was allowed */
} terse_method_report;

/* ---- the table of methods ---- */

/* One row of the table; terse_method_describe returns its stages. All texts are constants. */
typedef struct terse_method_about {
    const char *name;
    const char *summary;
    const char *formula;  /* lines of text */
    const char *bytes;    /* sent per worker per step, as a function of d and K */
    const char *citation; /* the paper */
    const char *verified; /* what of the paper was checked, and what is assumed */
    uint32_t option_count;
} terse_method_about;

/* Index from 0; TERSE_BAD_ARGUMENT past the last. */
TERSE_API TERSE_CHECK terse_status terse_method_list(uint32_t index, terse_method_about *out);
TERSE_API TERSE_CHECK terse_status terse_method_option(uint32_t index, uint32_t option,
                                                       terse_option *out);

/* ---- what a spec chooses: read without a group or a layout ---- */

/* Checks a spec and creates nothing: TERSE_OK, or TERSE_BAD_SPEC with offset and reason. */
TERSE_API TERSE_CHECK terse_status terse_method_check(const char *spec, terse_fault *fault);

typedef enum terse_owner {
    TERSE_OWNER_NONE,     /* no rank keeps state for the others */
    TERSE_OWNER_RESIDUAL, /* owners keep the residual of what they send back */
    TERSE_OWNER_WEIGHTS,  /* owners keep the weights, update them and send them back */
} terse_owner;

/* What the spec of a method chose at each stage, and what follows from it. Arrays belong to the
 * struct, pointers are to constants; nothing is to be freed. */
typedef struct terse_method_description {
    size_t size;           /* sizeof(terse_method_description), set by the caller */
    const char *name;      /* of the method; "composed" for one of stages */
    const char *point;     /* "x", "x - lambda e", or "Q_x(x)" */
    const char *direction; /* "gradient", "momentum", "average" or "adam" */
    const char *feedback;  /* "residual" or "none" */
    const char *unit;      /* of what is encoded, and of the residual: "gradients" or "weights" */
    const char *scope;     /* of what is encoded as a unit: "tensor" (or an owner's slice of one),
                            * or "model" */
    const char *combine;   /* as named, or what suits the codec */
    const char *update;    /* "sgd", "signed", "subtract", "adam" or "replace" */
    terse_owner owner;
    uint32_t passes;                  /* of the codec: payloads per exchange */
    uint32_t dynamic_bits;            /* 1: every step chooses the bits of the codec */
    uint32_t votes;                   /* 1: the aggregate is a majority's sign, not a mean */
    uint32_t has_gradient;            /* 1: it can be made with options.aggregate_out */
    uint32_t has_eval_weights;        /* as terse_method_has_eval_weights */
    uint32_t has_plain;               /* 1: some tensors may travel as f32 (min=, plain=) */
    uint32_t has_buckets;             /* 1: buckets may be posted (terse_method_post) */
    uint32_t needs_steps;             /* 1: options.steps must not be 0 */
    uint32_t local_steps;             /* an exchange in every so many steps */
    uint64_t min;                     /* tensors with fewer elements travel as f32 */
    double lr;                        /* of the spec; a schedule may change it */
    char codec[TERSE_MAX_CODEC_SPEC]; /* complete spec */
    char back[TERSE_MAX_CODEC_SPEC];  /* of what owners send back, where that is another; or "" */
    char spec[TERSE_MAX_METHOD_SPEC]; /* complete: every option written out */
} terse_method_description;

/* Fails as terse_method_check does. `out` is written only on success, and no further than its size.
 */
TERSE_API TERSE_CHECK terse_status terse_method_describe(const char *spec,
                                                         terse_method_description *out,
                                                         terse_fault *fault);

/* One entry "name=value" of a complete spec. */
typedef struct terse_method_entry {
    const char *name;            /* a constant */
    char value[TERSE_MAX_ENTRY]; /* as in the complete spec */
    double number;               /* the value; of a choice its place in the range, from 0 */
    uint32_t is_given;           /* 1: the spec sets it; 0: it is the method's default */
    uint32_t is_stage;           /* 1: codec=, combine=, feedback=, ... or plain=, with no number */
} terse_method_entry;

/* Entry `index` from 0, in the order of the complete spec; TERSE_BAD_ARGUMENT past the last. */
TERSE_API TERSE_CHECK terse_status terse_method_entry_at(const char *spec, uint32_t index,
                                                         terse_method_entry *out,
                                                         terse_fault *fault);
/* The entry of that name; TERSE_BAD_ARGUMENT if the method has no such option. */
TERSE_API TERSE_CHECK terse_status terse_method_entry_of(const char *spec, const char *name,
                                                         terse_method_entry *out,
                                                         terse_fault *fault);

/* Writes `spec` with more options, "lr=0.02,combine=shard". An option that the spec sets stays as
 * it is, or becomes the new one where `replace` is 1; one that the method does not have is left
 * out.
 * Defaults are not written. `out` may not be `spec`; TERSE_TOO_SMALL if the result has `cap` bytes
 * or more. A fault's offset is that in `options` where these are wrong. */
TERSE_API TERSE_CHECK terse_status terse_method_spec_with(const char *spec, const char *options,
                                                          int replace, char *out, size_t cap,
                                                          terse_fault *fault);

/* ---- creation ---- */

/* `weights` (terse_layout_count floats, equal on all workers) belong to the caller, must outlive
 * the method and may be read between steps; every step writes them. The group must outlive the
 * method; the layout is copied. Collective: settings that differ are TERSE_MISMATCH on every
 * worker, and the fault names setting and rank. */
TERSE_API TERSE_CHECK terse_status terse_method_create(const char *spec, terse_group *group,
                                                       const terse_layout *layout, float *weights,
                                                       const terse_method_options *options,
                                                       terse_method **out, terse_fault *fault);

/* Creates all workers of a local group at once, for one thread that drives them all: `weights` and
 * `out` hold one entry per worker. The methods own the group. Step them with
 * terse_method_step_all. */
TERSE_API TERSE_CHECK terse_status terse_method_create_all(const char *spec, uint32_t workers,
                                                           const terse_layout *layout,
                                                           float *const *weights,
                                                           const terse_method_options *options,
                                                           terse_method **out, terse_fault *fault);

TERSE_API void terse_method_destroy(terse_method *method); /* NULL is fine */

/* ---- steps ---- */

/* The point: the weights at which the next gradient is to be taken. Valid until the step is done;
 * where buckets are posted, those of a bucket may move as soon as it is. */
TERSE_API const float *terse_method_point(const terse_method *method);

/* One step. It is committed, skipped or failed, on all workers alike.
 *
 * Skipped: TERSE_OK with report->exchange.skipped != TERSE_OK. The cause is a gradient that is not
 * finite (for Adam's second moments: whose square is not, above 1.8e19), a value outside the range
 * of the codec (1e6 in f16), or an overflow: of a sum, on any worker, or of the weights, which the
 * caller does not change between steps. All state is untouched, bit for bit, at whatever point of
 * the step the cause was found. In a local step (every=H) a worker whose gradient is not finite
 * leaves out its own step only: the others do not learn of it.
 *
 * Failed: a lost peer, a timeout, a damaged message or ranks that differ. The weights are as before
 * the step, bit for bit. So is the state, except in methods that keep both a residual and moments
 * (def, def-a, ef, saef, qadam, ef-sign with momentum, and compositions of that kind): theirs may
 * belong to no step, and then terse_method_state and terse_method_eval_weights refuse it. Every
 * later step returns TERSE_PEER_LOST. Create a new method, and restore a checkpoint. */
TERSE_API TERSE_CHECK terse_status terse_method_step(terse_method *method, const float *gradient,
                                                     terse_method_report *report,
                                                     terse_fault *fault);

/* The same with one buffer per tensor: gradient[t] is the gradient of tensor t. They are copied
 * into one buffer only where the spec needs that: for clipping, for local steps, and where the
 * gradient itself is encoded (no residual, no momentum). */
TERSE_API TERSE_CHECK terse_status terse_method_step_tensors(terse_method *method,
                                                             const float *const *gradient,
                                                             terse_method_report *report,
                                                             terse_fault *fault);

/* One step of all workers of terse_method_create_all: `gradient` holds one per worker. `report` may
 * be NULL, or holds one per worker. */
TERSE_API TERSE_CHECK terse_status terse_method_step_all(terse_method *const *method,
                                                         const float *const *gradient,
                                                         terse_method_report *report,
                                                         terse_fault *fault);

/* The same bucket by bucket while the caller still computes, see terse_exchange_post; not with
 * clipping or local steps, which need the whole gradient. With scope=model nothing can be selected
 * before all is there: finish does the whole step, and buckets may come in any order.
 *
 * Post does not wait for other ranks: a bucket is encoded and sent once it is its turn. Turns are
 * the same on all ranks: each begins with a new bucket and takes those before it one phase further.
 * So messages keep one order whatever the timing, and a bucket may have to wait for an older one's
 * messages. Post looks for those that have arrived; so does progress, which is to be called between
 * layers. Before the first bucket it opens the step, so that nobody waits for that later. */
TERSE_API TERSE_CHECK terse_status terse_method_post(terse_method *method, const float *gradient,
                                                     uint32_t first, uint32_t count,
                                                     terse_fault *fault);
/* The same with one buffer per tensor: gradient[i] is the gradient of tensor first + i. Buffers
 * stay as they are until finish returns; the array itself is not needed after the call. */
TERSE_API TERSE_CHECK terse_status terse_method_post_tensors(terse_method *method,
                                                             const float *const *gradient,
                                                             uint32_t first, uint32_t count,
                                                             terse_fault *fault);
TERSE_API TERSE_CHECK terse_status terse_method_progress(terse_method *method, terse_fault *fault);
TERSE_API TERSE_CHECK terse_status terse_method_finish(terse_method *method, const float *gradient,
                                                       terse_method_report *report,
                                                       terse_fault *fault);

/* ---- the result ---- */

/* 1 if the evaluation weights are not the training weights (def-a: x - mean e). */
TERSE_API int terse_method_has_eval_weights(const terse_method *method);

/* Writes the evaluation weights. Collective; where terse_method_has_eval_weights it costs a dense
 * all-reduce. */
TERSE_API TERSE_CHECK terse_status terse_method_eval_weights(terse_method *method, float *out,
                                                             terse_fault *fault);
/* The same for all workers of terse_method_create_all, which share one `out`. */
TERSE_API TERSE_CHECK terse_status terse_method_eval_weights_all(terse_method *const *method,
                                                                 float *out, terse_fault *fault);

/* ---- settings ---- */

/* The complete spec, every option written out. The text belongs to the method. */
TERSE_API const char *terse_method_spec(const terse_method *method);
/* Codec, combine and feedback that were chosen, see terse_exchange_settings. */
TERSE_API const char *terse_method_settings(const terse_method *method);
/* Replaces lr and schedule from the next step on. All workers must set the same value: else the
 * next exchange fails on all of them, TERSE_MISMATCH, and changes nothing. */
TERSE_API TERSE_CHECK terse_status terse_method_set_lr(terse_method *method, double lr);
TERSE_API uint64_t terse_method_steps_done(const terse_method *method);
/* Of these, the exchanges after which the weights stayed as they were because their step was too
 * long (reject=yes of topk and regtopk); restored with the state. */
TERSE_API uint64_t terse_method_steps_rejected(const terse_method *method);
TERSE_API uint32_t terse_method_workers(const terse_method *method);

/* Writes to bytes[t] how many bytes of this worker's payload were tensor t in the last exchange
 * that was committed, all passes together; 0 before the first. Their sum is the payload:
 * report.bits * elements / 8. What owners send back and what frames add is not in it. Of local and
 * skipped steps (report.exchanged, report.exchange.skipped) nothing is counted.
 * TERSE_UNSUPPORTED with scope=model: one section holds all tensors, and none has bytes of its own.
 */
TERSE_API TERSE_CHECK terse_status terse_method_tensor_bytes(const terse_method *method,
                                                             uint64_t *bytes);

/* ---- state: everything but the weights, to save and restore between steps ---- */

/* What to do with a part of the state when the number of workers changes. Aggregates are means over
 * the workers, so it is the mean of the residuals that is outstanding and must not change: every
 * new worker gets it. (Their sum would be outstanding K / K' times over, K workers before and K'
 * after.) Where the old workers had weights (options.worker_weight), every mean here is weighted by
 * them: sum w_k e_k / sum w_k. Evaluation weights and the first zero-gradient aggregate of a linear
 * codec then stay the same, to rounding. */
typedef enum terse_state_kind {
    TERSE_STATE_SHARED,   /* equal on all workers: take any worker's copy */
    TERSE_STATE_RESIDUAL, /* floats, a residual: every new worker gets the mean of the old ones */
    TERSE_STATE_OWN,    /* floats, a worker's own moments or local weights: their mean, likewise */
    TERSE_STATE_SLICES, /* floats, all bits 0 outside a worker's slices: join the bits of all, and
                         * give every new worker the whole; terse_method_restored cuts it */
    TERSE_STATE_HINT,   /* drop it: the next step works without it */
} terse_state_kind;

typedef struct terse_state {
    const char *name; /* constant */
    void *bytes; /* the method's own buffer: read it to save, write it to restore; valid until the
                  * next step, which may use another buffer */
    size_t len;
    terse_state_kind kind;
    uint32_t floats; /* 1: `bytes` are floats, one for each element of the layout */
} terse_state;

/* Part `index`, from 0; TERSE_BAD_ARGUMENT past the last. Names and lengths depend only on spec,
 * layout and number of workers. TERSE_PEER_LOST, whatever the index, where a failed step has left
 * a state of no step: there is nothing to save. */
TERSE_API TERSE_CHECK terse_status terse_method_state(terse_method *method, uint32_t index,
                                                      terse_state *out);
/* Call it after all parts and the weights have been written: it computes the point. */
TERSE_API TERSE_CHECK terse_status terse_method_restored(terse_method *method, terse_fault *fault);

#ifdef __cplusplus
}
#endif
#endif
