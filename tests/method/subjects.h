/* The specs of suites over all methods: each method of the table, then options and composed ones.
 */
#ifndef TEST_METHOD_SUBJECTS_H
#define TEST_METHOD_SUBJECTS_H

#include "method/crew.h"

/* The spec of subject `index` from 0; NULL past the last. */
const char *subject(uint32_t index);

/* Exchanges in every so many of its steps. */
uint64_t subject_every(const char *spec);

/* Does a gradient of zeros move its weights, because the sign of a zero is random? */
int subject_tosses(const char *spec);

/* A matrix, an empty tensor, a scalar, vectors: about 3000 elements. */
terse_layout *subject_layout(void);

/* A plan for it: its gradients, seed and steps. */
struct crew_plan subject_plan(const char *spec, uint32_t workers, const terse_layout *layout);

#endif
