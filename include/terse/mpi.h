/* Groups over MPI, in a library of their own: link libterse-mpi beside libterse, and use the same
 * MPI that it was built with (terse_mpi_describe names it). docs/groups.md has the settings. */
#ifndef TERSE_MPI_H
#define TERSE_MPI_H

#include <mpi.h>

#include <terse/export.h>
#include <terse/group.h>
#include <terse/status.h>

#ifdef __cplusplus
extern "C" {
#endif

/* This process's handle among the processes of `comm`, which all call this. MPI is initialised
 * already, with any thread level: below MPI_THREAD_SERIALIZED only the main thread may use the
 * handle, and others get TERSE_UNSUPPORTED. The communicator is duplicated; destroy the handle
 * before MPI_Finalize.
 *
 * MPI cannot take back what is under way: after TERSE_TIMEOUT or TERSE_PEER_LOST the buffers stay
 * with MPI, and the way out is MPI_Abort. A worker that left without a word is late, not broken. */
TERSE_API TERSE_CHECK terse_status terse_group_mpi(MPI_Comm comm, terse_group **out,
                                                   terse_fault *fault);

typedef struct terse_mpi_about {
    char library[64];    /* "Open MPI v4.1.4", "MPICH Version: 4.0.2", ... */
    const char *threads; /* "single", "funneled", "serialized", "multiple"; "" before MPI_Init */
    const char *note;    /* what this level means for overlap, one line */
    int overlap; /* 1: a thread of its own may drive the handle while the main one computes */
} terse_mpi_about;

/* Works at any time, before MPI_Init too. */
TERSE_API void terse_mpi_describe(terse_mpi_about *out);

/* ---- for programs that leave MPI to terse ---- */

/* Was this process started by mpirun, mpiexec or srun? Reads the environment alone. 0: no;
 * otherwise the number of workers that the launcher announces, 1 if it does not say. */
TERSE_API uint32_t terse_mpi_launched(void);

/* Initialises MPI unless that was done. Sets OMPI_MCA_btl_tcp_flags=1 first, unless it is set: Open
 * MPI's default is half duplex over TCP. TERSE_MISMATCH: the launcher belongs to another MPI, each
 * process would be alone. */
TERSE_API TERSE_CHECK terse_status terse_mpi_start(terse_fault *fault);

/* This process's handle among all that were started together: terse_group_mpi(MPI_COMM_WORLD, ...)
 * for programs that load this library at run time and know no mpi.h. */
TERSE_API TERSE_CHECK terse_status terse_group_mpi_world(terse_group **out, terse_fault *fault);

/* Ends what terse_mpi_start began: MPI_Finalize, or MPI_Abort with exit_code if that is not 0. */
TERSE_API void terse_mpi_stop(int exit_code);

#ifdef __cplusplus
}
#endif
#endif
