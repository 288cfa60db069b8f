#include "svg.h"

#include <math.h>

#include "common/axis.h"
#include "common/number.h"

struct com_axis rpr_axis_x(const struct rpr_chart *chart)
{
    struct com_axis axis = com_axis_empty(0);
    for (size_t i = 0; i < chart->count; i++)
        com_axis_include(&axis, chart->x[i]);
    axis.log = chart->flags & RPR_LOG_X && axis.low > 0;
    com_axis_settle(&axis);
    return axis;
}

struct com_axis rpr_axis_y(const struct rpr_chart *chart)
{
    struct com_axis axis = com_axis_empty((chart->flags & RPR_LOG_Y) != 0);
    for (size_t i = 0; i < chart->lines * chart->count; i++) {
        const struct rpr_line *const line = &chart->line[i / chart->count];
        com_axis_include(&axis, line->low[i % chart->count]);
        com_axis_include(&axis, line->high[i % chart->count]);
    }
    com_axis_settle(&axis);
    return axis;
}

/* Sizes in pixels. The legend is below the drawing, so that it covers no line. */
enum { WIDTH = 560, HEIGHT = 320, LEFT = 70, RIGHT = 26, TOP = 12, BOTTOM = 52 };

static const char *const colours[] = {
    "#1f5fb4", "#d9541e", "#2e8b57", "#8e44ad", "#b8860b", "#c2185b", "#00808a", "#6b4f3a",
};
enum { COLOURS = sizeof colours / sizeof colours[0] };
static const char *const dashes[] = {"", "6 4", "2 3"}; /* of lines 0..7, 8..15, 16..23 */

static const char *colour(size_t line)
{
    return colours[line % COLOURS];
}

static const char *dash(size_t line)
{
    return dashes[line / COLOURS % 3];
}

/* The first line is the reference: broad and pale, so that a line on top of it is visible. */
static const char *look(const struct rpr_chart *chart, size_t line)
{
    return line == 0 && chart->lines > 1 ? "line first" : "line";
}

static double pixel_x(const struct com_axis *range, double value)
{
    return LEFT + com_axis_place(range, value) * (WIDTH - LEFT - RIGHT);
}

static double pixel_y(const struct com_axis *range, double value)
{
    return HEIGHT - BOTTOM - com_axis_place(range, value) * (HEIGHT - TOP - BOTTOM);
}

static void say_axes(struct com_text *out, const struct rpr_chart *chart, const struct com_axis *x,
                     const struct com_axis *y)
{
    double tick[8];
    size_t ticks = com_axis_ticks(x, tick, 7);
    double last = -100; /* numbers of an axis keep their distance */
    for (size_t i = 0; i < ticks; i++) {
        const double at = pixel_x(x, tick[i]);
        com_text_format(out, "<path class=\"grid\" d=\"M%.1f %dV%d\"/>", at, TOP, HEIGHT - BOTTOM);
        if (at - last < 42)
            continue;
        last = at;
        com_text_format(out, "<text x=\"%.1f\" y=\"%d\" text-anchor=\"middle\">%s</text>\n", at,
                        HEIGHT - BOTTOM + 18, com_show_number(tick[i]).text);
    }
    ticks = com_axis_ticks(y, tick, 7);
    for (size_t i = 0; i < ticks; i++) {
        const double at = pixel_y(y, tick[i]);
        com_text_format(out,
                        "<path class=\"grid\" d=\"M%d %.1fH%d\"/><text x=\"%d\" y=\"%.1f\" "
                        "text-anchor=\"end\">%s</text>\n",
                        LEFT, at, WIDTH - RIGHT, LEFT - 6, at + 4, com_show_number(tick[i]).text);
    }
    com_text_format(out, "<path class=\"axis\" d=\"M%d %dV%dH%d\"/>\n", LEFT, TOP, HEIGHT - BOTTOM,
                    WIDTH - RIGHT);
    com_text_format(out, "<text class=\"label\" x=\"%d\" y=\"%d\" text-anchor=\"middle\">",
                    (WIDTH + LEFT - RIGHT) / 2, HEIGHT - 10);
    com_text_html(out, chart->x_label);
    com_text_format(out,
                    "</text><text class=\"label\" transform=\"translate(14 %d) rotate(-90)\" "
                    "text-anchor=\"middle\">",
                    (HEIGHT + TOP - BOTTOM) / 2);
    com_text_html(out, chart->y_label);
    com_text_format(out, "</text>\n");
}

