/* Inside plan/: ranks that run a step side by side, and what they note. */
#ifndef PLN_RECORD_H
#define PLN_RECORD_H

#include <pthread.h>

#include "plan.h"

/* All ranks of a recording. So many as the job says work at the same time, and the others wait for
 * their turn. So a CPU time is that of a rank that shares the machine's memory with so many. */
struct pln_world {
    uint32_t workers;
    uint32_t at_once;
    uint32_t working; /* now */
    pthread_mutex_t lock;
    pthread_cond_t changed;
    struct pln_alltoall *under_way; /* TERSE_MAX_REQUESTS of them, by number */
    uint64_t done;                  /* all-to-alls that are complete */
    int32_t left;                   /* a rank that has failed; -1: none */
};

/* One rank: the context of its engine. */
struct pln_member {
    struct pln_world *world;
    uint32_t rank;
    uint64_t posted;
    uint64_t first; /* number of the first all-to-all that is noted */
    uint64_t of_slot[TERSE_MAX_REQUESTS];
    struct pln_rank *notes; /* NULL: nothing is noted */
    double since;           /* CPU time at which the rank went on */
    int no_memory;          /* a note did not fit */
    int opening;            /* 1: tests find nothing done */
    int backward;           /* 1: tests wait */
};

TERSE_CHECK terse_status pln_world_create(struct pln_world *world, uint32_t workers,
                                          uint32_t at_once);
void pln_world_destroy(struct pln_world *world);

/* The rank works from here on, or waits for its turn; between the two calls it uses the group. */
TERSE_CHECK terse_status pln_member_enter(struct pln_member *member, terse_group **out);
void pln_member_leave(struct pln_member *member, int failed);

/* From here on, events go to `notes` (NULL: nowhere). Notes the CPU time before. */
void pln_member_note(struct pln_member *member, struct pln_rank *notes);
void pln_member_compute(struct pln_member *member, double share);

/* Steps that a rank makes, of a training of so many; floats between two ranks' gradients. */
enum { PLN_STEPS = 8, PLN_TRAINING = 1000, PLN_GAP = 16 };

/* The gradients of all ranks, the same in every step: rank r's begins at (count + PLN_GAP) * r.
 * Each has memory of its own: what ranks share would be in the cache when the next one reads it. */
void pln_gradients(float *out, size_t count, uint32_t ranks);

/* One trace of a layout as it is, which may be a sample of the job's. */
TERSE_CHECK terse_status pln_record_layout(const struct pln_job *job, const char *spec,
                                           const terse_layout *layout, struct pln_trace **out,
                                           terse_fault *fault);
struct pln_trace *pln_trace_create(uint32_t workers, uint32_t ranks);

/* ---- sample.c: layouts that are too large to run ---- */

int pln_is_sampled(const struct pln_job *job);
/* Is a sample in which owners have equal slices small enough to run? */
int pln_sample_fits(const struct pln_job *job);
TERSE_CHECK terse_status pln_record_sample(const struct pln_job *job, const char *spec,
                                           struct pln_trace **out, terse_fault *fault);

/* ---- extend.c: more workers than are run ---- */

int pln_is_extended(const struct pln_job *job);
TERSE_CHECK terse_status pln_record_many(const struct pln_job *job, const char *spec,
                                         struct pln_trace **out, terse_fault *fault);

/* The mean of an event over all ranks, or over all but the first where that is a server: one that
 * sends and receives more than twice as much as the others. */
int pln_has_server(const struct pln_trace *trace);
struct pln_event pln_mean_event(const struct pln_trace *trace, uint32_t from, size_t e);
/* Do all ranks have the same number of events? */
int pln_has_equal_events(const struct pln_trace *trace);

/* ---- layout.c ---- */

/* How a layout is made smaller: so many of the tensors of one shape stay, and each of them keeps so
 * many of its elements, in multiples of `unit` and at least `least`. Small tensors stay whole. */
struct pln_scale {
    double tensors;  /* share */
    double elements; /* share */
    double unit;
    double least;
};

/* The tensors that are not small. */
TERSE_CHECK terse_status pln_layout_large(const terse_layout *layout, double *count);
TERSE_CHECK terse_status pln_layout_scaled(const terse_layout *layout,
                                           const struct pln_scale *scale, terse_layout **out);

#endif
