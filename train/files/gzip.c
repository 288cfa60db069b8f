/* The only file that uses zlib. */
#include <limits.h>
#include <stdlib.h>
#include <string.h>

#define ZLIB_CONST /* input is read only */
#include <zlib.h>

#include "files/bytes.h"

enum { GZIP_WINDOW = 15 + 16, FIRST_ROOM = 1 << 16 };

/* Data that is worth training on packs a few times; gzip can pack zeros a thousand times. A file
 * may unpack to whichever is more. */
#define MOST_RATIO ((size_t)100)
#define FREE_LEN ((size_t)64 << 20)

/* What has been unpacked so far. */
struct unpacked {
    uint8_t *bytes;
    size_t len;
    size_t cap;
    size_t most; /* bytes that are allowed */
};

static int grow(struct unpacked *out)
{
    const size_t doubled = out->cap ? out->cap * 2 : FIRST_ROOM;
    const size_t cap = doubled < out->most + 1 ? doubled : out->most + 1;
    uint8_t *bytes = cap > out->cap ? realloc(out->bytes, cap) : NULL;
    if (!bytes)
        return 0;
    out->bytes = bytes;
    out->cap = cap;
    return 1;
}

static size_t least(size_t a, size_t b)
{
    return a < b ? a : b;
}

/* One call of inflate with as many bytes in and out as its 32-bit counts allow. */
static int inflate_some(z_stream *stream, const struct trn_bytes *in, size_t *at,
                        struct unpacked *out)
{
    const uInt in_len = (uInt)least(in->len - *at, INT_MAX);
    const uInt out_len = (uInt)least(out->cap - out->len, INT_MAX);
    stream->next_in = in->at + *at;
    stream->avail_in = in_len;
    stream->next_out = out->bytes + out->len;
    stream->avail_out = out_len;
    const int result = inflate(stream, Z_NO_FLUSH);
    *at += in_len - stream->avail_in;
    out->len += out_len - stream->avail_out;
    return result;
}

static terse_status unpack(z_stream *stream, const struct trn_bytes *in, struct unpacked *out,
                           terse_fault *fault)
{
    size_t at = 0;
    for (;;) {
        if (out->len == out->cap && !grow(out))
            return com_fail(fault, TERSE_NO_MEMORY, "no memory to unpack '%s'", in->name);
        const int result = inflate_some(stream, in, &at, out);
        if (out->len > out->most)
            return com_refuse(fault, COM_BAD_FILE, in->name, at,
                              "unpacks to more than %zu times its size: not data to train on",
                              MOST_RATIO);
        if (result == Z_STREAM_END) {
            if (at == in->len)
                return TERSE_OK;
            if (inflateReset(stream) != Z_OK) /* the next member */
                return com_fail(fault, TERSE_NO_MEMORY, "no memory to unpack '%s'", in->name);
        } else if (result == Z_MEM_ERROR) {
            return com_fail(fault, TERSE_NO_MEMORY, "no memory to unpack '%s'", in->name);
        } else if (result == Z_BUF_ERROR && at == in->len && out->len < out->cap) {
            return com_refuse(fault, COM_BAD_FILE, in->name, at, "the gzip data ends too early");
        } else if (result != Z_OK && result != Z_BUF_ERROR) {
            return com_refuse(fault, COM_BAD_FILE, in->name, at, "not valid gzip data: %s",
                              stream->msg ? stream->msg : "unknown reason");
        }
    }
}

terse_status trn_gunzip(const struct trn_bytes *packed, uint8_t **bytes, size_t *len,
                        terse_fault *fault)
{
    z_stream stream;
    const size_t most =
        packed->len < SIZE_MAX / 2 / MOST_RATIO ? packed->len * MOST_RATIO : SIZE_MAX / 2;
    struct unpacked out = {.most = most > FREE_LEN ? most : FREE_LEN};
    memset(&stream, 0, sizeof stream);
    if (inflateInit2(&stream, GZIP_WINDOW) != Z_OK)
        return com_fail(fault, TERSE_NO_MEMORY, "no memory to unpack '%s'", packed->name);
    const terse_status status = unpack(&stream, packed, &out, fault);
    (void)inflateEnd(&stream);
    if (status != TERSE_OK) {
        free(out.bytes);
        return status;
    }
    *bytes = out.bytes;
    *len = out.len;
    return TERSE_OK;
}
