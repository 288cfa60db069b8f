/* What people are told: errors and notes on standard error, and what the exit code means. */
#ifndef CLI_SAY_H
#define CLI_SAY_H

#include <stdint.h>
#include <stdio.h>

#include <terse/status.h>

#include "common/json.h"

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

/* What common/ could not do: "terse: TEXT"; returns CLI_OK for TERSE_OK, CLI_MACHINE for memory and
 * disks, else CLI_REFUSED. */
int say_failure(terse_status status, const terse_fault *fault);

/* Prints to standard output with a closing newline, and frees the value. Returns an exit code. */
int say_json(com_json *value);

/* What the library refused: "terse: SUBJECT: offset N: TEXT" or the status' own text. */
int say_status(const char *subject, terse_status status, const terse_fault *fault);

/* "" or the sequence for bold, as `stream` is a terminal or not and NO_COLOR says. */
const char *say_bold(FILE *stream);
const char *say_plain(FILE *stream); /* ends bold */

#endif
