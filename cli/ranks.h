/* This process as one of several that mpirun or srun started (common/launcher.h). libterse-mpi is
 * loaded only then, so that the command needs no MPI otherwise. */
#ifndef CLI_RANKS_H
#define CLI_RANKS_H

#include <terse/group.h>

/* Loads libterse-mpi (TERSE_MPI_LIBRARY, or the one beside this command), starts MPI and takes the
 * handle. TERSE_UNSUPPORTED: there is no such library. */
terse_status ranks_start(terse_group **out, terse_fault *fault);

/* Ends MPI; with an exit code that is not 0 it ends all processes. */
void ranks_stop(int exit_code);

#endif
