#include "text.h"

#include <math.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>

static int grow(struct rpr_text *text, size_t more)
{
    if (text->len + more + 1 <= text->cap)
        return 1;
    const size_t cap = 2 * text->cap + more + 4096;
    char *const bytes = realloc(text->bytes, cap);
    if (!bytes) {
        text->failed = 1;
        return 0;
    }
    text->bytes = bytes;
    text->cap = cap;
    return 1;
}

void rpr_say(struct rpr_text *text, const char *format, ...)
{
    va_list values;
    va_start(values, format);
    va_list again;
    va_copy(again, values);
    const int len = vsnprintf(NULL, 0, format, values);
    if (len > 0 && !text->failed && grow(text, (size_t)len)) {
        (void)vsnprintf(text->bytes + text->len, (size_t)len + 1, format, again);
        text->len += (size_t)len;
    }
    va_end(again);
    va_end(values);
}

void rpr_text_free(struct rpr_text *text)
{
    free(text->bytes);
    *text = (struct rpr_text){0};
}

struct rpr_number rpr_number(double value)
{
    struct rpr_number number;
    const int plain = fabs(value) >= 999.5 && fabs(value) < 1e6;
    (void)snprintf(number.text, sizeof number.text, plain ? "%.0f" : "%.3g", value);
    return number;
}

/* ---- axes ---- */

static void widen(struct rpr_range *range, double value)
{
    if (!isfinite(value))
        return;
    range->low = fmin(range->low, value);
    range->high = fmax(range->high, value);
}

static struct rpr_range settle(struct rpr_range range, unsigned log)
{
    if (!(range.low <= range.high))
        return (struct rpr_range){0, 1, 0};
    range.log = log && range.low > 0;
    if (range.log && range.high < range.low * 1.5) {
        range.low /= 1.5;
        range.high *= 1.5;
    } else if (!range.log && range.low == range.high) {
        range.low -= 0.5;
        range.high += 0.5;
    }
    return range;
}

struct rpr_range rpr_range_x(const struct rpr_chart *chart)
{
    struct rpr_range range = {INFINITY, -INFINITY, 0};
    for (size_t i = 0; i < chart->count; i++)
        widen(&range, chart->x[i]);
    return settle(range, chart->flags & RPR_LOG_X);
}

struct rpr_range rpr_range_y(const struct rpr_chart *chart)
{
    struct rpr_range range = {INFINITY, -INFINITY, 0};
    for (size_t i = 0; i < chart->lines * chart->count; i++) {
        const struct rpr_line *const line = &chart->line[i / chart->count];
        const double ends[2] = {line->low[i % chart->count], line->high[i % chart->count]};
        for (int j = 0; j < 2; j++)
            if (!(chart->flags & RPR_LOG_Y) || ends[j] > 0)
                widen(&range, ends[j]);
    }
    return settle(range, chart->flags & RPR_LOG_Y);
}

double rpr_place(const struct rpr_range *range, double value)
{
    if (!isfinite(value) || (range->log && !(value > 0)))
        return NAN;
    if (range->log)
        return log(value / range->low) / log(range->high / range->low);
    return (value - range->low) / (range->high - range->low);
}

/* Steps of 1, 2 or 5 times a power of ten. */
static size_t even_ticks(const struct rpr_range *range, double *out, size_t most)
{
    const double rough = (range->high - range->low) / (double)(most - 1);
    const double power = pow(10, floor(log10(rough)));
    const double step = rough <= power       ? power
                        : rough <= 2 * power ? 2 * power
                        : rough <= 5 * power ? 5 * power
                                             : 10 * power;
    size_t count = 0;
    const double first = ceil(range->low / step - 1e-9);
    while (count < most && (first + (double)count) * step <= range->high + 1e-9 * step) {
        const double at = first + (double)count;
        out[count++] = at == 0 ? 0 : at * step;
    }
    return count;
}

/* Powers of ten, or of ten to something where there are many; 1, 2, 5 where there are few. */
static size_t log_ticks(const struct rpr_range *range, double *out, size_t most)
{
    static const double few[] = {1, 2, 5};
    const double first = ceil(log10(range->low) - 1e-9);
    const double last = floor(log10(range->high) + 1e-9);
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
            if (at >= range->low * 0.999 && at <= range->high * 1.001)
                out[count++] = at;
        }
    return count;
}

size_t rpr_ticks(const struct rpr_range *range, double *out, size_t most)
{
    return range->log ? log_ticks(range, out, most) : even_ticks(range, out, most);
}
