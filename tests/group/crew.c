#include "group/crew.h"

#include <pthread.h>
#include <stdio.h>

struct member {
    pthread_t thread;
    terse_group *handle;
    check_fn *run;
    char why[300];
    int bad;
};

static void *work(void *context)
{
    struct member *const member = context;
    const char *const bad = member->run(member->handle);
    member->bad = bad != NULL;
    if (bad) /* it belongs to this thread, which ends */
        (void)snprintf(member->why, sizeof member->why, "rank %u: %s",
                       (unsigned)terse_group_rank(member->handle), bad);
    return NULL;
}

const char *crew_run(terse_group *const *handles, uint32_t workers, check_fn *run)
{
    static struct member crew[TERSE_MAX_LOCAL_WORKERS];
    uint32_t started = 0;
    const char *bad = NULL;
    for (; started < workers; started++) {
        crew[started].handle = handles[started];
        crew[started].run = run;
        if (pthread_create(&crew[started].thread, NULL, work, &crew[started]))
            break;
    }
    if (started < workers)
        bad = "cannot start a thread";
    for (uint32_t r = 0; r < started; r++) {
        if (pthread_join(crew[r].thread, NULL))
            bad = "cannot join a thread";
        if (crew[r].bad && !bad)
            bad = crew[r].why;
    }
    return bad;
}
