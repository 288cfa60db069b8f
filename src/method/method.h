/* A method from inside. A step of it is one file to read, step.c; what it needs beside: the stages
 * that a spec chose (stages.c), how the object is made (create.c, collective.c), numbers of a step
 * (rates.c, bits.c), records between ranks (record.c), its end (commit.c). */
#ifndef TSI_METHOD_H
#define TSI_METHOD_H

#include "combine/combine.h"
#include "direction/direction.h"
#include "feedback/posterior.h"
#include "method/settings.h"
#include "update/update.h"

/* The stages that a spec has chosen. */
struct tsi_stages {
    enum tsi_point point;
    enum tsi_direction direction;
    enum tsi_unit unit;
    enum tsi_update_kind update;
    int residual; /* 1: error feedback */
    int local;    /* 1: every > 1, local steps between exchanges */
    int model;    /* 1: scope=model, all parameters are one piece */
    char codec[TSI_MAX_WORD];
    char back[TSI_MAX_WORD]; /* codec of owners; "" for the same */
    const char *combine;     /* NULL: what suits the codec */
    int tie_coin;
    uint64_t min;      /* tensors with fewer elements travel plain, */
    const char *plain; /* and those whose names match; NULL: none */
};

/* ---- records: small all-gathers around and between steps ---- */

#define TSI_MAX_RECORD 16u /* numbers, the check included */

enum tsi_record_kind { TSI_RECORD_SETTINGS = 1, TSI_RECORD_OPENING, TSI_RECORD_CLOSING };

/* A record is a few numbers and a check of them, keyed by what the record is for and who sends it:
 * nothing of a peer is used unchecked. */
struct tsi_agreement {
    terse_group *group;
    uint32_t rank;
    uint32_t workers;
    terse_request request;
    uint64_t mine[TSI_MAX_RECORD];
    uint64_t *theirs; /* TSI_MAX_RECORD numbers for each rank */
    void **at;        /* by rank: its record, after a wait NULL where it arrived damaged */
    size_t *len;
    uint64_t key[4]; /* kind, run, step, sender */
    size_t count;    /* numbers of a record, without the check */
};

/* Numbers that change with every step and are equal on all workers. */
struct tsi_progress {
    uint64_t step;   /* steps done, local ones too */
    uint64_t rounds; /* exchanges done: the step of random keys */
    double lr_given; /* by terse_method_set_lr, or -1 */
};

/* Sums of a line through the logs of norms, by their age: those of the past count less. */
struct tsi_trend {
    double count;
    double time; /* exchanges, 0 is the last one and the past is negative */
    double time_square;
    double log; /* log2 |g| */
    double log_time;
};

/* What DQ-SGD's rules remember of one piece, encoded by a worker or back by its owner. */
struct tsi_bit_record {
    double spent;           /* bits so far */
    double mean;            /* of the statistic that the rule follows, if not its trend */
    double now;             /* the statistic of this step */
    double chosen;          /* bits of this step; 0: none were chosen */
    double capped;          /* 1: more than the most bits were asked for */
    double steps;           /* that trend, mean and spent are over */
    struct tsi_trend trend; /* of the norm (bits=average) */
};

/* State that a step writes beside the old one and a commit swaps in, so that a step that is not
 * committed leaves no trace. */
struct tsi_pair {
    float *now;
    float *next;
};

/* Flat buffers; NULL where the stages need none. */
struct tsi_buffers {
    float *weights;           /* the caller's */
    float *point;             /* where gradients are taken, unless that is the weights */
    struct tsi_pair residual; /* e */
    struct tsi_pair change;   /* what is encoded, where that is not e, m or g; local steps add up */
    struct tsi_pair m;        /* moments of the direction */
    struct tsi_pair v;
    struct tsi_pair owner; /* residual or weights of this rank's slices */
    float *update_m;       /* moments of the update */
    float *update_v;
    float *update_v_most;
    float *worker_weight;   /* by rank; NULL: all are equal */
    float *one;             /* what one rank has sent, where contributions are weighted */
    float *dense;           /* aggregates grow here, unless in the caller's buffer */
    float *flat;            /* a gradient that came by tensor, or whose elements are clipped */
    const float **gathered; /* gradients posted by tensor; with scope=model NULL is "none yet" */
    float *eval_sum;        /* of terse_method_eval_weights; a failed group may still write there */
    float *eval_scratch;
};

/* Upper bounds of what an update moves. */
struct tsi_reach {
    int known;
    double weights;
    double m; /* of the update */
};

/* reject=yes: how far the weights may move in a step, and how often they were to move further. A
 * part of the state, equal on all workers. */
