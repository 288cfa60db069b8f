#include "message.h"

#include <stdarg.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "common/launcher.h"

int msg_error(int code, const char *format, ...)
{
    va_list values;
    va_start(values, format);
    fputs("terse: ", stderr);
    vfprintf(stderr, format, values);
    fputc('\n', stderr);
    va_end(values);
    return code;
}

int msg_usage(const char *command, const char *format, ...)
{
    va_list values;
    va_start(values, format);
    fprintf(stderr, "terse %s: ", command);
    vfprintf(stderr, format, values);
    fprintf(stderr, "\nTry 'terse %s --help'.\n", command);
    va_end(values);
    return CLI_USAGE;
}

void msg_note(const char *format, ...)
{
    va_list values;
    va_start(values, format);
    vfprintf(stderr, format, values);
    fputc('\n', stderr);
    va_end(values);
}

int msg_json(com_json *value)
{
    char *text = NULL;
    terse_fault fault = {0};
    const terse_status status = com_json_print(value, 1, &text, &fault);
    com_json_free(value);
    if (status == TERSE_OK)
        puts(text);
    free(text);
    return msg_failure(status, &fault);
}

static int code_of(terse_status status)
{
    switch (status) {
    case TERSE_BAD_SPEC: return CLI_USAGE;
    case TERSE_NO_MEMORY: return CLI_MACHINE;
    default: return CLI_REFUSED;
    }
}

int msg_status(const char *subject, terse_status status, const terse_fault *fault)
{
    if (!fault || fault->text[0] == '\0')
        return msg_error(code_of(status), "%s: %s", subject, terse_status_text(status));
    return msg_error(code_of(status), "%s: offset %llu: %s", subject,
                     (unsigned long long)fault->offset, fault->text);
}

int msg_failure(terse_status status, const terse_fault *fault)
{
    const int code = status == COM_BAD_DISK ? CLI_MACHINE : code_of(status);
    return status == TERSE_OK ? CLI_OK : msg_error(code, "%s", fault->text);
}

/* mpirun gives its processes a terminal of their own and copies what they print, also to files. */
static int has_colour(FILE *stream)
{
    const char *no_color = getenv("NO_COLOR");
    const char *term = getenv("TERM");
    return (!no_color || no_color[0] == '\0') && term && strcmp(term, "dumb") != 0 &&
           com_launched() == 0 && isatty(fileno(stream));
}

const char *msg_bold(FILE *stream)
{
    return has_colour(stream) ? "\033[1m" : "";
}

const char *msg_plain(FILE *stream)
{
    return has_colour(stream) ? "\033[0m" : "";
}
