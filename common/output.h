/* An atomic output file. It appears under its name, complete and on the disk, in commit; until then
 * an existing file is untouched. After a failure or a discard nothing is left behind; after kill -9
 * only a file ".NAME.XXXXXX", which nobody reads.
 *
 * Behind a symbolic link the linked file is replaced, and a file that is replaced keeps its
 * permissions. Devices and pipes are written directly. */
#ifndef COM_OUTPUT_H
#define COM_OUTPUT_H

#include <stddef.h>

#include "common/fault.h"

struct com_output {
    char *path;   /* as given, for messages */
    char *target; /* behind symbolic links; NULL when written directly */
    char *temp;   /* the file that becomes the target; NULL: none to remove */
    int fd;
};

/* After a failure discard is allowed and not needed. */
TERSE_CHECK terse_status com_output_open(struct com_output *output, const char *path,
                                         terse_fault *fault);
/* Standard output, written directly. */
TERSE_CHECK terse_status com_output_open_stdout(struct com_output *output, terse_fault *fault);
TERSE_CHECK terse_status com_output_write(struct com_output *output, const void *bytes, size_t len,
                                          terse_fault *fault);
/* Syncs the file under its temporary name: after it, no write can fail for lack of space. */
TERSE_CHECK terse_status com_output_finish(struct com_output *output, terse_fault *fault);
/* Finishes the file if needed, renames it and syncs the folder. */
TERSE_CHECK terse_status com_output_commit(struct com_output *output, terse_fault *fault);
/* Always call it last: it frees, and removes a file that was not committed. */
void com_output_discard(struct com_output *output);

#endif
