#include "chart.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "common/axis.h"
#include "common/grid.h"
#include "common/number.h"

enum {
    LEAST_WIDTH = 40,
    MOST_WIDTH = 400,
    PLOT_HEIGHT = 8,
    CHART_HEIGHT = PLOT_HEIGHT + 3, /* title above, axis and its ends below */
    MARGIN = 8,                     /* numbers left of the axis */
    GAP = 2,
    BESIDE = 80, /* from this width on two charts are side by side */
    SCATTER_HEIGHT = 12,
    MOST_POINTS = 26
};

/* An area of the grid with axes and the ranges that it shows. */
struct frame {
    struct com_grid *grid;
    int x; /* upper left cell of the plot */
    int y;
    unsigned width;
    unsigned height;
    struct com_axis across;
    struct com_axis up;
};

static void draw_axes(const struct frame *frame)
{
    int ascii = frame->grid->ascii;
    int bottom = frame->y + (int)frame->height;
    for (int y = frame->y; y < bottom; y++) {
        int has_number = y == frame->y || y == bottom - 1;
        uint32_t line = ascii ? '|' : has_number ? 0x2524 : 0x2502;
        com_grid_put(frame->grid, frame->x - 1, y, line);
    }
    com_grid_put(frame->grid, frame->x - 1, bottom, ascii ? '+' : 0x2514);
    for (unsigned i = 0; i < frame->width; i++)
        com_grid_put(frame->grid, frame->x + (int)i, bottom, ascii ? '-' : 0x2500);
}

static void words_ending_at(const struct frame *frame, int end, int y, const char *words)
{
    int width = (int)com_grid_width_of(words, MOST_WIDTH);
    com_grid_words(frame->grid, end - width, y, words);
}

static void dot(const struct frame *frame, double x, double y)
{
    double across = com_grid_dots_across(frame->grid, frame->width) - 1;
    double down = com_grid_dots_down(frame->grid, frame->height) - 1;
    double at_x = com_axis_place(&frame->across, x) * across;
    double at_y = (1 - com_axis_place(&frame->up, y)) * down;
    if (at_x >= 0 && at_x <= across && at_y >= 0 &&
        at_y <= down) { /* not where a range overflowed */
        com_grid_dot(frame->grid, frame->x, frame->y, (unsigned)lround(at_x),
                     (unsigned)lround(at_y));
    }
}

static void line(const struct frame *frame, const double *from, const double *to)
{
    double wide = com_grid_dots_across(frame->grid, frame->width);
    double high = com_grid_dots_down(frame->grid, frame->height);
    double across =
        fabs(com_axis_place(&frame->across, to[0]) - com_axis_place(&frame->across, from[0])) *
        wide;
    double down =
        fabs(com_axis_place(&frame->up, to[1]) - com_axis_place(&frame->up, from[1])) * high;
    double longer = across > down ? across : down;
    int dots = longer <= wide + high ? (int)ceil(longer) + 1 : 1;
    for (int i = 0; i <= dots; i++) {
        double part = (double)i / dots;
        dot(frame, from[0] + (to[0] - from[0]) * part, from[1] + (to[1] - from[1]) * part);
    }
}

/* Points (step, value); those without a value are skipped. Steps that do not ascend begin the curve
 * of another run. */
struct curve {
    const char *title;
    const char *format; /* printf format of one value */
    double scale;       /* values are shown multiplied by it */
    double *points;     /* pairs */
    size_t count;
};

static void find_ranges(struct frame *frame, const struct curve *curve)
{
    frame->across = com_axis_empty(0);
    frame->up = com_axis_empty(0);
    com_axis_include(&frame->across, 0);
    for (size_t i = 0; i < curve->count; i++) {
        com_axis_include(&frame->across, curve->points[2 * i]);
        com_axis_include(&frame->up, curve->points[2 * i + 1]);
    }
    com_axis_settle(&frame->across);
    com_axis_settle(&frame->up);
}

/* Formats are this file's own constants. */
#pragma GCC diagnostic push
#pragma GCC diagnostic ignored "-Wformat-nonliteral"
static void show(const struct curve *curve, double value, char *out, size_t cap)
{
    snprintf(out, cap, curve->format, value * curve->scale);
}
#pragma GCC diagnostic pop

/* Does the curve of another run begin at this point? */
static int begins(const struct curve *curve, size_t index)
{
    return index == 0 || curve->points[2 * index] <= curve->points[2 * index - 2];
}

static double mean_of_last(const struct curve *curve)
{
    double sum = 0;
    double runs = 0;
    for (size_t i = 1; i <= curve->count; i++) {
        if (i == curve->count || begins(curve, i)) {
            sum += curve->points[2 * i - 1];
            runs++;
        }
    }
    return sum / runs;
}

