#include "team.h"

#include <pthread.h>
#include <stdatomic.h>
#include <stdlib.h>
#include <string.h>

static terse_status open_buffers(struct rpr_team *team, const float *start)
{
    for (uint32_t k = 0; k < team->workers; k++) {
        team->weights[k] = calloc(team->count + 1, sizeof(float));
        team->gradient[k] = calloc(team->count + 1, sizeof(float));
        if (!team->weights[k] || !team->gradient[k])
            return TERSE_NO_MEMORY;
        memcpy(team->weights[k], start, team->count * sizeof(float));
    }
    return TERSE_OK;
}

void rpr_team_open(struct rpr_team *team, const struct rpr_setup *setup)
{
    const terse_method_options options = {
        .size = sizeof options, .seed = setup->seed, .steps = setup->steps};
    terse_layout *layout = NULL;
    *team = (struct rpr_team){.workers = setup->workers, .count = setup->count};
    team->status = open_buffers(team, setup->start);
    if (team->status == TERSE_OK)
        team->status = terse_layout_vector(setup->count, &layout);
    if (team->status == TERSE_OK)
        team->status = terse_method_create_all(setup->spec, setup->workers, layout, team->weights,
                                               &options, team->method, &team->fault);
    terse_layout_destroy(layout);
}

void rpr_team_step(struct rpr_team *team)
{
    if (team->status == TERSE_OK)
        team->status = terse_method_step_all(team->method, (const float *const *)team->gradient,
                                             team->report, &team->fault);
}

void rpr_team_close(struct rpr_team *team)
{
    for (uint32_t k = 0; k < team->workers; k++) {
        terse_method_destroy(team->method[k]);
        free(team->weights[k]);
        free(team->gradient[k]);
    }
}

const float *rpr_team_state(struct rpr_team *team, uint32_t worker, const char *name)
{
    terse_state state;
    for (uint32_t i = 0; terse_method_state(team->method[worker], i, &state) == TERSE_OK; i++)
        if (strcmp(state.name, name) == 0 && state.floats)
            return state.bytes;
    return NULL;
}

/* ---- side by side ---- */

struct queue {
    void (*run)(void *context, size_t index);
    void *context;
    size_t count;
    atomic_size_t next;
};

static void *work(void *context)
{
    struct queue *const queue = context;
    for (size_t i; (i = atomic_fetch_add(&queue->next, 1)) < queue->count;)
        queue->run(queue->context, i);
    return NULL;
}

void rpr_each(unsigned threads, size_t count, void (*run)(void *context, size_t index),
              void *context)
{
    enum { MOST = 64 };
    struct queue queue = {.run = run, .context = context, .count = count};
    pthread_t helper[MOST];
    unsigned helpers = 0;
    while (helpers + 1 < threads && helpers < MOST && helpers + 1 < count &&
           pthread_create(&helper[helpers], NULL, work, &queue) == 0)
        helpers++;
    work(&queue);
    for (unsigned i = 0; i < helpers; i++)
        pthread_join(helper[i], NULL);
}
