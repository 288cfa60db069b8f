/* Properties of the machine that matter to speed and size. */
#ifndef CLI_MACHINE_H
#define CLI_MACHINE_H

#include <stdint.h>

uint64_t machine_memory(void);          /* bytes; 0 if unknown */
uint64_t machine_cache(unsigned level); /* bytes of the data cache 1..3 of CPU 0; 0 if unknown */
unsigned machine_cpus(void);            /* CPUs online */
void machine_cpu_name(char *out, unsigned cap);

/* Seconds of a monotonic clock. */
double machine_seconds(void);

/* CPU seconds of this process, all threads together. */
double machine_cpu_seconds(void);

/* Zeroed floats on a cache line, or NULL. */
float *machine_floats(uint64_t count);

/* CLI_OK, or prints that so many bytes do not fit into memory and returns an exit code. */
int machine_has_room(const char *purpose, double bytes);

#endif
