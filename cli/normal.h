/* Random numbers for inputs of benchmarks and demonstrations; not those of the library. */
#ifndef CLI_NORMAL_H
#define CLI_NORMAL_H

#include <stddef.h>
#include <stdint.h>

struct random {
    uint64_t state;
};

uint64_t random_bits(struct random *random);
float random_uniform(struct random *random); /* in (0, 1] */
float random_normal(struct random *random);

/* Fills with independent normal floats, mean 0, deviation 1. */
void normal_fill(float *out, size_t count, uint64_t seed);

#endif
