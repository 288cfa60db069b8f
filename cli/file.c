#include "file.h"

#include <signal.h>
#include <string.h>
#include <unistd.h>

#include "common/file.h"
#include "message.h"

enum { MOST_TEMPS = 4, NO_SLOT = -1 };

/* Temporary files to remove when a signal ends the command: copies, which the handler may read at
 * any time. */
static struct {
    volatile sig_atomic_t used;
    char path[4096];
} temps[MOST_TEMPS];

static void remove_temps(int signal_number)
{
    for (int i = 0; i < MOST_TEMPS; i++)
        if (temps[i].used)
            unlink(temps[i].path);
    signal(signal_number, SIG_DFL);
    raise(signal_number);
}

static void remember_temp(const char *path)
{
    static const int ending[] = {SIGINT, SIGTERM, SIGHUP};
    for (size_t i = 0; i < sizeof ending / sizeof ending[0]; i++)
        signal(ending[i], remove_temps);
    for (int i = 0; i < MOST_TEMPS; i++) {
        if (temps[i].used || strlen(path) >= sizeof temps[i].path)
            continue;
        memcpy(temps[i].path, path, strlen(path) + 1);
        temps[i].used = 1;
        return;
    }
}

static int slot_of(const char *path)
{
    for (int i = 0; path && i < MOST_TEMPS; i++)
        if (temps[i].used && strcmp(temps[i].path, path) == 0)
            return i;
    return NO_SLOT;
}

int file_read(const char *path, unsigned char **bytes, size_t *len)
{
    terse_fault fault = {0};
    return msg_failure(com_file_read_any(path, bytes, len, &fault), &fault);
}

int output_open(struct com_output *output, const char *path)
{
    terse_fault fault = {0};
    *output = (struct com_output){.fd = -1};
    if (strcmp(path, "-") != 0) {
        const terse_status status = com_output_open(output, path, &fault);
        if (output->temp)
            remember_temp(output->temp);
        return msg_failure(status, &fault);
    }
    if (isatty(STDOUT_FILENO))
        return msg_error(CLI_REFUSED,
                         "standard output is a terminal; bytes go to a file or a pipe");
    return msg_failure(com_output_open_stdout(output, &fault), &fault);
}

int output_write(struct com_output *output, const void *bytes, size_t len)
{
    terse_fault fault = {0};
    return msg_failure(com_output_write(output, bytes, len, &fault), &fault);
}

int output_finish(struct com_output *output)
{
    terse_fault fault = {0};
    return msg_failure(com_output_finish(output, &fault), &fault);
}

int output_commit(struct com_output *output)
{
    terse_fault fault = {0};
    const int slot = slot_of(output->temp);
    const terse_status status = com_output_commit(output, &fault);
    if (slot != NO_SLOT && !output->temp)
        temps[slot].used = 0;
    return msg_failure(status, &fault);
}

void output_discard(struct com_output *output)
{
    const int slot = slot_of(output->temp);
    com_output_discard(output);
    if (slot != NO_SLOT)
        temps[slot].used = 0;
}
