#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/stat.h>

#include "files/bytes.h"
#include "files/checkpoint_format.h"
#include "files/hash.h"

#define CHECK_LEN ((size_t)1 << 20) /* bytes of a piece of a file that is only checked */

struct trn_checkpoint {
    uint8_t *bytes; /* the file; blobs point into it */
    char *names;    /* every blob's name with a closing zero */
    com_json *settings;
    struct trn_blob *blobs;
    uint32_t count;
    uint64_t step;
};

/* The bytes that have not been read yet, without the checksum. */
struct rest {
    const char *name;
    const uint8_t *start;
    size_t at;
    size_t end;
    terse_fault *fault;
};

static terse_status refuse(const struct rest *rest, const char *why)
{
    return com_refuse(rest->fault, COM_BAD_FILE, rest->name, rest->at, "%s", why);
}

/* Takes `len` bytes and the zeros after them. */
static terse_status take(struct rest *rest, uint64_t len, const uint8_t **out, const char *what)
{
    const uint64_t left = rest->end - rest->at;
    const size_t padding = trn_checkpoint_padding(len);
    if (len > left || padding > left - len)
        return refuse(rest, what);
    *out = rest->start + rest->at;
    rest->at += (size_t)len;
    for (size_t i = 0; i < padding; i++)
        if (rest->start[rest->at + i] != 0)
            return refuse(rest, "padding is not zero");
    rest->at += padding;
    return TERSE_OK;
}

/* `names` is large enough for all names of a file of this size. */
static terse_status take_blob(struct rest *rest, struct trn_blob *blob, char **names)
{
    const uint8_t *head;
    const uint8_t *name;
    const uint8_t *bytes;
    const size_t head_at = rest->at;
    terse_status status = take(rest, TRN_BLOB_HEAD_LEN, &head, "the file ends before a blob");
    if (status != TERSE_OK)
        return status;
    const uint32_t name_len = trn_get_u32(head + 16);
    if (trn_get_u32(head + 20) != 0 || name_len > TRN_MAX_BLOB_NAME) {
        rest->at = head_at;
        return refuse(rest, "not a blob's head");
    }
    status = take(rest, name_len, &name, "a blob's name is cut off");
    if (status != TERSE_OK)
        return status;
    if (!trn_blob_name_is_good((const char *)name, name_len)) {
        rest->at = head_at;
        return refuse(rest, "a blob's name is empty or has control characters");
    }
    const uint64_t len = trn_get_u64(head + 8);
    status = take(rest, len, &bytes, "a blob is cut off");
    if (status != TERSE_OK)
        return status;
    memcpy(*names, name, name_len);
    (*names)[name_len] = '\0';
    *blob = (struct trn_blob){.name = *names,
                              .kind = trn_get_u32(head),
                              .worker = trn_get_u32(head + 4),
                              .bytes = bytes,
                              .len = len};
    *names += name_len + 1;
    return TERSE_OK;
}

static terse_status take_blobs(struct trn_checkpoint *checkpoint, struct rest *rest, uint32_t count)
{
    char *names;
    const size_t left = rest->end - rest->at;
    if (count > left / TRN_BLOB_HEAD_LEN)
        return refuse(rest, "the file is too short for its number of blobs");
    checkpoint->blobs = calloc(count + (size_t)1, sizeof *checkpoint->blobs);
    checkpoint->names = malloc(left + 1);
    if (!checkpoint->blobs || !checkpoint->names)
        return com_fail(rest->fault, TERSE_NO_MEMORY, "no memory to read '%s'", rest->name);
    names = checkpoint->names;
    for (uint32_t i = 0; i < count; i++) {
        const size_t at = rest->at;
        const terse_status status = take_blob(rest, &checkpoint->blobs[i], &names);
        if (status != TERSE_OK)
            return status;
        if (i > 0 && trn_blob_compare(&checkpoint->blobs[i - 1], &checkpoint->blobs[i]) >= 0) {
            rest->at = at;
            return refuse(rest, "blobs are not in order");
        }
        checkpoint->count++;
    }
    return rest->at == rest->end ? TERSE_OK : refuse(rest, "bytes after the last blob");
}

