/* Messages to the user: errors and notes on standard error; and the exit codes. */
#ifndef CLI_MESSAGE_H
#define CLI_MESSAGE_H

#include <stdint.h>
#include <stdio.h>

#include <terse/status.h>

#include "common/json.h"

/* Exit codes; `terse help` and the manual page list them. */
enum {
    CLI_OK = 0,
    CLI_REFUSED = 1, /* the input was refused, or the operation failed on it */
    CLI_USAGE = 2,   /* wrong command line */
    CLI_MACHINE = 3, /* memory, I/O or communication failed */
    CLI_CLAIM = 4,   /* a claim (terse reproduce) or a promise (terse check) does not hold */
    /* A training that a signal ended after its checkpoint. */
    CLI_REQUEUE = 75, /* SIGTERM, SIGUSR1, SIGHUP: start the job again; EX_TEMPFAIL of sysexits */
    CLI_INTERRUPTED = 130, /* SIGINT */
};

#define MSG_FORMAT(format_at, values_at) __attribute__((format(printf, format_at, values_at)))

/* "terse: MESSAGE"; returns `code`. */
MSG_FORMAT(2, 3) int msg_error(int code, const char *format, ...);

/* "terse NAME: MESSAGE" and a hint at --help; returns CLI_USAGE. */
MSG_FORMAT(2, 3) int msg_usage(const char *command, const char *format, ...);

/* A line on standard error that is not an error. */
MSG_FORMAT(1, 2) void msg_note(const char *format, ...);

/* A failure of common/: "terse: TEXT"; returns CLI_OK for TERSE_OK, CLI_MACHINE for memory and
 * disks, else CLI_REFUSED. */
int msg_failure(terse_status status, const terse_fault *fault);

/* Prints to standard output with a closing newline, and frees the value. Returns an exit code. */
int msg_json(com_json *value);

/* A failure of the library: "terse: SUBJECT: offset N: TEXT", or the text of the status. */
int msg_status(const char *subject, terse_status status, const terse_fault *fault);

/* The escape sequence for bold; "" if `stream` is not a terminal or NO_COLOR is set. */
const char *msg_bold(FILE *stream);
const char *msg_plain(FILE *stream); /* ends bold */

#endif
