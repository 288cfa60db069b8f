/* This process as one of several that mpirun or srun started (common/launcher.h). libterse-mpi is
 * loaded only then, so that the command needs no MPI otherwise. */
#ifndef CLI_RANKS_H
#define CLI_RANKS_H

#include <terse/group.h>

/* Loads libterse-mpi (TERSE_MPI_LIBRARY, or the one beside this command), starts MPI and takes the
 * handle. TERSE_UNSUPPORTED: there is no such library. MPI_Init and MPI_Finalize have no timeout:
 * if MPI has not started or ended within `seconds` (0: 60; at least 20), as a rank is stopped or
 * cannot be reached, the process ends with a message and CLI_MACHINE. */
terse_status ranks_start(double seconds, terse_group **out, terse_fault *fault);

/* terse_group_mpi_nodes, after ranks_start. */
terse_status ranks_split(uint32_t node_size, terse_group **inner, terse_group **outer,
                         terse_fault *fault);

/* Ends this process's part in MPI and returns its exit code. A failure ends all processes. After a
 * training that was finished or stopped the group is destroyed, and only rank 0 has a code that is
 * not 0, since launchers end a job at the first one. NULL: there is no group. */
int ranks_end(terse_group *group, int code);

#endif
