/* A method trains: weights in, gradients in, weights out. It is one choice at each stage: where
 * the gradient is taken (point), what it becomes (direction), how it is said and combined (an
 * exchange), what the answer does to the weights (update).
 *
 *     terse_method_create("def:ratio=64,lambda=0.3,lr=0.05", group, layout, weights, &options,
 *                         &method, &fault);
 *     for (...) {
 *         const float *at = terse_method_point(method);            // take the gradient here
 *         ...
 *         terse_method_step(method, gradient, &report, &fault);    // weights are equal again
 *     }
 *
 * `terse_method_list` knows all methods; a SPEC may also compose one of stages:
 * "direction=momentum,feedback=residual,codec=topk:keep=0.01,combine=allgather,update=subtract".
 *
 * All workers make it with equal spec, options and weights and call it in the same order. A step
 * happens on all of them or on none. A method belongs to one thread at a time; it allocates in
 * create and in the first step. */
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
    size_t size;      /* sizeof(terse_method_options), for later additions */
    uint64_t seed;    /* of every draw */
    uint64_t steps;   /* of the whole training: schedules and bit budgets need it; 0 unknown */
    uint32_t threads; /* of codecs and passes; 1. Never changes a result. */
    uint32_t compare_every;     /* compare a hash of the answer every so many exchanges; 0 never */
    uint32_t measure_every;     /* measure memory and error every so many steps; 0 never */
    uint32_t skip_finite_check; /* 1: the caller has checked that gradients are finite */

    /* 1: `weights` are no weights: a step writes there what all agreed on (mean or majority), for
     * an optimizer elsewhere; a step that is skipped, anything. There is no lr, decay or momentum
     * of the update; methods whose answer are weights, and every > 1, are refused. */
    uint32_t aggregate_out;
    uint32_t private_output; /* 1: nobody else writes to that buffer. A sparse answer then costs
                              * what it says, not a pass over all elements. */
} terse_method_options;

/* What a step did. */
typedef struct terse_method_report {
    terse_exchange_report exchange; /* all zero for a local step (every=H) */
    uint64_t step;                  /* its number, from 0 */
    double lr;
    double bits;              /* of this worker's payload, per element */
    double residual_norm;     /* |e| after the step; NaN where not measured or without memory */
    double compression_error; /* |e| / |what was to be said|; NaN likewise */
    uint32_t exchanged;       /* 0: a local step */
    uint32_t reserved;
} terse_method_report;

/* ---- what there is ---- */

/* A method as the table has it; terse_method_describe tells its stages. All texts are constants. */
typedef struct terse_method_about {
    const char *name;
    const char *summary;
    const char *formula;  /* lines of text */
    const char *bytes;    /* per step and worker, as a function of d and K */
    const char *citation; /* of the paper */
    const char *verified; /* what of it could be checked, and what is assumed */
    uint32_t option_count;
} terse_method_about;

/* Index from 0; TERSE_BAD_ARGUMENT past the last. */
TERSE_API TERSE_CHECK terse_status terse_method_list(uint32_t index, terse_method_about *out);
TERSE_API TERSE_CHECK terse_status terse_method_option(uint32_t index, uint32_t option,
                                                       terse_option *out);

/* ---- what a spec chooses: read without a group or a layout ---- */

/* Reads a spec without making anything: TERSE_OK, or TERSE_BAD_SPEC with offset and reason. */
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
    const char *combine;   /* as named, or what suits the codec */
    const char *update;    /* "sgd", "signed", "subtract", "adam" or "replace" */
    terse_owner owner;
    uint32_t passes;           /* of the codec: payloads per exchange */
    uint32_t dynamic_bits;     /* 1: every step chooses the bits of the codec */
    uint32_t votes;            /* 1: the aggregate is a majority's sign, +1 or -1, not a mean */
    uint32_t has_gradient;     /* 1: it can be made with options.aggregate_out */
    uint32_t has_eval_weights; /* as terse_method_has_eval_weights */
    uint32_t has_plain;        /* 1: some tensors may travel as f32 (min=, plain=) */
    uint32_t has_buckets;      /* 1: buckets may be posted (terse_method_post) */
    uint32_t needs_steps;      /* 1: options.steps must not be 0 */
    uint32_t local_steps;      /* an exchange in every so many steps */
    uint64_t min;              /* tensors with fewer elements travel as f32 */
    double lr;                 /* of the spec; a schedule may change it */
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

/* Writes `spec` with more options, "lr=0.02,min=1024". An option that the spec sets stays as it is,
 * or becomes the new one where `replace` is 1; one that the method does not have is left out.
 * Defaults are not written. `out` may not be `spec`; TERSE_TOO_SMALL if the result has `cap` bytes
 * or more. A fault's offset is that in `options` where these are wrong. */
TERSE_API TERSE_CHECK terse_status terse_method_spec_with(const char *spec, const char *options,
                                                          int replace, char *out, size_t cap,
                                                          terse_fault *fault);

/* ---- making one ---- */

/* `weights` (terse_layout_count floats, equal on all workers) stay the caller's, who must keep them
 * valid and may read them between steps; every step writes them. The group must outlive the method;
 * the layout is copied. Collective: settings that differ are TERSE_MISMATCH on every worker. */
