#include "option.h"

#include <errno.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

/* The number at the start of `text`; *end is what follows it. */
static int leading_u64(const char *text, const char **end, uint64_t *out)
{
    if (text[0] < '0' || text[0] > '9')
        return 0; /* strtoull would take signs and spaces */
    char *stop;
    errno = 0;
    unsigned long long value = strtoull(text, &stop, 10);
    if (errno != 0)
        return 0;
    *end = stop;
    *out = value;
    return 1;
}

int option_u64(const char *text, uint64_t low, uint64_t high, uint64_t *out)
{
    const char *end;
    uint64_t value;
    if (!leading_u64(text, &end, &value) || *end != '\0' || value < low || value > high)
        return 0;
    *out = value;
    return 1;
}

int option_count(const char *text, uint64_t low, uint64_t high, uint64_t *out)
{
    const char *end;
    uint64_t value;
    if (!leading_u64(text, &end, &value))
        return 0;
    uint64_t unit = 1;
    if (*end == 'k' || *end == 'M' || *end == 'G') {
        unit = *end == 'k' ? 1000 : *end == 'M' ? 1000000 : 1000000000;
        end++;
    }
    if (*end != '\0' || value > high / unit || value * unit < low)
        return 0;
    *out = value * unit;
    return 1;
}

int option_real(const char *text, double low, double high, double *out)
{
    char *stop;
    double value = strtod(text, &stop);
    if (stop == text || *stop != '\0' || !isfinite(value) || value < low || value > high)
        return 0;
    *out = value;
    return 1;
}

static size_t least_of(size_t a, size_t b, size_t c)
{
    size_t least = a < b ? a : b;
    return least < c ? least : c;
}

size_t option_edits(const char *from, const char *to)
{
    enum { LONGEST = 32 };
    size_t from_len = strlen(from);
    size_t to_len = strlen(to);
    if (from_len > LONGEST || to_len > LONGEST)
        return from_len + to_len;
    /* Levenshtein: edits[j] turns the letters of `from` read so far into the first j of `to`. */
    size_t edits[LONGEST + 1];
    for (size_t j = 0; j <= to_len; j++)
        edits[j] = j;
    for (size_t i = 1; i <= from_len; i++) {
        size_t diagonal = edits[0];
        edits[0] = i;
        for (size_t j = 1; j <= to_len; j++) {
            size_t above = edits[j];
            size_t change = diagonal + (from[i - 1] != to[j - 1]);
            edits[j] = least_of(change, above + 1, edits[j - 1] + 1);
            diagonal = above;
        }
    }
    return edits[to_len];
}
