/* What the computer is made of, as far as it matters to speed and size. */
#ifndef CLI_MACHINE_H
#define CLI_MACHINE_H

#include <stdint.h>

uint64_t machine_memory(void);          /* bytes; 0 if unknown */
uint64_t machine_cache(unsigned level); /* bytes of the data cache 1..3 of CPU 0; 0 if unknown */
unsigned machine_cpus(void);            /* that are online */
void machine_cpu_name(char *out, unsigned cap);

/* Seconds on a clock that only goes forward. */
double machine_seconds(void);

/* Seconds that this process has computed, all threads together. */
double machine_cpu_seconds(void);

/* Zeroed floats on a cache line, or NULL. */
float *machine_floats(uint64_t count);

/* Says that so many bytes do not fit and returns an exit code, or CLI_OK if they may. */
int machine_has_room(const char *purpose, double bytes);

#endif
