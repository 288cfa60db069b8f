#include "say.h"

#include <errno.h>
#include <stdarg.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

enum { RING = 8, TEXT_LEN = 32 };

static char *ring_text(void)
{
    static char ring[RING][TEXT_LEN];
    static unsigned next;
    return ring[next++ % RING];
}

int say_error(int code, const char *format, ...)
{
    va_list values;
    va_start(values, format);
    fputs("terse: ", stderr);
    vfprintf(stderr, format, values);
    fputc('\n', stderr);
    va_end(values);
    return code;
}

int say_usage(const char *command, const char *format, ...)
{
    va_list values;
    va_start(values, format);
    fprintf(stderr, "terse %s: ", command);
    vfprintf(stderr, format, values);
    fprintf(stderr, "\nTry 'terse %s --help'.\n", command);
    va_end(values);
    return CLI_USAGE;
}

void say_note(const char *format, ...)
{
    va_list values;
    va_start(values, format);
    vfprintf(stderr, format, values);
    fputc('\n', stderr);
    va_end(values);
}

int say_errno(const char *what, const char *path)
{
    int reason = errno;
    int by_path = reason == ENOENT || reason == EACCES || reason == EISDIR || reason == ENOTDIR ||
                  reason == ENAMETOOLONG || reason == EPERM || reason == ELOOP;
    return say_error(by_path ? CLI_REFUSED : CLI_MACHINE, "cannot %s '%s': %s", what, path,
                     strerror(reason));
}

static int code_of(terse_status status)
{
    switch (status) {
    case TERSE_BAD_SPEC: return CLI_USAGE;
    case TERSE_NO_MEMORY: return CLI_MACHINE;
    default: return CLI_REFUSED;
    }
}

int say_status(const char *subject, terse_status status, const terse_fault *fault)
{
    if (!fault || fault->text[0] == '\0')
        return say_error(code_of(status), "%s: %s", subject, terse_status_text(status));
    return say_error(code_of(status), "%s: offset %llu: %s", subject,
                     (unsigned long long)fault->offset, fault->text);
}

static int has_colour(FILE *stream)
{
    const char *no_color = getenv("NO_COLOR");
    const char *term = getenv("TERM");
    return (!no_color || no_color[0] == '\0') && term && strcmp(term, "dumb") != 0 &&
           isatty(fileno(stream));
}

const char *say_bold(FILE *stream)
{
    return has_colour(stream) ? "\033[1m" : "";
}

const char *say_plain(FILE *stream)
{
    return has_colour(stream) ? "\033[0m" : "";
}

const char *say_count(uint64_t count)
{
    char digits[TEXT_LEN];
    char *text = ring_text();
    int len = snprintf(digits, sizeof digits, "%llu", (unsigned long long)count);
    char *at = text;
    for (int i = 0; i < len; i++) {
        if (i > 0 && (len - i) % 3 == 0)
            *at++ = ',';
        *at++ = digits[i];
    }
    *at = '\0';
    return text;
}

const char *say_bytes(double bytes)
{
    static const char *const units[] = {"B", "kB", "MB", "GB", "TB", "PB"};
    size_t unit = 0;
    while (bytes >= 999.5 && unit + 1 < sizeof units / sizeof units[0]) {
        bytes /= 1000;
        unit++;
    }
    char *text = ring_text();
    snprintf(text, TEXT_LEN, unit == 0 || bytes >= 99.95 ? "%.0f %s" : "%.1f %s", bytes,
             units[unit]);
    return text;
}
