/* Training: a model, data, a method and a number of workers. Workers are threads of this process,
 * or this process is one worker of a group.
 *
 * The same settings give the same weights with any group, also after a stop and a resume. */
#ifndef TRN_TRAIN_H
#define TRN_TRAIN_H

#include <signal.h>
#include <stdint.h>

#include <terse/terse.h>

#include "common/json.h"

/* Another spec of the same bits, for example with another combine: called once by every rank of a
 * group before its method is made, and collective. It may replace `spec`, on all ranks alike. */
typedef terse_status trn_choose(void *context, terse_group *group, const terse_layout *layout,
                                char spec[TERSE_MAX_METHOD_SPEC], terse_fault *fault);

#define TRN_NODE_AUTO UINT32_MAX /* --node-size auto */

/* Most of these are options of a command: loop/options.c has a row for each. */
struct trn_settings {
    const char *model;
    const char *data;
    const char *method;      /* spec; trn_train needs it with lr and min. Or auto:methods=... */
    const char *plugin;      /* none, or files with codecs of the spec */
    const char *shard;       /* iid, class:alpha=0.1, range, unequal */
    const char *weighting;   /* equal, shard: what a worker's gradient counts in the mean */
    const char *adversaries; /* none, 3:invert, 3:invert*10, ... */
    const char *init;        /* safetensors file to begin with; NULL or "": from the seed */
    const char *reinit;      /* patterns of tensors that begin from the seed all the same */
    const char *classes;     /* "0-4,7": only these classes, renumbered; NULL or "": all */
    const char *overlap;     /* on, off: are gradients sent during the backward pass? */
    const char *out;         /* folder; NULL: nothing is written */
    const char *resume;      /* folder with checkpoints; NULL: from the start */
    const char *command;     /* as it was typed, for run.json */
    double lr;               /* of --lr, which the method's spec overrides; -1: not given */
    uint32_t workers;
    uint32_t node_size;  /* ranks of a node, consecutive ones; 1: every rank is a worker;
                          * TRN_NODE_AUTO: those of a machine are a node */
    uint32_t batch;      /* examples per worker per step */
    uint32_t batches;    /* drawn per gradient, of which the last one counts; 1 */
    uint32_t accumulate; /* batches per gradient, which is their mean; 1 */
    uint64_t epochs;     /* 0: `steps` counts */
    uint64_t steps;
    uint64_t seed;
    uint32_t threads;          /* threads of the network, per worker */
    uint32_t codec_threads;    /* threads of the method, per worker */
    uint64_t checkpoint_every; /* steps; 0: only at the end */
    uint64_t evaluate_every;   /* steps; 0: after every epoch, or ten times */
    double target;             /* stop at this test accuracy; 0: never */
    double validation;         /* share of training examples to evaluate on; 0: the test set */
    int augment;               /* crop and flip images */
    double timeout;            /* seconds to wait for a worker */
    terse_group *group;        /* NULL: `workers` threads */
    /* Makes the groups of terse_group_nodes out of the processes of `group`. */
    terse_status (*split)(uint32_t node_size, terse_group **inner, terse_group **outer,
                          terse_fault *fault);
    trn_choose *choose; /* NULL: the method as it is; not called for threads */
    void *choose_context;
    /* NULL, or what a step of a candidate of auto is said to have taken; for tests. */
    double (*pretend)(const char *spec, uint64_t step);
};

/* How a training ended. */
enum trn_end {
    TRN_END_FINISHED,
    TRN_END_TARGET,  /* the target accuracy was reached */
    TRN_END_STOPPED, /* by a signal; a checkpoint is written if there is a folder */
};

struct trn_result {
    enum trn_end end;
    int signal;            /* that stopped it, or 0 */
    uint64_t steps;        /* done, with those before a resume */
    uint64_t resumed_from; /* step of the checkpoint that it was resumed from, or 0 */
    uint64_t epochs;
    uint64_t parameters;
    uint32_t workers;
    double loss;     /* on the test set, or on what was held out */
    double accuracy; /* likewise; 0 where targets are numbers */
    int classifies;
    double train_loss;    /* mean over the workers in the last step */
    uint64_t bytes_sent;  /* by this worker, in steps */
    uint64_t dense_bytes; /* what a dense f32 all-reduce would have sent */
    uint64_t bytes_other; /* sent outside of steps: evaluation, checkpoints */
    uint64_t skipped;     /* skipped steps */
    uint64_t capped;      /* sections that got 16 bits though the rule of bits asked for more */
    uint64_t rejected;    /* steps that the weights did not take (reject=yes) */
    uint64_t weights_hash;
    double seconds; /* in steps, without evaluation and checkpoints */
    double examples_per_second;
    char given[TERSE_MAX_METHOD_SPEC]; /* the method's spec, or the one that auto chose */
    char method[2048];                 /* complete spec */
    char exchange[512];                /* codec, combine and feedback that were chosen */
    char checkpoint[512];              /* path of the last checkpoint written, or "" */
    uint64_t checkpoints;              /* written, by rank 0 */
    uint64_t checkpoints_skipped;      /* due while the last was still being written */
    double checkpoint_seconds;         /* in which the training waited for checkpoints, in sum */
    double checkpoint_write_seconds;   /* of the thread that writes them */
};

/* Callbacks of rank 0 while it trains; each may be NULL. */
struct trn_watch {
    void *context;
    void (*note)(void *context, const char *text);
    /* A line of metrics.jsonl (kind step, evaluation or end), or run.json (kind run). */
    void (*line)(void *context, const com_json *line);
    const volatile sig_atomic_t *stop; /* a signal, or 0: write a checkpoint and end */
};

/* Trains to the end. On failure the fault has the reason; the last checkpoint stays valid. */
TERSE_CHECK terse_status trn_train(const struct trn_settings *settings,
                                   const struct trn_watch *watch, struct trn_result *result,
                                   terse_fault *fault);

#endif