struct tsi_rejection {
    double least;   /* |x_new - x_old|^2 of the shortest step that is rejected */
    uint64_t count; /* steps that were */
};

/* Upper bounds of magnitudes, see rates.c. */
struct tsi_bounds {
    int known;
    double weights;
    double m;
    double residual;
    double ratio; /* |m| / sqrt(v) */
    struct tsi_reach reach;
    struct tsi_rejection rejection;
};

enum tsi_step_state {
    TSI_STEP_NONE,
    TSI_STEP_GATHERING, /* scope=model: some buckets were posted, nothing else has happened */
    TSI_STEP_OPENING,   /* the opening record is under way */
    TSI_STEP_SENDING,   /* buckets are sent and make their phases */
    TSI_STEP_CLOSING,   /* the closing record is under way */
};

/* Turn t sends bucket t and takes those before it one phase further, see step.c. */
struct tsi_turns {
    uint32_t begun;
    uint32_t left;  /* buckets below this one have not made their phase of the last turn */
    uint32_t first; /* buckets before this one have their aggregate */
};

/* The step under way. */
struct tsi_step {
    enum tsi_step_state state;
    struct tsi_collective *in;
    const float *gradient;       /* flat, */
    const float *const *tensors; /* or by tensor */
    int posting;                 /* buckets come one by one */
    int scores;                  /* RegTop-k, and not its warm-up */
    int moves_point;             /* slices move their point, see produce in step.c */
    uint32_t limit;              /* bits of the least magnitude that a gradient must not have */
    int checked;                 /* the gradient was found finite before the step opened */
    int in_place;                /* state is written over the old one: nothing can overflow late */
    int torn;                    /* failed in place: residual and moments belong to no step */
    float lr;
    struct tsi_direct direct; /* its numbers, and the whole of its buffers */
    int measuring;
    double source_square;       /* |what is encoded|^2, where that is measured */
    struct tsi_bucket **posted; /* in order; at most one per tensor */
    const float **flat;         /* the buffer that each is a part of; NULL: it came by tensor */
    uint32_t posted_count;
    uint64_t *tensor_bytes; /* by tensor: of the last committed exchange, then of this step */
    struct tsi_turns turns;
    terse_status status; /* what went wrong outside of all buckets */
    terse_fault fault;
    uint64_t sent_before; /* the group's traffic when the step opened */
    uint64_t received_before;
};

enum { TSI_MAIN, TSI_WARM_UP, TSI_COLLECTIVES };

struct terse_method {
    struct tsi_settings settings;
    struct tsi_stages stages;
    struct tsi_progress progress;
    terse_method_options options;
    terse_layout *layout;
    terse_group *group;
    int owns_group;
    uint32_t rank;
    uint32_t workers;
    size_t count;
    struct tsi_collective *collective[TSI_COLLECTIVES]; /* the warm-up's may be NULL */
    struct tsi_agreement agreement;
    struct tsi_buffers buffers;
    struct tsi_bounds bounds;
    struct tsi_step step;
    struct tsi_sparse_clear clear; /* of a private output */
    struct tsi_posterior posterior;
    struct tsi_bit_rule rule;
    struct tsi_bit_record *bits; /* by role (worker, owner) and slot */
    size_t slots;
    terse_status failed; /* why it is of no use any more, or TERSE_OK */
    terse_fault cause;
    int told; /* 1: the other ranks know */
    char spec[TERSE_MAX_METHOD_SPEC];
};

static inline double tsi_value(const terse_method *method, enum tsi_setting which)
{
    return method->settings.value[which];
}

/* Is what this step encodes the gradient itself, untouched? Then it lies in none of the buffers. */
static inline int tsi_encodes_gradient(const terse_method *method)
{
    const struct tsi_buffers *const buffers = &method->buffers;
    return (!buffers->residual.now && !buffers->change.next && !buffers->m.now) ||
           method->progress.step < (uint64_t)tsi_value(method, TSI_SIGN_WARMUP);
}

/* Is the gradient needed in one piece: for its norm, for its elements to be clipped, for local
 * steps, or because it is itself what is encoded? */
static inline int tsi_needs_flat(const terse_method *method)
{
    return tsi_value(method, TSI_CLIP) != 0 || tsi_value(method, TSI_SIGMA) != 0 ||
           method->stages.local || tsi_encodes_gradient(method);
}

/* ---- stages.c ---- */

/* Settings and stages of a spec whose codec exists. `out` may point into `settings`. */
TERSE_CHECK terse_status tsi_stages_read(const char *spec, struct tsi_settings *settings,
                                         struct tsi_stages *out, terse_fault *fault);
