/* The exchange from inside: who agrees on what (agree.c), what the options mean (settings.c), and
 * a step: its phases (step.c), its buckets (buckets.c), its end (close.c). */
#ifndef TSI_EXCHANGE_H
#define TSI_EXCHANGE_H

#include "combine/combine.h"

#define TSI_MAX_SETTINGS 512u

/* What workers must have in common, in the order in which differences are named. */
enum {
    TSI_AGREE_STATUS, /* 0, or why a worker has no exchange */
    TSI_AGREE_VERSION,
    TSI_AGREE_LAYOUT,
    TSI_AGREE_METHOD,
    TSI_AGREE_CODEC,
    TSI_AGREE_BACK,
    TSI_AGREE_COMBINE,
    TSI_AGREE_MEMORY,
    TSI_AGREE_TIE,
    TSI_AGREE_POLICY,
    TSI_AGREE_SEED,
    TSI_AGREE_COMPARE,
    TSI_AGREE_WEIGHTS,
    TSI_AGREE_FIELDS
};

/* What a method asks of its exchange beyond the public options; zero for none of it. */
struct tsi_exchange_plan {
    const terse_exchange_options *options;
    const struct tsi_host *host;
    const struct tsi_bit_rule *rule; /* bits that vary: lengths travel before payloads */
    const char *back;                /* codec of the way back, where it is another one */
    float *memory;                   /* of the caller's; else the exchange has its own */
    float *answer;                   /* NULL, or a buffer of the caller's for it to grow in */
    uint64_t method_hash;            /* of the method's settings */
    uint64_t weights_hash;           /* of the weights that all start from */
};

/* Where a step stands: each phase ends by waiting for what the one before it said. */
enum tsi_phase {
    TSI_IDLE,
    TSI_OPENING,
    TSI_MOVING,
    TSI_CLOSING,
    TSI_COMPARING,
};

struct terse_exchange {
    struct tsi_room room;
    const struct tsi_combine_ops *combine;
    float *own_sum;             /* where the caller has no room for the answer to grow in */
    struct tsi_bucket **bucket; /* every bucket that was ever posted */
    uint32_t bucket_count;
    uint32_t bucket_cap;
    struct tsi_bucket **posted; /* those of this step, in order */
    uint32_t posted_count;
    float *own_memory;    /* the error memory, unless it is the caller's */
    float *memory_before; /* of this step, where buckets are posted one by one */
    float *owner_memory_before;
    uint8_t *plain; /* by tensor: says it as f32 */
    uint64_t record[TSI_AGREE_FIELDS];
    uint64_t settings_hash;
    uint64_t step;
    uint32_t compare_every;
    int skip_finite_check;
    enum tsi_phase phase;
    const float *gradient; /* of this step */
    float *answer;         /* where its answer goes, unless a host takes it */
    int skip;              /* a gradient that was posted is not finite */
    terse_status broken;   /* why it is of no use any more, or TERSE_OK */
    terse_fault cause;
    uint64_t said_before; /* the group's traffic when the step opened */
    uint64_t heard_before;
    terse_request agreement;         /* under way */
    uint64_t mine[TSI_AGREE_FIELDS]; /* what this worker says in it */
    uint64_t *heard;                 /* and all say: TSI_AGREE_FIELDS numbers for each rank */
    void **heard_at;
    size_t *heard_len;
    char settings[TSI_MAX_SETTINGS];
};

/* exchange.c: creation in two halves, so that one thread can make those of several seats. What
 * prepare has made is destroyed also when settled fails. */
TERSE_CHECK terse_status tsi_exchange_prepare(terse_group *group, const terse_layout *layout,
                                              const struct tsi_exchange_plan *plan,
                                              terse_exchange **out, terse_fault *fault);
TERSE_CHECK terse_status tsi_exchange_settled(terse_exchange *exchange, terse_fault *fault);
/* Takes part in the others' creation to tell them that there will be none: `why` is a failure. */
void tsi_exchange_refuse(terse_group *group, terse_status why);

/* settings.c: fills in room, combine and record. */
TERSE_CHECK terse_status tsi_exchange_settle(terse_exchange *exchange, const terse_layout *layout,
                                             const struct tsi_exchange_plan *plan,
                                             terse_fault *fault);

/* agree.c; all of them are collective: say, then agree. */