static terse_status take_settings(struct trn_checkpoint *checkpoint, struct rest *rest,
                                  uint64_t len)
{
    const uint8_t *text;
    const size_t at = rest->at;
    terse_status status = take(rest, len, &text, "the settings are cut off");
    if (status == TERSE_OK)
        status = com_json_parse(rest->name, text, (size_t)len, &checkpoint->settings, rest->fault);
    if (status == TERSE_OK && !com_json_is_object(checkpoint->settings)) {
        rest->at = at;
        status = refuse(rest, "the settings are not a JSON object");
    }
    return status;
}

/* Checks magic, version and length; `bytes` is at least the head if the file is that long. */
static terse_status check_head(const char *name, const uint8_t *bytes, size_t len,
                               terse_fault *fault)
{
    if (len < sizeof TRN_CHECKPOINT_MAGIC - 1 ||
        memcmp(bytes, TRN_CHECKPOINT_MAGIC, sizeof TRN_CHECKPOINT_MAGIC - 1) != 0)
        return com_refuse(fault, COM_BAD_FILE, name, 0, "not a checkpoint of terse");
    if (len < TRN_CHECKPOINT_HEAD_LEN + TRN_CHECKPOINT_TAIL_LEN)
        return com_refuse(fault, COM_BAD_FILE, name, len, "the file ends in its head");
    if (trn_get_u32(bytes + 8) != TRN_CHECKPOINT_VERSION)
        return com_refuse(fault, TERSE_BAD_VERSION, name, 8,
                          "version %u; this program reads version %u", trn_get_u32(bytes + 8),
                          TRN_CHECKPOINT_VERSION);
    return TERSE_OK;
}

/* Compares the hash of the first `body` bytes with the checksum after them. */
static terse_status check_tail(const char *name, uint64_t body, uint64_t hash, const uint8_t *tail,
                               terse_fault *fault)
{
    if (hash != trn_get_u64(tail))
        return com_refuse(fault, TERSE_BAD_CHECKSUM, name, body,
                          "damaged or cut off: the checksum does not match");
    return TERSE_OK;
}

static terse_status check_frame(const struct rest *rest, size_t len)
{
    const uint8_t *bytes = rest->start;
    terse_status status = check_head(rest->name, bytes, len, rest->fault);
    if (status != TERSE_OK)
        return status;
    const size_t body = len - TRN_CHECKPOINT_TAIL_LEN;
    return check_tail(rest->name, body, trn_hash64(bytes, body, 0), bytes + body, rest->fault);
}

static terse_status parse_own(struct trn_checkpoint *checkpoint, const char *name, size_t len,
                              terse_fault *fault)
{
    struct rest rest = {.name = name, .start = checkpoint->bytes, .fault = fault};
    terse_status status = check_frame(&rest, len);
    if (status != TERSE_OK)
        return status;
    checkpoint->step = trn_get_u64(checkpoint->bytes + 16);
    rest.at = TRN_CHECKPOINT_HEAD_LEN;
    rest.end = len - TRN_CHECKPOINT_TAIL_LEN;
    status = take_settings(checkpoint, &rest, trn_get_u64(checkpoint->bytes + 24));
    if (status == TERSE_OK)
        status = take_blobs(checkpoint, &rest, trn_get_u32(checkpoint->bytes + 12));
    return status;
}

/* Owns `bytes` from here on, also on failure. */
static terse_status take_over(const char *name, uint8_t *bytes, size_t len,
                              struct trn_checkpoint **out, terse_fault *fault)
{
    struct trn_checkpoint *checkpoint = calloc(1, sizeof *checkpoint);
    if (!checkpoint) {
        free(bytes);
        return com_fail(fault, TERSE_NO_MEMORY, "no memory to read '%s'", name);
    }
    checkpoint->bytes = bytes;
    const terse_status status = parse_own(checkpoint, name, len, fault);
    if (status != TERSE_OK)
        trn_checkpoint_free(checkpoint);
    else
        *out = checkpoint;
    return status;
}

terse_status trn_checkpoint_read(const char *path, struct trn_checkpoint **out, terse_fault *fault)
{
    uint8_t *bytes;
    size_t len;
    const terse_status status = com_file_read(path, &bytes, &len, fault);
    return status == TERSE_OK ? take_over(path, bytes, len, out, fault) : status;
}

