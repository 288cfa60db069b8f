/* For LD_PRELOAD: faults that nobody outside a process can time.
 *
 *   KILL_AT=EVENT:N[:after]  the process kills itself at the N-th EVENT of a checkpoint file: write
 *                            (half of the bytes are written), fsync, rename or unlink
 *   CLOCK_JUMP=SEED          the calendar's clock (CLOCK_REALTIME) jumps by up to 30 years, both
 *                            ways, at every 16th reading
 *   LIE_AT=RANK:N:BIT        the N-th MPI message that the rank sends has one bit flipped
 *   EXIT_AT=RANK:N           the rank calls exit(0) instead of sending its N-th MPI message
 *   VANISH_AT=RANK:N         the rank calls _exit(0) there, so that it has no last word
 */
#define _GNU_SOURCE
#include <dlfcn.h>
#include <pthread.h>
#include <signal.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/syscall.h>
#include <sys/time.h>
#include <time.h>
#include <unistd.h>

#define EXPORTED __attribute__((visibility("default")))

/* The C library's headers declare these with attributes of their own. */
int fsync(int fd);
EXPORTED int MPI_Isend(const void *bytes, int count, uintptr_t type, int to, int tag,
                       uintptr_t comm, void *request);

static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;

static int rank_here(void)
{
    const char *const ours = getenv("OMPI_COMM_WORLD_RANK");
    const char *const theirs = getenv("PMI_RANK");
    return (int)strtol(ours ? ours : theirs ? theirs : "0", NULL, 10);
}

/* ---- kill -9 at a call ---- */

static int is_checkpoint(const char *path)
{
    const char *const name = path ? strrchr(path, '/') : NULL;
    return name && strstr(name, "checkpoint-") != NULL;
}

static int is_checkpoint_fd(int fd)
{
    char link[64];
    char path[4096] = "";
    (void)snprintf(link, sizeof link, "/proc/self/fd/%d", fd);
    return readlink(link, path, sizeof path - 1) > 0 && is_checkpoint(path);
}

enum when { NOT_NOW, BEFORE, AFTER };

/* Counts an event. Only rank 0 writes checkpoints. */
static enum when due(const char *event)
{
    static unsigned long seen;
    const char *const plan = getenv("KILL_AT");
    const size_t len = strlen(event);
    if (!plan || strncmp(plan, event, len) != 0 || plan[len] != ':')
        return NOT_NOW;
    (void)pthread_mutex_lock(&lock);
    const unsigned long number = ++seen;
    (void)pthread_mutex_unlock(&lock);
    char *rest;
    if (number != strtoul(plan + len + 1, &rest, 10))
        return NOT_NOW;
    return strcmp(rest, ":after") == 0 ? AFTER : BEFORE;
}

static void die(void)
{
    (void)kill(getpid(), SIGKILL);
    for (;;)
        (void)pause();
}

EXPORTED ssize_t write(int fd, const void *bytes, size_t len)
{
    const enum when when = getenv("KILL_AT") && is_checkpoint_fd(fd) ? due("write") : NOT_NOW;
    const ssize_t done = syscall(SYS_write, fd, bytes, when == BEFORE ? len / 2 : len);
    if (when)
        die();
    return done;
}

EXPORTED int fsync(int fd)
{
    const enum when when = is_checkpoint_fd(fd) ? due("fsync") : NOT_NOW;
    if (when == BEFORE)
        die();
    const int done = (int)syscall(SYS_fsync, fd);
    if (when == AFTER)
        die();
    return done;
}

EXPORTED int rename(const char *from, const char *to)
{
    const enum when when = is_checkpoint(to) ? due("rename") : NOT_NOW;
    if (when == BEFORE)
        die();
    const int done = (int)syscall(SYS_renameat2, -100 /* AT_FDCWD */, from, -100, to, 0);
    if (when == AFTER)
        die();
    return done;
}

EXPORTED int unlink(const char *path)
{
    const enum when when = is_checkpoint(path) ? due("unlink") : NOT_NOW;
    if (when == BEFORE)
        die();
    const int done = (int)syscall(SYS_unlinkat, -100 /* AT_FDCWD */, path, 0);
    if (when == AFTER)
        die();
    return done;
}

/* ---- a clock that jumps ---- */

static int64_t shift_now(void)
{
    static uint64_t state;
    static unsigned long readings;
    static int64_t shift;
    const char *const seed = getenv("CLOCK_JUMP");
    if (!seed)
        return 0;
    (void)pthread_mutex_lock(&lock);
    if (!state)
        state = strtoull(seed, NULL, 10) * 2 + 1;
    if (readings++ % 16 == 0) {
        state = state * UINT64_C(6364136223846793005) + UINT64_C(1442695040888963407);
        shift = (int64_t)((state >> 33) % UINT64_C(1892160000)) - 946080000; /* 30 years */
    }
    const int64_t now = shift;
    (void)pthread_mutex_unlock(&lock);
    return now;
}

EXPORTED int clock_gettime(clockid_t clock, struct timespec *out)
{
    const int failed = (int)syscall(SYS_clock_gettime, clock, out);
    if (!failed && clock == CLOCK_REALTIME)
        out->tv_sec += (time_t)shift_now();
    return failed;
}

EXPORTED time_t time(time_t *out)
{
    struct timespec now = {0};
    (void)clock_gettime(CLOCK_REALTIME, &now);
    if (out)
        *out = now.tv_sec;
    return now.tv_sec;
}

EXPORTED int gettimeofday(struct timeval *restrict out, void *restrict zone)
{
    struct timespec now = {0};
    (void)zone;
    (void)clock_gettime(CLOCK_REALTIME, &now);
    out->tv_sec = now.tv_sec;
    out->tv_usec = now.tv_nsec / 1000;
    return 0;
}

/* ---- a message that lies ---- */

/* 1 in the rank that the plan names, at its N-th call. */
static int is_turn(const char *plan, unsigned long call)
{
    char *rest = NULL;
    const long rank = plan ? strtol(plan, &rest, 10) : -1;
    return rest && rank == rank_here() && *rest == ':' && strtoul(rest + 1, NULL, 10) == call;
}

/* A handle of MPI is an int or a pointer: either goes through a register as it is. */
EXPORTED int MPI_Isend(const void *bytes, int count, uintptr_t type, int to, int tag,
                       uintptr_t comm, void *request)
{
    typedef int isend(const void *, int, uintptr_t, int, int, uintptr_t, void *);
    static unsigned long sent;
    const char *const plan = getenv("LIE_AT");
    void *const symbol = dlsym(RTLD_DEFAULT, "PMPI_Isend");
    isend *real;
    memcpy(&real, &symbol, sizeof real);
    sent += count > 0;
    if (is_turn(getenv("EXIT_AT"), sent))
        exit(0);
    if (is_turn(getenv("VANISH_AT"), sent))
        _exit(0);
    if (count > 0 && is_turn(plan, sent)) {
        const unsigned long bit = strtoul(strrchr(plan, ':') + 1, NULL, 10);
        unsigned char *const copy = malloc((size_t)count); /* in use until the end */
        if (copy) {
            memcpy(copy, bytes, (size_t)count);
            copy[bit / 8 % (unsigned long)count] ^= (unsigned char)(1u << bit % 8);
            (void)fprintf(stderr, "preload: rank %d lies to rank %d\n", rank_here(), to);
            bytes = copy;
        }
    }
    return real(bytes, count, type, to, tag, comm, request);
}
