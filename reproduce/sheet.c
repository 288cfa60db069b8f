#include "sheet.h"

#include <math.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

void rpr_fail(struct rpr_sheet *sheet, terse_status status, const terse_fault *fault)
{
    if (status == TERSE_OK || sheet->status != TERSE_OK)
        return;
    sheet->status = status;
    if (fault)
        sheet->fault = *fault;
}

void *rpr_room(struct rpr_sheet *sheet, size_t count, size_t size)
{
    void *const room = calloc(count + 1, size);
    if (!room)
        rpr_fail(sheet, TERSE_NO_MEMORY, NULL);
    return room;
}

/* One more at the end of a list, or NULL. */
static void *append(struct rpr_sheet *sheet, void *list, size_t count, size_t size)
{
    void *const longer = realloc(list, (count + 1) * size);
    if (!longer)
        rpr_fail(sheet, TERSE_NO_MEMORY, NULL);
    return longer;
}

/* A comparison with NaN is false: what could not be measured does not hold. */
static int holds(const struct rpr_claim *claim)
{
    switch (claim->side) {
    case RPR_AT_MOST: return claim->measured <= claim->bound;
    case RPR_AT_LEAST: return claim->measured >= claim->bound;
    case RPR_WITHIN: return claim->measured >= claim->bound && claim->measured <= claim->upper;
    }
    return 0;
}

RPR_FORMAT(3, 0)
static void add_claim(struct rpr_sheet *sheet, struct rpr_claim claim, const char *text,
                      va_list values)
{
    struct rpr_result *const result = sheet->result;
    if (sheet->status != TERSE_OK)
        return;
    struct rpr_claim *const list =
        append(sheet, result->claim, result->claims, sizeof *result->claim);
    if (!list)
        return;
    result->claim = list;
    (void)vsnprintf(claim.text, sizeof claim.text, text, values);
    claim.holds = holds(&claim);
    claim.low = claim.high = claim.measured;
    list[result->claims++] = claim;
}

void rpr_claim(struct rpr_sheet *sheet, const char *id, double measured, enum rpr_side side,
               double bound, const char *text, ...)
{
    struct rpr_claim claim = {.measured = measured, .bound = bound, .side = side};
    va_list values;
    (void)snprintf(claim.id, sizeof claim.id, "%s", id);
    va_start(values, text);
    add_claim(sheet, claim, text, values);
    va_end(values);
}

void rpr_claim_within(struct rpr_sheet *sheet, const char *id, double measured, double low,
                      double high, const char *text, ...)
{
    struct rpr_claim claim = {
        .measured = measured, .bound = low, .upper = high, .side = RPR_WITHIN};
    va_list values;
    (void)snprintf(claim.id, sizeof claim.id, "%s", id);
    va_start(values, text);
    add_claim(sheet, claim, text, values);
    va_end(values);
}

void rpr_chart(struct rpr_sheet *sheet, const struct rpr_axes *axes)
{
    struct rpr_result *const result = sheet->result;
    if (sheet->status != TERSE_OK)
        return;
    struct rpr_chart *const list =
        append(sheet, result->chart, result->charts, sizeof *result->chart);
    double *const x = rpr_room(sheet, axes->count, sizeof *x);
    if (list)
        result->chart = list;
    if (!list || !x) {
        free(x);
        return;
    }
    for (size_t i = 0; i < axes->count; i++)
        x[i] = axes->x ? axes->x[i] : (double)i * axes->step;
    struct rpr_chart *const chart = &list[result->charts++];
    *chart = (struct rpr_chart){.flags = axes->flags, .count = axes->count, .x = x};
    (void)snprintf(chart->id, sizeof chart->id, "%s", axes->id);
    (void)snprintf(chart->title, sizeof chart->title, "%s", axes->title);
    (void)snprintf(chart->x_label, sizeof chart->x_label, "%s", axes->x_label);
    (void)snprintf(chart->y_label, sizeof chart->y_label, "%s", axes->y_label);
}

void rpr_line(struct rpr_sheet *sheet, const double *value, const char *name, ...)
{
    if (sheet->status != TERSE_OK)
        return;
    struct rpr_chart *const chart = &sheet->result->chart[sheet->result->charts - 1];
    struct rpr_line *const list = append(sheet, chart->line, chart->lines, sizeof *chart->line);
    double *const room = rpr_room(sheet, 3 * chart->count, sizeof *room);
    if (list)
        chart->line = list;
    if (!list || !room) {
        free(room);
        return;
    }
    struct rpr_line *const line = &list[chart->lines++];
    *line = (struct rpr_line){
        .value = room, .low = room + chart->count, .high = room + 2 * chart->count};
    for (size_t i = 0; i < 3; i++)
        memcpy(room + i * chart->count, value, chart->count * sizeof *room);
    va_list values;
    va_start(values, name);
    (void)vsnprintf(line->name, sizeof line->name, name, values);
    va_end(values);
}
