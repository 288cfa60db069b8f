/* A training whose every bit is pinned: the same gradients on every machine, all state hashed. */
#ifndef TEST_METHOD_PINNED_RUN_H
#define TEST_METHOD_PINNED_RUN_H

#include "method/subjects.h"

enum {
    PINNED_MAX_RANKS = 8,
    PINNED_MAX_PARTS = 24,
};

/* How the gradient is given: as one piece by one thread for all ranks, or posted in buckets
 * by a thread per rank. MIXED has buckets of two tensors, the middle ones first. */
enum order { WHOLE, FORWARD, MIXED, ORDERS };
extern const char *const order_names[ORDERS];

/* What is wrong with one attempt at a step; the step is then taken with sound gradients. */
enum trouble {
    SOUND,
    ONE_NAN,   /* the last rank has one NaN; in the bucket that is posted last */
    HUGE_SUM,  /* every rank has finite numbers near FLT_MAX: their sum is not finite */
    ABOVE_F16, /* the last rank has numbers of 1e6, which f16 cannot hold */
    TROUBLES
};
extern const char *const trouble_names[TROUBLES];

/* A hash of each part of the state, all ranks in rank order: "weights", "point", then what
 * terse_method_state names. */
struct marks {
    uint32_t count;
    struct {
        const char *name;
        uint64_t hash;
    } part[PINNED_MAX_PARTS];
};

/* The first part that differs, or NULL. */
const char *marks_differ(const struct marks *a, const struct marks *b);

struct run {
    const char *spec;
    uint32_t ranks;
    enum order order;
    uint64_t steps;
    enum trouble trouble;
    uint64_t at; /* the step that `trouble` is tried in */
    /* results */
    int refused;          /* the spec takes no buckets */
    int taken;            /* the step with the trouble was not skipped */
    terse_status skipped; /* of that step, by whom */
    int32_t skipped_by;
    terse_status failed; /* the step with the trouble was neither taken nor skipped */
    const char *trace;   /* the first part of the state that the skipped step changed, or NULL */
    struct marks marks;
};

/* Fails the test if a sound step fails. A HUGE_SUM or ABOVE_F16 that is taken, and a step with a
 * trouble that fails, end the run. */
void run_training(struct run *run);

#endif
