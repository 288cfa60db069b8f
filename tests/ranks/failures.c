#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <time.h>
#include <unistd.h>

#include "ranks/ranks.h"

static double seconds_now(void)
{
    struct timespec now;
    (void)clock_gettime(CLOCK_MONOTONIC, &now);
    return (double)now.tv_sec + (double)now.tv_nsec * 1e-9;
}

/* Every rank says its process id, so that the script can see that none stays; the last one stops.
 * The way out of a late group is MPI_Abort, which also ends what is stopped. */
int run_stopped(void)
{
    terse_group *group = NULL;
    terse_fault fault = {0};
    float floats[1000] = {0};
    float scratch[2000];
    if (terse_group_mpi(MPI_COMM_WORLD, &group, &fault) || terse_group_set_timeout(group, 1.5))
        return 1;
    const int32_t last = (int32_t)terse_group_workers(group) - 1;
    const int32_t rank = (int32_t)terse_group_rank(group);
    printf("pid %d\n", (int)getpid());
    (void)fflush(stdout);
    for (int step = 0; step < 3; step++)
        if (terse_group_allreduce(group, floats, 1000, scratch, &fault))
            return 1;
    if (rank == last)
        (void)raise(SIGSTOP);
    const double start = seconds_now();
    const terse_status status = terse_group_allreduce(group, floats, 1000, scratch, &fault);
    const double took = seconds_now() - start;
    const int right = status == TERSE_TIMEOUT && fault.rank == last && took > 1 && took < 4;
    printf("%s: rank %d: %s after %.1f s: %s\n", right ? "named" : "wrong", (int)rank,
           terse_status_text(status), took, fault.text);
    (void)fflush(stdout);
    terse_group_destroy(group);
    (void)sleep(2); /* the others' lines */
    terse_mpi_stop(9);
    return 1;
}

static const char *mismatch(size_t root_len, size_t len)
{
    static const char *bad;
    terse_group *group = NULL;
    terse_fault fault = {0};
    unsigned char bytes[3000] = {0};
    bad = NULL;
    if (terse_group_mpi(MPI_COMM_WORLD, &group, &fault))
        return "no group";
    const int is_root = terse_group_rank(group) == 0;
    const terse_status status =
        terse_group_broadcast(group, 0, bytes, is_root ? root_len : len, &fault);
    if (is_root && status != TERSE_OK)
        bad = "the root fails";
    if (!is_root && (status != TERSE_MISMATCH || fault.rank != 0))
        bad = "the root is not named";
    if (!is_root && terse_group_barrier(group, NULL) != TERSE_PEER_LOST)
        bad = "the group lives on";
    terse_group_destroy(group);
    return bad;
}

int run_mismatch(void)
{
    const int shorter = tell("a message too long names its sender", mismatch(200, 100));
    const int longer = tell("a message too short names its sender", mismatch(100, 200));
    /* Whole messages of ranks-*-short: the first of them look alike. */
    const int fewer = tell("a message too many names its sender", mismatch(2000, 1000));
    return shorter | longer | fewer |
           tell("a message too few names its sender", mismatch(1000, 2000));
}
