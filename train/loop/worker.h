/* One worker of a training, and what all workers of a process share. */
#ifndef TRN_WORKER_H
#define TRN_WORKER_H

#include <string.h>

#include "data/data.h"
#include "data/order.h"
#include "files/checkpoint.h"
#include "loop/adversary.h"
#include "loop/overlap.h"
#include "loop/share.h"
#include "loop/train.h"
#include "net/net.h"

/* What the workers of one process share; read only. */
struct trn_run {
    const struct trn_settings *settings;
    const struct trn_watch *watch;
    struct trn_data *data;
    struct trn_input input;
    struct trn_text text;
    struct trn_order_options order;
    struct trn_adversaries adversaries;
    struct trn_checkpoint *checkpoint; /* to resume from; NULL: from the start */
    struct trn_safetensors *init;      /* weights to begin with; NULL: those of the seed */
    uint64_t init_hash;                /* of that file, also if a run is resumed; 0: none */
    uint32_t workers;
};

/* 1: --worker-weights shard */
static inline int trn_weighs_shards(const struct trn_settings *settings)
{
    return settings->weighting && settings->weighting[0] == 's';
}

/* 0: --overlap off */
static inline int trn_wants_overlap(const struct trn_settings *settings)
{
    return !settings->overlap || strcmp(settings->overlap, "off") != 0;
}

/* Batches that one gradient uses up. */
static inline uint64_t trn_batches_per_step(const struct trn_settings *settings)
{
    return (uint64_t)settings->batches * settings->accumulate;
}

struct trn_record; /* record.c: the output folder, rank 0 only */
struct trn_auto;   /* auto.c: how the method is chosen; NULL where it was given */

/* Statistics of one worker's step, which every worker sends to all. */
struct trn_step_stats {
    double loss;
    double correct;
    double examples;
    int64_t stop;   /* the signal that this worker received, or 0 */
    int64_t broken; /* the first tensor whose gradient is not finite, or -1 */
    trn_check check;
};

struct trn_worker {
    const struct trn_run *run;
    terse_group *group; /* all ranks */
    struct trn_node node;
    uint32_t rank;
    struct trn_net *net;
    struct trn_order *order;
    char spec[TERSE_MAX_METHOD_SPEC]; /* of the method: the one given, or the one chosen */
    terse_method *method;
    terse_method *tried; /* beside it while candidates are measured */
    struct trn_auto *automatic;
    struct trn_overlap overlap;
    uint64_t count; /* parameters */
    float *weights;
    float *gradient;
    uint64_t complete;   /* elements from here on have their gradient of this step */
    float *partial;      /* gradient of one batch, where several are accumulated; then what an
                          * adversary contributes */
    float *eval_weights; /* the weights that are evaluated */
    float *scratch;      /* scratch of all-reduces */
    float *statistics;   /* this worker's running statistics while the net holds their mean */
    uint32_t *examples;
    float *values;
    int32_t *tokens;
    uint32_t *lengths;
    uint32_t *labels;
    float *targets;
    struct trn_step_stats *stats; /* by rank */
    struct trn_record *record;
    struct trn_states *states; /* checkpoint.c: buffers of checkpoints; NULL without a folder */
    struct trn_writer *writer; /* of checkpoints, on rank 0 once the first was due */
    uint64_t saved;            /* step of the last checkpoint that was begun, or 0 */
    double saved_at;           /* when it was begun, by trn_now */
    uint64_t steps_per_epoch;
    uint64_t steps; /* length of the training */
    uint64_t step;  /* steps done */
    uint32_t skips; /* consecutive skipped steps */
    struct trn_result result;
    terse_status status;
    terse_fault fault;
};

/* The group of the method: its workers are ranks, or nodes of them. */
static inline terse_group *trn_method_group(const struct trn_worker *worker)
{
    return worker->node.group ? worker->node.group : worker->group;
}

/* worker.c */
terse_status trn_worker_run(struct trn_worker *worker);
void trn_worker_destroy(struct trn_worker *worker);
/* The method of worker->spec over worker->weights; collective. */
TERSE_CHECK terse_status trn_worker_make_method(struct trn_worker *worker);

/* gradient.c */
/* Copies the examples of a batch into the worker's buffers; *out is what the net reads. */
TERSE_CHECK terse_status trn_worker_fill(struct trn_worker *worker, enum trn_split split,
                                         const uint32_t *examples, uint32_t count, uint64_t epoch,
                                         struct trn_batch *out);
/* What of a step takes time: this worker's gradient, its statistics, and the exchange of all. The
 * gradient alone took until *computed, by trn_now. */
TERSE_CHECK terse_status trn_worker_advance(struct trn_worker *worker, struct trn_step_stats *stats,
                                            terse_method_report *report, double *computed);

/* worker.c: 1: the weights are not finite; the fault names rank, step and tensor. */
int trn_worker_is_broken(struct trn_worker *worker);

/* evaluate.c: collective. */
struct trn_evaluation {
    double loss;
    double accuracy;
    double phi_gradient; /* |v|_1^2 / (d |v|_2^2) of the mean gradient, NaN without one */
    double phi_noise;    /* the same of this worker's deviation from it */
};
TERSE_CHECK terse_status trn_worker_evaluate(struct trn_worker *worker, struct trn_evaluation *out);

/* checkpoint.c */
/* The buffers of checkpoints; not collective. */
TERSE_CHECK terse_status trn_worker_make_room(struct trn_worker *worker);
void trn_worker_drop_room(struct trn_worker *worker);
/* Collective: a copy of all state, which rank 0 begins to write. Nothing may be being written. */
TERSE_CHECK terse_status trn_worker_save(struct trn_worker *worker);

/* restore.c */
TERSE_CHECK terse_status trn_worker_restore(struct trn_worker *worker);

/* Parts of a checkpoint beside those of the method. */
#define TRN_WEIGHTS "weights"
#define TRN_STATISTICS "running statistics"

/* save.c: collective, but for the last. */
/* A checkpoint is due: it is begun, or skipped while the last one is being written. */
TERSE_CHECK terse_status trn_save_due(struct trn_worker *worker);
/* The training ends: the last step is in a checkpoint on the disk. */
TERSE_CHECK terse_status trn_save_last(struct trn_worker *worker);
/* Rank 0 begins to write; `settings` is freed, the blobs stay as they are until it is written. */
TERSE_CHECK terse_status trn_save_begin(struct trn_worker *worker, com_json *settings,
                                        const struct trn_blob *blobs, uint32_t count);

/* record.c: rank 0's output folder. On other ranks the record is NULL and the calls do nothing. */
TERSE_CHECK terse_status trn_record_open(struct trn_worker *worker, struct trn_record **out);
/* run.json once more: auto has measured again. */
TERSE_CHECK terse_status trn_record_again(struct trn_worker *worker);
TERSE_CHECK terse_status trn_record_step(struct trn_worker *worker,
                                         const terse_method_report *report, double loss,
                                         double compute_seconds);
TERSE_CHECK terse_status trn_record_evaluation(struct trn_worker *worker,
                                               const struct trn_evaluation *evaluation);
TERSE_CHECK terse_status trn_record_end(struct trn_worker *worker);
/* The last line of a training whose loss is not finite. */
TERSE_CHECK terse_status trn_record_diverged(struct trn_worker *worker);
void trn_record_close(struct trn_record *record);
/* The settings that a checkpoint must share with the run that resumes it. */
com_json *trn_record_settings(const struct trn_worker *worker);

double trn_now(void); /* seconds */

#endif
