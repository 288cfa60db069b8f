#include "decimate.h"

#include <math.h>

static size_t keep_extremes(const double *values, size_t from, size_t to, size_t *keep)
{
    size_t least = from;
    size_t greatest = from;
    for (size_t i = from + 1; i < to; i++) {
        if (isnan(values[least]) || values[i] < values[least])
            least = i;
        if (isnan(values[greatest]) || values[i] > values[greatest])
            greatest = i;
    }
    keep[0] = least < greatest ? least : greatest;
    keep[1] = least < greatest ? greatest : least;
    return least == greatest ? 1 : 2;
}

size_t rep_decimate(const double *values, size_t count, size_t limit, size_t *keep)
{
    if (count <= limit) {
        for (size_t i = 0; i < count; i++)
            keep[i] = i;
        return count;
    }
    size_t kept = 0;
    keep[kept++] = 0;
    size_t stretches = (limit - 2) / 2;
    size_t inner = count - 2;
    for (size_t s = 0; s < stretches; s++) {
        size_t from = 1 + inner / stretches * s + inner % stretches * s / stretches;
        size_t to = 1 + inner / stretches * (s + 1) + inner % stretches * (s + 1) / stretches;
        if (from < to)
            kept += keep_extremes(values, from, to, keep + kept);
    }
    keep[kept++] = count - 1;
    return kept;
}
