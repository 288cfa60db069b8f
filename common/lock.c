#include "common/lock.h"

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <unistd.h>

#include "common/file.h"

enum { NO_FILE = -1, MOST_ATTEMPTS = 100, MOST_OWNER = 300 };

struct com_lock {
    char *path;
    int fd; /* NO_FILE: the file system has no locks */
};

/* Is the open file still the one of this name? Its last owner may have removed it meanwhile. */
static int is_current(int fd, const char *path)
{
    struct stat mine;
    struct stat there;
    return fstat(fd, &mine) == 0 && stat(path, &there) == 0 && mine.st_dev == there.st_dev &&
           mine.st_ino == there.st_ino;
}

static void write_owner(int fd)
{
    char host[200] = "";
    char text[MOST_OWNER];
    (void)gethostname(host, sizeof host - 1);
    const int len =
        snprintf(text, sizeof text, "process %ld on %s", (long)getpid(), host[0] ? host : "?");
    (void)!ftruncate(fd, 0); /* what it says is only for messages */
    (void)!pwrite(fd, text, (size_t)len, 0);
}

static terse_status refuse(const char *folder, int fd, terse_fault *fault)
{
    char owner[MOST_OWNER] = "";
    const ssize_t len = pread(fd, owner, sizeof owner - 1, 0);
    for (ssize_t i = 0; i < len; i++)
        if ((unsigned char)owner[i] < 0x20)
            owner[i] = '?';
    return com_fail(fault, COM_NO_FILE,
                    "'%.200s' is in use: %s writes to it; wait for its end, or choose another "
                    "folder",
                    folder, len > 0 ? owner : "another process");
}

/* Opens and locks the file. TERSE_OK with fd NO_FILE: there are no locks here. */
static terse_status take(const char *folder, struct com_lock *lock, terse_fault *fault)
{
    for (int attempt = 0; attempt < MOST_ATTEMPTS; attempt++) {
        const int fd = open(lock->path, O_RDWR | O_CREAT | O_CLOEXEC, 0666);
        if (fd < 0)
            return com_fail_errno(fault, "write", lock->path, errno);
        const int number = flock(fd, LOCK_EX | LOCK_NB) == 0 ? 0 : errno;
        if (number == 0 && is_current(fd, lock->path)) {
            write_owner(fd);
            lock->fd = fd;
            return TERSE_OK;
        }
        const terse_status status = number == EWOULDBLOCK ? refuse(folder, fd, fault) : TERSE_OK;
        (void)close(fd);
        if (status != TERSE_OK)
            return status;
        if (number != 0 && number != EINTR) {
            (void)unlink(lock->path);
            return TERSE_OK;
        }
    }
    return com_fail(fault, COM_NO_FILE, "'%.200s' is in use: its lock changes hands", folder);
}

terse_status com_lock_take(const char *folder, struct com_lock **out, terse_fault *fault)
{
    struct com_lock *const lock = malloc(sizeof *lock);
    if (lock)
        *lock = (struct com_lock){.path = com_path_join(folder, ".lock"), .fd = NO_FILE};
    if (!lock || !lock->path) {
        free(lock);
        return com_fail(fault, TERSE_NO_MEMORY, "no memory to lock '%s'", folder);
    }
    const terse_status status = take(folder, lock, fault);
    if (status == TERSE_OK) {
        *out = lock;
        return TERSE_OK;
    }
    free(lock->path);
    free(lock);
    return status;
}

/* The name goes before the lock: whoever locks the file after that finds that it is not current. */
void com_lock_release(struct com_lock *lock)
{
    if (!lock)
        return;
    if (lock->fd != NO_FILE) {
        (void)unlink(lock->path);
        (void)close(lock->fd);
    }
    free(lock->path);
    free(lock);
}
