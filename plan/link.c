/* Rates and times as users type and read them. */
#include <ctype.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <strings.h>

#include "plan.h"

struct unit {
    const char *name;
    double factor;
};

/* A number above 0 and one of the units, nothing else. */
static int parse(const char *text, const struct unit *units, double *out)
{
    char *end;
    if (!isdigit((unsigned char)text[0]) && text[0] != '.')
        return 0;
    const double number = strtod(text, &end);
    for (const struct unit *unit = units; unit->name; unit++)
        if (strcasecmp(end, unit->name) == 0 && number > 0 && isfinite(number * unit->factor)) {
            *out = number * unit->factor;
            return 1;
        }
    return 0;
}

int pln_parse_rate(const char *text, double *out)
{
    static const struct unit units[] = {
        {"bit", 1},     {"bit/s", 1},     {"kbit", 1e3}, {"kbit/s", 1e3},
        {"mbit", 1e6},  {"mbit/s", 1e6},  {"gbit", 1e9}, {"gbit/s", 1e9},
        {"tbit", 1e12}, {"tbit/s", 1e12}, {NULL, 0},
    };
    return parse(text, units, out);
}

int pln_parse_seconds(const char *text, double *out)
{
    static const struct unit units[] = {
        {"s", 1}, {"ms", 1e-3}, {"us", 1e-6}, {"ns", 1e-9}, {NULL, 0},
    };
    return parse(text, units, out);
}

static struct pln_shown show(double value, const struct unit *units)
{
    struct pln_shown shown;
    const struct unit *unit = units;
    while (unit[1].name && value < unit->factor)
        unit++;
    (void)snprintf(shown.text, sizeof shown.text, "%.3g %s", value / unit->factor, unit->name);
    return shown;
}

struct pln_shown pln_show_rate(double bits_per_second)
{
    static const struct unit units[] = {{"Tbit/s", 1e12}, {"Gbit/s", 1e9}, {"Mbit/s", 1e6},
                                        {"kbit/s", 1e3},  {"bit/s", 1},    {NULL, 0}};
    return show(bits_per_second, units);
}

struct pln_shown pln_show_seconds(double seconds)
{
    static const struct unit units[] = {{"s", 1}, {"ms", 1e-3}, {"us", 1e-6}, {NULL, 0}};
    return show(seconds, units);
}

struct pln_link_shown pln_show_link(const struct pln_place *place)
{
    struct pln_link_shown shown;
    const int burst = place->burst > 0;
    (void)snprintf(shown.text, sizeof shown.text, "payload at %s, latency %s%s%s",
                   pln_show_rate(place->bits_per_second).text,
                   pln_show_seconds(place->latency).text, burst ? ", burst " : "",
                   burst ? pln_show_seconds(place->burst).text : "");
    return shown;
}
