/* All workers of one method, driven by one thread, and independent runs side by side. */
#ifndef RPR_TEAM_H
#define RPR_TEAM_H

#include <terse/terse.h>

#include "random.h"

/* A failure stays in `status`; steps after it do nothing. */
struct rpr_team {
    uint32_t workers;
    size_t count;
    float *weights[TERSE_MAX_LOCAL_WORKERS];  /* equal on all */
    float *gradient[TERSE_MAX_LOCAL_WORKERS]; /* to be filled before a step */
    terse_method *method[TERSE_MAX_LOCAL_WORKERS];
    terse_method_report report[TERSE_MAX_LOCAL_WORKERS];
    terse_status status;
    terse_fault fault;
};

/* How a team is made; `start` has `count` floats. */
struct rpr_setup {
    const char *spec;
    uint32_t workers;
    size_t count;
    const float *start;
    uint64_t seed;  /* seed of the method */
    uint64_t steps; /* length of the run */
};

void rpr_team_open(struct rpr_team *team, const struct rpr_setup *setup);
void rpr_team_step(struct rpr_team *team);
void rpr_team_close(struct rpr_team *team);

/* Worker's state of that name, NULL if there is none: "residual", "momentum". */
const float *rpr_team_state(struct rpr_team *team, uint32_t worker, const char *name);

/* Calls run(context, 0 .. count-1) on so many threads; the calls must not share data. */
void rpr_each(unsigned threads, size_t count, void (*run)(void *context, size_t index),
              void *context);

#endif
