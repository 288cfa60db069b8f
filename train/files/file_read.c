#include <errno.h>
#include <fcntl.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "files/file.h"

int trn_file_exists(const char *path)
{
    struct stat about;
    return stat(path, &about) == 0 && S_ISREG(about.st_mode);
}

/* Fills `bytes` to `len`; a file that shrank meanwhile is an error. */
static int read_all(int fd, uint8_t *bytes, size_t len)
{
    while (len > 0) {
        const ssize_t got = read(fd, bytes, len);
        if (got < 0 && errno == EINTR)
            continue;
        if (got < 0)
            return errno;
        if (got == 0)
            return EIO;
        bytes += got;
        len -= (size_t)got;
    }
    return 0;
}

static terse_status read_open(int fd, const char *path, uint8_t **bytes, size_t *len,
                              terse_fault *fault)
{
    struct stat about;
    if (fstat(fd, &about) != 0)
        return trn_fail_errno(fault, "read", path, errno);
    if (!S_ISREG(about.st_mode))
        return trn_fail_errno(fault, "read", path, S_ISDIR(about.st_mode) ? EISDIR : ESPIPE);
    const size_t size = (size_t)about.st_size;
    uint8_t *room = malloc(size + 1);
    if (!room)
        return trn_fail(fault, TERSE_NO_MEMORY, "no memory for the %zu bytes of '%s'", size, path);
    const int number = read_all(fd, room, size);
    if (number != 0) {
        free(room);
        return trn_fail_errno(fault, "read", path, number);
    }
    *bytes = room;
    *len = size;
    return TERSE_OK;
}

terse_status trn_file_read(const char *path, uint8_t **bytes, size_t *len, terse_fault *fault)
{
    const int fd = open(path, O_RDONLY | O_CLOEXEC | O_NONBLOCK); /* a pipe must not hold us up */
    if (fd < 0)
        return trn_fail_errno(fault, "open", path, errno);
    const terse_status status = read_open(fd, path, bytes, len, fault);
    (void)close(fd);
    return status;
}

terse_status trn_bytes_copy(const struct trn_bytes *in, uint8_t **out, terse_fault *fault)
{
    uint8_t *const bytes = malloc(in->len + 1);
    if (!bytes)
        return trn_fail(fault, TERSE_NO_MEMORY, "no memory to read '%s'", in->name);
    if (in->len > 0)
        memcpy(bytes, in->at, in->len);
    *out = bytes;
    return TERSE_OK;
}
