#include "launch_message.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <terse/group.h>

#include "common/launcher.h"

static const char here_text[] = "terse launch: here, rank ";
static const char end_text[] = "terse launch: end, rank ";

/* Skips `text` at *at, or the next place where it stands; 0: it is not there. */
static int skip(const char **at, const char *text, int anywhere)
{
    const char *const found = anywhere ? strstr(*at, text) : *at;
    if (!found || strncmp(found, text, strlen(text)) != 0)
        return 0;
    *at = found + strlen(text);
    return 1;
}

/* A decimal number of at most 9 digits. */
static int take_number(const char **at, uint32_t *out)
{
    uint32_t value = 0;
    size_t digits = 0;
    for (; digits < 10 && (*at)[digits] >= '0' && (*at)[digits] <= '9'; digits++)
        value = digits < 9 ? value * 10 + (uint32_t)((*at)[digits] - '0') : value;
    if (digits == 0 || digits > 9)
        return 0;
    *at += digits;
    *out = value;
    return 1;
}

static int is_our_line(const char *at, struct launch_message *out)
{
    const char *const line = at;
    if (skip(&at, here_text, 0) && take_number(&at, &out->rank) && *at == '\0') {
        out->kind = LAUNCH_HERE;
        return 1;
    }
    at = line;
    if (skip(&at, end_text, 0) && take_number(&at, &out->rank) && skip(&at, ", code ", 0) &&
        take_number(&at, &out->value) && *at == '\0') {
        out->kind = LAUNCH_END;
        return 1;
    }
    return 0;
}

/* Open MPI: "mpirun noticed that process rank 1 with PID 77 on node a exited on signal 9 (Killed)."
 * MPICH: "=   RANK 1 PID 77 RUNNING AT a". Slurm: "srun: error: a: task 1: Killed". */
static int is_death(const char *at, struct launch_message *out)
{
    const char *const line = at;
    if (skip(&at, "process rank ", 1) && take_number(&at, &out->rank) &&
        skip(&at, " exited on signal ", 1))
        return take_number(&at, &out->value);
    at = line;
    if (skip(&at, "=   RANK ", 0) && take_number(&at, &out->rank))
        return skip(&at, " PID ", 0);
    at = line;
    if (skip(&at, "srun: error: ", 0) && skip(&at, ": task ", 1) && take_number(&at, &out->rank) &&
        skip(&at, ": Killed", 0)) {
        out->value = 9;
        return 1;
    }
    return 0;
}

struct launch_message launch_message_read(const char *line, size_t len)
{
    struct launch_message message = {.kind = LAUNCH_OTHER};
    const struct launch_message other = message;
    const char *at;
    char text[256];
    if (len >= sizeof text || memchr(line, '\0', len))
        return other;
    memcpy(text, line, len);
    text[len] = '\0';
    at = text;
    if (is_our_line(text, &message))
        return message.rank < TERSE_MAX_WORKERS ? message : other;
    message = other;
    if (is_death(text, &message))
        message.kind = LAUNCH_DEAD;
    else if (skip(&at, "terse: rank ", 0) && take_number(&at, &message.rank))
        message.kind = LAUNCH_FAILED;
    return message.kind != LAUNCH_OTHER && message.rank < TERSE_MAX_WORKERS ? message : other;
}

int launch_message_is_ours(const struct launch_message *message)
{
    return message->kind == LAUNCH_HERE || message->kind == LAUNCH_END;
}

/* One write each, so that launchers forward a line whole. */
void launch_tell_here(void)
{
    if (getenv(LAUNCH_VARIABLE))
        (void)fprintf(stderr, "%s%u\n", here_text, (unsigned)com_launched_rank());
}

void launch_tell_end(int code)
{
    if (getenv(LAUNCH_VARIABLE))
        (void)fprintf(stderr, "%s%u, code %d\n", end_text, (unsigned)com_launched_rank(), code);
}
