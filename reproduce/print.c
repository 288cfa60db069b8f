/* Results on a terminal: claims, and charts drawn with letters. */
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "common/axis.h"
#include "common/grid.h"
#include "common/number.h"
#include "reproduce.h"

/* Sizes in characters. Numbers and the axis are left of LEFT, the label of x right of its numbers.
 */
enum { ROWS = 13, COLUMNS = 64, LEFT = 13, MOST_LABEL = 90 };

static const char letters[] = "*o+x#@%&=~^!";

static char letter(size_t line)
{
    return letters[line % (sizeof letters - 1)];
}

/* ---- charts ---- */

/* From the left edge to the right, so that lines have no holes. */
static void draw_line(struct com_grid *grid, const struct rpr_chart *chart, size_t index)
{
    const struct com_axis x = rpr_axis_x(chart);
    const struct com_axis y = rpr_axis_y(chart);
    double before_x = NAN;
    double before_y = NAN;
    for (size_t i = 0; i < chart->count; i++) {
        const double at_x = com_axis_place(&x, chart->x[i]) * (COLUMNS - 1);
        const double at_y = com_axis_place(&y, chart->line[index].value[i]) * (ROWS - 1);
        const int joined = isfinite(before_x) && isfinite(before_y);
        if (isfinite(at_x) && isfinite(at_y)) {
            const int from = joined ? (int)lround(before_x) + 1 : (int)lround(at_x);
            const int to = (int)lround(at_x);
            for (int column = from < to ? from : to; column <= to; column++) {
                const double share =
                    joined && at_x > before_x ? (column - before_x) / (at_x - before_x) : 1;
                const double row =
                    joined ? before_y + (at_y - before_y) * fmin(fmax(share, 0), 1) : at_y;
                if (column >= 0 && column < COLUMNS)
                    com_grid_put(grid, LEFT + column, ROWS - 1 - (int)lround(row),
                                 (uint32_t)letter(index));
            }
        }
        before_x = at_x;
        before_y = at_y;
    }
}

static void draw_y_axis(struct com_grid *grid, const struct com_axis *y)
{
    double tick[5];
    const size_t ticks = com_axis_ticks(y, tick, 5);
    for (int row = 0; row < ROWS; row++)
        com_grid_put(grid, LEFT - 1, row, '|');
    for (size_t i = 0; i < ticks; i++) {
        const int row = ROWS - 1 - (int)lround(com_axis_place(y, tick[i]) * (ROWS - 1));
        const struct com_shown number = com_show_number(tick[i]);
        const int from = LEFT - 2 - (int)strlen(number.text);
        for (int column = 0; column < LEFT - 1; column++) /* the number of a tick in the same row */
            com_grid_put(grid, column, row, 0);
        com_grid_words(grid, from, row, number.text);
        com_grid_put(grid, LEFT - 1, row, '+');
    }
}

static void draw_x_axis(struct com_grid *grid, const struct rpr_chart *chart)
{
    double tick[6];
    const struct com_axis x = rpr_axis_x(chart);
    const size_t ticks = com_axis_ticks(&x, tick, 6);
    int end = 0;
    com_grid_put(grid, LEFT - 1, ROWS, '+');
    for (int i = 0; i < COLUMNS; i++)
        com_grid_put(grid, LEFT + i, ROWS, '-');
    for (size_t i = 0; i < ticks; i++) {
        const struct com_shown number = com_show_number(tick[i]);
        const int at = (int)lround(com_axis_place(&x, tick[i]) * (COLUMNS - 1));
        if (end > 0 && at < end + 2)
            continue;
        com_grid_words(grid, LEFT + at, ROWS + 1, number.text);
        end = at + (int)strlen(number.text);
    }
    com_grid_words(grid, LEFT + end + 2, ROWS + 1, chart->x_label);
}

