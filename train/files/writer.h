/* Writes checkpoints of a folder in a thread of its own, while the training goes on. The thread
 * makes no call of a group. One caller; at most one checkpoint is being written. */
#ifndef TRN_WRITER_H
#define TRN_WRITER_H

#include "files/checkpoint.h"

struct trn_writer;

/* What has become of the checkpoints that were begun. */
struct trn_written {
    uint64_t count;      /* on the disk */
    uint64_t step;       /* of the last of them; only if count > 0 */
    double seconds;      /* that writing and pruning took, in sum */
    terse_status status; /* the first failure; later checkpoints are still tried */
    terse_fault fault;
};

/* `keep`: how many sound checkpoints stay in the folder (trn_checkpoint_prune). */
TERSE_CHECK terse_status trn_writer_create(const char *folder, uint32_t keep,
                                           struct trn_writer **out, terse_fault *fault);
/* Waits for the checkpoint that is being written. NULL is fine. */
void trn_writer_destroy(struct trn_writer *writer);

/* Begins a checkpoint and returns. The blobs, their names and bytes belong to the caller, which
 * leaves them as they are until nothing is being written; `settings` belongs to the writer from
 * here on, also on failure. TERSE_BAD_ARGUMENT: one is being written. */
TERSE_CHECK terse_status trn_writer_begin(struct trn_writer *writer, uint64_t step,
                                          com_json *settings, const struct trn_blob *blobs,
                                          uint32_t count, terse_fault *fault);
/* Waits until nothing is being written, at most `seconds`; 1 if so. */
int trn_writer_wait(struct trn_writer *writer, double seconds);
void trn_writer_result(struct trn_writer *writer, struct trn_written *out);

#endif
