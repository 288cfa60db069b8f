/* Checks for the handles of any engine. All workers of the group run a check at the same time, each
 * with its handle. A check returns NULL or an error text. There is no cmocka: MPI programs use the
 * checks too. */
#ifndef TEST_GROUP_CHECKS_H
#define TEST_GROUP_CHECKS_H

#include <terse/group.h>

typedef const char *check_fn(terse_group *handle);

struct named_check {
    const char *name;
    check_fn *run;
};

extern const struct named_check all_checks[];
extern const unsigned all_checks_count;

/* A worker's floats for an all-reduce. Their magnitudes differ, so that another order gives other
 * bits. */
void fill_floats(float *floats, size_t count, uint32_t rank);

#endif