/* The combine that the stages name, or the one that suits the codec; TERSE_BAD_SPEC where the two
 * do not go together. */
TERSE_CHECK terse_status tsi_stages_combine(const struct tsi_stages *stages,
                                            const terse_codec_about *codec,
                                            const struct tsi_combine_ops **out, terse_fault *fault);
/* May some tensors travel as f32 (min=, plain=)? */
int tsi_has_plain(const terse_codec_about *codec, const struct tsi_combine_ops *combine);
/* Is the aggregate a majority's sign? */
int tsi_votes(const terse_codec_about *codec, const struct tsi_combine_ops *combine);
/* What an owner makes of the sum. */
enum tsi_owner_kind tsi_stages_owner(const struct tsi_stages *stages,
                                     const struct tsi_combine_ops *combine);
/* TERSE_OK if the aggregate is a gradient for an optimizer elsewhere (options.aggregate_out);
 * methods that are optimizers have none. */
TERSE_CHECK terse_status tsi_stages_gradient(const struct tsi_settings *settings,
                                             const struct tsi_stages *stages, terse_fault *fault);
/* What of the settings needs the number of steps (options.steps); NULL: nothing. */
const char *tsi_settings_need_steps(const struct tsi_settings *settings);

extern const char *const tsi_update_names[TSI_UPDATE_REPLACE + 1];

/* ---- collective.c ---- */

/* Makes a collective of the method's stages, or of its warm-up, and posts its settings to all
 * ranks; tsi_collective_agree compares them. A failure here is told to the others. */
TERSE_CHECK terse_status tsi_collective_create(terse_method *method, int which, terse_fault *fault);
TERSE_CHECK terse_status tsi_collective_agree(terse_method *method, int which, terse_fault *fault);
void tsi_collective_destroy(struct tsi_collective *in);
/* Tells the other ranks that this one will have no collective: `why` is a failure. */
void tsi_collective_refuse(terse_group *group, terse_status why);

/* ---- create.c ---- */

/* Options of this library's size, which begin with it; callers built with an earlier library give
 * fewer, or NULL for none. */
TERSE_CHECK terse_status tsi_options_read(const void *given, size_t size, void *out,
                                          terse_fault *fault);
/* What terse_method_create does once the stages are known; terse_exchange_create begins here. */
TERSE_CHECK terse_status tsi_method_prepare(terse_method *method, terse_group *group,
                                            const terse_layout *layout, float *weights,
                                            terse_fault *fault);
TERSE_CHECK terse_status tsi_method_connect(terse_method **methods, uint32_t count,
                                            terse_fault *fault);
/* A buffer of zeros where it is needed and not there yet; 0 without memory. */
int tsi_buffer_make(float **out, int needed, size_t count);
/* The second buffer of every pair, for steps that are not in place; 0 without memory. */
int tsi_buffers_complete(terse_method *method);

/* ---- step.c ---- */

/* Begins a step of a whole gradient (flat or by tensor), or of buckets (`posting`). */
TERSE_CHECK terse_status tsi_step_begin(terse_method *method, const float *gradient,
                                        const float *const *tensors, int posting,
                                        terse_fault *fault);
/* Adds a bucket, which is sent when it is its turn; `gradient` is the flat buffer that it is a part
 * of, or NULL. */
void tsi_step_add(terse_method *method, struct tsi_bucket *bucket, const float *gradient);
/* What can be done without waiting, in a step whose last bucket may not have been posted yet. */
TERSE_CHECK terse_status tsi_step_advance(terse_method *method, terse_fault *fault);
/* The next thing that waits, once all buckets were posted: opening, a turn, closing. *done:
 * committed or skipped, as the report says. */
TERSE_CHECK terse_status tsi_step_progress(terse_method *method, int *done,
                                           terse_method_report *report, terse_fault *fault);
/* Is this a method that takes its steps alone, and a gradient? */
TERSE_CHECK terse_status tsi_check_one(const terse_method *method, const void *gradient,
                                       terse_fault *fault);
/* Does each of the tensors `first` .. `first` + `count` - 1 have a gradient? */
TERSE_CHECK terse_status tsi_check_tensors(const terse_method *method, const float *const *gradient,
                                           uint32_t first, uint32_t count, terse_fault *fault);
/* Copies the gradients of these tensors into `buffers.flat`. */
TERSE_CHECK terse_status tsi_flatten(terse_method *method, const float *const *gradient,
                                     uint32_t first, uint32_t count, terse_fault *fault);

/* ---- send.c ---- */

