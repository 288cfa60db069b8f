/* `terse plan`: what was asked for, and what comes of it. */
#ifndef CLI_PLAN_REQUEST_H
#define CLI_PLAN_REQUEST_H

#include "common/json.h"
#include "common/text.h"
#include "plan/plan.h"
#include "reproduce/svg.h"

enum { PLAN_MOST_SPECS = 128, PLAN_MOST_SWEEP = 16 };

struct plan_request {
    const char *parameters; /* one of these four */
    const char *model;
    const char *weights;
    const char *shapes;
    const char *input; /* of the model: CxHxW */
    uint64_t batch;
    uint32_t workers[PLAN_MOST_SWEEP]; /* doubling, where a range was given */
    size_t worker_counts;
    uint64_t node_size;
    double inside;         /* bits per second of a node's memory */
    double link;           /* bits per second as typed; 0: not given */
    double latency;        /* seconds; negative: not given */
    double burst;          /* seconds; negative: not given */
    double step;           /* seconds of compute; negative: not given */
    double ranks_per_core; /* 0: not given, every worker has a machine of its own */
    uint64_t bucket;
    uint64_t threads;
    const char *spec[PLAN_MOST_SPECS];
    size_t specs;
    const char *page;
    int all_combines;
    int exact;
    int no_cache;
    int measure;
    int as_json;
};

/* Reads the options. Returns an exit code. */
int plan_request_read(int argc, char **argv, struct plan_request *out);

/* The layout that was asked for, and the seconds of a gradient where they are measured (a model
 * without --step). Prints errors; returns an exit code. The caller destroys *layout. */
int plan_inputs(struct plan_request *request, terse_layout **layout);

/* One method on one link. */
struct plan_row {
    char spec[TERSE_MAX_METHOD_SPEC]; /* as it is shown */
    const char *name;                 /* of the method */
    const char *combine;
    int same_bits; /* as the method with its own combine, whose accuracy is known */
    struct pln_trace *trace;
    struct pln_cost cost;
    double over_dense; /* seconds over those of dense */
    double break_even; /* bits per second, see pln_break_even */
};

/* All methods for one number of workers, the fastest first. */
struct plan {
    uint32_t workers; /* ranks */
    uint32_t nodes;   /* workers of the method; the same without nodes */
    struct pln_place place;
    double parameters;
    struct plan_row *row;
    size_t rows;
    const struct plan_row *dense;
    const struct plan_row *recommended;
    char reason[1024];
};

/* When a method pays: "below 3.1 Gbit/s", "never", "at every rate". */
struct pln_shown plan_pays(double break_even);

/* Each prints errors and returns an exit code. */
int plan_make(const struct plan_request *request, const terse_layout *layout,
              const struct pln_place *place, uint32_t workers, struct plan *out);
void plan_free(struct plan *plan);

com_json *plan_json(const struct plan *plan);
void plan_chart_destroy(struct rpr_chart *chart);
/* Frees the text. */
int plan_page_write(const char *path, struct com_text *page);
void plan_print_place(const struct plan *plan);

/* The row of a method; NULL: there is none. */
const struct plan_row *plan_row_of(const struct plan *plan, const char *spec);
/* Were its workers extrapolated from fewer? */
int plan_is_extended(const struct plan *plan);

/* From so many workers on, until the next one. */
struct plan_bend {
    uint32_t nodes;
    const char *shape; /* of the step: flat, rises, proportional to the workers */
    const char *part;  /* that grows, or is the longest: gradient, codec, wire, latency */
    char why[160];
};

/* Those of a method, at most `count`, in order of workers. */
size_t plan_bends(const struct plan *plans, size_t count, const char *spec, struct plan_bend *out);

int plan_print(const struct plan_request *request, const struct plan *plan);
int plan_print_sweep(const struct plan_request *request, const struct plan *plans, size_t count);

#endif
