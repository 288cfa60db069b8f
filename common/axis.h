/* An axis of a chart: the values between which it runs, where a value lies on it, and its marks. */
#ifndef COM_AXIS_H
#define COM_AXIS_H

#include <stddef.h>

struct com_axis {
    double low;
    double high;
    int log;
};

/* An axis of nothing; logarithmic if asked, and if all that is shown is positive. */
struct com_axis com_axis_empty(int log);

/* Takes a value in. What is not finite, or not positive on a logarithmic axis, is not shown. */
void com_axis_include(struct com_axis *axis, double value);

/* Call it last: widens an axis that is a point; one of nothing runs from 0 to 1. */
void com_axis_settle(struct com_axis *axis);

/* Where a value lies, from 0 to 1; NaN where it cannot be shown. */
double com_axis_place(const struct com_axis *axis, double value);

/* Marks, at most `most`, in rising order; returns how many. */
size_t com_axis_ticks(const struct com_axis *axis, double *out, size_t most);

#endif