static void draw_curve(struct com_grid *grid, int left, int top, unsigned width,
                       const struct curve *curve)
{
    struct frame frame = {.grid = grid,
                          .x = left + MARGIN + 1,
                          .y = top + 1,
                          .width = width - MARGIN - 1,
                          .height = PLOT_HEIGHT};
    char words[64];
    com_grid_words(grid, left + MARGIN + 1, top, curve->title);
    if (curve->count == 0) {
        com_grid_words(grid, frame.x, top + 1, "nothing measured");
        return;
    }
    find_ranges(&frame, curve);
    draw_axes(&frame);
    show(curve, frame.up.high, words, sizeof words);
    words_ending_at(&frame, frame.x - 2, frame.y, words);
    show(curve, frame.up.low, words, sizeof words);
    words_ending_at(&frame, frame.x - 2, frame.y + PLOT_HEIGHT - 1, words);
    com_grid_words(grid, frame.x, frame.y + PLOT_HEIGHT + 1, "0");
    snprintf(words, sizeof words, "%.0f steps", frame.across.high);
    words_ending_at(&frame, frame.x + (int)frame.width, frame.y + PLOT_HEIGHT + 1, words);
    show(curve, mean_of_last(curve), words, sizeof words);
    words_ending_at(&frame, frame.x + (int)frame.width, top, words);
    for (size_t i = 0; i < curve->count; i++) {
        const double *to = &curve->points[2 * i];
        line(&frame, begins(curve, i) ? to : to - 2, to);
    }
}

static void add_point(struct curve *curve, double step, double value)
{
    if (isfinite(value)) {
        curve->points[2 * curve->count] = step;
        curve->points[2 * curve->count + 1] = value;
        curve->count++;
    }
}

static unsigned clamp_width(unsigned width)
{
    return width < LEAST_WIDTH ? LEAST_WIDTH : width > MOST_WIDTH ? MOST_WIDTH : width;
}

static char *draw_run(const struct curve *loss, const struct curve *accuracy, const char *title,
                      const struct rep_chart_style *style)
{
    unsigned width = clamp_width(style->width);
    int beside = width >= BESIDE;
    unsigned each = beside ? (width - GAP) / 2 : width;
    int top = title != NULL;
    unsigned height = (unsigned)top + (beside ? CHART_HEIGHT : 2 * CHART_HEIGHT);
    struct com_grid grid;
    if (!com_grid_make(&grid, width, height, style->ascii))
        return NULL;
    com_grid_words(&grid, 0, 0, title ? title : "");
    draw_curve(&grid, 0, top, each, loss);
    draw_curve(&grid, beside ? (int)(each + GAP) : 0, beside ? top : top + CHART_HEIGHT, each,
               accuracy);
    return com_grid_text(&grid);
}

char *rep_chart_runs(const struct rep_run *const *runs, size_t count, const char *title,
                     const struct rep_chart_style *style)
{
    struct curve loss = {.title = "loss", .format = "%.4g", .scale = 1};
    struct curve accuracy = {.title = "accuracy", .format = "%.1f %%", .scale = 100};
    size_t steps = 1;
    size_t evaluations = 1;
    for (size_t r = 0; r < count; r++) {
        steps += runs[r]->step_count;
        evaluations += runs[r]->evaluation_count;
    }
    loss.points = calloc(steps, 2 * sizeof *loss.points);
    accuracy.points = calloc(evaluations, 2 * sizeof *accuracy.points);
    char *text = NULL;
    for (size_t r = 0; r < count && loss.points && accuracy.points; r++) {
        const struct rep_run *const run = runs[r];
        for (size_t i = 0; i < run->step_count; i++)
            add_point(&loss, run->steps[i].step, run->steps[i].loss);
        for (size_t i = 0; i < run->evaluation_count; i++)
            add_point(&accuracy, run->evaluations[i].step, run->evaluations[i].accuracy);
    }
    if (loss.points && accuracy.points)
        text = draw_run(&loss, &accuracy, title, style);
    free(loss.points);
    free(accuracy.points);
    return text;
}

char *rep_chart_run(const struct rep_run *run, const char *title,
                    const struct rep_chart_style *style)
{
    return rep_chart_runs(&run, 1, title, style);
}

/* Puts a label to the right or left of its mark, after a blank; 0 if no place is free. Above or
 * below it a label would seem to belong to another mark. */
