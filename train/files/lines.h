/* JSON lines (metrics.jsonl): one object per line, appended and flushed, so that for a reader all
 * lines but perhaps the last are whole. */
#ifndef TRN_LINES_H
#define TRN_LINES_H

#include <stdint.h>

#include "common/json.h"

struct trn_lines;

/* Opens for appending; a torn last line is cut off. With `last_step`, every line from the first
 * whose "step" is larger, or whose "kind" is "end", is cut off too: a resumed run writes them
 * again. */
TERSE_CHECK terse_status trn_lines_open(const char *path, const uint64_t *last_step,
                                        struct trn_lines **out, terse_fault *fault);
/* Frees `line` whatever happens. A line that could not be written whole is cut off again. */
TERSE_CHECK terse_status trn_lines_append(struct trn_lines *lines, com_json *line,
                                          terse_fault *fault);
void trn_lines_close(struct trn_lines *lines); /* NULL is fine */

/* Calls `each` with every line's object up to the last good one; what follows is not an error:
 * *good_len is the number of bytes that hold good lines. `each` returns 0 to stop. */
TERSE_CHECK terse_status trn_lines_parse(const char *name, const void *bytes, size_t len,
                                         int (*each)(void *context, const com_json *line),
                                         void *context, size_t *good_len, terse_fault *fault);
TERSE_CHECK terse_status trn_lines_read(const char *path,
                                        int (*each)(void *context, const com_json *line),
                                        void *context, size_t *good_len, terse_fault *fault);

#endif
