/* Charts for the terminal, as text that the caller prints and frees. NULL: out of memory. */
#ifndef REPORT_CHART_H
#define REPORT_CHART_H

#include <stddef.h>

#include "run.h"

struct rep_chart_style {
    unsigned width; /* columns of the terminal; at least 40 are used */
    int ascii;      /* only ASCII, else braille and lines */
};

/* Loss and accuracy against steps, side by side if the terminal is wide enough; `title` above them
 * unless it is NULL. All runs are in one picture; the number at its right is the mean of their last
 * values. */
char *rep_chart_runs(const struct rep_run *const *runs, size_t count, const char *title,
                     const struct rep_chart_style *style);
char *rep_chart_run(const struct rep_run *run, const char *title,
                    const struct rep_chart_style *style);

struct rep_chart_point {
    const char *label;
    double bytes;    /* per worker per step, more than 0 */
    double accuracy; /* 0..1 */
};

/* Accuracy against bytes (logarithmic), a label at each point. Points that are not finite are left
 * out; a label without a free place is listed below under a letter. */
char *rep_chart_tradeoff(const struct rep_chart_point *points, size_t count,
                         const struct rep_chart_style *style);

#endif
