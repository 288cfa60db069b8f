/* Runs every handle in a thread of its own. */
#ifndef TEST_GROUP_CREW_H
#define TEST_GROUP_CREW_H

#include "group/checks.h"

/* NULL, or what went wrong on the lowest rank where something did. */
const char *crew_run(terse_group *const *handles, uint32_t workers, check_fn *run);

#endif
