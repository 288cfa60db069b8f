#include "files/writer.h"

#include <errno.h>
#include <pthread.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <time.h>

/* A checkpoint that this writer has written, and its file as it was then. */
struct seen {
    uint64_t step;
    struct stat file; /* st_nlink is 0 without one */
};

struct trn_writer {
    char *folder;
    uint32_t keep;
    pthread_t thread;
    pthread_mutex_t lock;
    pthread_cond_t changed; /* the members below */
    int busy;               /* a checkpoint was begun and is not written yet */
    int ending;
    struct trn_written result;
    /* The checkpoint: the caller's while the writer is not busy, else the thread's. */
    uint64_t step;
    com_json *settings;
    const struct trn_blob *blobs;
    uint32_t count;
    struct seen last; /* the thread's */
};

static double seconds_now(void)
{
    struct timespec now;
    (void)clock_gettime(CLOCK_MONOTONIC, &now);
    return (double)now.tv_sec + 1e-9 * (double)now.tv_nsec;
}

/* ---- the thread ---- */

static struct seen look(const struct trn_writer *writer, uint64_t step)
{
    char name[64];
    struct seen seen = {.step = step};
    (void)snprintf(name, sizeof name, "checkpoint-%llu.terse", (unsigned long long)step);
    char *const path = com_path_join(writer->folder, name);
    if (!path || stat(path, &seen.file) != 0)
        seen.file.st_nlink = 0;
    free(path);
    return seen;
}

static int is_same_time(struct timespec a, struct timespec b)
{
    return a.tv_sec == b.tv_sec && a.tv_nsec == b.tv_nsec;
}

/* 1: the last file is still what was written. To read it again would cost as much as writing. */
static int is_unchanged(const struct trn_writer *writer)
{
    const struct stat *const then = &writer->last.file;
    const struct seen now = look(writer, writer->last.step);
    return then->st_nlink > 0 && now.file.st_nlink > 0 && then->st_dev == now.file.st_dev &&
           then->st_ino == now.file.st_ino && then->st_size == now.file.st_size &&
           is_same_time(then->st_mtim, now.file.st_mtim) &&
           is_same_time(then->st_ctim, now.file.st_ctim);
}

static terse_status prune(struct trn_writer *writer, terse_fault *fault)
{
    const uint64_t sound[] = {writer->step, writer->last.step};
    const uint32_t count = is_unchanged(writer) ? 2 : 1;
    writer->last = look(writer, writer->step);
    return trn_checkpoint_prune(writer->folder, sound, count, writer->keep, fault);
}

/* Without the lock: the checkpoint is the thread's. */
static void write_one(struct trn_writer *writer)
{
    terse_fault fault = {.rank = -1};
    const double start = seconds_now();
    terse_status status = trn_checkpoint_write(writer->folder, writer->step, writer->settings,
                                               writer->blobs, writer->count, &fault);
    const int is_written = status == TERSE_OK;
    if (is_written)
        status = prune(writer, &fault);
    (void)pthread_mutex_lock(&writer->lock);
    writer->result.seconds += seconds_now() - start;
    if (is_written) {
        writer->result.count++;
        writer->result.step = writer->step;
    }
    if (status != TERSE_OK && writer->result.status == TERSE_OK) {
        writer->result.status = status;
        writer->result.fault = fault;
    }
    (void)pthread_mutex_unlock(&writer->lock);
    com_json_free(writer->settings);
    writer->settings = NULL;
}

/* Where the workers use all cores, a step is then longer by a sixth while a checkpoint is written,
 * and not by all that writing takes. Linux gives threads priorities of their own. */
enum { NICE = 7 };

static void *run(void *opaque)
{
    struct trn_writer *const writer = opaque;
    (void)setpriority(PRIO_PROCESS, 0, getpriority(PRIO_PROCESS, 0) + NICE);
    (void)pthread_mutex_lock(&writer->lock);
    while (writer->busy || !writer->ending) {
        if (!writer->busy) {
            (void)pthread_cond_wait(&writer->changed, &writer->lock);
            continue;
        }
        (void)pthread_mutex_unlock(&writer->lock);
        write_one(writer);
        (void)pthread_mutex_lock(&writer->lock);
        writer->busy = 0;
        (void)pthread_cond_broadcast(&writer->changed);
    }
    (void)pthread_mutex_unlock(&writer->lock);
    return NULL;
}

