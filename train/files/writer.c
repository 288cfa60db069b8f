#include "files/writer.h"

#include <errno.h>
#include <pthread.h>
#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

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
    struct trn_blob *blobs;
    uint32_t count;
    uint32_t blob_cap;
    uint8_t *bytes; /* names and contents of the blobs */
    size_t bytes_cap;
};

static double seconds_now(void)
{
    struct timespec now;
    (void)clock_gettime(CLOCK_MONOTONIC, &now);
    return (double)now.tv_sec + 1e-9 * (double)now.tv_nsec;
}

/* ---- the thread ---- */

/* Without the lock: the checkpoint is the thread's. */
static void write_one(struct trn_writer *writer)
{
    terse_fault fault = {.rank = -1};
    const double start = seconds_now();
    terse_status status = trn_checkpoint_write(writer->folder, writer->step, writer->settings,
                                               writer->blobs, writer->count, &fault);
    const int is_written = status == TERSE_OK;
    if (is_written)
        status = trn_checkpoint_prune(writer->folder, writer->step, writer->keep, &fault);
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

static void *run(void *opaque)
{
    struct trn_writer *const writer = opaque;
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
    free(writer->bytes);
    free(writer->blobs);
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

/* Room for the copies; what is there is large enough from the second checkpoint on. */
static int reserve(struct trn_writer *writer, const struct trn_blob *blobs, uint32_t count)
{
    size_t len = 0;
    for (uint32_t i = 0; i < count; i++)
        len += strlen(blobs[i].name) + 1 + (size_t)blobs[i].len;
    if (count > writer->blob_cap) {
        struct trn_blob *const more = realloc(writer->blobs, count * sizeof *more);
        if (!more)
            return 0;
        writer->blobs = more;
        writer->blob_cap = count;
    }
    if (len > writer->bytes_cap) {
        free(writer->bytes);
        writer->bytes = malloc(len);
        writer->bytes_cap = writer->bytes ? len : 0;
    }
    return len <= writer->bytes_cap;
}

static void copy(struct trn_writer *writer, const struct trn_blob *blobs, uint32_t count)
{
    uint8_t *at = writer->bytes;
    for (uint32_t i = 0; i < count; i++) {
        const size_t name_len = strlen(blobs[i].name) + 1;
        writer->blobs[i] = blobs[i];
        writer->blobs[i].bytes = at;
        if (blobs[i].len > 0)
            memcpy(at, blobs[i].bytes, (size_t)blobs[i].len);
        at += blobs[i].len;
        memcpy(at, blobs[i].name, name_len);
        writer->blobs[i].name = (const char *)at;
        at += name_len;
    }
    writer->count = count;
}

terse_status trn_writer_begin(struct trn_writer *writer, uint64_t step, com_json *settings,
                              const struct trn_blob *blobs, uint32_t count, terse_fault *fault)
{
    terse_status status = TERSE_OK;
    if (!trn_writer_wait(writer, 0))
        status = com_fail(fault, TERSE_BAD_ARGUMENT, "a checkpoint is being written");
    else if (!reserve(writer, blobs, count))
        status = com_fail(fault, TERSE_NO_MEMORY, "no memory for a copy of the checkpoint");
    if (status != TERSE_OK) {
        com_json_free(settings);
        return status;
    }
    copy(writer, blobs, count);
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
