/* Whole files in, complete files out. */
#ifndef TRN_FILE_H
#define TRN_FILE_H

#include <stddef.h>
#include <stdint.h>

#include "files/fault.h"

/* Bytes with the name people know them by. Readers take these, from a file or from memory. */
struct trn_bytes {
    const char *name; /* for messages */
    const uint8_t *at;
    size_t len;
};

/* A copy that the caller frees (never NULL on success). */
TERSE_CHECK terse_status trn_bytes_copy(const struct trn_bytes *in, uint8_t **out,
                                        terse_fault *fault);

/* Reads a regular file to its end; the caller frees *bytes (never NULL on success). */
TERSE_CHECK terse_status trn_file_read(const char *path, uint8_t **bytes, size_t *len,
                                       terse_fault *fault);
int trn_file_exists(const char *path);

/* What a gzip file holds, all members; the caller frees *bytes. Memory grows with what was
 * really unpacked; no size in the file is believed. */
TERSE_CHECK terse_status trn_gunzip(const struct trn_bytes *packed, uint8_t **bytes, size_t *len,
                                    terse_fault *fault);

/* A file under construction. It appears under its name, complete and on the disk, in commit; until
 * then whatever stood there is untouched. After a failure or a discard nothing is left behind;
 * after kill -9 only a file ".NAME.XXXXXX", which nobody reads. */
struct trn_output {
    char *path;
    char *temp;
    int fd;
};

TERSE_CHECK terse_status trn_output_open(struct trn_output *output, const char *path,
                                         terse_fault *fault);
TERSE_CHECK terse_status trn_output_write(struct trn_output *output, const void *bytes, size_t len,
                                          terse_fault *fault);
/* fsync, rename, fsync of the folder. */
TERSE_CHECK terse_status trn_output_commit(struct trn_output *output, terse_fault *fault);
/* Call it always, last: frees, and removes what was not committed. */
void trn_output_discard(struct trn_output *output);

/* open, write, commit, discard. */
TERSE_CHECK terse_status trn_file_write(const char *path, const void *bytes, size_t len,
                                        terse_fault *fault);

/* Makes a folder and those above it; one that is there is fine. */
TERSE_CHECK terse_status trn_folder_make(const char *path, terse_fault *fault);

/* "FOLDER/NAME"; the caller frees it. NULL: no memory. */
char *trn_path_join(const char *folder, const char *name);

#endif
