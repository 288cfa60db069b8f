/* The parts of the program that mpirun starts. Each returns the exit code. */
#ifndef TEST_RANKS_H
#define TEST_RANKS_H

#include <terse/mpi.h>

/* Prints "ok WHAT (n ranks)" or "not ok ..." once, by rank 0; why is NULL where all went well. */
int tell(const char *what, const char *why);

int run_stopped(void);  /* the last rank stops itself: the others name it in time */
int run_mismatch(void); /* lengths that do not agree name the sender */

#endif
