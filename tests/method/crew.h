/* All workers of a method, driven by one thread. */
#ifndef TEST_METHOD_CREW_H
#define TEST_METHOD_CREW_H

#include "support/support.h"

struct crew {
    uint32_t workers;
    size_t count;
    terse_layout *layout;
    terse_method *method[TERSE_MAX_LOCAL_WORKERS];
    float *weights[TERSE_MAX_LOCAL_WORKERS];
    float *gradient[TERSE_MAX_LOCAL_WORKERS];
    terse_method_report report[TERSE_MAX_LOCAL_WORKERS];
};

/* The settings of a crew. */
struct crew_plan {
    const char *spec;
    uint32_t workers;
    size_t count;               /* elements of one unnamed vector, unless there is a layout */
    const terse_layout *layout; /* copied */
    const float *start;         /* initial weights; NULL: all zero */
    uint64_t seed;
    uint64_t steps;
    uint32_t threads;
    uint32_t measure_every;
    uint32_t aggregate_out;
    uint32_t private_output;
};

/* Fails the test with spec and reason if it cannot be created. */
struct crew crew_new(const struct crew_plan *plan);
void crew_free(struct crew *crew);

/* One step of all with the gradients in crew->gradient; must not be skipped. */
void crew_step(struct crew *crew);
/* Fills the gradient of every worker: a function of seed, step and rank. */
void crew_gradients(struct crew *crew, enum test_kind kind, uint64_t step);
/* Fills and steps `steps` times, from step number `from` on. */
void crew_train(struct crew *crew, enum test_kind kind, uint64_t from, uint64_t steps);

/* A part of a worker's state by name; bytes is NULL where there is none. */
terse_state crew_state(const struct crew *crew, uint32_t rank, const char *name);
float *crew_floats(const struct crew *crew, uint32_t rank, const char *name);

/* Fails the test unless all workers hold the same weights. */
void crew_agrees(const struct crew *crew, const char *what);
/* A hash of the weights and of every part of the state of all workers. */
uint64_t crew_hash(const struct crew *crew);
/* Copies all state and weights to another crew of the same spec and size. */
void crew_copy(const struct crew *from, struct crew *to);

/* The mean over workers of a part, or of their gradients where name is NULL. */
double crew_mean(const struct crew *crew, const char *name, size_t i);
/* The sum over workers of a part of kind SLICES. */
double crew_sum(const struct crew *crew, const char *name, size_t i);

/* |a - b| <= tolerance * max(1, |b|), else the test fails and names `what` and i. */
void close_to(double a, double b, double tolerance, const char *what, size_t i);

#endif
