/* The members of a comparison: one training each, in a folder of its own. */
#ifndef CLI_COMPARE_MEMBER_H
#define CLI_COMPARE_MEMBER_H

#include <stddef.h>

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
    char method[512];
    char folder[4096];
    uint64_t seed;
    struct outcome outcome;
};

/* One for every method and seed, methods separated by ';'. The caller frees *out. */
int members_make(const struct train_request *request, struct member **out, size_t *methods);

/* Trains from where it stopped, unless it has finished; fills in the outcome. Collective under
 * mpirun: rank 0 (`is_root`) decides. */
int member_run(const struct train_request *request, struct member *member, int is_root,
               struct progress *progress);

#endif
