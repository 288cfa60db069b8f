/* Compares one slot of a set with ref, for every length, place and kind of number. */
#ifndef TEST_KERNELS_COMPARE_H
#define TEST_KERNELS_COMPARE_H

#include "kernels/lab.h"

/* The slot's name in the trials; it must equal tsk_slot_names[slot]. */
const char *compare_name(size_t slot);

/* Returns the number of trials in which the set differs from ref, and prints them. */
size_t compare_slot(struct lab *lab, const struct tsk_table *set, const char *set_name,
                    size_t slot);

#endif
