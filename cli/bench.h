/* The parts of `terse bench codecs`, some shared with `terse bench methods`: the table of limits,
 * one measured row, and how rows look. */
#ifndef CLI_BENCH_H
#define CLI_BENCH_H

#include <stddef.h>
#include <stdint.h>

#include <terse/terse.h>

#include "common/json.h"

enum bench_reach {
    BENCH_WHOLE,  /* every element is read or written */
    BENCH_BLOCK,  /* one run of elements */
    BENCH_SPARSE, /* single elements, when decoding */
};

/* The memory limit of a codec: the passes that it cannot avoid. */
struct bench_limit {
    const char *codec;
    int takes;           /* measured with encode_take: the codec is used with a residual */
    double reads;        /* R passes of encode */
    double updates;      /* RW passes of encode */
    int payload_written; /* 1: and a write of the payload's bytes */
    enum bench_reach reach;
    const char *encode; /* the same as a formula */
    const char *decode;
};

extern const struct bench_limit bench_limits[];
extern const size_t bench_limit_count;
const struct bench_limit *bench_limit_of(const terse_codec_about *about); /* NULL: none */

/* Buffers for the largest size of a run, allocated once. */
struct bench_buffers {
    uint64_t count;
    float *source;   /* the input: normal floats */
    float *residual; /* a copy of it, from which encode_take takes */
    float *out;      /* where decoding adds */
};

/* Each returns an exit code (message.h) and prints errors. */
int bench_buffers_create(struct bench_buffers *buffers, uint64_t count);
void bench_buffers_destroy(struct bench_buffers *buffers);

struct bench_job {
    const char *spec;
    const char *kernels;
    uint32_t threads;
    uint64_t count;
    double seconds; /* to spend on the row, about */
    int wall;       /* use the wall clock: rows of several threads are compared */
};

/* One thread on a large vector is timed by the CPU time of the whole process, which other processes
 * on the machine lengthen less; everything else by the wall clock. */
int bench_uses_cpu_clock(const struct bench_job *job);
double bench_now(const struct bench_job *job);

/* The fastest and the median of the repetitions. */
struct bench_time {
    double best;
    double median;
};

/* Sorts the samples. */
struct bench_time bench_summary(double *samples, size_t count);

/* One tensor, a matrix as square as its count allows: only low-rank uses the shape. */
terse_status bench_layout(uint64_t count, terse_layout **out);

struct bench_row {
    struct bench_job job;
    char name[32];  /* name of the codec */
    char full[128]; /* its complete spec */
    const struct bench_limit *limit;
    uint64_t payload_len;
    uint32_t repetitions;
    struct bench_time encode;
    struct bench_time decode;
    struct bench_time read; /* the passes over the vector, measured between them */
    struct bench_time write;
    struct bench_time update;
    double encode_limit; /* seconds */
    double decode_limit;
};

int bench_measure(const struct bench_buffers *buffers, const struct bench_job *job,
                  struct bench_row *out);

/* Sealing and opening a frame around `count` floats: the cost of the checksum. */
int bench_measure_frame(const struct bench_buffers *buffers, const struct bench_job *job,
                        struct bench_row *out);

/* Prints a note if other processes have disturbed the measurement: `share` is the CPU time of this
 * one over the time that passed. */
void bench_note_busy(double share);
void bench_progress(const struct bench_job *job); /* a line on a terminal */
void bench_progress_done(void);

/* Binds the kernel set. Returns an exit code and prints errors. */
int bench_select_kernels(const char *kernels);

void bench_print_heading(void);
void bench_print_row(const struct bench_row *row);
void bench_print_scaling(const struct bench_row *rows, size_t row_count);
void bench_print_legend(void);
com_json *bench_row_json(const struct bench_row *row);
com_json *bench_limits_json(void);

#endif
