/* Small records that every rank sends to all, each with a check: what the trainer itself exchanges
 * beside its method. A record that arrives damaged, or one of another step, is a status that names
 * its sender. */
#ifndef TRN_SHARE_H
#define TRN_SHARE_H

#include <terse/terse.h>

/* What a record is about; the check depends on it. */
enum trn_subject {
    TRN_SHARE_SETTINGS, /* is rank 0's text on the way, */
    TRN_SHARE_VERDICT,  /* and does it differ from the own settings? */
    TRN_SHARE_STEP,
    TRN_SHARE_EVALUATION,
    TRN_SHARE_STATE,      /* length and hash of what is sent to rank 0 */
    TRN_SHARE_CHECKPOINT, /* was the file written? */
    TRN_SHARE_FILE,       /* length and hash of what rank 0 broadcasts */
    TRN_SHARE_TRIAL,      /* how long a step of a candidate took */
};

/* The last member of every record. */
typedef uint64_t trn_check;

/* Sends `record`, of `len` bytes, to all ranks; its last eight are the check, which is filled in.
 * `all` gets the records of all ranks, in rank order. Collective. TERSE_BAD_CHECKSUM: the fault has
 * the sender's rank and the step. */
TERSE_CHECK terse_status trn_share(terse_group *group, enum trn_subject subject, uint64_t step,
                                   void *record, size_t len, void *all, terse_fault *fault);

/* Broadcasts rank 0's `*len` bytes: the other ranks get them in a new buffer, which is NULL if
 * there are none. `what` names them in the fault. Collective. */
TERSE_CHECK terse_status trn_share_bytes(terse_group *group, const char *what, void **bytes,
                                         uint64_t *len, terse_fault *fault);

/* The bytes of the file `path` of rank 0, on all ranks; of this process if `group` is NULL. `found`
 * is rank 0's status so far: if it is a failure, or the file cannot be read, nothing is sent, rank
 * 0 keeps its reason in the fault, and the others are told that it has no such file. The caller
 * frees
 * `*bytes`. Collective. */
TERSE_CHECK terse_status trn_share_file(terse_group *group, const char *path, terse_status found,
                                        const char *what, void **bytes, uint64_t *len,
                                        terse_fault *fault);

/* Fails as trn_share does if the bytes of a rank do not have this hash (trn_hash64, seed 0). */
TERSE_CHECK terse_status trn_share_compare(const void *bytes, size_t len, uint64_t hash,
                                           uint32_t rank, const char *what, terse_fault *fault);

#endif
