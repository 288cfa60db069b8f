#include "common/launcher.h"

#include <stdlib.h>

#include <terse/group.h>

/* A number of the environment, or 0. */
static uint32_t number_of(const char *name)
{
    const char *const text = getenv(name);
    const unsigned long number = text ? strtoul(text, NULL, 10) : 0;
    return number <= TERSE_MAX_WORKERS ? (uint32_t)number : 0;
}

uint32_t com_launched(void)
{
    /* Open MPI; MPICH, Intel MPI and srun with PMI; with PMIx srun sets the rank, and Slurm the
     * number of tasks. Slurm's variables alone are also set in a batch script, which is no worker.
     */
    static const char *const sizes[] = {"OMPI_COMM_WORLD_SIZE", "PMI_SIZE"};
    for (size_t i = 0; i < sizeof sizes / sizeof *sizes; i++)
        if (number_of(sizes[i]))
            return number_of(sizes[i]);
    if (!getenv("PMIX_RANK") && !getenv("PMI_RANK"))
        return 0;
    const uint32_t tasks = number_of("SLURM_STEP_NUM_TASKS");
    return tasks ? tasks : 1;
}

uint32_t com_launched_rank(void)
{
    static const char *const ranks[] = {"OMPI_COMM_WORLD_RANK", "PMI_RANK", "PMIX_RANK",
                                        "SLURM_PROCID"};
    for (size_t i = 0; i < sizeof ranks / sizeof *ranks; i++)
        if (getenv(ranks[i]))
            return number_of(ranks[i]);
    return 0;
}

uint32_t com_lone_tasks(void)
{
    return com_launched() ? 0 : number_of("SLURM_STEP_NUM_TASKS");
}
