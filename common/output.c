#include "common/output.h"

#include <errno.h>
#include <fcntl.h>
#include <stdatomic.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <time.h>
#include <unistd.h>

enum { CLOSED = -1, SUFFIX_LEN = 6, MOST_ATTEMPTS = 100 };

/* ---- the temporary file ---- */

/* Length of the part up to and with the last slash. */
static size_t folder_len(const char *path)
{
    const char *slash = strrchr(path, '/');
    return slash ? (size_t)(slash - path) + 1 : 0;
}

/* "DIR/.NAME.XXXXXX": rename works inside one file system only. */
static char *temp_template(const char *path)
{
    const size_t cap = strlen(path) + sizeof "..XXXXXX";
    const size_t folder = folder_len(path);
    char *text = malloc(cap);
    if (text)
        (void)snprintf(text, cap, "%.*s.%s.XXXXXX", (int)folder, path, path + folder);
    return text;
}

/* A number that differs in every call and process: splitmix64 of process, call and time. */
static uint64_t new_bits(void)
{
    static atomic_uint calls;
    struct timespec now;
    (void)clock_gettime(CLOCK_REALTIME, &now);
    uint64_t bits = (uint64_t)getpid() << 40 ^ (uint64_t)atomic_fetch_add(&calls, 1) << 30 ^
                    (uint64_t)now.tv_nsec;
    bits = (bits ^ bits >> 30) * 0xbf58476d1ce4e5b9u;
    bits = (bits ^ bits >> 27) * 0x94d049bb133111ebu;
    return bits ^ bits >> 31;
}

/* Fills the last six characters of `temp` with a new name and creates the file with the mode of
 * creat. mkstemp has another mode, and the umask of a process cannot be read safely while it has
 * threads. */
static int open_new(char *temp)
{
    static const char letters[] = "abcdefghijklmnopqrstuvwxyz0123456789";
    char *suffix = temp + strlen(temp) - SUFFIX_LEN;
    for (int attempt = 0; attempt < MOST_ATTEMPTS; attempt++) {
        uint64_t bits = new_bits();
        for (int i = 0; i < SUFFIX_LEN; i++, bits /= sizeof letters - 1)
            suffix[i] = letters[bits % (sizeof letters - 1)];
        const int fd = open(temp, O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC, 0666);
        if (fd >= 0 || errno != EEXIST)
            return fd;
    }
    return CLOSED;
}

static terse_status open_temp(struct com_output *output, terse_fault *fault)
{
    struct stat about;
    char *const resolved = realpath(output->path, NULL);
    output->target = resolved ? resolved : strdup(output->path);
    output->temp = output->target ? temp_template(output->target) : NULL;
    if (!output->temp)
        return com_fail(fault, TERSE_NO_MEMORY, "out of memory writing '%s'", output->path);
    output->fd = open_new(output->temp);
    if (output->fd < 0) {
        const int number = errno;
        free(output->temp);
        output->temp = NULL; /* there is no file to remove */
        return com_fail_errno(fault, "write", output->path, number);
    }
    if (stat(output->target, &about) == 0 && fchmod(output->fd, about.st_mode & 0777) != 0)
        return com_fail_errno(fault, "set the permissions of", output->path, errno);
    return TERSE_OK;
}

/* ---- the output ---- */

static terse_status open_any(struct com_output *output, const char *path, terse_fault *fault)
{
    struct stat about;
    if (!output->path)
        return com_fail(fault, TERSE_NO_MEMORY, "out of memory writing '%s'", path);
    if (stat(path, &about) != 0 || S_ISREG(about.st_mode))
        return open_temp(output, fault);
    output->fd = open(path, O_WRONLY | O_CLOEXEC);
    return output->fd >= 0 ? TERSE_OK : com_fail_errno(fault, "open", path, errno);
}

terse_status com_output_open(struct com_output *output, const char *path, terse_fault *fault)
{
    *output = (struct com_output){.path = strdup(path), .fd = CLOSED};
    const terse_status status = open_any(output, path, fault);
    if (status != TERSE_OK)
        com_output_discard(output);
    return status;
}

terse_status com_output_open_stdout(struct com_output *output, terse_fault *fault)
{
    static const char name[] = "standard output";
    *output = (struct com_output){.path = strdup(name), .fd = dup(STDOUT_FILENO)};
    if (output->path && output->fd >= 0)
        return TERSE_OK;
    const int number = output->path ? errno : ENOMEM;
    com_output_discard(output);
    return com_fail_errno(fault, "write", name, number);
}

terse_status com_output_write(struct com_output *output, const void *bytes, size_t len,
                              terse_fault *fault)
{
    const uint8_t *at = bytes;
    while (len > 0) {
        const ssize_t wrote = write(output->fd, at, len);
        if (wrote < 0 && errno == EINTR)
            continue;
        if (wrote <= 0)
            return com_fail_errno(fault, "write", output->path, wrote < 0 ? errno : ENOSPC);
        at += wrote;
        len -= (size_t)wrote;
    }
    return TERSE_OK;
}

terse_status com_output_finish(struct com_output *output, terse_fault *fault)
{
    int number = !output->temp || fsync(output->fd) == 0 ? 0 : errno;
    if (close(output->fd) != 0 && number == 0)
        number = errno;
    output->fd = CLOSED;
    return number == 0 ? TERSE_OK : com_fail_errno(fault, "write", output->path, number);
}

/* The new name is on the disk only once its folder is synced. */
static int sync_folder(const char *path)
{
    const size_t len = folder_len(path);
    char *folder = len > 0 ? strndup(path, len) : strdup(".");
    const int fd = folder ? open(folder, O_RDONLY | O_DIRECTORY | O_CLOEXEC) : CLOSED;
    int number = 0;
    if (fd < 0)
        number = folder ? errno : ENOMEM;
    else if (fsync(fd) != 0 && errno != EINVAL && errno != EROFS) /* EINVAL: it cannot be synced */
        number = errno;
    if (fd >= 0)
        (void)close(fd);
    free(folder);
    return number;
}

terse_status com_output_commit(struct com_output *output, terse_fault *fault)
{
    if (!output->path)
        return com_fail(fault, TERSE_BAD_ARGUMENT, "the output is not open");
    const terse_status status = output->fd >= 0 ? com_output_finish(output, fault) : TERSE_OK;
    if (status != TERSE_OK || !output->temp)
        return status;
    if (rename(output->temp, output->target) != 0)
        return com_fail_errno(fault, "write", output->path, errno);
    free(output->temp);
    output->temp = NULL;
    const int number = sync_folder(output->target);
    return number == 0 ? TERSE_OK : com_fail_errno(fault, "write", output->path, number);
}

void com_output_discard(struct com_output *output)
{
    if (output->fd >= 0)
        (void)close(output->fd);
    if (output->temp)
        (void)unlink(output->temp);
    free(output->temp);
    free(output->target);
    free(output->path);
    *output = (struct com_output){.fd = CLOSED};
}
