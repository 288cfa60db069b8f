#include "exchange/workers.h"

#include <pthread.h>
#include <stdio.h>

struct worker {
    terse_group *handle;
    worker_fn *work;
    void *context;
    const char *complaint;
    pthread_t thread;
};

static void *run(void *opaque)
{
    struct worker *const worker = opaque;
    worker->complaint = worker->work(worker->handle, worker->context);
    return NULL;
}

void workers_run(uint32_t workers, worker_fn *work, void *context)
{
    terse_group *handles[TERSE_MAX_LOCAL_WORKERS];
    struct worker crew[TERSE_MAX_LOCAL_WORKERS];
    assert_int_equal(terse_group_local(workers, handles), TERSE_OK);
    for (uint32_t r = 0; r < workers; r++) {
        crew[r] = (struct worker){.handle = handles[r], .work = work, .context = context};
        assert_int_equal(terse_group_set_timeout(handles[r], 30), TERSE_OK);
        assert_int_equal(pthread_create(&crew[r].thread, NULL, run, &crew[r]), 0);
    }
    for (uint32_t r = 0; r < workers; r++)
        assert_int_equal(pthread_join(crew[r].thread, NULL), 0);
    for (uint32_t r = 0; r < workers; r++)
        terse_group_destroy(handles[r]);
    for (uint32_t r = 0; r < workers; r++)
        if (crew[r].complaint)
            fail_msg("%s", crew[r].complaint);
}

const char *complain(const terse_group *handle, const char *text, terse_status status,
                     const terse_fault *fault)
{
    static _Thread_local char buffers[4][400];
    static _Thread_local unsigned next;
    static char kept[64][400];
    const uint32_t rank = terse_group_rank(handle);
    char *const out = rank < 64 ? kept[rank] : buffers[next++ % 4];
    (void)snprintf(out, sizeof kept[0], "rank %u: %s (%s: %s, rank %d)", rank, text,
                   terse_status_text(status), fault ? fault->text : "", fault ? fault->rank : -1);
    return out;
}
