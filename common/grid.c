#include "common/grid.h"

#include <stdlib.h>
#include <string.h>

#include "common/text.h"
#include "common/utf8.h"

enum { BRAILLE = 0x2800, BRAILLE_LAST = 0x28FF };

int com_grid_make(struct com_grid *grid, unsigned width, unsigned height, int ascii)
{
    *grid = (struct com_grid){.width = width, .height = height, .ascii = ascii};
    grid->cells = calloc((size_t)width * height + 1, sizeof *grid->cells);
    return grid->cells != NULL;
}

static uint32_t *cell_at(const struct com_grid *grid, int x, int y)
{
    if (x < 0 || y < 0 || (unsigned)x >= grid->width || (unsigned)y >= grid->height)
        return NULL;
    return &grid->cells[(size_t)y * grid->width + (unsigned)x];
}

void com_grid_put(struct com_grid *grid, int x, int y, uint32_t code)
{
    uint32_t *cell = cell_at(grid, x, y);
    if (cell)
        *cell = code;
}

/* The character at *words, which moves past it. */
static uint32_t next_code(const char **words)
{
    const char *at = *words;
    size_t len = com_utf8_len(at);
    const uint32_t code = com_utf8_code(at, len);
    *words += len == 0 ? 1 : len;
    int is_control = code < 0x20 || (code >= 0x7F && code < 0xA0);
    return len == 0 || is_control ? '?' : code;
}

void com_grid_words(struct com_grid *grid, int x, int y, const char *words)
{
    while (*words != '\0') {
        uint32_t code = next_code(&words);
        com_grid_put(grid, x++, y, grid->ascii && code > 0x7E ? '?' : code);
    }
}

unsigned com_grid_width_of(const char *words, unsigned most)
{
    unsigned width = 0;
    while (*words != '\0' && width < most) {
        (void)next_code(&words);
        width++;
    }
    return width;
}

int com_grid_is_free(const struct com_grid *grid, int x, int y, unsigned width)
{
    for (unsigned i = 0; i < width; i++) {
        const uint32_t *cell = cell_at(grid, x + (int)i, y);
        if (!cell || *cell != 0)
            return 0;
    }
    return 1;
}

unsigned com_grid_dots_across(const struct com_grid *grid, unsigned cells)
{
    return grid->ascii ? cells : cells * 2;
}

unsigned com_grid_dots_down(const struct com_grid *grid, unsigned cells)
{
    return grid->ascii ? cells : cells * 4;
}

void com_grid_dot(struct com_grid *grid, int x, int y, unsigned dot_x, unsigned dot_y)
{
    /* Unicode numbers the dots of a cell down the left column, then the right; the fourth row has
     * the last two numbers. */
    static const unsigned char bits[4][2] = {
        {0x01, 0x08}, {0x02, 0x10}, {0x04, 0x20}, {0x40, 0x80}};
    if (grid->ascii) {
        com_grid_put(grid, x + (int)dot_x, y + (int)dot_y, '*');
        return;
    }
    uint32_t *cell = cell_at(grid, x + (int)(dot_x / 2), y + (int)(dot_y / 4));
    if (cell) {
        uint32_t before = *cell >= BRAILLE && *cell <= BRAILLE_LAST ? *cell : BRAILLE;
        *cell = before | bits[dot_y % 4][dot_x % 2];
    }
}

static void add_code(struct com_text *text, uint32_t code)
{
    char bytes[4];
    com_text_add(text, bytes, com_utf8_write(code, bytes));
}

char *com_grid_text(struct com_grid *grid)
{
    struct com_text text = {0};
    com_text_put(&text, "");
    for (unsigned y = 0; y < grid->height; y++) {
        const uint32_t *row = grid->cells + (size_t)y * grid->width;
        unsigned width = grid->width;
        while (width > 0 && row[width - 1] == 0)
            width--;
        for (unsigned x = 0; x < width; x++)
            add_code(&text, row[x] == 0 ? ' ' : row[x]);
        com_text_put(&text, "\n");
    }
    free(grid->cells);
    grid->cells = NULL;
    if (text.failed) {
        free(text.bytes);
        return NULL;
    }
    return text.bytes;
}
