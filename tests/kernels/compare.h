/* Every length, every place, every kind of number: one slot of a set against ref. */
#ifndef TEST_KERNELS_COMPARE_H
#define TEST_KERNELS_COMPARE_H

#include "kernels/lab.h"

/* The slot's name as the trials know it; equal to tsk_slot_names[slot] or the tests are wrong. */
const char *compare_name(size_t slot);

/* Returns the number of trials in which the set differs from ref, and says which those are. */
size_t compare_slot(struct lab *lab, const struct tsk_table *set, const char *set_name,
                    size_t slot);

#endif
