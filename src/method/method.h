/* A method from inside: what its spec chose (stations.c), how it is made (create.c), what it does
 * inside a step of its exchange (host.c), the step itself (step.c). */
#ifndef TSI_METHOD_H
#define TSI_METHOD_H

#include "exchange/exchange.h"
#include "memory/posterior.h"
#include "method/table.h"
#include "update/blank.h"
#include "update/update.h"

/* The stations a spec has chosen. */
struct tsi_stations {
    enum tsi_point point;
    enum tsi_direction direction;
    enum tsi_unit unit;
    enum tsi_update_kind update;
    int residual; /* has error memory */
    int local;    /* every > 1: local steps between exchanges */
    char codec[TSI_MAX_WORD];
    char back[TSI_MAX_WORD]; /* "" for none */
    const char *combine;     /* NULL: what suits the codec */
};

/* Numbers that change with every step and are equal on all workers. */
struct tsi_progress {
    uint64_t step;   /* steps done, local ones too */
    uint64_t rounds; /* exchanges done: the step of the draws */
    double lr_given; /* by terse_method_set_lr, or -1 */
};

/* What DQ-SGD's rules remember of one piece, said by a worker or back by its owner. */
struct tsi_bit_record {
    double spent;  /* bits so far */
    double mean;   /* of the statistic that the rule follows */
    double now;    /* the statistic of this step */
    double chosen; /* bits of this step; 0: none were chosen */
    double steps;  /* that mean and spent are over */
};

enum { TSI_EXCHANGE_MAIN, TSI_EXCHANGE_WARM, TSI_EXCHANGES };

struct terse_method {
    struct tsi_settings settings;
    struct tsi_stations stations;
    struct tsi_progress progress;
    terse_method_options options;
    terse_layout *layout;
    terse_group *group;
    int owns_group;
    uint32_t rank;
    uint32_t workers;
    size_t count;
    float *weights; /* the caller's */
    float *point;   /* where it is not the weights */
    terse_exchange *exchange[TSI_EXCHANGES];
    struct tsi_host host;
    float *memory; /* e; NULL without */
    float *said;   /* what is said, where there is no memory and it is not g or m */
    float *m;      /* of the direction */
    float *v;
    float *update_m; /* of the update */
    float *update_v;
    float *owner_x; /* full-precision weights of this owner's slices */
    float *owner_next;
    float *m_before; /* of this step, where buckets are posted one by one */
    float *v_before;
    float *flat;       /* a gradient that came by tensor and is needed in one piece */
    float *deploy_sum; /* of terse_method_eval_weights; a group that dies may still write there */
    float *deploy_scratch;
    struct tsi_blank blank; /* of an answer that is kept */
    struct tsi_posterior posterior;
    struct tsi_bit_rule rule;
    struct tsi_bit_record *bits; /* by role (worker, owner) and slot */
    size_t slots;
    uint64_t posterior_count; /* as saved */
    int remembered;           /* in this step: the posterior is that of its answer */
    int buckets;              /* 1: posted one by one in this step */
    /* of the step under way */
    terse_exchange *under_way;
    const float *gradient;       /* flat, */
    const float *const *tensors; /* or by tensor */
    float scale;                 /* of clipping */
    float lr;
    int measuring;
    double said_square; /* of what was to be said */
    char spec[TSI_MAX_METHOD_SPEC];
};

/* stations.c */
TERSE_CHECK terse_status tsi_stations_of(const struct tsi_settings *settings,
                                         struct tsi_stations *out, terse_fault *fault);

/* Is there such a codec? A fault's offset is that in the method's spec. */
TERSE_CHECK terse_status tsi_stations_codec(const struct tsi_settings *settings,
                                            const struct tsi_stations *stations,
                                            terse_fault *fault);

/* host.c */
extern const struct tsi_host tsi_method_host;
/* A local step: the gradient's direction into memory and local weights. */
void tsi_method_local(terse_method *method);
/* After a step: RegTop-k's posterior, the next point. */
void tsi_method_settle(terse_method *method);
/* The point from weights and memory. */
void tsi_method_point(terse_method *method);
void tsi_method_point_back(terse_method *method); /* of a step that was not taken */

/* said.c: RegTop-k's posterior. */
/* All that was said in this step; before anything is committed, as a commit may leave nothing of
 * the sum. */
void tsi_method_remember(terse_method *method);
/* What was said was what is left of it more, where values are rounded. */
void tsi_method_add_left(terse_method *method);

/* bits.c: DQ-SGD's rules. */
unsigned tsi_method_bits(void *method, const struct tsi_call *call, const float *in, float norm);
void tsi_method_bits_commit(terse_method *method);
void tsi_method_bits_forget(terse_method *method); /* of a step that was skipped */

static inline double tsi_value(const terse_method *method, enum tsi_setting which)
{
    return method->settings.value[which];
}

#endif
