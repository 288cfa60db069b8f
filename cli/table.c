#include "table.h"

#include <stdarg.h>
#include <stdlib.h>
#include <string.h>

struct table {
    const char *columns;
    size_t width; /* columns */
    char **cells;
    size_t count;
    size_t cap;
    int failed; /* a cell was lost for lack of memory */
};

struct table *table_create(const char *columns)
{
    struct table *table = calloc(1, sizeof *table);
    if (table) {
        table->columns = columns;
        table->width = strlen(columns);
    }
    return table;
}

static int make_room(struct table *table)
{
    if (table->count < table->cap)
        return 1;
    size_t cap = table->cap == 0 ? 64 : table->cap * 2;
    char **cells = realloc(table->cells, cap * sizeof *cells);
    if (!cells)
        return 0;
    table->cells = cells;
    table->cap = cap;
    return 1;
}

void table_cell(struct table *table, const char *format, ...)
{
    if (!table)
        return;
    char text[512];
    va_list values;
    va_start(values, format);
    vsnprintf(text, sizeof text, format, values);
    va_end(values);
    char *copy = strdup(text);
    if (!copy || !make_room(table)) {
        free(copy);
        table->failed = 1;
        return;
    }
    table->cells[table->count++] = copy;
}

/* Columns on a terminal: bytes that continue a UTF-8 character take none. */
static size_t columns_of(const char *text)
{
    size_t columns = 0;
    for (; *text != '\0'; text++)
        columns += ((unsigned char)*text & 0xC0) != 0x80;
    return columns;
}

static size_t widest(const struct table *table, size_t column)
{
    size_t most = 0;
    for (size_t i = column; i < table->count; i += table->width) {
        size_t columns = columns_of(table->cells[i]);
        most = columns > most ? columns : most;
    }
    return most;
}

static void print_row(const struct table *table, const char *const *cells, const size_t *widths,
                      int indent)
{
    printf("%*s", indent, "");
    for (size_t c = 0; c < table->width; c++) {
        int pad = (int)(widths[c] - columns_of(cells[c]));
        int last = c + 1 == table->width;
        if (table->columns[c] == 'r')
            printf("%*s%s", pad, "", cells[c]);
        else
            printf("%s%*s", cells[c], last ? 0 : pad, "");
        fputs(last ? "\n" : "  ", stdout);
    }
}

static void destroy(struct table *table)
{
    for (size_t i = 0; i < table->count; i++)
        free(table->cells[i]);
    free(table->cells);
    free(table);
}

int table_print(struct table *table, int indent)
{
    size_t *widths = !table ? NULL : calloc(table->width, sizeof *widths);
    if (!widths || table->failed) {
        free(widths);
        if (table)
            destroy(table);
        return msg_error(CLI_MACHINE, "out of memory");
    }
    for (size_t c = 0; c < table->width; c++)
        widths[c] = widest(table, c);
    for (size_t i = 0; i + table->width <= table->count; i += table->width) {
        fputs(i == 0 ? msg_bold(stdout) : "", stdout);
        print_row(table, (const char *const *)&table->cells[i], widths, indent);
        fputs(i == 0 ? msg_plain(stdout) : "", stdout);
    }
    free(widths);
    destroy(table);
    return CLI_OK;
}
