/* The members of a comparison: one training each, in a folder of its own. */
#ifndef CLI_COMPARE_MEMBER_H
#define CLI_COMPARE_MEMBER_H

#include <stddef.h>

#include "sweep.h"
#include "train_progress.h"
#include "train_request.h"

/* The outcome of a finished member, read from its folder. */
struct outcome {
    double accuracy;
    double loss;
    double bytes_per_step;
    double compression_ratio; /* 0: nothing was sent */
    double seconds;
    double seconds_to_target; /* NaN: not reached */
    double bytes_to_target;
    int diverged; /* its loss was not finite: there is no accuracy */
};

struct member {
    char method[SWEEP_SPEC];
    char folder[4096];
    uint64_t seed;
    struct outcome outcome;
};

/* All trainings of a comparison: who decides, who watches, and how far it is. */
struct comparison {
    int is_root; /* rank 0, or there is no group */
    struct progress *progress;
    size_t total;
    size_t done;
    size_t trained; /* by this process: the others had finished before */
    double seconds; /* of those */
};

/* One for every spec and seed, the seeds of a spec side by side, in folders of the request's --out;
 * every spec is checked. The caller frees *out, also after a failure. */
int members_make(const struct train_request *request, const struct sweep_spec *specs, size_t count,
                 uint64_t seeds, struct member **out);

/* Trains from where it stopped, unless it has finished; fills in the outcome. Collective under
 * mpirun: rank 0 decides. */
int member_run(const struct train_request *request, struct member *member,
               struct comparison *comparison);

#endif
