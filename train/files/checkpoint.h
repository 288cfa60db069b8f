/* The checkpoint file: named blobs and a JSON text of settings, versioned, checksummed, atomic.
 *
 *     offset  bytes  (all numbers little-endian)
 *     0       8      "TERSECKP"
 *     8       4      version, 1
 *     12      4      number of blobs
 *     16      8      step
 *     24      8      bytes of the settings
 *     32      ...    settings: a JSON object, then zeros up to a multiple of 8
 *     ...            every blob: u32 kind, u32 worker, u64 bytes, u32 name bytes, u32 zero, name,
 *                    zeros to 8, bytes, zeros to 8; ascending by (name, worker), none twice
 *     last 8         XXH64 (seed 0) of everything before
 *
 * The meaning of a kind is the writer's. The file is canonical: equal contents, equal bytes. */
#ifndef TRN_CHECKPOINT_H
#define TRN_CHECKPOINT_H

#include <stddef.h>
#include <stdint.h>

#include "common/file.h"
#include "common/json.h"
#include "files/bytes.h"

#define TRN_CHECKPOINT_VERSION 1u
#define TRN_MAX_BLOB_NAME 255u

struct trn_blob {
    const char *name; /* 1 .. TRN_MAX_BLOB_NAME bytes, no control characters */
    uint32_t kind;
    uint32_t worker;
    const void *bytes; /* as read: aligned to 8 bytes, belongs to the checkpoint */
    uint64_t len;
};

/* Writes FOLDER/checkpoint-STEP.terse, atomically; an older one of that name is replaced.
 * Blobs may come in any order; TERSE_BAD_ARGUMENT if two have the same name and worker.
 * `settings` must print as an object. */
TERSE_CHECK terse_status trn_checkpoint_write(const char *folder, uint64_t step,
                                              const com_json *settings,
                                              const struct trn_blob *blobs, uint32_t count,
                                              terse_fault *fault);

struct trn_checkpoint;

/* The whole file is checked before anything is returned: COM_BAD_FILE (not a checkpoint, truncated,
 * malformed), TERSE_BAD_VERSION, TERSE_BAD_CHECKSUM. */
TERSE_CHECK terse_status trn_checkpoint_read(const char *path, struct trn_checkpoint **out,
                                             terse_fault *fault);
/* From memory; the bytes are copied. */
TERSE_CHECK terse_status trn_checkpoint_parse(const struct trn_bytes *in,
                                              struct trn_checkpoint **out, terse_fault *fault);
void trn_checkpoint_free(struct trn_checkpoint *checkpoint); /* NULL is fine */

uint64_t trn_checkpoint_step(const struct trn_checkpoint *checkpoint);
const com_json *trn_checkpoint_settings(const struct trn_checkpoint *checkpoint);
uint32_t trn_checkpoint_count(const struct trn_checkpoint *checkpoint);
const struct trn_blob *trn_checkpoint_at(const struct trn_checkpoint *checkpoint, uint32_t index);
const struct trn_blob *trn_checkpoint_find(const struct trn_checkpoint *checkpoint,
                                           const char *name, uint32_t worker); /* or NULL */

/* The valid checkpoint of the largest step in a folder. Damaged ones are skipped, each with a line
 * in *notes (NULL if there are none); the caller frees *path and *notes. COM_NO_FILE if none is
 * valid; then the fault has the reason of the newest. */
TERSE_CHECK terse_status trn_checkpoint_latest(const char *folder, struct trn_checkpoint **out,
                                               char **path, char **notes, terse_fault *fault);
/* Is there a checkpoint in the folder, valid or not? */
int trn_checkpoint_exists(const char *folder);
/* Checks magic, version and checksum of a file without holding it in memory. */
TERSE_CHECK terse_status trn_checkpoint_check(const char *path, terse_fault *fault);
/* Removes what writers that were killed left behind in the folder of a run: ".NAME.XXXXXX" of
 * checkpoints, run.json and weights.safetensors. Only for the process that has the
 * folder's lock (common/lock.h). */
TERSE_CHECK terse_status trn_checkpoint_clean(const char *folder, terse_fault *fault);
/* Keeps the newest `keep` (>= 1) sound checkpoints of a folder and removes all that are older than
 * the last of them. A damaged one is never counted; it goes once `keep` sound ones are newer. With
 * fewer than `keep` sound ones nothing is removed. Call it after a write has succeeded. `sound` are
 * steps whose files need not be read: the caller knows that they are sound. */
TERSE_CHECK terse_status trn_checkpoint_prune(const char *folder, const uint64_t *sound,
                                              uint32_t count, uint32_t keep, terse_fault *fault);

#endif
