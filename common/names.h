/* Lists of names that users type: the nearest to a word, the list itself, and patterns. */
#ifndef COM_NAMES_H
#define COM_NAMES_H

#include <stddef.h>
#include <stdint.h>

/* The names from 0 on; NULL past the last. */
typedef const char *com_names(uint32_t index);

enum { COM_NO_NAME = -1 };

/* How many letters must be added, removed or changed to turn the first `len` bytes of `word` into
 * `name`. Longer ones than 32 letters are as far apart as they are long. */
size_t com_edits(const char *word, size_t len, const char *name);

/* The index of the nearest name: it begins with the word, or at most a third of its letters and one
 * more differ. COM_NO_NAME: none is that near. */
int com_names_nearest(com_names *names, const char *word, size_t len);

/* "a, b, c" with `between` between them, cut off at `cap`; returns `out`. */
char *com_names_join(com_names *names, const char *between, char *out, size_t cap);

/* Copies the pattern at the head of "fc.*,conv1.*" to `out`, cut off at `cap`. Returns where the
 * next one begins, NULL after the last or if `patterns` is NULL or "". */
const char *com_pattern_next(const char *patterns, char *out, size_t cap);

/* Does the name match one of the patterns, as a shell's file name does: * any text, ? one
 * character, [ab] one of them? NULL and "" match nothing. */
int com_patterns_match(const char *patterns, const char *name);

#endif
