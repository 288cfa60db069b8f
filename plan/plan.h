/* What a step of a method would take on a link, before training.
 *
 * A trace is what the ranks really did in one step: the library's own methods run it, all ranks in
 * this process, over an engine that notes every message and the CPU time between two messages. A
 * simulation plays a trace on a link with virtual clocks. So stages, phases, segments and lengths
 * are those of the library: a new method or combine needs nothing here. */
#ifndef PLN_PLAN_H
#define PLN_PLAN_H

#include <stddef.h>
#include <stdint.h>

#include <terse/terse.h>

#include "common/fault.h"

/* ---- link.c: what users type ---- */

/* "100mbit", "1gbit", "25Gbit/s", "800kbit": bits per second. 1 and *out, or 0. */
int pln_parse_rate(const char *text, double *out);
/* "0.2ms", "50us", "1.5s": seconds. 1 and *out, or 0. */
int pln_parse_seconds(const char *text, double *out);

/* "3.1 Gbit/s", "120 ms". */
struct pln_shown {
    char text[32];
};
struct pln_shown pln_show_rate(double bits_per_second);
struct pln_shown pln_show_seconds(double seconds);

/* ---- a trace: the events of a step, rank by rank ---- */

enum pln_kind {
    PLN_CPU,     /* the method works: `amount` seconds */
    PLN_COMPUTE, /* the caller computes the gradient: `amount` is a share of that time */
    PLN_POST,    /* an all-to-all begins: bytes to and from all other ranks */
    PLN_WAIT,    /* until it is done */
};

struct pln_event {
    enum pln_kind kind;
    uint32_t operation; /* number of the all-to-all in this step */
    double amount;
    double sent;
    double received;
};

struct pln_rank {
    struct pln_event *event;
    size_t count;
    size_t cap;
};

struct pln_trace {
    uint32_t workers;
    uint32_t ranks; /* traces there are: one per worker; 2 where it was extrapolated, that of rank 0
                     * and one for all others */
    struct pln_rank *rank;
    uint32_t operations;
    uint32_t every; /* an exchange in every so many steps */
    double scale;   /* parameters over those that were really exchanged; 1: all of them */
};

enum {
    PLN_MOST_RANKS = 64,   /* that really run; beyond, traces of fewer are extrapolated */
    PLN_MOST_SAMPLED = 32, /* the same where a sample runs */
    PLN_MOST_WORKERS = 10000,
};

struct pln_job {
    const char *spec; /* every=1, warmup=0 are set here */
    uint32_t workers;
    const terse_layout *layout;
    uint64_t most;    /* parameters of all ranks together: larger layouts are scaled down, and bytes
                       * and CPU times up; 0: never */
    uint64_t bucket;  /* bytes of gradient that are posted together during backward; 0: the whole
                       * gradient at the end */
    uint32_t threads; /* of the codec, per rank */
    uint32_t at_once; /* ranks that work at the same time, and share the machine's memory; 0: one */
    uint32_t even;    /* slices of a sample are even for so many workers; 0: for `workers` */
    int cached;       /* 1: traces that others are made of may come from the cache */
};

/* Runs the ranks of a job. The caller frees *out. */
TERSE_CHECK terse_status pln_record(const struct pln_job *job, struct pln_trace **out,
                                    terse_fault *fault);
void pln_trace_free(struct pln_trace *trace); /* NULL is fine */

/* The same from the user's cache folder, where it was recorded on this CPU with this version; else
 * recorded and put there. A cache that cannot be read or written is no failure. */
TERSE_CHECK terse_status pln_record_cached(const struct pln_job *job, struct pln_trace **out,
                                           terse_fault *fault);

/* ---- simulate.c ---- */

struct pln_place {
    double bits_per_second; /* payload, each way, of a rank's own link */
    double latency;         /* seconds until an all-to-all of one byte is done */
    double burst;           /* seconds of its rate that a link saves up while it is idle */
    double compute;         /* seconds of a rank's forward and backward pass */
    double inside;          /* seconds in which the ranks of a node average it; 0: no nodes */
    double passes_on;       /* seconds in which a node's leader passes a received byte on */
    double ranks_per_core;  /* CPU times of the method are multiplied with it; at least 1 */
};

/* One step of the rank that is done last. total = compute + codec + wire - hidden. */
struct pln_cost {
    double seconds;
    double compute_seconds;
    double codec_seconds; /* all work of the method: direction, codec, checks, sums, update */
    double wire_seconds;  /* in which messages of this rank were under way, inside a node too */
    double hidden_seconds;
    double bytes_sent; /* per worker, the mean */
};

/* Workers as nodes of `size` ranks, whose shared memory carries `bits_per_second`: the place's
 * times inside a node, from a dense step of its ranks. */
TERSE_CHECK terse_status pln_place_nodes(const struct pln_job *job, uint32_t size,
                                         double bits_per_second, struct pln_place *place,
                                         terse_fault *fault);

/* "payload at 956 Mbit/s, latency 100 us"; a burst, if there is one. */
struct pln_link_shown {
    char text[128];
};
struct pln_link_shown pln_show_link(const struct pln_place *place);

struct pln_cost pln_simulate(const struct pln_trace *trace, const struct pln_place *place);

/* The highest rate at which `trace` is faster than `dense`, everything else as in `place`: 0 if
 * there is none, PLN_FASTEST if it is faster at that rate, too. */
#define PLN_SLOWEST 1e4
#define PLN_FASTEST 1e13
double pln_break_even(const struct pln_trace *trace, const struct pln_trace *dense,
                      const struct pln_place *place);

/* ---- measure.c: the link of a group ---- */

struct pln_measured {
    double latency;  /* seconds of an all-to-all of one byte */
    double one_way;  /* bits per second from rank 0 to rank 1 */
    double both_way; /* the same while rank 1 sends as much */
    double loaded;   /* that a rank sends, and receives, while all send to all */
    double burst;    /* seconds of that rate which leave at once after a pause */
    void *kept[2];   /* after a failure: buffers of requests under way, which live as long as the
                        group */
};

/* Collective, some seconds. At least two workers. */
TERSE_CHECK terse_status pln_measure(terse_group *group, struct pln_measured *out,
                                     terse_fault *fault);

/* ---- layouts ---- */

/* Square matrices of a million parameters, and the rest as one vector. */
TERSE_CHECK terse_status pln_layout_of(uint64_t parameters, terse_layout **out);
/* "64x3x7x7,64,1000x512,..."; TERSE_BAD_SPEC: not so. */
TERSE_CHECK terse_status pln_layout_parse(const char *shapes, terse_layout **out,
                                          terse_fault *fault);

/* ---- accuracy.c ---- */

/* What docs/results.md measured for a method, in points against dense. NULL: nothing. */
struct pln_accuracy {
    const char *method;
    const char *spec; /* that was trained */
    double fashion;   /* Fashion-MNIST, the CNN; NAN: not measured */
    double cifar;     /* CIFAR-10, ResNet-20 */
    const char *words;
};
const struct pln_accuracy *pln_accuracy_of(const char *method);

#endif
