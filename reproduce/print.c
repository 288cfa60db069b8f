/* Results on a terminal: claims, and charts drawn with letters. */
#include <math.h>
#include <stdio.h>
#include <string.h>

#include "text.h"

enum { ROWS = 13, COLUMNS = 64, MARGIN = 9 };

static const char letters[] = "*o+x#@%&=~^!";

static char letter(size_t line)
{
    return letters[line % (sizeof letters - 1)];
}

/* ---- charts ---- */

struct canvas {
    char cell[ROWS][COLUMNS + 1];
};

/* From the left edge to the right, so that lines have no holes. */
static void draw_line(struct canvas *canvas, const struct rpr_chart *chart, size_t index)
{
    const struct rpr_range x = rpr_range_x(chart);
    const struct rpr_range y = rpr_range_y(chart);
    double before_x = NAN;
    double before_y = NAN;
    for (size_t i = 0; i < chart->count; i++) {
        const double at_x = rpr_place(&x, chart->x[i]) * (COLUMNS - 1);
        const double at_y = rpr_place(&y, chart->line[index].value[i]) * (ROWS - 1);
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
                    canvas->cell[ROWS - 1 - (int)lround(row)][column] = letter(index);
            }
        }
        before_x = at_x;
        before_y = at_y;
    }
}

static void print_rows(struct rpr_text *out, const struct canvas *canvas, const struct rpr_range *y)
{
    double tick[5];
    const size_t ticks = rpr_ticks(y, tick, 5);
    for (int row = 0; row < ROWS; row++) {
        const char *label = "";
        struct rpr_number number;
        for (size_t i = 0; i < ticks; i++) {
            if (ROWS - 1 - (int)lround(rpr_place(y, tick[i]) * (ROWS - 1)) == row) {
                number = rpr_number(tick[i]);
                label = number.text;
            }
        }
        rpr_say(out, "  %*s %c%s\n", MARGIN, label, label[0] != '\0' ? '+' : '|',
                canvas->cell[row]);
    }
}

static void print_x_axis(struct rpr_text *out, const struct rpr_chart *chart)
{
    char labels[COLUMNS + 24];
    double tick[6];
    const struct rpr_range x = rpr_range_x(chart);
    const size_t ticks = rpr_ticks(&x, tick, 6);
    memset(labels, ' ', sizeof labels);
    size_t end = 0;
    rpr_say(out, "  %*s +", MARGIN, "");
    for (int i = 0; i < COLUMNS; i++)
        rpr_say(out, "-");
    for (size_t i = 0; i < ticks; i++) {
        const struct rpr_number number = rpr_number(tick[i]);
        const size_t at = (size_t)lround(rpr_place(&x, tick[i]) * (COLUMNS - 1));
        const size_t len = strlen(number.text);
        if ((end > 0 && at < end + 2) || at + len >= sizeof labels)
            continue;
        memcpy(labels + at, number.text, len);
        end = at + len;
    }
    labels[end] = '\0';
    rpr_say(out, "\n  %*s  %s  %s\n", MARGIN, "", labels, chart->x_label);
}

static void print_chart(struct rpr_text *out, const struct rpr_chart *chart,
                        const struct rpr_terminal *terminal)
{
    struct canvas canvas;
    const struct rpr_range y = rpr_range_y(chart);
    for (int row = 0; row < ROWS; row++) {
        memset(canvas.cell[row], ' ', COLUMNS);
        canvas.cell[row][COLUMNS] = '\0';
    }
    for (size_t i = chart->lines; i-- > 0;)
        draw_line(&canvas, chart, i);
    rpr_say(out, "\n  %s%s%s  (%s%s)\n", terminal->bold, chart->title, terminal->plain,
            chart->y_label, y.log ? ", log" : "");
    print_rows(out, &canvas, &y);
    print_x_axis(out, chart);
    int column = 0;
    for (size_t i = 0; i < chart->lines; i++) {
        const int width = (int)strlen(chart->line[i].name) + 5;
        if (column + width > 84)
            column = 0;
        rpr_say(out, "%s%c %s",
                column > 0 ? "   "
                : i > 0    ? "\n            "
                           : "            ",
                letter(i), chart->line[i].name);
        column += width;
    }
    rpr_say(out, "\n");
}

/* ---- claims ---- */

/* The text, broken at spaces. */
static void print_wrapped(struct rpr_text *out, const char *text, size_t indent, size_t width)
{
    size_t column = 0;
    while (*text != '\0') {
        const size_t len = strcspn(text, " ");
        if (column > 0 && column + 1 + len > width) {
            rpr_say(out, "\n%*s", (int)indent, "");
            column = 0;
        }
        rpr_say(out, "%s%.*s", column > 0 ? " " : "", (int)len, text);
        column += len + (column > 0);
        text += len;
        text += *text == ' ';
    }
    rpr_say(out, "\n");
}

static void print_claim(struct rpr_text *out, const struct rpr_claim *claim, unsigned seeds,
                        const struct rpr_terminal *terminal)
{
    const char *const mark =
        terminal->unicode ? (claim->holds ? "\u2713" : "\u2717") : (claim->holds ? "ok" : "NO");
    const char *const side = terminal->unicode ? (claim->side == RPR_AT_MOST ? "\u2264" : "\u2265")
                                               : (claim->side == RPR_AT_MOST ? "<=" : ">=");
    rpr_say(out, "  %s%s%s %s%s%s: %s %s %s", claim->holds ? terminal->good : terminal->bad, mark,
            terminal->plain, terminal->bold, claim->id, terminal->plain,
            rpr_number(claim->measured).text, side, rpr_number(claim->bound).text);
    if (seeds > 1)
        rpr_say(out, "  (%s .. %s over %u seeds, deviation %s)", rpr_number(claim->low).text,
                rpr_number(claim->high).text, seeds, rpr_number(claim->deviation).text);
    if (!claim->holds)
        rpr_say(out, "  %sdoes not hold%s", terminal->bad, terminal->plain);
    rpr_say(out, "\n      ");
    print_wrapped(out, claim->text, 6, 88);
}

void rpr_print(struct rpr_text *out, const struct rpr_result *result,
               const struct rpr_terminal *terminal)
{
    rpr_say(out, "%s%s: %s%s\n", terminal->bold, result->paper, result->title, terminal->plain);
    rpr_say(out, "  ");
    print_wrapped(out, result->citation, 2, 92);
    rpr_say(out, "\n");
    for (size_t i = 0; i < result->claims; i++)
        print_claim(out, &result->claim[i], result->seeds, terminal);
    for (size_t i = 0; i < result->charts; i++)
        print_chart(out, &result->chart[i], terminal);
    rpr_say(out, "\n");
}
