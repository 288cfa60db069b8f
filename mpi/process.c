/* Functions of the process: its launcher, its MPI, start and stop. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <terse/mpi.h>

static int started_here;

/* The number in an environment variable, or 0. */
static uint32_t number_of(const char *name)
{
    const char *const text = getenv(name);
    const unsigned long number = text ? strtoul(text, NULL, 10) : 0;
    return number <= TERSE_MAX_WORKERS ? (uint32_t)number : 0;
}

uint32_t terse_mpi_launched(void)
{
    /* Open MPI sets the first; MPICH, Intel MPI and srun with PMI the second; srun with PMIx sets
     * the rank, and Slurm the number of tasks. Slurm's variables alone are not enough: they are
     * also set in a batch script, which is not a worker. */
    static const char *const sizes[] = {"OMPI_COMM_WORLD_SIZE", "PMI_SIZE"};
    for (size_t i = 0; i < sizeof sizes / sizeof *sizes; i++)
        if (number_of(sizes[i]))
            return number_of(sizes[i]);
    if (!getenv("PMIX_RANK") && !getenv("PMI_RANK"))
        return 0;
    const uint32_t tasks = number_of("SLURM_STEP_NUM_TASKS");
    return tasks ? tasks : 1;
}

static const char *level_name(int level)
{
    switch (level) {
    case MPI_THREAD_SINGLE: return "single";
    case MPI_THREAD_FUNNELED: return "funneled";
    case MPI_THREAD_SERIALIZED: return "serialized";
    case MPI_THREAD_MULTIPLE: return "multiple";
    default: return "";
    }
}

static const char *level_note(int level)
{
    switch (level) {
    case MPI_THREAD_SINGLE:
    case MPI_THREAD_FUNNELED:
        return "no overlap: only the main thread may use a group; for more, call MPI_Init_thread "
               "with MPI_THREAD_SERIALIZED";
    case MPI_THREAD_SERIALIZED:
        return "overlap: another thread may use a group while no other calls MPI";
    case MPI_THREAD_MULTIPLE: return "overlap: any thread may use a group at any time";
    default: return "MPI is not initialised";
    }
}

void terse_mpi_describe(terse_mpi_about *out)
{
    char version[MPI_MAX_LIBRARY_VERSION_STRING] = "";
    int len = 0;
    int initialized = 0;
    int finalized = 0;
    int level = -1;
    (void)MPI_Initialized(&initialized);
    (void)MPI_Finalized(&finalized);
    (void)MPI_Get_library_version(version, &len);
    if (initialized && !finalized)
        (void)MPI_Query_thread(&level);
    version[strcspn(version, ",\n")] = '\0';
    for (char *at = version; *at; at++)
        if (*at == '\t')
            *at = ' ';
    *out = (terse_mpi_about){.threads = level_name(level),
                             .note = level_note(level),
                             .overlap =
                                 level == MPI_THREAD_SERIALIZED || level == MPI_THREAD_MULTIPLE};
    (void)snprintf(out->library, sizeof out->library, "%.63s", version);
}

static terse_status check_launcher(terse_fault *fault)
{
    const uint32_t announced = terse_mpi_launched();
    int size = 0;
    terse_mpi_about about;
    (void)MPI_Comm_size(MPI_COMM_WORLD, &size);
    if (announced <= 1 || size != 1)
        return TERSE_OK;
    terse_mpi_describe(&about);
    if (fault) {
        *fault = (terse_fault){.rank = -1};
        (void)snprintf(fault->text, sizeof fault->text,
                       "the launcher announces %u workers, but %s sees one: it is the launcher of "
                       "another MPI; use the one of this MPI",
                       (unsigned)announced, about.library);
    }
    return TERSE_MISMATCH;
}

terse_status terse_mpi_start(terse_fault *fault)
{
    int initialized = 0;
    int provided = 0;
    (void)MPI_Initialized(&initialized);
    if (initialized)
        return TERSE_OK;
    (void)setenv("OMPI_MCA_btl_tcp_flags", "1", 0);
    if (MPI_Init_thread(NULL, NULL, MPI_THREAD_SERIALIZED, &provided) != MPI_SUCCESS) {
        if (fault) {
            *fault = (terse_fault){.rank = -1};
            (void)snprintf(fault->text, sizeof fault->text, "MPI_Init_thread failed");
        }
        return TERSE_PEER_LOST;
    }
    started_here = 1;
    const terse_status status = check_launcher(fault);
    if (status)
        terse_mpi_stop(0);
    return status;
}

terse_status terse_group_mpi_world(terse_group **out, terse_fault *fault)
{
    return terse_group_mpi(MPI_COMM_WORLD, out, fault);
}

terse_status terse_group_mpi_nodes(uint32_t node_size, terse_group **inner, terse_group **outer,
                                   terse_fault *fault)
{
    MPI_Comm node = MPI_COMM_NULL;
    MPI_Comm leaders = MPI_COMM_NULL;
    int rank = 0;
    int size = 0;
    int place = 0;
    (void)MPI_Comm_rank(MPI_COMM_WORLD, &rank);
    (void)MPI_Comm_size(MPI_COMM_WORLD, &size);
    if (node_size > 0 && (uint32_t)size % node_size != 0) {
        if (fault) {
            *fault = (terse_fault){.rank = -1};
            (void)snprintf(fault->text, sizeof fault->text,
                           "%d ranks are not divisible into nodes of %u", size, node_size);
        }
        return TERSE_BAD_ARGUMENT;
    }
    int code = node_size == 0 ? MPI_Comm_split_type(MPI_COMM_WORLD, MPI_COMM_TYPE_SHARED, rank,
                                                    MPI_INFO_NULL, &node)
                              : MPI_Comm_split(MPI_COMM_WORLD, rank / (int)node_size, rank, &node);
    if (code == MPI_SUCCESS)
        code = MPI_Comm_rank(node, &place);
    if (code == MPI_SUCCESS)
        code = MPI_Comm_split(MPI_COMM_WORLD, place == 0 ? 0 : MPI_UNDEFINED, rank, &leaders);
    terse_status status = code == MPI_SUCCESS ? TERSE_OK : TERSE_PEER_LOST;
    *inner = *outer = NULL;
    if (status == TERSE_OK)
        status = terse_group_mpi(node, inner, fault); /* which duplicates it */
    if (status == TERSE_OK && place == 0)
        status = terse_group_mpi(leaders, outer, fault);
    if (node != MPI_COMM_NULL)
        (void)MPI_Comm_free(&node);
    if (leaders != MPI_COMM_NULL)
        (void)MPI_Comm_free(&leaders);
    return status;
}

void terse_mpi_stop(int exit_code)
{
    int finalized = 0;
    (void)MPI_Finalized(&finalized);
    if (!started_here || finalized)
        return;
    started_here = 0;
    if (exit_code)
        (void)MPI_Abort(MPI_COMM_WORLD, exit_code);
    else
        (void)MPI_Finalize();
}
