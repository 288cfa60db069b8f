/* What people see while it trains: one line that changes on a terminal, plain lines elsewhere, the
 * live page, and charts when it is over. */
#ifndef CLI_TRAIN_PROGRESS_H
#define CLI_TRAIN_PROGRESS_H

#include "train_request.h"

struct progress;

/* Fails only for want of memory or a port: then an exit code, and it has been said why. The request
 * must stay. */
int progress_start(const struct train_request *request, struct progress **out);

/* Stands before every line from now on ("def: "); must stay. */
void progress_title(struct progress *progress, const char *title);

/* For trn_train; valid until progress_end. */
const struct trn_watch *progress_watch(struct progress *progress);

/* Ends the line; draws what was seen unless quiet. NULL is fine. */
void progress_end(struct progress *progress);

/* SIGINT and SIGTERM ask for a checkpoint and an end; a second one ends at once. */
void progress_catch_signals(const struct train_request *request, int under_mpi);

#endif