TERSE_API TERSE_CHECK terse_status terse_method_create(const char *spec, terse_group *group,
                                                       const terse_layout *layout, float *weights,
                                                       const terse_method_options *options,
                                                       terse_method **out, terse_fault *fault);

/* All workers of a local group at once, for one thread that drives them all: `weights` and `out`
 * hold one for each worker. The group is theirs. Drive them with terse_method_step_all. */
TERSE_API TERSE_CHECK terse_status terse_method_create_all(const char *spec, uint32_t workers,
                                                           const terse_layout *layout,
                                                           float *const *weights,
                                                           const terse_method_options *options,
                                                           terse_method **out, terse_fault *fault);

TERSE_API void terse_method_destroy(terse_method *method); /* NULL is fine */

/* ---- steps ---- */

/* Where the next gradient is to be taken; valid until the next call on the method. */
TERSE_API const float *terse_method_point(const terse_method *method);

/* One step. A gradient that is not finite on one worker skips the step on all: TERSE_OK,
 * report->exchange.skipped says so, and all state is untouched. (Between exchanges, every=H, a
 * worker leaves its own step out: the others cannot know.) What a codec cannot say, and a sum that
 * overflows, are found later: the step is skipped too, and state is restored to rounding; PowerSGD
 * forgets its factors. On any other failure the weights
 * are as before the step, what was said is back in memory, and the method answers TERSE_PEER_LOST
 * from then on. */
TERSE_API TERSE_CHECK terse_status terse_method_step(terse_method *method, const float *gradient,
                                                     terse_method_report *report,
                                                     terse_fault *fault);

/* The same with every tensor's gradient where it lies: gradient[t] holds that of tensor t. They are
 * copied together only where the spec needs one piece: clipping, local steps, and where the
 * gradient itself is what is said. */
TERSE_API TERSE_CHECK terse_status terse_method_step_tensors(terse_method *method,
                                                             const float *const *gradient,
                                                             terse_method_report *report,
                                                             terse_fault *fault);

/* One step of all workers of terse_method_create_all: `gradient` holds one for each. `report` may
 * be NULL, or has room for one of each. */
TERSE_API TERSE_CHECK terse_status terse_method_step_all(terse_method *const *method,
                                                         const float *const *gradient,
                                                         terse_method_report *report,
                                                         terse_fault *fault);

/* Tensor by tensor while the caller still computes, as with terse_exchange_post; not with clipping
 * or local steps, which need all of the gradient. */
TERSE_API TERSE_CHECK terse_status terse_method_post(terse_method *method, const float *gradient,
                                                     uint32_t first, uint32_t count,
                                                     terse_fault *fault);
TERSE_API TERSE_CHECK terse_status terse_method_finish(terse_method *method, const float *gradient,
                                                       terse_method_report *report,
                                                       terse_fault *fault);

/* ---- the result ---- */

/* 1 if the point to evaluate and deploy is not the weights (def-a). */
TERSE_API int terse_method_has_eval_weights(const terse_method *method);

/* Writes that point: collective, costs a dense sum where terse_method_has_eval_weights. */
TERSE_API TERSE_CHECK terse_status terse_method_eval_weights(terse_method *method, float *out,
                                                             terse_fault *fault);
/* The same for all workers of terse_method_create_all; `out` is the one point of all. */
TERSE_API TERSE_CHECK terse_status terse_method_eval_weights_all(terse_method *const *method,
                                                                 float *out, terse_fault *fault);

/* ---- settings ---- */

/* The complete spec, every option written out; belongs to the method. */
TERSE_API const char *terse_method_spec(const terse_method *method);
/* What its exchange chose, as terse_exchange_settings. */
TERSE_API const char *terse_method_settings(const terse_method *method);
/* Replaces lr and schedule from the next step on; the same on all workers. */
TERSE_API TERSE_CHECK terse_status terse_method_set_lr(terse_method *method, double lr);
TERSE_API uint64_t terse_method_steps_done(const terse_method *method);
TERSE_API uint32_t terse_method_workers(const terse_method *method);

/* ---- state: everything but the weights, to save and restore between steps ---- */

/* What becomes of a part of the state when the number of workers changes. */
typedef enum terse_state_kind {
    TERSE_STATE_SHARED,   /* equal on all: any worker's copy */
    TERSE_STATE_RESIDUAL, /* error memory: the sum over workers must stay */
    TERSE_STATE_OWN,      /* a worker's own moments: new workers may copy another's */
    TERSE_STATE_SLICES,   /* floats, zero outside a worker's slices: the sum is the whole */
    TERSE_STATE_HINT,     /* may be dropped: the next step does without */
} terse_state_kind;

typedef struct terse_state {
    const char *name; /* constant */
    void *bytes;      /* the method's own, until the next step: read to save, write to restore */
    size_t len;
    terse_state_kind kind;
    uint32_t floats; /* 1: `bytes` are floats */
} terse_state;

/* Part `index` from 0; TERSE_BAD_ARGUMENT past the last. Names and lengths depend on spec, layout
 * and number of workers alone. */
TERSE_API TERSE_CHECK terse_status terse_method_state(terse_method *method, uint32_t index,
                                                      terse_state *out);
/* To be called once every part (and the weights) have been written: makes the point anew. */
TERSE_API TERSE_CHECK terse_status terse_method_restored(terse_method *method, terse_fault *fault);

#ifdef __cplusplus
}
#endif
#endif
