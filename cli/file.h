/* Files of a command: common/file.h and common/output.h, with "-" for standard input and output.
 * Every function prints errors and returns an exit code (message.h). A signal that ends the command
 * removes incomplete files. */
#ifndef CLI_FILE_H
#define CLI_FILE_H

#include <stddef.h>

#include "common/output.h"

/* Reads a file to its end. The caller frees *bytes. */
int file_read(const char *path, unsigned char **bytes, size_t *len);

int output_open(struct com_output *output, const char *path);
int output_write(struct com_output *output, const void *bytes, size_t len);
int output_finish(struct com_output *output); /* syncs it under its temporary name */
int output_commit(struct com_output *output);
void output_discard(struct com_output *output); /* after any of these */

#endif