/* The file is `len` bytes long, at least a head and a tail, and read in pieces of CHECK_LEN. */
static terse_status check_stream(FILE *file, const char *path, uint64_t len, terse_fault *fault)
{
    uint8_t *const piece = malloc(CHECK_LEN);
    struct trn_hash *const hash = trn_hash_create();
    uint8_t tail[TRN_CHECKPOINT_TAIL_LEN];
    terse_status status =
        piece && hash ? TERSE_OK : com_fail(fault, TERSE_NO_MEMORY, "no memory to read '%s'", path);
    const uint64_t body = len - sizeof tail;
    uint64_t done = 0;
    do {
        const size_t want = body - done < CHECK_LEN ? (size_t)(body - done) : CHECK_LEN;
        if (status == TERSE_OK && fread(piece, 1, want, file) != want)
            status = com_fail_errno(fault, "read", path, ferror(file) ? errno : EIO);
        if (status == TERSE_OK && done == 0)
            status = check_head(path, piece, (size_t)len, fault);
        if (status == TERSE_OK)
            trn_hash_add(hash, piece, want);
        done += want;
    } while (status == TERSE_OK && done < body);
    if (status == TERSE_OK && fread(tail, 1, sizeof tail, file) != sizeof tail)
        status = com_fail_errno(fault, "read", path, ferror(file) ? errno : EIO);
    if (status == TERSE_OK)
        status = check_tail(path, body, trn_hash_value(hash), tail, fault);
    trn_hash_destroy(hash);
    free(piece);
    return status;
}

terse_status trn_checkpoint_check(const char *path, terse_fault *fault)
{
    struct stat about;
    FILE *const file = fopen(path, "rbe");
    if (!file)
        return com_fail_errno(fault, "open", path, errno);
    terse_status status =
        fstat(fileno(file), &about) == 0 ? TERSE_OK : com_fail_errno(fault, "read", path, errno);
    if (status == TERSE_OK && (!S_ISREG(about.st_mode) ||
                               about.st_size < TRN_CHECKPOINT_HEAD_LEN + TRN_CHECKPOINT_TAIL_LEN))
        status = com_refuse(fault, COM_BAD_FILE, path, 0, "too short for a checkpoint");
    if (status == TERSE_OK)
        status = check_stream(file, path, (uint64_t)about.st_size, fault);
    (void)fclose(file);
    return status;
}

terse_status trn_checkpoint_parse(const struct trn_bytes *in, struct trn_checkpoint **out,
                                  terse_fault *fault)
{
    uint8_t *bytes;
    const terse_status status = trn_bytes_copy(in, &bytes, fault);
    return status != TERSE_OK ? status : take_over(in->name, bytes, in->len, out, fault);
}

void trn_checkpoint_free(struct trn_checkpoint *checkpoint)
{
    if (!checkpoint)
        return;
    com_json_free(checkpoint->settings);
    free(checkpoint->blobs);
    free(checkpoint->names);
    free(checkpoint->bytes);
    free(checkpoint);
}

uint64_t trn_checkpoint_step(const struct trn_checkpoint *checkpoint)
{
    return checkpoint->step;
}

const com_json *trn_checkpoint_settings(const struct trn_checkpoint *checkpoint)
{
    return checkpoint->settings;
}

uint32_t trn_checkpoint_count(const struct trn_checkpoint *checkpoint)
{
    return checkpoint->count;
}

const struct trn_blob *trn_checkpoint_at(const struct trn_checkpoint *checkpoint, uint32_t index)
{
    return index < checkpoint->count ? &checkpoint->blobs[index] : NULL;
}

static int compare(const void *a, const void *b)
{
    return trn_blob_compare(a, b);
}

const struct trn_blob *trn_checkpoint_find(const struct trn_checkpoint *checkpoint,
                                           const char *name, uint32_t worker)
{
    const struct trn_blob key = {.name = name, .worker = worker};
    return bsearch(&key, checkpoint->blobs, checkpoint->count, sizeof key, compare);
}
