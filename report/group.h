/* Groups of runs that differ by their seed alone, as the page has them (page/groups.js). */
#ifndef REPORT_GROUP_H
#define REPORT_GROUP_H

#include "run.h"

struct rep_group {
    const struct rep_run **runs; /* they belong to the caller of rep_groups_make */
    size_t count;
    char *label; /* the method, and the options and settings in which groups differ */
};

/* Groups in the order of their first runs; a seed that a group has already begins another one. */
terse_status rep_groups_make(struct rep_run *const *runs, size_t count, struct rep_group **out,
                             size_t *out_count);
void rep_groups_free(struct rep_group *groups, size_t count); /* NULL is fine */

/* The results of a run; NaN if it has none, or diverged. */
double rep_run_accuracy(const struct rep_run *run);
double rep_run_loss(const struct rep_run *run);

struct rep_mean {
    double mean;      /* NaN if a run has no value */
    double deviation; /* the standard deviation of a sample; 0 with one run */
    size_t count;     /* of runs */
};

/* Over the runs that were not cut short; over all if there are no such. */
struct rep_mean rep_group_mean(const struct rep_group *group,
                               double (*value)(const struct rep_run *run));

/* 1: a run of it diverged. */
int rep_group_diverged(const struct rep_group *group);

#endif
