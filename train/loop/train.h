/* Training: a model, data, a method and a number of workers. Workers are threads of this process,
 * or this process is one of them and a group leads to the others.
 *
 * The same settings give the same weights, whatever the group, and also after a stop and a resume.
 */
#ifndef TRN_TRAIN_H
#define TRN_TRAIN_H

#include <signal.h>
#include <stdint.h>

#include <terse/terse.h>

#include "common/json.h"

/* Most of these are options of a command: loop/options.c has a row for each. */
struct trn_settings {
    const char *model;
    const char *data;
    const char *method;  /* for trn_train complete: lr, min and all */
    const char *shard;   /* iid, class:alpha=0.1, range */
    const char *out;     /* folder; NULL: nothing is written */
    const char *resume;  /* folder with checkpoints; NULL: from the start */
    const char *command; /* as it was typed, for run.json */
    double lr;           /* as asked for beside the method, whose own wins; -1: not asked for */
    uint32_t workers;
    uint32_t batch;      /* examples per worker and step */
    uint32_t accumulate; /* batches whose mean is one gradient; 1 */
    uint64_t epochs;     /* 0: by steps */
    uint64_t steps;
    uint64_t seed;
    uint32_t threads;          /* of the network, per worker */
    uint32_t codec_threads;    /* of codecs and passes, per worker */
    uint64_t checkpoint_every; /* steps; 0: only at the end */
    uint64_t evaluate_every;   /* steps; 0: after every epoch, or ten times */
    double target;             /* stop at this test accuracy; 0: never */
    int augment;               /* crop and flip images */
    double timeout;            /* seconds to wait for a worker */
    terse_group *group;        /* NULL: `workers` threads */
};

/* How a training ended. */
enum trn_end {
    TRN_END_FINISHED,
    TRN_END_TARGET,  /* reached early */
    TRN_END_STOPPED, /* a signal; a checkpoint is written if there is a folder */
};

struct trn_result {
    enum trn_end end;
    uint64_t steps; /* done in all */
    uint64_t epochs;
    uint64_t parameters;
    uint32_t workers;
    double loss;     /* on the test set */
    double accuracy; /* 0 where targets are numbers */
    int classifies;
    double train_loss;    /* of the last steps */
    uint64_t bytes_sent;  /* by this worker, in steps */
    uint64_t dense_bytes; /* had it said every element as f32 */
    uint64_t bytes_other; /* evaluation, checkpoints, agreement: outside of steps */
    uint64_t skipped;     /* steps that no worker took */
    uint64_t weights_hash;
    double seconds; /* of steps, without evaluation and checkpoints */
    double examples_per_second;
    char method[2048];    /* complete spec */
    char exchange[512];   /* what its exchange chose */
    char checkpoint[512]; /* the last that was written, or "" */
};

/* What rank 0 tells while it trains; each may be NULL. */
struct trn_watch {
    void *context;
    void (*note)(void *context, const char *text);
    /* One metrics line as it is appended to metrics.jsonl: kind step, evaluation or end. */
    void (*line)(void *context, const com_json *line);
    const volatile sig_atomic_t *stop; /* not 0: write a checkpoint and end */
};

/* Runs to the end. On failure the fault says why; the last checkpoint stays as it is. */
TERSE_CHECK terse_status trn_train(const struct trn_settings *settings,
                                   const struct trn_watch *watch, struct trn_result *result,
                                   terse_fault *fault);

#endif