/* Produces a bucket's part of the gradient and makes the first phase of its combine. */
TERSE_CHECK terse_status tsi_step_send(terse_method *method, struct tsi_bucket *bucket);

/* ---- record.c ---- */

TERSE_CHECK terse_status tsi_agreement_create(struct tsi_agreement *agreement, terse_group *group);
void tsi_agreement_destroy(struct tsi_agreement *agreement);
/* Sends `count` numbers to every rank; wait checks what came from each. */
TERSE_CHECK terse_status tsi_agreement_post(struct tsi_agreement *agreement,
                                            enum tsi_record_kind kind, uint64_t run, uint64_t step,
                                            const uint64_t *numbers, size_t count,
                                            terse_fault *fault);
TERSE_CHECK terse_status tsi_agreement_wait(struct tsi_agreement *agreement, terse_fault *fault);

/* Opens a step: is the gradient known to be finite, and what is encoded at most? A method that has
 * failed says so. */
TERSE_CHECK terse_status tsi_opening_post(terse_method *method, int finite, double bound,
                                          terse_fault *fault);
/* *nonfinite: the first rank whose gradient is not finite, or as before; *bound: the largest. */
TERSE_CHECK terse_status tsi_openings_read(terse_method *method, int32_t *nonfinite, double *bound,
                                           terse_fault *fault);
/* Closes it: step.status and step.fault become the first failure of this worker, and whom it
 * blames. */
TERSE_CHECK terse_status tsi_closing_post(terse_method *method, terse_fault *fault);
/* TERSE_OK only if all ranks say so and hold the same aggregate. *largest: what none of the sums
 * that it was made of exceeds. */
TERSE_CHECK terse_status tsi_closings_read(terse_method *method, double *largest, terse_fault *why);
/* A gradient that cannot be encoded, and a sum that overflows, make everybody skip the step; nobody
 * is broken by it. */
int tsi_is_skip(terse_status status);

/* ---- commit.c ---- */

/* Where the next gradients are taken, from weights and residual. */
void tsi_method_point(terse_method *method);
/* The same for elements whose weights and residual will not change any more in this step. */
void tsi_move_point(const terse_method *method, const float *residual, size_t first, size_t count);
/* Do the weights stay finite, and the moments of the update, if no sum of all workers exceeds
 * `largest`? Bounds tell; where they do not, and the aggregates are there, the update is tried on
 * copies. All ranks hold the same numbers and find the same. */
int tsi_weights_stay_finite(terse_method *method, double largest);
/* Sets the limit of a first step where there is none yet, or where what was restored is none. */
void tsi_rejection_check(struct tsi_rejection *rejection);
/* Commits, or skips where `skipped` says why, and fills in the report. */
void tsi_step_end(terse_method *method, terse_status skipped, int32_t skipped_by,
                  terse_method_report *report);
/* Leaves everything as before the step. */
void tsi_step_skip(terse_method *method);

/* ---- rates.c ---- */

/* The gradient of tensors first .. first+count-1 as this step takes it: `gradient`, or the method's
 * own buffer with elements clipped (sigma). Both are flat, of all elements. */
const float *tsi_clip_gradient(terse_method *method, const float *gradient, uint32_t first,
                               uint32_t count);
/* step.lr and the numbers of step.direct. */
void tsi_choose_rates(terse_method *method);
/* An upper bound of what this worker will encode in this step, for a gradient whose magnitudes are
 * at most `gradient`; infinity where there is none. */
double tsi_bound_step(terse_method *method, double gradient);
/* Is a late overflow ruled out if no worker encodes more than `largest`? */
int tsi_bound_is_safe(terse_method *method, double largest);
/* The magnitude that these bits of a float are; infinity where it is none. */
double tsi_magnitude(uint32_t bits);
/* Is it ruled out that the update overflows if no sum of all workers exceeds `largest`? */
int tsi_reach_is_safe(terse_method *method, const struct tsi_update *update, double largest);

/* ---- bits.c: DQ-SGD's rules ---- */

unsigned tsi_method_bits(void *method, const struct tsi_call *call, const float *in, float norm);
/* TERSE_BAD_SPEC where the error that is allowed cannot be kept with any number of bits. */
TERSE_CHECK terse_status tsi_method_bits_check(const terse_method *method, terse_fault *fault);
/* Returns how many sections of this step were to have more than 16 bits. */
uint32_t tsi_method_bits_commit(terse_method *method);
void tsi_method_bits_forget(terse_method *method); /* those of a step that was skipped */
void tsi_method_bits_restored(terse_method *method);

#endif
