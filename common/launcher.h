/* Who started this process: mpirun or srun, or nobody of the kind. Reads the environment alone. */
#ifndef COM_LAUNCHER_H
#define COM_LAUNCHER_H

#include <stdint.h>

/* The workers that a launcher announces, 0: there is no launcher. The same answer as that of
 * terse_mpi_launched, without libterse-mpi, which the command loads only where there is one. */
uint32_t com_launched(void);

#endif
