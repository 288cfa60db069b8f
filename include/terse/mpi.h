/* Groups over MPI, in a separate library: link libterse-mpi and libterse, and use the MPI that
 * libterse-mpi was built with (terse_mpi_describe names it). docs/groups.md lists the settings. */
#ifndef TERSE_MPI_H
#define TERSE_MPI_H

#include <mpi.h>

#include <terse/export.h>
#include <terse/group.h>
#include <terse/status.h>

#ifdef __cplusplus
extern "C" {
#endif

/* Creates the group handle of this process; all processes of `comm` call it. MPI must be
 * initialised, with any thread level: below MPI_THREAD_SERIALIZED only the main thread may use the
 * handle, and other threads get TERSE_UNSUPPORTED. The communicator is duplicated; destroy the
 * handle before MPI_Finalize.
 *
 * MPI cannot cancel requests in flight: after TERSE_TIMEOUT or TERSE_PEER_LOST the buffers stay in
 * use by MPI, and the only way to end is MPI_Abort. A worker that leaves silently shows as
 * TERSE_TIMEOUT, not as TERSE_PEER_LOST. */
TERSE_API TERSE_CHECK terse_status terse_group_mpi(MPI_Comm comm, terse_group **out,
                                                   terse_fault *fault);

typedef struct terse_mpi_about {
    char library[64];    /* "Open MPI v4.1.4", "MPICH Version: 4.0.2", ... */
    const char *threads; /* "single", "funneled", "serialized", "multiple"; "" before MPI_Init */
    const char *note;    /* the effect of the thread level on overlap, one line */
    int overlap; /* 1: a second thread may drive the handle while the main thread computes */
} terse_mpi_about;

/* May be called at any time, also before MPI_Init. */
TERSE_API void terse_mpi_describe(terse_mpi_about *out);

/* ---- for programs that let terse initialise MPI ---- */

/* 0: this process was not started by mpirun, mpiexec or srun. Else the number of workers that the
 * launcher announces, or 1 if it announces none. Reads only the environment. */
TERSE_API uint32_t terse_mpi_launched(void);

/* Initialises MPI unless it is initialised. Sets OMPI_MCA_btl_tcp_flags=1 first, unless it is set:
 * Open MPI's default is half duplex over TCP. TERSE_MISMATCH: the launcher belongs to another MPI,
 * and each process would be a group of one. */
TERSE_API TERSE_CHECK terse_status terse_mpi_start(terse_fault *fault);

/* terse_group_mpi(MPI_COMM_WORLD, ...) for programs that load this library at run time, without
 * mpi.h. */
TERSE_API TERSE_CHECK terse_status terse_group_mpi_world(terse_group **out, terse_fault *fault);

/* The groups of terse_group_nodes over MPI_COMM_WORLD. A node is `node_size` consecutive ranks, or,
 * where that is 0, the ranks that share memory. `outer` is NULL on ranks that are not the first of
 * their node. Collective; TERSE_BAD_ARGUMENT: the ranks cannot be divided by `node_size`. */
TERSE_API TERSE_CHECK terse_status terse_group_mpi_nodes(uint32_t node_size, terse_group **inner,
                                                         terse_group **outer, terse_fault *fault);

/* Ends MPI if terse_mpi_start began it: MPI_Finalize, or MPI_Abort(exit_code) if that is not 0. */
TERSE_API void terse_mpi_stop(int exit_code);

#ifdef __cplusplus
}
#endif
#endif
