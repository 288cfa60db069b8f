#include <errno.h>
#include <fcntl.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "file.h"
#include "say.h"

enum { FIRST_CAP = 1 << 16 };

/* One byte more than a regular file holds, so that its end is seen without growing. */
static size_t first_cap(int fd)
{
    struct stat about;
    if (fstat(fd, &about) == 0 && S_ISREG(about.st_mode) && about.st_size > 0 &&
        (uint64_t)about.st_size < SIZE_MAX / 2)
        return (size_t)about.st_size + 1;
    return FIRST_CAP;
}

static int read_all(int fd, const char *path, unsigned char **bytes, size_t *len)
{
    size_t cap = first_cap(fd);
    size_t filled = 0;
    unsigned char *buffer = malloc(cap);
    while (buffer) {
        ssize_t got = read(fd, buffer + filled, cap - filled);
        if (got < 0 && errno == EINTR)
            continue;
        if (got < 0) {
            free(buffer);
            return say_errno("read", path);
        }
        if (got == 0) {
            *bytes = buffer;
            *len = filled;
            return CLI_OK;
        }
        filled += (size_t)got;
        if (filled == cap) {
            unsigned char *larger = cap > SIZE_MAX / 2 ? NULL : realloc(buffer, cap * 2);
            if (!larger)
                break;
            buffer = larger;
            cap *= 2;
        }
    }
    free(buffer);
    return say_error(CLI_MACHINE, "out of memory reading '%s'", path);
}

int file_read(const char *path, unsigned char **bytes, size_t *len)
{
    if (strcmp(path, "-") == 0)
        return read_all(STDIN_FILENO, "standard input", bytes, len);
    int fd = open(path, O_RDONLY | O_CLOEXEC);
    if (fd < 0)
        return say_errno("open", path);
    int code = read_all(fd, path, bytes, len);
    close(fd);
    return code;
}
