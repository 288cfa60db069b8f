#include "common/axis.h"

#include <math.h>

struct com_axis com_axis_empty(int log)
{
    return (struct com_axis){.low = INFINITY, .high = -INFINITY, .log = log};
}

void com_axis_include(struct com_axis *axis, double value)
{
    if (!isfinite(value) || (axis->log && !(value > 0)))
        return;
    axis->low = fmin(axis->low, value);
    axis->high = fmax(axis->high, value);
}

void com_axis_settle(struct com_axis *axis)
{
    if (!(axis->low <= axis->high)) {
        *axis = (struct com_axis){0, 1, 0};
    } else if (axis->log && axis->high < axis->low * 1.5) {
        axis->low /= 1.5;
        axis->high *= 1.5;
    } else if (!axis->log && axis->low == axis->high) {
        const double about = axis->low == 0 ? 0.5 : fabs(axis->low) * 0.05;
        axis->low -= about;
        axis->high += about;
    }
}

double com_axis_place(const struct com_axis *axis, double value)
{
    if (!isfinite(value) || (axis->log && !(value > 0)))
        return NAN;
    if (axis->log)
        return log(value / axis->low) / log(axis->high / axis->low);
    return (value - axis->low) / (axis->high - axis->low);
}

/* Steps of 1, 2 or 5 times a power of ten. */
static size_t even_ticks(const struct com_axis *axis, double *out, size_t most)
{
    const double rough = (axis->high - axis->low) / (double)(most - 1);
    const double power = pow(10, floor(log10(rough)));
    const double step = rough <= power       ? power
                        : rough <= 2 * power ? 2 * power
                        : rough <= 5 * power ? 5 * power
                                             : 10 * power;
    size_t count = 0;
    const double first = ceil(axis->low / step - 1e-9);
    while (count < most && (first + (double)count) * step <= axis->high + 1e-9 * step) {
        const double at = first + (double)count;
        out[count++] = at == 0 ? 0 : at * step;
    }
    return count;
}

/* Powers of ten, or of ten to something where there are many; 1, 2, 5 where there are few. */
static size_t log_ticks(const struct com_axis *axis, double *out, size_t most)
{
    static const double few[] = {1, 2, 5};
    const double first = ceil(log10(axis->low) - 1e-9);
    const double last = floor(log10(axis->high) + 1e-9);
    const double every = fmax(1, ceil((last - first + 1) / (double)most));
    size_t count = 0;
    if (last - first >= 2 || 3 * (last - first + 2) > (double)most) {
        while (count < most && first + (double)count * every <= last) {
            out[count] = pow(10, first + (double)count * every);
            count++;
        }
        if (count > 1)
            return count;
    }
    count = 0;
    const int decades = (int)(last - first) + 2;
    for (int i = 0; i < decades; i++)
        for (size_t j = 0; j < 3 && count < most; j++) {
            const double at = few[j] * pow(10, first - 1 + i);
            if (at >= axis->low * 0.999 && at <= axis->high * 1.001)
                out[count++] = at;
        }
    return count;
}

size_t com_axis_ticks(const struct com_axis *axis, double *out, size_t most)
{
    return axis->log ? log_ticks(axis, out, most) : even_ticks(axis, out, most);
}
