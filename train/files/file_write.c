#include <errno.h>
#include <fcntl.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <time.h>
#include <unistd.h>

#include "files/file.h"
#include "files/hash.h"

enum { CLOSED = -1, SUFFIX_LEN = 6, MOST_ATTEMPTS = 100 };

char *trn_path_join(const char *folder, const char *name)
{
    const size_t folder_len = strlen(folder);
    const size_t cap = folder_len + strlen(name) + 2;
    const char *slash = folder_len > 0 && folder[folder_len - 1] == '/' ? "" : "/";
    char *path = malloc(cap);
    if (path)
        (void)snprintf(path, cap, "%s%s%s", folder, slash, name);
    return path;
}

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

/* Fills the six last letters of `temp` with something new and creates the file: with the mode creat
 * would give it, which mkstemp does not, and the mask of a process cannot be asked for safely while
 * it has threads. */
static int open_new(char *temp)
{
    static const char letters[] = "abcdefghijklmnopqrstuvwxyz0123456789";
    static atomic_uint calls;
    char *suffix = temp + strlen(temp) - SUFFIX_LEN;
    for (int attempt = 0; attempt < MOST_ATTEMPTS; attempt++) {
        struct timespec now;
        (void)clock_gettime(CLOCK_REALTIME, &now);
        const uint64_t what[3] = {(uint64_t)getpid(), atomic_fetch_add(&calls, 1),
                                  (uint64_t)now.tv_nsec};
        uint64_t bits = trn_hash64(what, sizeof what, 0);
        for (int i = 0; i < SUFFIX_LEN; i++, bits /= sizeof letters - 1)
            suffix[i] = letters[bits % (sizeof letters - 1)];
        const int fd = open(temp, O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC, 0666);
        if (fd >= 0 || errno != EEXIST)
            return fd;
    }
    return CLOSED;
}

terse_status trn_output_open(struct trn_output *output, const char *path, terse_fault *fault)
{
    *output = (struct trn_output){.path = strdup(path), .temp = temp_template(path), .fd = CLOSED};
    if (!output->path || !output->temp) {
        free(output->temp);
        output->temp = NULL; /* nothing there to remove */
        trn_output_discard(output);
        return trn_fail(fault, TERSE_NO_MEMORY, "no memory to write '%s'", path);
    }
    output->fd = open_new(output->temp);
    if (output->fd < 0) {
        const int number = errno;
        free(output->temp);
        output->temp = NULL;
        trn_output_discard(output);
        return trn_fail_errno(fault, "write", path, number);
    }
    return TERSE_OK;
}

terse_status trn_output_write(struct trn_output *output, const void *bytes, size_t len,
                              terse_fault *fault)
{
    const uint8_t *at = bytes;
    while (len > 0) {
        const ssize_t wrote = write(output->fd, at, len);
        if (wrote < 0 && errno == EINTR)
            continue;
        if (wrote <= 0)
            return trn_fail_errno(fault, "write", output->path, wrote < 0 ? errno : ENOSPC);
        at += wrote;
        len -= (size_t)wrote;
    }
    return TERSE_OK;
}

/* The new name is on the disk only when its folder is. */
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

terse_status trn_output_commit(struct trn_output *output, terse_fault *fault)
{
    if (!output->path || !output->temp)
        return trn_fail(fault, TERSE_BAD_ARGUMENT, "nothing is being written");
    int number = fsync(output->fd) == 0 ? 0 : errno;
    if (close(output->fd) != 0 && number == 0)
        number = errno;
    output->fd = CLOSED;
    if (number == 0 && rename(output->temp, output->path) != 0)
        number = errno;
    if (number != 0)
        return trn_fail_errno(fault, "write", output->path, number);
    free(output->temp);
    output->temp = NULL;
    number = sync_folder(output->path);
    return number == 0 ? TERSE_OK : trn_fail_errno(fault, "write", output->path, number);
}

void trn_output_discard(struct trn_output *output)
{
    if (output->fd >= 0)
        (void)close(output->fd);
    if (output->temp)
        (void)unlink(output->temp);
    free(output->temp);
    free(output->path);
    *output = (struct trn_output){.fd = CLOSED};
}

terse_status trn_file_write(const char *path, const void *bytes, size_t len, terse_fault *fault)
{
    struct trn_output output;
    terse_status status = trn_output_open(&output, path, fault);
    if (status != TERSE_OK)
        return status;
    status = trn_output_write(&output, bytes, len, fault);
    if (status == TERSE_OK)
        status = trn_output_commit(&output, fault);
    trn_output_discard(&output);
    return status;
}

static int make_one(const char *path)
{
    struct stat about;
    if (mkdir(path, 0777) == 0)
        return 0;
    const int number = errno;
    if (number != EEXIST)
        return number;
    return stat(path, &about) == 0 && S_ISDIR(about.st_mode) ? 0 : ENOTDIR;
}

terse_status trn_folder_make(const char *path, terse_fault *fault)
{
    char *copy = strdup(path);
    int number = 0;
    if (!copy || path[0] == '\0') {
        free(copy);
        return trn_fail_errno(fault, "make the folder", path, path[0] ? ENOMEM : ENOENT);
    }
    for (char *at = copy + 1; number == 0 && *at; at++) {
        if (*at != '/')
            continue;
        *at = '\0';
        number = make_one(copy);
        *at = '/';
    }
    if (number == 0)
        number = make_one(copy);
    free(copy);
    return number == 0 ? TERSE_OK : trn_fail_errno(fault, "make the folder", path, number);
}
