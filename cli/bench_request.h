/* What a command line of `terse bench codecs` or `terse bench methods` asks for. */
#ifndef CLI_BENCH_REQUEST_H
#define CLI_BENCH_REQUEST_H

#include <stddef.h>
#include <stdint.h>

enum { LONGEST_LIST = 64 };

struct list {
    const char *items[LONGEST_LIST];
    size_t count;
};

/* What differs between the things that can be measured. */
struct bench_kind {
    const char *name;   /* "codecs" */
    const char *option; /* the option that names the items: "codec" */
    double vectors;     /* memory of a row in vectors: buffers, payload, scratch */
    uint64_t counts[3]; /* default sizes, 0 for none */
    uint64_t quick_counts[3];
};

extern const struct bench_kind bench_codecs_kind;

struct bench_request {
    const struct bench_kind *kind;
    struct list items; /* specs; empty: all */
    struct list kernels;
    uint64_t counts[LONGEST_LIST];
    size_t count_count;
    uint64_t threads[LONGEST_LIST];
    size_t threads_count;
    double seconds;
    int as_json;
};

/* Each returns an exit code and prints errors. `kind` must be set. */
int bench_request_read(struct bench_request *request, int argc, char **argv);

/* No kernel set given: the one in use. "all": every kernel set that this CPU has. */
int bench_request_kernels(struct bench_request *request);

/* Leaves out, with a note, sizes that do not fit into memory; returns the largest that does. */
int bench_request_fit(struct bench_request *request, uint64_t *largest);

#endif
