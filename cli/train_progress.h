/* Progress of a training: one line that changes on a terminal, plain lines elsewhere, the live
 * page, and charts at the end. */
#ifndef CLI_TRAIN_PROGRESS_H
#define CLI_TRAIN_PROGRESS_H

#include "train_request.h"

struct progress;

/* Returns an exit code and prints errors; it fails only for lack of memory or of a port. The
 * request must stay valid. */
int progress_start(const struct train_request *request, struct progress **out);

/* A prefix of every line from now on ("def: "); must stay valid. */
void progress_title(struct progress *progress, const char *title);

/* For trn_train; valid until progress_end. */
const struct trn_watch *progress_watch(struct progress *progress);

/* Ends the line; draws the charts unless quiet. NULL is fine. */
void progress_end(struct progress *progress);

/* SIGINT, SIGTERM, SIGUSR1 and SIGHUP ask for a checkpoint and an end; a second SIGINT or SIGTERM
 * ends at once. */
void progress_catch_signals(const struct train_request *request, int under_mpi);

#endif
