#include "common/file.h"

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "common/output.h"

enum { FIRST_CAP = 1 << 16 };

int com_file_exists(const char *path)
{
    struct stat about;
    return stat(path, &about) == 0 && S_ISREG(about.st_mode);
}

/* One byte more than the size of a regular file, so that its end is found without growing. */
static size_t first_cap(int fd)
{
    struct stat about;
    if (fstat(fd, &about) == 0 && S_ISREG(about.st_mode) && about.st_size > 0 &&
        (uint64_t)about.st_size < SIZE_MAX / 2)
        return (size_t)about.st_size + 1;
    return FIRST_CAP;
}

static terse_status read_to_end(int fd, const char *path, uint8_t **bytes, size_t *len,
                                terse_fault *fault)
{
    size_t cap = first_cap(fd);
    size_t filled = 0;
    uint8_t *buffer = malloc(cap);
    while (buffer) {
        const ssize_t got = read(fd, buffer + filled, cap - filled);
        if (got < 0 && errno == EINTR)
            continue;
        if (got < 0) {
            const int number = errno;
            free(buffer);
            return com_fail_errno(fault, "read", path, number);
        }
        if (got == 0) {
            *bytes = buffer;
            *len = filled;
            return TERSE_OK;
        }
        filled += (size_t)got;
        if (filled < cap)
            continue;
        uint8_t *const larger = cap > SIZE_MAX / 2 ? NULL : realloc(buffer, cap * 2);
        if (!larger)
            break;
        buffer = larger;
        cap *= 2;
    }
    free(buffer);
    return com_fail(fault, TERSE_NO_MEMORY, "out of memory reading '%s'", path);
}

static terse_status read_regular(int fd, const char *path, uint8_t **bytes, size_t *len,
                                 terse_fault *fault)
{
    struct stat about;
    if (fstat(fd, &about) != 0)
        return com_fail_errno(fault, "read", path, errno);
    if (!S_ISREG(about.st_mode))
        return com_fail_errno(fault, "read", path, S_ISDIR(about.st_mode) ? EISDIR : ESPIPE);
    return read_to_end(fd, path, bytes, len, fault);
}

terse_status com_file_read(const char *path, uint8_t **bytes, size_t *len, terse_fault *fault)
{
    const int fd =
        open(path, O_RDONLY | O_CLOEXEC | O_NONBLOCK); /* opening a pipe must not block */
    if (fd < 0)
        return com_fail_errno(fault, "open", path, errno);
    const terse_status status = read_regular(fd, path, bytes, len, fault);
    (void)close(fd);
    return status;
}

terse_status com_file_read_any(const char *path, uint8_t **bytes, size_t *len, terse_fault *fault)
{
    if (strcmp(path, "-") == 0)
        return read_to_end(STDIN_FILENO, "standard input", bytes, len, fault);
    const int fd = open(path, O_RDONLY | O_CLOEXEC);
    if (fd < 0)
        return com_fail_errno(fault, "open", path, errno);
    const terse_status status = read_to_end(fd, path, bytes, len, fault);
    (void)close(fd);
    return status;
}

terse_status com_file_write(const char *path, const void *bytes, size_t len, terse_fault *fault)
{
    struct com_output output;
    terse_status status = com_output_open(&output, path, fault);
    if (status == TERSE_OK)
        status = com_output_write(&output, bytes, len, fault);
    if (status == TERSE_OK)
        status = com_output_commit(&output, fault);
    com_output_discard(&output);
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

terse_status com_folder_make(const char *path, terse_fault *fault)
{
    char *copy = strdup(path);
    int number = 0;
    if (!copy || path[0] == '\0') {
        free(copy);
        return com_fail_errno(fault, "make the folder", path, path[0] ? ENOMEM : ENOENT);
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
    return number == 0 ? TERSE_OK : com_fail_errno(fault, "make the folder", path, number);
}

char *com_path_join(const char *folder, const char *name)
{
    const size_t folder_len = strlen(folder);
    const size_t cap = folder_len + strlen(name) + 2;
    const char *slash = folder_len > 0 && folder[folder_len - 1] == '/' ? "" : "/";
    char *path = malloc(cap);
    if (path)
        (void)snprintf(path, cap, "%s%s%s", folder, slash, name);
    return path;
}
