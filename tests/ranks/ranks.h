/* The parts of the program that mpirun starts. Each returns the exit code. */
#ifndef TEST_RANKS_H
#define TEST_RANKS_H

#include <terse/mpi.h>

/* Rank 0 prints "ok WHAT (n ranks)" or "not ok ..."; `why` is NULL on success. */
int report(const char *what, const char *why);

int run_stopped(void); /* the last rank stops itself: the others name it within the timeout */
int run_slow(void);    /* the last rank sends in small steps: longer than the timeout, no failure */
int run_stalled(void); /* the same, and stops itself half-way */
int run_mismatch(void); /* lengths that do not agree name the sender */

#endif
