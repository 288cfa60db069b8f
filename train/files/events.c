/* Records: u64 length, masked CRC32C of it, bytes, masked CRC32C of them. The bytes are an Event of
 * TensorFlow's protobuf: wall_time = 1 (double), step = 2 (varint), file_version = 3 (text),
 * summary = 5 (message of values = 1: tag = 1, simple_value = 2), session_log = 7 (status = 1). */
#include "files/events.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

#include "common/file.h"
#include "files/bytes.h"

#define START "events.out.tfevents." /* of every file's name */

enum { VARINT = 0, FIXED64 = 1, BYTES = 2, FIXED32 = 5 };
enum { SESSION_START = 1 };
enum { HEAD_LEN = 12, TAIL_LEN = 4, MOST_FIXED = 64 };

struct trn_events {
    char *path;
    int fd;
    off_t len; /* bytes of whole records */
};

/* CRC32C (Castagnoli), bit by bit: records are short and rare. */
static uint32_t masked_crc(const uint8_t *bytes, size_t len)
{
    uint32_t crc = ~0u;
    for (size_t i = 0; i < len; i++) {
        crc ^= bytes[i];
        for (int bit = 0; bit < 8; bit++)
            crc = (crc >> 1) ^ (0x82F63B78u & (0u - (crc & 1u)));
    }
    crc = ~crc;
    return ((crc >> 15) | (crc << 17)) + 0xA282EAD8u;
}

static uint8_t *put_varint(uint8_t *at, uint64_t value)
{
    for (; value >= 0x80; value >>= 7)
        *at++ = (uint8_t)(value | 0x80);
    *at++ = (uint8_t)value;
    return at;
}

static size_t varint_len(uint64_t value)
{
    uint8_t scratch[10];
    return (size_t)(put_varint(scratch, value) - scratch);
}

static uint8_t *put_key(uint8_t *at, uint32_t field, uint32_t wire)
{
    return put_varint(at, field << 3 | wire);
}

static uint8_t *put_bytes(uint8_t *at, uint32_t field, const void *bytes, size_t len)
{
    at = put_varint(put_key(at, field, BYTES), len);
    memcpy(at, bytes, len);
    return at + len;
}

static uint8_t *put_head(uint8_t *at, uint64_t step)
{
    struct timespec now;
    uint64_t bits;
    (void)clock_gettime(CLOCK_REALTIME, &now);
    const double seconds = (double)now.tv_sec + 1e-9 * (double)now.tv_nsec;
    memcpy(&bits, &seconds, sizeof bits);
    at = put_key(at, 1, FIXED64);
    trn_put_u64(at, bits);
    return put_varint(put_key(at + 8, 2, VARINT), step);
}

/* Bytes of one Summary.Value without its own key and length. */
static size_t value_len(const struct trn_scalar *scalar)
{
    const size_t tag_len = strlen(scalar->tag);
    return 1 + varint_len(tag_len) + tag_len + 1 + 4;
}

static uint8_t *put_value(uint8_t *at, const struct trn_scalar *scalar)
{
    uint32_t bits;
    at = put_varint(put_key(at, 1, BYTES), value_len(scalar));
    at = put_bytes(at, 1, scalar->tag, strlen(scalar->tag));
    at = put_key(at, 2, FIXED32);
    memcpy(&bits, &scalar->value, sizeof bits);
    trn_put_u32(at, bits);
    return at + 4;
}

static int write_all(int fd, const uint8_t *bytes, size_t len)
{
    while (len > 0) {
        const ssize_t wrote = write(fd, bytes, len);
        if (wrote < 0 && errno == EINTR)
            continue;
        if (wrote <= 0)
            return wrote < 0 ? errno : ENOSPC;
        bytes += wrote;
        len -= (size_t)wrote;
    }
    return 0;
}

/* `record` has room for the head, `len` bytes of an Event behind it, and the tail. */
static terse_status write_record(struct trn_events *events, uint8_t *record, size_t len,
                                 terse_fault *fault)
{
    const size_t whole = HEAD_LEN + len + TAIL_LEN;
    trn_put_u64(record, len);
    trn_put_u32(record + 8, masked_crc(record, 8));
    trn_put_u32(record + HEAD_LEN + len, masked_crc(record + HEAD_LEN, len));
    const int number = write_all(events->fd, record, whole);
    if (number != 0) {
        if (ftruncate(events->fd, events->len) == 0)
            (void)lseek(events->fd, events->len, SEEK_SET);
        return com_fail_errno(fault, "write", events->path, number);
    }
    events->len += (off_t)whole;
    return TERSE_OK;
}

