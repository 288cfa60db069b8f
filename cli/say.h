/* What people are told: errors and notes on standard error, and what the exit code means. */
#ifndef CLI_SAY_H
#define CLI_SAY_H

#include <stdint.h>
#include <stdio.h>

#include <terse/status.h>

/* Exit codes; `terse help` and the manual page list them. */
enum {
    CLI_OK = 0,
    CLI_REFUSED = 1, /* the input was refused, or the operation failed on it */
    CLI_USAGE = 2,   /* wrong command line */
    CLI_MACHINE = 3, /* memory or I/O failed */
    CLI_CLAIM = 4,   /* terse reproduce: a claim does not hold */
};

#define SAY_FORMAT(format_at, values_at) __attribute__((format(printf, format_at, values_at)))

/* "terse: MESSAGE"; returns `code`. */
SAY_FORMAT(2, 3) int say_error(int code, const char *format, ...);

/* "terse NAME: MESSAGE" and where to read on; returns CLI_USAGE. */
SAY_FORMAT(2, 3) int say_usage(const char *command, const char *format, ...);

/* A line on standard error that is no error. */
SAY_FORMAT(1, 2) void say_note(const char *format, ...);

/* "terse: cannot WHAT 'PATH': STRERROR"; returns CLI_MACHINE, or CLI_REFUSED where the path was
 * the mistake. */
int say_errno(const char *what, const char *path);

/* What the library refused: "terse: SUBJECT: offset N: TEXT" or the status' own text. */
int say_status(const char *subject, terse_status status, const terse_fault *fault);

/* "" or the sequence for bold, as `stream` is a terminal or not and NO_COLOR says. */
const char *say_bold(FILE *stream);
const char *say_plain(FILE *stream); /* ends bold */

/* "1,234,567" and "1.2 MB" into a ring of buffers: good for one printf. */
const char *say_count(uint64_t count);
const char *say_bytes(double bytes);

#endif
