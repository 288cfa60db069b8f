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

/* Every rank prints its process id, so that the script can check that none is left; the last rank
 * stops itself. After a timeout a program ends with MPI_Abort, which also ends stopped processes.
 */
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

/* The last rank sends 30 messages, one every 0.1 s (this program's messages have 1000 bytes, and a
 * call of test starts the next), and stops itself after `last_message`. The others wait with a
 * timeout of 1 s. */
static terse_status broadcast_slowly(terse_group *group, int last_message, terse_fault *fault)
{
    static unsigned char bytes[30000];
    const uint32_t last = terse_group_workers(group) - 1;
    terse_request request;
    int done = 0;
    terse_status status =
        terse_group_post_broadcast(group, last, bytes, sizeof bytes, &request, fault);
    if (terse_group_rank(group) != last)
        return status ? status : terse_group_wait(group, request, fault);
    for (int i = 0; !status && !done; i++) {
        if (i == last_message)
            (void)raise(SIGSTOP);
        (void)usleep(100000);
        status = terse_group_test(group, request, &done, fault);
    }
    return status;
}

int run_slow(void)
{
    terse_group *group = NULL;
    terse_fault fault = {0};
    if (terse_group_mpi(MPI_COMM_WORLD, &group, &fault) || terse_group_set_timeout(group, 1))
        return report("slow", fault.text);
    const double start = seconds_now();
    const terse_status status = broadcast_slowly(group, -1, &fault);
    const char *bad = status ? fault.text : NULL;
    if (!status && seconds_now() - start < 2)
        bad = "was not slow";
    const int result = report("a slow transfer that moves is no timeout", bad);
    terse_group_destroy(group);
    return result;
}

int run_stalled(void)
{
    terse_group *group = NULL;
    terse_fault fault = {0};
    if (terse_group_mpi(MPI_COMM_WORLD, &group, &fault) || terse_group_set_timeout(group, 1))
        return 1;
    const int32_t last = (int32_t)terse_group_workers(group) - 1;
    const double start = seconds_now();
    printf("pid %d\n", (int)getpid());
    (void)fflush(stdout);
    const terse_status status = broadcast_slowly(group, 15, &fault);
    const double took = seconds_now() - start;
    const int right = status == TERSE_TIMEOUT && fault.rank == last && took > 2 && took < 6;
    printf("%s: rank %d: %s after %.1f s: %s\n", right ? "named" : "wrong",
           (int)terse_group_rank(group), terse_status_text(status), took, fault.text);
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
        bad = "the group is still alive";
    terse_group_destroy(group);
    return bad;
}

int run_mismatch(void)
{
    const int shorter = report("a message too long names its sender", mismatch(200, 100));
    const int longer = report("a message too short names its sender", mismatch(100, 200));
    /* Multiples of the short messages of ranks-*-short: only their number differs. */
    const int fewer = report("a message too many names its sender", mismatch(2000, 1000));
    return shorter | longer | fewer |
           report("a message too few names its sender", mismatch(1000, 2000));
}
