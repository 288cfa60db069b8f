#include <stdio.h>
#include <stdlib.h>

#include "common/output.h"
#include "files/bytes.h"
#include "files/checkpoint_format.h"
#include "files/hash.h"

enum { PIECE = 256 * 1024 };

/* A file under construction and the hash of what was written. */
struct sink {
    struct com_output output;
    struct trn_hash *hash;
    terse_fault *fault;
    terse_status status; /* the first failure; later writes do nothing */
};

static void put(struct sink *sink, const void *bytes, size_t len)
{
    /* In pieces, which are in the cache when they are written. */
    for (size_t at = 0; at < len && sink->status == TERSE_OK; at += PIECE) {
        const uint8_t *const piece = (const uint8_t *)bytes + at;
        const size_t piece_len = len - at < PIECE ? len - at : PIECE;
        trn_hash_add(sink->hash, piece, piece_len);
        sink->status = com_output_write(&sink->output, piece, piece_len, sink->fault);
    }
}

static void put_padded(struct sink *sink, const void *bytes, uint64_t len)
{
    static const uint8_t zeros[TRN_CHECKPOINT_ALIGNMENT];
    put(sink, bytes, (size_t)len);
    put(sink, zeros, trn_checkpoint_padding(len));
}

static void put_blob(struct sink *sink, const struct trn_blob *blob)
{
    uint8_t head[TRN_BLOB_HEAD_LEN] = {0};
    const size_t name_len = strlen(blob->name);
    trn_put_u32(head, blob->kind);
    trn_put_u32(head + 4, blob->worker);
    trn_put_u64(head + 8, blob->len);
    trn_put_u32(head + 16, (uint32_t)name_len);
    put(sink, head, sizeof head);
    put_padded(sink, blob->name, name_len);
    put_padded(sink, blob->bytes, blob->len);
}

static void put_all(struct sink *sink, uint64_t step, const char *settings,
                    const struct trn_blob *const *blobs, uint32_t count)
{
    uint8_t head[TRN_CHECKPOINT_HEAD_LEN] = TRN_CHECKPOINT_MAGIC;
    uint8_t tail[TRN_CHECKPOINT_TAIL_LEN];
    trn_put_u32(head + 8, TRN_CHECKPOINT_VERSION);
    trn_put_u32(head + 12, count);
    trn_put_u64(head + 16, step);
    trn_put_u64(head + 24, strlen(settings));
    put(sink, head, sizeof head);
    put_padded(sink, settings, strlen(settings));
    for (uint32_t i = 0; i < count; i++)
        put_blob(sink, blobs[i]);
    trn_put_u64(tail, trn_hash_value(sink->hash));
    put(sink, tail, sizeof tail);
}

static terse_status write_file(const char *path, uint64_t step, const char *settings,
                               const struct trn_blob *const *blobs, uint32_t count,
                               terse_fault *fault)
{
    struct sink sink = {.hash = trn_hash_create(), .fault = fault};
    if (!sink.hash)
        return com_fail(fault, TERSE_NO_MEMORY, "no memory to write '%s'", path);
    sink.status = com_output_open(&sink.output, path, fault);
    if (sink.status == TERSE_OK) {
        put_all(&sink, step, settings, blobs, count);
        if (sink.status == TERSE_OK)
            sink.status = com_output_commit(&sink.output, fault);
        com_output_discard(&sink.output);
    }
    trn_hash_destroy(sink.hash);
    return sink.status;
}

static int compare(const void *a, const void *b)
{
    const struct trn_blob *const *x = a;
    const struct trn_blob *const *y = b;
    return trn_blob_compare(*x, *y);
}

/* The blobs in the file's order; the caller frees *out. */
static terse_status sort(const struct trn_blob *blobs, uint32_t count, const struct trn_blob ***out,
                         terse_fault *fault)
{
    const struct trn_blob **sorted = malloc((count + (size_t)1) * sizeof *sorted);
    terse_status status = TERSE_OK;
    if (!sorted)
        return com_fail(fault, TERSE_NO_MEMORY, "no memory for %u blobs", count);
    for (uint32_t i = 0; i < count; i++) {
        sorted[i] = &blobs[i];
        if (!trn_blob_name_is_good(blobs[i].name, strlen(blobs[i].name)))
            status = com_fail(fault, TERSE_BAD_ARGUMENT, "a blob cannot be named '%.60s'",
                              blobs[i].name);
    }
    qsort(sorted, count, sizeof *sorted, compare);
    for (uint32_t i = 1; i < count && status == TERSE_OK; i++)
        if (trn_blob_compare(sorted[i - 1], sorted[i]) == 0)
            status = com_fail(fault, TERSE_BAD_ARGUMENT, "blob '%s' of worker %u is given twice",
                              sorted[i]->name, sorted[i]->worker);
    if (status != TERSE_OK)
        free(sorted);
    else
        *out = sorted;
    return status;
}

static terse_status print_settings(const com_json *settings, char **text, terse_fault *fault)
{
    if (!com_json_is_object(settings))
        return com_fail(fault, TERSE_BAD_ARGUMENT,
                        "the settings of a checkpoint must be a JSON object");
    return com_json_print(settings, 0, text, fault);
}

terse_status trn_checkpoint_write(const char *folder, uint64_t step, const com_json *settings,
                                  const struct trn_blob *blobs, uint32_t count, terse_fault *fault)
{
    char name[64];
    char *text = NULL;
    const struct trn_blob **sorted = NULL;
    (void)snprintf(name, sizeof name, "checkpoint-%llu.terse", (unsigned long long)step);
    char *path = com_path_join(folder, name);
    terse_status status = path ? print_settings(settings, &text, fault)
                               : com_fail(fault, TERSE_NO_MEMORY, "no memory to write '%s'", name);
    if (status == TERSE_OK)
        status = sort(blobs, count, &sorted, fault);
    if (status == TERSE_OK)
        status = write_file(path, step, text, sorted, count, fault);
    free(sorted);
    free(text);
    free(path);
    return status;
}
