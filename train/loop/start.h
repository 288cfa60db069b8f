/* The weights with which a training begins: of the file of --init, but for the tensors of --reinit,
 * which begin as they do without a file. A resumed training takes all of them from its checkpoint,
 * and the file is not looked at. */
#ifndef TRN_START_H
#define TRN_START_H

#include "loop/worker.h"

/* Reads the file of --init, if there is one; in a group of processes rank 0 reads it and sends it
 * to all. Fills run->init and run->init_hash. Collective. */
TERSE_CHECK terse_status trn_start_read(struct trn_run *run, terse_fault *fault);

/* Copies the file's tensors over the initial weights and the running statistics of the worker.
 * Refuses, and names, a tensor that only one of network and file has, one of another shape, one
 * that is not finite, and a pattern that matches nothing. Without a file it does nothing. */
TERSE_CHECK terse_status trn_start_weights(struct trn_worker *worker);

#endif
