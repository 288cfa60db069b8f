/* Random numbers of the experiments: noise, data, starting points. */
#ifndef RPR_RANDOM_H
#define RPR_RANDOM_H

#include <stddef.h>
#include <stdint.h>

struct rpr_random {
    uint64_t state;
};

/* A stream of its own for each (seed, experiment, repeat). */
struct rpr_random rpr_random(uint64_t seed, const char *experiment, uint64_t repeat);

uint64_t rpr_bits(struct rpr_random *random);
double rpr_uniform(struct rpr_random *random); /* [0, 1) */
double rpr_normal(struct rpr_random *random);  /* N(0, 1) */
void rpr_normals(struct rpr_random *random, size_t count, float *out);

#endif
