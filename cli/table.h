/* Aligned tables on standard output: collect the cells, then print as wide as the widest. */
#ifndef CLI_TABLE_H
#define CLI_TABLE_H

#include "message.h"

struct table;

/* One letter per column: 'l' left, 'r' right. Headings follow, one per column. NULL: no memory. */
struct table *table_create(const char *columns);

/* The next cell, row by row; the first row is the heading. */
MSG_FORMAT(2, 3) void table_cell(struct table *table, const char *format, ...);

/* Prints and frees; returns an exit code. Each line begins with `indent` spaces. */
int table_print(struct table *table, int indent);

#endif
