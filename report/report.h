/* The report: one self-contained HTML page over any number of runs. */
#ifndef REPORT_REPORT_H
#define REPORT_REPORT_H

#include <stddef.h>

#include <terse/status.h>

#include "run.h"

/* The page over `runs`, as bytes that the caller frees. `notes` are lines for its head about what
 * could not be read; note_count may be 0. */
terse_status rep_page_make(struct rep_run *const *runs, size_t count, const char *const *notes,
                           size_t note_count, char **html, size_t *len);

/* The same page without runs: it asks its server for them. */
terse_status rep_page_make_live(char **html, size_t *len);

#endif
