#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "file.h"
#include "say.h"

enum { CLOSED = -1, MOST_TEMPS = 4 };

/* Temporary files to remove when a signal ends the command. */
static char *volatile temps[MOST_TEMPS];

static void remove_temps(int signal_number)
{
    for (int i = 0; i < MOST_TEMPS; i++)
        if (temps[i])
            unlink(temps[i]);
    signal(signal_number, SIG_DFL);
    raise(signal_number);
}

static void remember_temp(char *path)
{
    static const int ending[] = {SIGINT, SIGTERM, SIGHUP};
    for (size_t i = 0; i < sizeof ending / sizeof ending[0]; i++)
        signal(ending[i], remove_temps);
    for (int i = 0; i < MOST_TEMPS; i++) {
        if (!temps[i]) {
            temps[i] = path;
            return;
        }
    }
}

static void forget_temp(const char *path)
{
    for (int i = 0; i < MOST_TEMPS; i++)
        if (temps[i] == path)
            temps[i] = NULL;
}

static int open_stdout(struct output *output)
{
    if (isatty(STDOUT_FILENO)) {
        return say_error(CLI_REFUSED,
                         "standard output is a terminal; bytes go to a file or a pipe");
    }
    output->path = "standard output";
    output->fd = dup(STDOUT_FILENO);
    return output->fd < 0 ? say_errno("write", output->path) : CLI_OK;
}

/* "DIR/.NAME.XXXXXX" beside the target: rename works inside one file system only. */
static char *temp_template(const char *target)
{
    static const char ending[] = ".XXXXXX";
    size_t cap = strlen(target) + sizeof ending + 1;
    char *text = malloc(cap);
    if (text) {
        const char *slash = strrchr(target, '/');
        int folder_len = !slash ? 0 : (int)(slash - target) + 1;
        snprintf(text, cap, "%.*s.%s%s", folder_len, target, target + folder_len, ending);
    }
    return text;
}

/* What the file would have been given by creat, or what the one it replaces has. */
static mode_t final_mode(const char *target)
{
    struct stat about;
    if (stat(target, &about) == 0)
        return about.st_mode & 0777;
    mode_t mask = umask(0);
    umask(mask);
    return 0666 & ~mask;
}

static int open_temp(struct output *output)
{
    char *resolved = realpath(output->path, NULL);
    output->target = resolved ? resolved : strdup(output->path);
    output->temp = !output->target ? NULL : temp_template(output->target);
    if (!output->temp)
        return say_error(CLI_MACHINE, "out of memory");
    output->fd = mkstemp(output->temp);
    if (output->fd < 0) {
        int code = say_errno("create", output->path);
        free(output->temp);
        output->temp = NULL; /* nothing there to remove */
        return code;
    }
    remember_temp(output->temp);
    if (fchmod(output->fd, final_mode(output->target)) != 0)
        return say_errno("set the permissions of", output->path);
    return CLI_OK;
}

int output_open(struct output *output, const char *path)
{
    *output = (struct output){.path = path, .fd = CLOSED};
    if (strcmp(path, "-") == 0)
        return open_stdout(output);
    struct stat about;
    if (stat(path, &about) == 0 && !S_ISREG(about.st_mode)) {
        output->fd = open(path, O_WRONLY | O_CLOEXEC);
        return output->fd < 0 ? say_errno("open", path) : CLI_OK;
    }
    return open_temp(output);
}

int output_write(struct output *output, const void *bytes, size_t len)
{
    const unsigned char *at = bytes;
    while (len > 0) {
        ssize_t wrote = write(output->fd, at, len);
        if (wrote < 0 && errno == EINTR)
            continue;
        if (wrote < 0)
            return say_errno("write", output->path);
        at += wrote;
        len -= (size_t)wrote;
    }
    return CLI_OK;
}

int output_finish(struct output *output)
{
    int synced = !output->temp || fsync(output->fd) == 0;
    int closed = close(output->fd) == 0;
    output->fd = CLOSED;
    return synced && closed ? CLI_OK : say_errno("write", output->path);
}

int output_commit(struct output *output)
{
    if (!output->temp)
        return CLI_OK;
    if (rename(output->temp, output->target) != 0)
        return say_errno("write", output->path);
    forget_temp(output->temp);
    free(output->temp);
    output->temp = NULL;
    return CLI_OK;
}

void output_discard(struct output *output)
{
    if (output->fd >= 0) {
        close(output->fd);
        output->fd = CLOSED;
    }
    if (output->temp) {
        unlink(output->temp);
        forget_temp(output->temp);
    }
    free(output->temp);
    free(output->target);
    output->temp = NULL;
    output->target = NULL;
}