/* Signals belong to the training: this thread handles none. */
static int start(struct trn_writer *writer)
{
    sigset_t all;
    sigset_t before;
    (void)sigfillset(&all);
    (void)pthread_sigmask(SIG_SETMASK, &all, &before);
    const int number = pthread_create(&writer->thread, NULL, run, writer);
    (void)pthread_sigmask(SIG_SETMASK, &before, NULL);
    return number == 0;
}

/* ---- the caller ---- */

static void drop(struct trn_writer *writer)
{
    (void)pthread_cond_destroy(&writer->changed);
    (void)pthread_mutex_destroy(&writer->lock);
    free(writer->folder);
    free(writer);
}

terse_status trn_writer_create(const char *folder, uint32_t keep, struct trn_writer **out,
                               terse_fault *fault)
{
    struct trn_writer *const writer = calloc(1, sizeof *writer);
    pthread_condattr_t attributes;
    if (!writer)
        return com_fail(fault, TERSE_NO_MEMORY, "out of memory");
    (void)pthread_mutex_init(&writer->lock, NULL);
    (void)pthread_condattr_init(&attributes);
    (void)pthread_condattr_setclock(&attributes, CLOCK_MONOTONIC);
    (void)pthread_cond_init(&writer->changed, &attributes);
    (void)pthread_condattr_destroy(&attributes);
    writer->folder = strdup(folder);
    writer->keep = keep;
    if (!writer->folder || !start(writer)) {
        drop(writer);
        return com_fail(fault, TERSE_NO_MEMORY, "cannot start the thread that writes checkpoints");
    }
    *out = writer;
    return TERSE_OK;
}

void trn_writer_destroy(struct trn_writer *writer)
{
    if (!writer)
        return;
    (void)pthread_mutex_lock(&writer->lock);
    writer->ending = 1;
    (void)pthread_cond_broadcast(&writer->changed);
    (void)pthread_mutex_unlock(&writer->lock);
    (void)pthread_join(writer->thread, NULL);
    drop(writer);
}

terse_status trn_writer_begin(struct trn_writer *writer, uint64_t step, com_json *settings,
                              const struct trn_blob *blobs, uint32_t count, terse_fault *fault)
{
    terse_status status = TERSE_OK;
    if (!trn_writer_wait(writer, 0))
        status = com_fail(fault, TERSE_BAD_ARGUMENT, "a checkpoint is being written");
    if (status != TERSE_OK) {
        com_json_free(settings);
        return status;
    }
    writer->blobs = blobs;
    writer->count = count;
    writer->step = step;
    writer->settings = settings;
    (void)pthread_mutex_lock(&writer->lock);
    writer->busy = 1;
    (void)pthread_cond_broadcast(&writer->changed);
    (void)pthread_mutex_unlock(&writer->lock);
    return TERSE_OK;
}

int trn_writer_wait(struct trn_writer *writer, double seconds)
{
    struct timespec end;
    (void)clock_gettime(CLOCK_MONOTONIC, &end);
    const double whole = (double)end.tv_nsec * 1e-9 + seconds;
    end.tv_sec += (time_t)whole;
    end.tv_nsec = (long)((whole - (double)(time_t)whole) * 1e9);
    (void)pthread_mutex_lock(&writer->lock);
    while (writer->busy &&
           pthread_cond_timedwait(&writer->changed, &writer->lock, &end) != ETIMEDOUT) {
    }
    const int idle = !writer->busy;
    (void)pthread_mutex_unlock(&writer->lock);
    return idle;
}

void trn_writer_result(struct trn_writer *writer, struct trn_written *out)
{
    (void)pthread_mutex_lock(&writer->lock);
    *out = writer->result;
    (void)pthread_mutex_unlock(&writer->lock);
}
