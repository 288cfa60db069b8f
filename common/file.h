/* Reading and writing whole files; folders and paths. */
#ifndef COM_FILE_H
#define COM_FILE_H

#include <stddef.h>
#include <stdint.h>

#include "common/fault.h"

/* Reads a regular file to its end; the caller frees *bytes (never NULL on success), a buffer of at
 * least *len + 1 bytes. */
TERSE_CHECK terse_status com_file_read(const char *path, uint8_t **bytes, size_t *len,
                                       terse_fault *fault);
/* The same for pipes and devices too; "-" is standard input. */
TERSE_CHECK terse_status com_file_read_any(const char *path, uint8_t **bytes, size_t *len,
                                           terse_fault *fault);
int com_file_exists(const char *path); /* as a regular file */

/* The whole file appears under its name, or nothing changes (output.h). */
TERSE_CHECK terse_status com_file_write(const char *path, const void *bytes, size_t len,
                                        terse_fault *fault);

/* Creates a folder and those above it; one that exists is fine. */
TERSE_CHECK terse_status com_folder_make(const char *path, terse_fault *fault);

/* "FOLDER/NAME"; the caller frees it. NULL: no memory. */
char *com_path_join(const char *folder, const char *name);

#endif
