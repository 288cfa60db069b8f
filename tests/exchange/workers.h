/* Workers of a local group, a thread each. */
#ifndef TEST_EXCHANGE_WORKERS_H
#define TEST_EXCHANGE_WORKERS_H

#include "support/support.h"

/* The work of one worker. cmocka asserts in the main thread only, so it returns NULL or an error
 * text. `context` is shared by all. */
typedef const char *worker_fn(terse_group *handle, void *context);

/* Runs them all and fails the test with the first complaint. */
void workers_run(uint32_t workers, worker_fn *work, void *context);

/* A text that outlives the worker: "rank 2: TEXT (mismatch: fault)". */
const char *complain(const terse_group *handle, const char *text, terse_status status,
                     const terse_fault *fault);

#endif
