/* Runs as tables for other programs, as text that the caller frees. NULL: out of memory. */
#ifndef REPORT_TABLES_H
#define REPORT_TABLES_H

#include "group.h"

/* CSV, one row per evaluation of every run. */
char *rep_csv(const struct rep_group *groups, size_t count);

/* A LaTeX tabular with the rules of booktabs, one row per group: mean and standard deviation. */
char *rep_latex(const struct rep_group *groups, size_t count);

#endif
