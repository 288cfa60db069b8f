/* The lines that the live page was sent so far: numbered, bounded in number and bytes. When it is
 * full, every other line about steps is dropped; a slower reader misses those and gets the rest.
 *
 * One thread pushes, any number read. The pusher never waits for a reader. */
#ifndef REPORT_HISTORY_H
#define REPORT_HISTORY_H

#include <stddef.h>
#include <stdint.h>

struct rep_history;

enum { REP_MOST_LINE = 1 << 16 }; /* bytes; a longer line is refused */

struct rep_history *rep_history_create(size_t most_lines, size_t most_bytes); /* NULL: memory */
void rep_history_destroy(struct rep_history *history);

/* Copies a line without line ends. `thin` lines may be dropped when the history is full. 0: the
 * line was refused (too long, out of memory, or too many came while a reader was blocked). */
int rep_history_push(struct rep_history *history, const char *line, size_t len, int thin);

/* Copies the first line after number *cursor into `line` (REP_MOST_LINE bytes) and moves the cursor
 * to it; returns its length, 0 if there is none. */
size_t rep_history_next(struct rep_history *history, uint64_t *cursor, char *line);

#endif
