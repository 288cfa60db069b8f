/* Text that grows, and numbers as people read them. */
#ifndef RPR_TEXT_H
#define RPR_TEXT_H

#include "reproduce.h"
#include "sheet.h"

RPR_FORMAT(2, 3) void rpr_say(struct rpr_text *text, const char *format, ...);

/* Three digits that count, or all before the point: 0.72, 5.1e-07, 1234. */
struct rpr_number {
    char text[24];
};
struct rpr_number rpr_number(double value);

/* The values between which a chart's axis runs. */
struct rpr_range {
    double low;
    double high;
    int log;
};

/* Of x, or of all lines; widened where it is a point. On a logarithmic axis what is not positive
 * is not shown. */
struct rpr_range rpr_range_x(const struct rpr_chart *chart);
struct rpr_range rpr_range_y(const struct rpr_chart *chart);

/* Where a value lies in its range, from 0 to 1; NaN where it cannot be shown. */
double rpr_place(const struct rpr_range *range, double value);

/* Marks for an axis, at most `most`, in rising order; returns how many. */
size_t rpr_ticks(const struct rpr_range *range, double *out, size_t most);

#endif
