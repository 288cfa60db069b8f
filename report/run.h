/* A run: the files that a training wrote to its folder, run.json (the settings) and metrics.jsonl
 * (the measurements, one JSON object per line). docs/report.md specifies both.
 *
 * A number that was not given is NaN; so is a loss that was not finite. */
#ifndef REPORT_RUN_H
#define REPORT_RUN_H

#include <stddef.h>

#include <terse/status.h>

enum rep_stage {
    REP_COMPUTE,
    REP_DIRECTION,
    REP_ENCODE,
    REP_WIRE,
    REP_GROUP,
    REP_COMBINE,
    REP_DECODE,
    REP_UPDATE,
    REP_STAGES
};
extern const char *const rep_stage_names[REP_STAGES];

/* A line of kind step. Loss, bytes and stages are means over the steps since the line before. */
struct rep_step {
    double step;
    double epoch;
    double seconds; /* since the start, without evaluation */
    double loss;
    double lr;
    double bytes_sent; /* per worker per step */
    double dense_bytes;
    double residual_norm;
    double compression_error;
    double bits;
    double stages[REP_STAGES]; /* seconds per step */
};

struct rep_evaluation {
    double step;
    double epoch;
    double seconds;
    double loss;
    double accuracy;         /* 0..1 */
    double bytes_sent_total; /* by one worker since the start */
    double phi_gradient;
    double phi_noise;
};

struct rep_end {
    char status[32]; /* "finished", ... */
    double step;
    double loss;
    double accuracy;
    double seconds;
    double *tensor_bytes; /* by tensor of the run, over all of it; NULL: not told */
    size_t tensor_count;
};

struct rep_tensor {
    char *name;
    double count; /* elements */
};

struct rep_tensors {
    struct rep_tensor *item;
    size_t count;
};

/* A key of run.json that says what was trained, and its value as text. */
struct rep_setting {
    char *key;
    char *value;
};

struct rep_settings {
    struct rep_setting *item; /* in the order of the file */
    size_t count;
};

enum { REP_NOTE_LEN = 200 };

struct rep_run {
    char *name; /* name of its folder */
    char *version;
    char *command;
    char *train; /* the command that repeats this run alone */
    char *method;
    char *model;
    char *data;
    char *kernels;
    double workers;
    double seed;
    double batch;
    double parameters;
    double target;                /* accuracy at which it was to stop; 0: none */
    struct rep_settings settings; /* without method and seed */
    struct rep_tensors tensors;

    struct rep_step *steps;
    size_t step_count;
    struct rep_evaluation *evaluations;
    size_t evaluation_count;
    int has_end;
    struct rep_end end;

    /* What could not be read, and what was done about it; "" if nothing. */
    char about_note[REP_NOTE_LEN];
    char metrics_note[REP_NOTE_LEN];

    size_t step_cap;
    size_t evaluation_cap;
};

/* Reads a folder. Truncated or damaged files are read up to the last valid line, with a note.
 * TERSE_BAD_ARGUMENT: there is no metrics.jsonl that can be opened. */
terse_status rep_run_read(const char *folder, struct rep_run **out, terse_fault *fault);

/* The same from bytes in memory. NULL about or metrics: none. */
terse_status rep_run_parse(const char *name, const char *about, size_t about_len,
                           const char *metrics, size_t metrics_len, struct rep_run **out);

void rep_run_free(struct rep_run *run);

/* The number of steps of line `index`. */
double rep_run_stride(const struct rep_run *run, size_t index);

/* Sums over steps divided by steps; NaN without any. */
double rep_run_bytes_per_step(const struct rep_run *run);
double rep_run_dense_per_step(const struct rep_run *run);

#endif