/* Compares records; a difference is TERSE_MISMATCH on all. `mine` is this worker's own failure. */
TERSE_CHECK terse_status tsi_say_settings(terse_exchange *exchange, terse_status mine,
                                          terse_fault *fault);
TERSE_CHECK terse_status tsi_agree_settings(terse_exchange *exchange, terse_fault *fault);
/* Opens a step: the same step and settings everywhere. *skipped_by = the lowest rank that is not
 * ready, or -1. */
TERSE_CHECK terse_status tsi_say_open(terse_exchange *exchange, int ready, terse_fault *fault);
TERSE_CHECK terse_status tsi_agree_open(terse_exchange *exchange, int32_t *skipped_by,
                                        terse_fault *fault);
/* Closes it: TERSE_OK when it was well everywhere. Else the failure of the lowest rank that knows
 * whom to blame; a skip (TERSE_NOT_FINITE) names its rank. */
TERSE_CHECK terse_status tsi_say_close(terse_exchange *exchange, terse_status mine, int32_t blamed,
                                       terse_fault *fault);
TERSE_CHECK terse_status tsi_agree_close(terse_exchange *exchange, terse_fault *fault);
/* Compares hashes of a result; TERSE_MISMATCH names the rank that differs from most. */
TERSE_CHECK terse_status tsi_say_hash(terse_exchange *exchange, uint64_t hash, terse_fault *fault);
TERSE_CHECK terse_status tsi_agree_hash(terse_exchange *exchange, terse_fault *fault);

/* step.c: a step of the whole gradient, phase by phase. Advance makes one phase; all seats make as
 * many. The answer goes to the host, or to exchange->answer. `gradient` may be NULL where a host
 * directs; `fit`: it is finite. */
TERSE_CHECK terse_status tsi_exchange_begin(terse_exchange *exchange, const float *gradient,
                                            int fit, terse_fault *fault);
TERSE_CHECK terse_status tsi_exchange_advance(terse_exchange *exchange, int *done,
                                              terse_exchange_report *report, terse_fault *fault);
/* What every call that works on a step is checked for. */
TERSE_CHECK terse_status tsi_step_ready(const terse_exchange *exchange, terse_fault *fault);
/* Says that this worker is (not) ready for the step. */
TERSE_CHECK terse_status tsi_step_open(terse_exchange *exchange, int ready, terse_fault *fault);

/* buckets.c */

/* Ends a step whose buckets were posted one by one. */
TERSE_CHECK terse_status tsi_exchange_finish(terse_exchange *exchange, const float *gradient,
                                             terse_exchange_report *report, terse_fault *fault);

/* The bucket of these tensors, made when it is first asked for. */
TERSE_CHECK terse_status tsi_step_bucket(terse_exchange *exchange, uint32_t first, uint32_t count,
                                         struct tsi_bucket **out, terse_fault *fault);
/* Brings a bucket's gradient into the memory and makes its first move; fails only if the group
 * does. `early`: not all gradients were seen yet. */
TERSE_CHECK terse_status tsi_step_say(terse_exchange *exchange, const struct tsk_table *kernel,
                                      struct tsi_bucket *bucket, int fit);
/* The next move of a bucket; a failure of its own is noted in it and told by the agreement. */
TERSE_CHECK terse_status tsi_step_move(const terse_exchange *exchange, struct tsi_bucket *bucket);

/* close.c */

/* A failure of the group itself, after which nothing can be told to anybody. */
int tsi_is_death(terse_status status);
/* Says how it went here. `moved` is a death, or TERSE_OK. */
TERSE_CHECK terse_status tsi_step_close(terse_exchange *exchange, terse_status moved,
                                        terse_fault *fault);
/* Hears how it went elsewhere: *done, the answer is written or the step skipped; or answers are to
 * be compared. */
TERSE_CHECK terse_status tsi_step_closed(terse_exchange *exchange, int *done,
                                         terse_exchange_report *report, terse_fault *fault);
TERSE_CHECK terse_status tsi_step_compared(terse_exchange *exchange, terse_exchange_report *report,
                                           terse_fault *fault);
/* From here on the exchange is of no use; what was said is back in the memories. */
terse_status tsi_step_break(terse_exchange *exchange, terse_status status,
                            const terse_fault *fault);
void tsi_step_report(terse_exchange *exchange, terse_status skipped, int32_t skipped_by,
                     terse_exchange_report *report);

#endif
