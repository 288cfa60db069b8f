/* The parts of `terse bench methods`: the table of limits, one measured row, and the command. */
#ifndef CLI_BENCH_METHODS_H
#define CLI_BENCH_METHODS_H

#include "bench.h"
#include "bench_request.h"

extern const struct bench_kind bench_methods_kind;

int bench_methods(struct bench_request *request);

/* The memory limit of a method with one worker: the passes of its stages, each made once. A stage
 * must read again what an earlier one has written: between encoding and updating the weights all
 * workers agree on the step. */
struct method_limit {
    const char *method;
    int quantized;   /* qadam: 1 where kx > 0, 0 where not; -1: no such difference */
    double reads;    /* R of a vector */
    double writes;   /* W */
    double updates;  /* RW */
    double payloads; /* payloads written, and as many read */
    double back;     /* the same of payloads on the weights' grid */
    int block;       /* 1: a block moved out of the residual, and RW of it in x */
    int touched;     /* RW of selected elements, so many times */
    const char *text;
};

extern const struct method_limit method_limits[];
extern const size_t method_limit_count;

/* The limit of a complete spec; NULL, with the reason, if an option changes the passes. */
const struct method_limit *method_limit_of(const char *spec, const char **why);

/* Buffers for the largest size of a run, allocated once. */
struct method_buffers {
    float *gradient; /* normal floats, and METHOD_SHIFTS lines more */
    float *weights;
    float *scratch; /* for the passes */
};

/* Each step begins at another cache line of the gradient, so that it differs from step to step. */
enum { METHOD_SHIFTS = 4096, METHOD_LINE = 16 };

struct method_row {
    struct bench_job job;
    char name[32];
    char full[1024]; /* the complete spec */
    const struct method_limit *limit;
    double payload_bits; /* per element */
    uint32_t repetitions;
    struct bench_time step;
    struct bench_time read; /* the passes over the vector, measured between steps */
    struct bench_time write;
    struct bench_time update;
    double limit_seconds;
    double stage_seconds[TERSE_STAGES]; /* the fastest of each, by the wall clock */
};

/* Each returns an exit code (message.h) and prints errors. */
int method_measure(const struct method_buffers *buffers, const struct bench_job *job,
                   struct method_row *out);

#endif