static void say_path(struct com_text *out, const struct rpr_chart *chart, const double *value,
                     const struct com_axis *x, const struct com_axis *y)
{
    char command = 'M';
    for (size_t i = 0; i < chart->count; i++) {
        const double at_x = pixel_x(x, chart->x[i]);
        const double at_y = pixel_y(y, value[i]);
        if (isfinite(at_x) && isfinite(at_y)) {
            com_text_format(out, "%c%.1f %.1f", command, at_x, at_y);
            command = 'L';
        } else {
            command = 'M';
        }
    }
}

/* Between the lowest and the highest of the seeds. */
static void say_band(struct com_text *out, const struct rpr_chart *chart, size_t index,
                     const struct com_axis *x, const struct com_axis *y)
{
    const struct rpr_line *const line = &chart->line[index];
    for (size_t i = 0; i < chart->count; i++)
        if (!isfinite(pixel_y(y, line->low[i])) || !isfinite(pixel_y(y, line->high[i])))
            return;
    com_text_format(out, "<path fill=\"%s\" fill-opacity=\"0.13\" d=\"", colour(index));
    say_path(out, chart, line->high, x, y);
    for (size_t i = chart->count; i-- > 0;)
        com_text_format(out, "L%.1f %.1f", pixel_x(x, chart->x[i]), pixel_y(y, line->low[i]));
    com_text_format(out, "Z\"/>\n");
}

static void say_line(struct com_text *out, const struct rpr_chart *chart, size_t index,
                     const struct com_axis *x, const struct com_axis *y)
{
    const struct rpr_line *const line = &chart->line[index];
    com_text_format(out, "<path class=\"%s\" stroke=\"%s\" stroke-dasharray=\"%s\" d=\"",
                    look(chart, index), colour(index), dash(index));
    say_path(out, chart, line->value, x, y);
    com_text_format(out, "\"/>\n");
    for (size_t i = 0; i < chart->count && (chart->flags & RPR_MARKS); i++) {
        const double at_y = pixel_y(y, line->value[i]);
        if (isfinite(at_y))
            com_text_format(out, "<circle cx=\"%.1f\" cy=\"%.1f\" r=\"3.2\" fill=\"%s\"/>",
                            pixel_x(x, chart->x[i]), at_y, colour(index));
    }
}

void rpr_svg(struct com_text *out, const struct rpr_chart *chart)
{
    const struct com_axis x = rpr_axis_x(chart);
    const struct com_axis y = rpr_axis_y(chart);
    com_text_format(out, "<figure><figcaption>");
    com_text_html(out, chart->title);
    com_text_format(
        out,
        "</figcaption>\n<svg viewBox=\"0 0 %d %d\" width=\"%d\" height=\"%d\" role=\"img\" "
        "aria-label=\"",
        WIDTH, HEIGHT, WIDTH, HEIGHT);
    com_text_html(out, chart->title);
    com_text_format(out, "\">\n");
    say_axes(out, chart, &x, &y);
    for (size_t i = 0; i < chart->lines; i++)
        say_band(out, chart, i, &x, &y);
    for (size_t i = 0; i < chart->lines; i++)
        say_line(out, chart, i, &x, &y);
    com_text_format(out, "</svg>\n<ul class=\"legend\">");
    for (size_t i = 0; i < chart->lines; i++) {
        com_text_format(out,
                        "<li><svg width=\"26\" height=\"10\"><path class=\"%s\" stroke=\"%s\" "
                        "stroke-dasharray=\"%s\" d=\"M1 5H25\"/></svg>",
                        look(chart, i), colour(i), dash(i));
        com_text_html(out, chart->line[i].name);
        com_text_format(out, "</li>\n");
    }
    com_text_format(out, "</ul></figure>\n");
}
