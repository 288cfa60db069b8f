/* What `terse launch` reads on the standard error of a job: lines of the ranks for it, and lines of
 * launchers about ranks that died. Whatever else is there belongs to the user. */
#ifndef CLI_LAUNCH_MESSAGE_H
#define CLI_LAUNCH_MESSAGE_H

#include <stddef.h>
#include <stdint.h>

/* Set for the ranks by `terse launch`: they send the lines. */
#define LAUNCH_VARIABLE "TERSE_LAUNCH"

enum launch_kind {
    LAUNCH_OTHER,
    LAUNCH_HERE,   /* the slot has started: sent before MPI is */
    LAUNCH_END,    /* the rank ends by itself, `value` is its exit code */
    LAUNCH_DEAD,   /* the launcher tells of a rank that was killed; `value` is the signal, or 0 */
    LAUNCH_FAILED, /* a rank's own error text, for the user too */
};

struct launch_message {
    enum launch_kind kind;
    uint32_t rank;
    uint32_t value;
};

/* Reads one line of `len` bytes, without its line end. Never fails: what is not understood, or
 * names a rank of TERSE_MAX_WORKERS or more, is LAUNCH_OTHER. */
struct launch_message launch_message_read(const char *line, size_t len);

/* Is the line for `terse launch` alone? */
int launch_message_is_ours(const struct launch_message *message);

/* A rank's lines; nothing without LAUNCH_VARIABLE. */
void launch_tell_here(void);
void launch_tell_end(int code);

#endif