static terse_status write_opening(struct trn_events *events, uint64_t first_step,
                                  terse_fault *fault)
{
    static const char version[] = "brain.Event:2";
    uint8_t record[HEAD_LEN + MOST_FIXED + TAIL_LEN];
    uint8_t session[2];
    uint8_t *start = record + HEAD_LEN;
    uint8_t *end = put_bytes(put_head(start, 0), 3, version, sizeof version - 1);
    const terse_status status = write_record(events, record, (size_t)(end - start), fault);
    if (status != TERSE_OK || first_step == 0)
        return status;
    (void)put_varint(put_key(session, 1, VARINT), SESSION_START);
    end = put_bytes(put_head(start, first_step), 7, session, sizeof session);
    return write_record(events, record, (size_t)(end - start), fault);
}

/* A name nobody has taken; O_EXCL decides. */
static terse_status create(struct trn_events *events, const char *folder, terse_fault *fault)
{
    for (unsigned number = 0;; number++) {
        char name[96];
        (void)snprintf(name, sizeof name, START "%010lld.terse.%ld.%u", (long long)time(NULL),
                       (long)getpid(), number);
        free(events->path);
        events->path = com_path_join(folder, name);
        if (!events->path)
            return com_fail(fault, TERSE_NO_MEMORY, "no memory to write '%s'", name);
        events->fd = open(events->path, O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC, 0666);
        if (events->fd >= 0)
            return TERSE_OK;
        if (errno != EEXIST)
            return com_fail_errno(fault, "write", events->path, errno);
    }
}

terse_status trn_events_open(const char *folder, uint64_t first_step, struct trn_events **out,
                             terse_fault *fault)
{
    struct trn_events *events = malloc(sizeof *events);
    if (!events)
        return com_fail(fault, TERSE_NO_MEMORY, "no memory to write events");
    *events = (struct trn_events){.fd = -1};
    terse_status status = create(events, folder, fault);
    if (status == TERSE_OK) {
        status = write_opening(events, first_step, fault);
        if (status != TERSE_OK)
            (void)unlink(events->path);
    }
    if (status != TERSE_OK) {
        trn_events_close(events);
        return status;
    }
    *out = events;
    return TERSE_OK;
}

terse_status trn_events_scalars(struct trn_events *events, uint64_t step,
                                const struct trn_scalar *scalars, uint32_t count,
                                terse_fault *fault)
{
    size_t summary_len = 0;
    for (uint32_t i = 0; i < count; i++)
        summary_len += 1 + varint_len(value_len(&scalars[i])) + value_len(&scalars[i]);
    uint8_t *record = malloc(HEAD_LEN + MOST_FIXED + summary_len + TAIL_LEN);
    if (!record)
        return com_fail(fault, TERSE_NO_MEMORY, "no memory to write events");
    uint8_t *start = record + HEAD_LEN;
    uint8_t *end = put_varint(put_key(put_head(start, step), 5, BYTES), summary_len);
    for (uint32_t i = 0; i < count; i++)
        end = put_value(end, &scalars[i]);
    const terse_status status = write_record(events, record, (size_t)(end - start), fault);
    free(record);
    return status;
}

terse_status trn_events_remove(const char *folder, terse_fault *fault)
{
    DIR *const entries = opendir(folder);
    terse_status status = TERSE_OK;
    struct dirent *entry;
    if (!entries)
        return com_fail_errno(fault, "open the folder", folder, errno);
    while ((entry = readdir(entries)))
        if (strncmp(entry->d_name, START, sizeof START - 1) == 0 &&
            unlinkat(dirfd(entries), entry->d_name, 0) != 0)
            status = com_fail_errno(fault, "remove", entry->d_name, errno);
    (void)closedir(entries);
    return status;
}

void trn_events_close(struct trn_events *events)
{
    if (!events)
        return;
    if (events->fd >= 0)
        (void)close(events->fd);
    free(events->path);
    free(events);
}

const char *trn_events_path(const struct trn_events *events)
{
    return events->path;
}
