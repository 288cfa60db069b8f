/* What a handle of any engine must do. Every worker of the group runs a check at the same time,
 * each with its handle; it returns NULL, or what went wrong. No cmocka: MPI programs use it too. */
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

/* The floats that a worker brings to a sum: of such sizes that another order gives other bits. */
void fill_floats(float *floats, size_t count, uint32_t rank);

#endif
