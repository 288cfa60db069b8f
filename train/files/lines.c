#include "files/lines.h"

#include <errno.h>
#include <fcntl.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "common/file.h"

struct trn_lines {
    char *path;
    int fd;
    off_t len; /* bytes of good lines */
};

terse_status trn_lines_parse(const char *name, const void *bytes, size_t len,
                             int (*each)(void *context, const com_json *line), void *context,
                             size_t *good_len, terse_fault *fault)
{
    const char *text = bytes;
    size_t at = 0;
    int go_on = 1;
    while (go_on && at < len) {
        const char *end = memchr(text + at, '\n', len - at);
        com_json *line;
        if (!end)
            break;
        const terse_status status =
            com_json_parse(name, text + at, (size_t)(end - (text + at)), &line, fault);
        if (status == TERSE_NO_MEMORY)
            return status;
        if (status != TERSE_OK)
            break;
        go_on = com_json_is_object(line) && each(context, line);
        com_json_free(line);
        if (go_on)
            at = (size_t)(end - text) + 1;
    }
    *good_len = at;
    return TERSE_OK;
}

terse_status trn_lines_read(const char *path, int (*each)(void *context, const com_json *line),
                            void *context, size_t *good_len, terse_fault *fault)
{
    uint8_t *bytes;
    size_t len;
    terse_status status = com_file_read(path, &bytes, &len, fault);
    if (status != TERSE_OK)
        return status;
    status = trn_lines_parse(path, bytes, len, each, context, good_len, fault);
    free(bytes);
    return status;
}

static int is_kept(void *context, const com_json *line)
{
    const uint64_t *last_step = context;
    const char *kind = "";
    uint64_t step;
    if (last_step && com_json_get_text(line, "kind", &kind) && strcmp(kind, "end") == 0)
        return 0; /* it was not the end */
    return !last_step || !com_json_get_u64(line, "step", &step) || step <= *last_step;
}

static terse_status open_at_end(struct trn_lines *lines, const uint64_t *last_step,
                                terse_fault *fault)
{
    uint64_t last = last_step ? *last_step : 0;
    size_t good_len = 0;
    lines->fd = open(lines->path, O_WRONLY | O_CREAT | O_CLOEXEC, 0666);
    if (lines->fd < 0)
        return com_fail_errno(fault, "write", lines->path, errno);
    const terse_status status =
        trn_lines_read(lines->path, is_kept, last_step ? &last : NULL, &good_len, fault);
    if (status != TERSE_OK)
        return status;
    lines->len = (off_t)good_len;
    if (ftruncate(lines->fd, lines->len) != 0 || lseek(lines->fd, lines->len, SEEK_SET) < 0)
        return com_fail_errno(fault, "write", lines->path, errno);
    return TERSE_OK;
}

terse_status trn_lines_open(const char *path, const uint64_t *last_step, struct trn_lines **out,
                            terse_fault *fault)
{
    struct trn_lines *lines = calloc(1, sizeof *lines);
    char *copy = strdup(path);
    if (!lines || !copy) {
        free(copy);
        free(lines);
        return com_fail(fault, TERSE_NO_MEMORY, "no memory to write '%s'", path);
    }
    *lines = (struct trn_lines){.path = copy, .fd = -1};
    const terse_status status = open_at_end(lines, last_step, fault);
    if (status != TERSE_OK) {
        trn_lines_close(lines);
        return status;
    }
    *out = lines;
    return TERSE_OK;
}

/* 0, or the errno of a line that was cut off again. */
static int write_line(struct trn_lines *lines, const char *text, size_t len)
{
    size_t done = 0;
    while (done < len) {
        const ssize_t wrote = write(lines->fd, text + done, len - done);
        if (wrote < 0 && errno == EINTR)
            continue;
        if (wrote <= 0) {
            const int number = wrote < 0 ? errno : ENOSPC;
            if (ftruncate(lines->fd, lines->len) == 0)
                (void)lseek(lines->fd, lines->len, SEEK_SET);
            return number;
        }
        done += (size_t)wrote;
    }
    lines->len += (off_t)len;
    return 0;
}

terse_status trn_lines_append(struct trn_lines *lines, com_json *line, terse_fault *fault)
{
    char *text;
    const terse_status status = com_json_print(line, 0, &text, fault);
    com_json_free(line);
    if (status != TERSE_OK)
        return status;
    const size_t len = strlen(text);
    text[len] = '\n'; /* in the place of the closing zero */
    const int number = write_line(lines, text, len + 1);
    free(text);
    return number == 0 ? TERSE_OK : com_fail_errno(fault, "write", lines->path, number);
}

void trn_lines_close(struct trn_lines *lines)
{
    if (!lines)
        return;
    if (lines->fd >= 0)
        (void)close(lines->fd);
    free(lines->path);
    free(lines);
}
