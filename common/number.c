#include "common/number.h"

#include <errno.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>

/* The number at the start of `text`; *end is what follows it. */
static int leading_u64(const char *text, const char **end, uint64_t *out)
{
    if (text[0] < '0' || text[0] > '9')
        return 0; /* strtoull would take signs and spaces */
    char *stop;
    errno = 0;
    const unsigned long long value = strtoull(text, &stop, 10);
    if (errno != 0)
        return 0;
    *end = stop;
    *out = value;
    return 1;
}

int com_parse_u64(const char *text, uint64_t low, uint64_t high, uint64_t *out)
{
    const char *end;
    uint64_t value;
    if (!leading_u64(text, &end, &value) || *end != '\0' || value < low || value > high)
        return 0;
    *out = value;
    return 1;
}

int com_parse_count(const char *text, uint64_t low, uint64_t high, uint64_t *out)
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

int com_parse_real(const char *text, double low, double high, double *out)
{
    char *stop;
    const double value = strtod(text, &stop);
    if (stop == text || *stop != '\0' || !isfinite(value) || value < low || value > high)
        return 0;
    *out = value;
    return 1;
}

struct com_shown com_show_count(uint64_t count)
{
    char digits[24];
    struct com_shown shown = {""};
    const int len = snprintf(digits, sizeof digits, "%llu", (unsigned long long)count);
    char *at = shown.text;
    for (int i = 0; i < len; i++) {
        if (i > 0 && (len - i) % 3 == 0)
            *at++ = ',';
        *at++ = digits[i];
    }
    *at = '\0';
    return shown;
}

struct com_shown com_show_bytes(double bytes)
{
    static const char *const units[] = {"B", "kB", "MB", "GB", "TB", "PB"};
    struct com_shown shown = {""};
    size_t unit = 0;
    while (bytes >= 999.5 && unit + 1 < sizeof units / sizeof units[0]) {
        bytes /= 1000;
        unit++;
    }
    (void)snprintf(shown.text, sizeof shown.text,
                   unit == 0 || bytes >= 99.95 ? "%.0f %s" : "%.1f %s", bytes, units[unit]);
    return shown;
}

struct com_shown com_show_number(double value)
{
    struct com_shown shown = {""};
    const int whole = fabs(value) >= 999.5 && fabs(value) < 1e6;
    (void)snprintf(shown.text, sizeof shown.text, whole ? "%.0f" : "%.3g", value);
    return shown;
}