static int place_label(const struct frame *frame, int x, int y, const char *label)
{
    unsigned width = com_grid_width_of(label, MOST_WIDTH);
    const int places[] = {x + 2, x - 1 - (int)width};
    for (size_t i = 0; i < sizeof places / sizeof places[0]; i++) {
        int at = places[i];
        if (at > frame->x && com_grid_is_free(frame->grid, at - 1, y, width + 1)) {
            com_grid_words(frame->grid, at, y, label);
            return 1;
        }
    }
    return 0;
}

static int is_drawn(const struct rep_chart_point *point)
{
    return isfinite(point->bytes) && point->bytes > 0 && isfinite(point->accuracy);
}

static int find_scatter_ranges(struct frame *frame, const struct rep_chart_point *points,
                               size_t count)
{
    int any = 0;
    frame->across = com_axis_empty(1);
    frame->up = com_axis_empty(0);
    for (size_t i = 0; i < count; i++) {
        if (!is_drawn(&points[i]))
            continue;
        com_axis_include(&frame->across, points[i].bytes);
        com_axis_include(&frame->up, points[i].accuracy);
        any = 1;
    }
    com_axis_settle(&frame->across);
    com_axis_settle(&frame->up);
    return any;
}

static void draw_scatter_axes(const struct frame *frame)
{
    char words[64];
    draw_axes(frame);
    com_grid_words(frame->grid, frame->x, frame->y - 1, "accuracy against bytes per step");
    snprintf(words, sizeof words, "%.1f %%", frame->up.high * 100);
    words_ending_at(frame, frame->x - 2, frame->y, words);
    snprintf(words, sizeof words, "%.1f %%", frame->up.low * 100);
    words_ending_at(frame, frame->x - 2, frame->y + (int)frame->height - 1, words);
    com_grid_words(frame->grid, frame->x, frame->y + (int)frame->height + 1,
                   com_show_bytes(frame->across.low).text);
    words_ending_at(frame, frame->x + (int)frame->width, frame->y + (int)frame->height + 1,
                    com_show_bytes(frame->across.high).text);
}

static void cell_of(const struct frame *frame, const struct rep_chart_point *point, int *x, int *y)
{
    double part_x = com_axis_place(&frame->across, point->bytes);
    double part_y = 1 - com_axis_place(&frame->up, point->accuracy);
    *x = frame->x + (int)lround(part_x * (frame->width - 1));
    *y = frame->y + (int)lround(part_y * (frame->height - 1));
}

/* Marks first, so that no label hides one; then labels. A label without a free place is replaced by
 * a letter. */
static void draw_points(const struct frame *frame, const struct rep_chart_point *points,
                        size_t count)
{
    int row = frame->y + (int)frame->height + 2;
    int x;
    int y;
    for (size_t i = 0; i < count; i++) {
        if (is_drawn(&points[i])) {
            cell_of(frame, &points[i], &x, &y);
            com_grid_put(frame->grid, x, y, frame->grid->ascii ? '*' : 0x25CF);
        }
    }
    for (size_t i = 0; i < count; i++) {
        if (!is_drawn(&points[i]))
            continue;
        cell_of(frame, &points[i], &x, &y);
        if (!place_label(frame, x, y, points[i].label)) {
            char name[] = {(char)('a' + (int)(i % MOST_POINTS)), '\0'};
            char words[128];
            com_grid_words(frame->grid, x, y, name);
            snprintf(words, sizeof words, "%s  %.60s  %.1f %%, %s", name, points[i].label,
                     points[i].accuracy * 100, com_show_bytes(points[i].bytes).text);
            com_grid_words(frame->grid, frame->x, row++, words);
        }
    }
}

char *rep_chart_tradeoff(const struct rep_chart_point *points, size_t count,
                         const struct rep_chart_style *style)
{
    unsigned width = clamp_width(style->width);
    struct com_grid grid;
    struct frame frame = {.grid = &grid,
                          .x = MARGIN + 1,
                          .y = 1,
                          .width = width - MARGIN - 1,
                          .height = SCATTER_HEIGHT};
    int any = find_scatter_ranges(&frame, points, count);
    unsigned rows = any ? SCATTER_HEIGHT + 3 + (unsigned)count : 1;
    if (!com_grid_make(&grid, width, rows, style->ascii))
        return NULL;
    if (!any) {
        com_grid_words(&grid, MARGIN + 1, 0, "accuracy against bytes: nothing measured");
        return com_grid_text(&grid);
    }
    draw_scatter_axes(&frame);
    draw_points(&frame, points, count);
    char *text = com_grid_text(&grid);
    if (text) { /* rows kept for a list that was not needed */
        size_t len = strlen(text);
        while (len > 1 && text[len - 1] == '\n' && text[len - 2] == '\n')
            text[--len] = '\0';
    }
    return text;
}
