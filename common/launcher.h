/* Whether mpirun or srun started this process. Reads only the environment. */
#ifndef COM_LAUNCHER_H
#define COM_LAUNCHER_H

#include <stdint.h>

/* The number of workers that a launcher announces; 0: there is no launcher. The same as
 * terse_mpi_launched, without libterse-mpi, which the command loads only if there is a launcher. */
uint32_t com_launched(void);

/* The rank that the launcher gave this process; 0 if there is no launcher. */
uint32_t com_launched_rank(void);

/* The number of tasks that srun started beside each other without a process manager for MPI; 0 if
 * this process is none of them. */
uint32_t com_lone_tasks(void);

#endif
