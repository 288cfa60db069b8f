/* Started by mpirun: ranks checks | split | single | launched | start | stopped | slow | stalled |
 * mismatch
 */
#include "ranks/ranks.h"

#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "group/checks.h"

int report(const char *what, const char *why)
{
    int rank = 0;
    int workers = 0;
    int bad = why != NULL;
    int all_bad = 0;
    (void)MPI_Comm_rank(MPI_COMM_WORLD, &rank);
    (void)MPI_Comm_size(MPI_COMM_WORLD, &workers);
    if (bad)
        printf("# rank %d: %s: %s\n", rank, what, why);
    (void)fflush(stdout);
    (void)MPI_Allreduce(&bad, &all_bad, 1, MPI_INT, MPI_MAX, MPI_COMM_WORLD);
    if (rank == 0)
        printf("%s %s (%d ranks)\n", all_bad ? "not ok" : "ok", what, workers);
    (void)fflush(stdout);
    return all_bad;
}

static int check_all(MPI_Comm comm, const char *where)
{
    terse_group *group = NULL;
    terse_fault fault = {0};
    int bad = 0;
    if (terse_group_mpi(comm, &group, &fault))
        return report("group", fault.text);
    for (unsigned c = 0; c < all_checks_count; c++) {
        char what[80];
        (void)snprintf(what, sizeof what, "%s%s", all_checks[c].name, where);
        bad |= report(what, all_checks[c].run(group));
    }
    terse_group_destroy(group);
    return bad;
}

static int run_checks(void)
{
    return check_all(MPI_COMM_WORLD, "");
}

/* Two communicators at once, with ranks in another order than in MPI_COMM_WORLD. */
static int run_split(void)
{
    int rank = 0;
    MPI_Comm half = MPI_COMM_NULL;
    (void)MPI_Comm_rank(MPI_COMM_WORLD, &rank);
    if (MPI_Comm_split(MPI_COMM_WORLD, rank % 2, -rank, &half) != MPI_SUCCESS)
        return report("split", "MPI_Comm_split failed");
    const int bad = check_all(half, ", split");
    (void)MPI_Comm_free(&half);
    return bad;
}

/* ---- MPI_THREAD_SINGLE ---- */

struct elsewhere {
    terse_group *group;
    terse_status status;
    terse_fault fault;
};

static void *use_elsewhere(void *context)
{
    struct elsewhere *const elsewhere = context;
    elsewhere->status = terse_group_barrier(elsewhere->group, &elsewhere->fault);
    return NULL;
}

static const char *check_single(terse_group *group)
{
    struct elsewhere elsewhere = {.group = group};
    pthread_t thread;
    terse_mpi_about about;
    terse_mpi_describe(&about);
    if (strcmp(about.threads, "single") != 0 || about.overlap || !strstr(about.note, "no overlap"))
        return "the level is not described";
    if (pthread_create(&thread, NULL, use_elsewhere, &elsewhere) || pthread_join(thread, NULL))
        return "no thread";
    if (elsewhere.status != TERSE_UNSUPPORTED || !strstr(elsewhere.fault.text, "main thread"))
        return "another thread is not refused";
    return NULL;
}

static int run_single(void)
{
    terse_group *group = NULL;
    terse_fault fault = {0};
    int provided = 0;
    if (MPI_Init_thread(NULL, NULL, MPI_THREAD_SINGLE, &provided) != MPI_SUCCESS)
        return 1;
    int bad = 0;
    if (provided != MPI_THREAD_SINGLE) {
        printf("# this MPI provides a higher thread level than requested\n");
    } else if (terse_group_mpi(MPI_COMM_WORLD, &group, &fault)) {
        bad = report("group at MPI_THREAD_SINGLE", fault.text);
    } else {
        bad = report("another thread is refused at MPI_THREAD_SINGLE", check_single(group));
        for (unsigned c = 0; c < all_checks_count; c++)
            bad |= report(all_checks[c].name, all_checks[c].run(group));
    }
    terse_group_destroy(group);
    terse_mpi_stop(1); /* terse_mpi_start did not start MPI: does nothing */
    (void)MPI_Finalize();
    return bad;
}

/* ---- without MPI ---- */

/* Prints the number that the launcher announces, without MPI_Init. */
static int run_launched(void)
{
    terse_mpi_about about;
    terse_fault fault = {0};
    terse_group *group;
    terse_mpi_describe(&about);
    if (about.threads[0] || !about.library[0] || about.overlap)
        return 1;
    if (terse_group_mpi(MPI_COMM_WORLD, &group, &fault) != TERSE_BAD_ARGUMENT)
        return 1;
    printf("launched %u\n", (unsigned)terse_mpi_launched());
    (void)fflush(stdout);
    (void)usleep(300000); /* MPICH's mpirun dies of SIGPIPE where ranks end before it is ready */
    return 0;
}

static int run_start(void)
{
    terse_fault fault = {0};
    const terse_status status = terse_mpi_start(&fault);
    const char *const flags = getenv("OMPI_MCA_btl_tcp_flags");
    printf("start: %s, %s, flags %s\n", terse_status_text(status), fault.text, flags ? flags : "");
    if (!status)
        terse_mpi_stop(0);
    return status != TERSE_OK;
}

static int with_mpi(int (*run)(void))
{
    terse_fault fault = {0};
    if (terse_mpi_start(&fault)) {
        printf("not ok start: %s\n", fault.text);
        return 1;
    }
    const int bad = run();
    terse_mpi_stop(0);
    return bad;
}

int main(int count, char **words)
{
    static const struct {
        const char *name;
        int (*run)(void);
        int needs_mpi;
    } parts[] = {
        {"checks", run_checks, 1},     {"split", run_split, 1},     {"single", run_single, 0},
        {"launched", run_launched, 0}, {"start", run_start, 0},     {"stopped", run_stopped, 1},
        {"slow", run_slow, 1},         {"stalled", run_stalled, 1}, {"mismatch", run_mismatch, 1}};
    for (size_t i = 0; count == 2 && i < sizeof parts / sizeof *parts; i++)
        if (strcmp(words[1], parts[i].name) == 0)
            return parts[i].needs_mpi ? with_mpi(parts[i].run) : parts[i].run();
    return 2;
}
