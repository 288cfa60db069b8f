/* Whole files in, complete files out. Every function says on standard error what failed and returns
 * an exit code (say.h). */
#ifndef CLI_FILE_H
#define CLI_FILE_H

#include <stddef.h>

/* Reads a file to its end; "-" is standard input. The caller frees *bytes. */
int file_read(const char *path, unsigned char **bytes, size_t *len);

/* A file under construction. It appears under its name, complete, in output_commit; until then
 * whatever stood there is untouched. "-" (standard output) and devices are written directly. */
struct output {
    const char *path; /* as given, for messages */
    char *target;     /* behind symbolic links; NULL when written directly */
    char *temp;
    int fd;
};

int output_open(struct output *output, const char *path);
int output_write(struct output *output, const void *bytes, size_t len);
int output_finish(struct output *output); /* on the disk, still under its temporary name */
int output_commit(struct output *output);
void output_discard(struct output *output); /* after any of these; removes what is not committed */

#endif