static void print_axes(struct com_text *out, const struct rpr_chart *chart)
{
    const struct com_axis y = rpr_axis_y(chart);
    struct com_grid grid;
    char *picture = NULL;
    if (com_grid_make(&grid, LEFT + COLUMNS + MOST_LABEL, ROWS + 2, 1)) {
        draw_y_axis(&grid, &y);
        draw_x_axis(&grid, chart);
        for (size_t i = chart->lines; i-- > 0;)
            draw_line(&grid, chart, i);
        picture = com_grid_text(&grid);
    }
    if (picture)
        com_text_put(out, picture);
    else
        out->failed = 1;
    free(picture);
}

void rpr_draw(struct com_text *out, const struct rpr_chart *chart,
              const struct rpr_terminal *terminal)
{
    const struct com_axis y = rpr_axis_y(chart);
    com_text_format(out, "\n  %s%s%s  (%s%s)\n", terminal->bold, chart->title, terminal->plain,
                    chart->y_label, y.log ? ", log" : "");
    print_axes(out, chart);
    int column = 0;
    for (size_t i = 0; i < chart->lines; i++) {
        const int width = (int)strlen(chart->line[i].name) + 5;
        if (column + width > 84)
            column = 0;
        com_text_format(out, "%s%c %s",
                        column > 0 ? "   "
                        : i > 0    ? "\n            "
                                   : "            ",
                        letter(i), chart->line[i].name);
        column += width;
    }
    com_text_format(out, "\n");
}

/* ---- claims ---- */

/* The text, broken at spaces. */
static void print_wrapped(struct com_text *out, const char *text, size_t indent, size_t width)
{
    size_t column = 0;
    while (*text != '\0') {
        const size_t len = strcspn(text, " ");
        if (column > 0 && column + 1 + len > width) {
            com_text_format(out, "\n%*s", (int)indent, "");
            column = 0;
        }
        com_text_format(out, "%s%.*s", column > 0 ? " " : "", (int)len, text);
        column += len + (column > 0);
        text += len;
        text += *text == ' ';
    }
    com_text_format(out, "\n");
}

static void print_claim(struct com_text *out, const struct rpr_claim *claim, unsigned seeds,
                        const struct rpr_terminal *terminal)
{
    const char *const mark =
        terminal->unicode ? (claim->holds ? "\u2713" : "\u2717") : (claim->holds ? "ok" : "NO");
    static const char *const sides[2][3] = {
        [0] = {[RPR_AT_MOST] = "<=", [RPR_AT_LEAST] = ">=", [RPR_WITHIN] = "in"},
        [1] = {[RPR_AT_MOST] = "\u2264", [RPR_AT_LEAST] = "\u2265", [RPR_WITHIN] = "in"}};
    com_text_format(out, "  %s%s%s %s%s%s: %s %s %s", claim->holds ? terminal->good : terminal->bad,
                    mark, terminal->plain, terminal->bold, claim->id, terminal->plain,
                    com_show_number(claim->measured).text,
                    sides[terminal->unicode != 0][claim->side], com_show_number(claim->bound).text);
    if (claim->side == RPR_WITHIN)
        com_text_format(out, " .. %s", com_show_number(claim->upper).text);
    if (seeds > 1)
        com_text_format(out, "  (%s .. %s over %u seeds, deviation %s)",
                        com_show_number(claim->low).text, com_show_number(claim->high).text, seeds,
                        com_show_number(claim->deviation).text);
    if (!claim->holds)
        com_text_format(out, "  %sdoes not hold%s", terminal->bad, terminal->plain);
    com_text_format(out, "\n      ");
    print_wrapped(out, claim->text, 6, 88);
}

void rpr_print(struct com_text *out, const struct rpr_result *result,
               const struct rpr_terminal *terminal)
{
    com_text_format(out, "%s%s: %s%s\n", terminal->bold, result->paper, result->title,
                    terminal->plain);
    com_text_format(out, "  ");
    print_wrapped(out, result->citation, 2, 92);
    com_text_format(out, "\n");
    for (size_t i = 0; i < result->claims; i++)
        print_claim(out, &result->claim[i], result->seeds, terminal);
    for (size_t i = 0; i < result->charts; i++)
        rpr_draw(out, &result->chart[i], terminal);
    com_text_format(out, "\n");
}
