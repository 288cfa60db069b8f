/* A sheet of characters for pictures in a terminal: words, and points four times as fine as cells
 * (braille), or one character per cell in ASCII. */
#ifndef COM_GRID_H
#define COM_GRID_H

#include <stddef.h>
#include <stdint.h>

struct com_grid {
    unsigned width;
    unsigned height;
    int ascii;
    uint32_t *cells; /* code points; 0: blank */
};

int com_grid_make(struct com_grid *grid, unsigned width, unsigned height,
                  int ascii); /* 0: memory */

/* Writes a text; what is outside of the sheet is cut off. Control characters become '?', since
 * names come from files. */
void com_grid_words(struct com_grid *grid, int x, int y, const char *words);
void com_grid_put(struct com_grid *grid, int x, int y, uint32_t code);

/* The cells that `words` would take; at most `most`. */
unsigned com_grid_width_of(const char *words, unsigned most);

/* Whether a row of cells is inside and blank. */
int com_grid_is_free(const struct com_grid *grid, int x, int y, unsigned width);

/* Dots of the area whose upper left cell is (x, y); a cell has 2 x 4 dots (1 x 1 in ASCII). */
void com_grid_dot(struct com_grid *grid, int x, int y, unsigned dot_x, unsigned dot_y);
unsigned com_grid_dots_across(const struct com_grid *grid, unsigned cells);
unsigned com_grid_dots_down(const struct com_grid *grid, unsigned cells);

/* The lines as UTF-8, without blanks at their ends; frees the grid. NULL: memory. */
char *com_grid_text(struct com_grid *grid);

#endif
