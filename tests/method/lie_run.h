/* Short trainings over the lying engine: an honest one that lists all messages, and ones in which
 * one of them is changed. */
#ifndef TEST_METHOD_LIE_RUN_H
#define TEST_METHOD_LIE_RUN_H

#include <pthread.h>

#include "method/lie_engine.h"

enum { LIE_STEPS = 4 };

/* A method, a number of ranks, and how gradients are given: everything but the lie. */
struct scene {
    const char *spec;
    uint32_t ranks;
    int posted;  /* tensor by tensor */
    int refused; /* the method refuses buckets */
    struct message *message;
    uint32_t count;
    uint64_t before[LIE_STEPS + 1]; /* hash of the weights before each step; last, after all */
};

/* How a rank's training ended. */
struct worker {
    const struct scene *scene;
    struct engine engine;
    terse_status status;
    terse_fault fault;
    terse_status skipped;
    int32_t step; /* the last one tried; -1: the method was not created */
    uint64_t before[LIE_STEPS + 1];
    uint64_t weights_hash;
    struct state {
        terse_status status; /* what terse_method_state says after the last part */
        uint64_t hash;       /* of all parts */
        int both;            /* a residual and moments: the method may write in place */
    } state[2];              /* before the last step and after it */
    pthread_t thread;
};

/* Fills in the messages and the weights of an honest training; fails the test if it fails. */
void scene_learn(struct scene *scene);
void scene_forget(struct scene *scene);

/* Is it one of the last messages of its step? */
int scene_closes(const struct scene *scene, const struct message *message);
/* The next step after `step` in which anything is sent. */
int32_t scene_next(const struct scene *scene, int32_t step);
/* Can be lied about: another step follows that sends something. */
int scene_is_target(const struct scene *scene, const struct message *message);
/* An earlier message with the same ends and length, for a replay, or NULL; the same place in its
 * step is preferred. */
const struct message *scene_replay(const struct scene *scene, const struct message *message);

/* Trains with the lie; target NULL: with none. `workers` holds all ranks. */
void lie_train(const struct scene *scene, const struct message *target, enum lie lie, uint64_t seed,
               struct worker *workers);

#endif
