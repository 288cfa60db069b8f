/* An axis of a chart: its range, the position of a value on it, and its marks. */
#ifndef COM_AXIS_H
#define COM_AXIS_H

#include <stddef.h>

struct com_axis {
    double low;
    double high;
    int log;
};

/* An empty axis; logarithmic if asked for and if all values shown are positive. */
struct com_axis com_axis_empty(int log);

/* Widens the range to a value. Values that are not finite, or not positive on a logarithmic axis,
 * are not shown. */
void com_axis_include(struct com_axis *axis, double value);

/* Call it last: it widens a range of one value; an empty axis gets the range 0 to 1. */
void com_axis_settle(struct com_axis *axis);

/* The position of a value, from 0 to 1; NaN if it cannot be shown. */
double com_axis_place(const struct com_axis *axis, double value);

/* Writes at most `most` marks in ascending order; returns their number. */
size_t com_axis_ticks(const struct com_axis *axis, double *out, size_t most);

#endif
