/* A job of `terse launch`: a launcher (mpirun, mpiexec, srun) and its ranks, run to its end. */
#ifndef CLI_LAUNCH_JOB_H
#define CLI_LAUNCH_JOB_H

#include <stdint.h>

#include <terse/group.h>

struct launch_end {
    int code;        /* exit code of the launcher; 128 + n if signal n ended it */
    int refused;     /* exit code of a rank that refused its input (1 or 2), or 0 */
    int stopped;     /* exit code of ranks that a signal ended after a checkpoint, or 0 */
    int finished;    /* rank 0 ended with 0 */
    int hung;        /* the launcher did not end though its processes had, and was killed */
    uint32_t here;   /* slots that started */
    int32_t absent;  /* the lowest that did not, or -1 */
    char cause[300]; /* what happened, one line */
};

/* Catches SIGINT, SIGTERM, SIGUSR1 and SIGHUP from now on. The first becomes SIGUSR1 for the
 * launcher of the job, which passes it on to the ranks: they write a checkpoint and end. Later ones
 * become SIGTERM, which ends the job. */
void launch_catch_signals(void);

/* The first signal caught, or 0. */
int launch_signal(void);

/* Runs the words as a process group of its own, without standard input. Standard error passes
 * through, but for the lines of the ranks for `terse launch`. Returns 0 if there is no process. */
int launch_job_run(char *const *words, uint32_t workers, struct launch_end *out);

#endif
