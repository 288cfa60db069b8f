/* A sheet of characters for pictures in a terminal: words, and points four times as fine as cells
 * (braille), or one character per cell in ASCII. */
#ifndef REPORT_GRID_H
#define REPORT_GRID_H

#include <stddef.h>
#include <stdint.h>

struct rep_grid {
    unsigned width;
    unsigned height;
    int ascii;
    uint32_t *cells; /* code points; 0 is blank */
};

int rep_grid_make(struct rep_grid *grid, unsigned width, unsigned height,
                  int ascii); /* 0: memory */

/* What would stand outside is cut off. Control characters become '?': names come from files. */
void rep_grid_words(struct rep_grid *grid, int x, int y, const char *words);
void rep_grid_put(struct rep_grid *grid, int x, int y, uint32_t code);

/* The cells that `words` would take; at most `most`. */
unsigned rep_grid_width_of(const char *words, unsigned most);

/* Whether a row of cells is inside and blank. */
int rep_grid_is_free(const struct rep_grid *grid, int x, int y, unsigned width);

/* Dots of the area whose upper left cell is (x, y); a cell has 2 x 4 dots (1 x 1 in ASCII). */
void rep_grid_dot(struct rep_grid *grid, int x, int y, unsigned dot_x, unsigned dot_y);
unsigned rep_grid_dots_across(const struct rep_grid *grid, unsigned cells);
unsigned rep_grid_dots_down(const struct rep_grid *grid, unsigned cells);

/* The lines as UTF-8, without blanks at their ends; frees the grid. NULL: memory. */
char *rep_grid_text(struct rep_grid *grid);

#endif
