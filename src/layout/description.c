/* Reads the canonical description of a layout (docs/wire-format.md, section "Layout"). The bytes
 * are untrusted input. */
#include "base/bytes.h"
#include "base/fault.h"
#include "layout/claim.h"
#include "layout/layout.h"

/* The position in a description; the bytes before `at` are checked. */
struct cursor {
    const uint8_t *bytes;
    size_t len;
    size_t at;
    uint64_t count; /* elements so far */
    terse_fault *fault;
};

static terse_status bad(const struct cursor *cursor, size_t at, const char *rule)
{
    return tsi_fail(cursor->fault, TERSE_BAD_FRAME, at, "%s", rule);
}

/* The next `len` bytes, or NULL if fewer are left. */
static const uint8_t *next(struct cursor *cursor, size_t len)
{
    if (len > cursor->len - cursor->at)
        return NULL;
    const uint8_t *bytes = cursor->bytes + cursor->at;
    cursor->at += len;
    return bytes;
}

static terse_status next_name(struct cursor *cursor, struct tsi_claim *claim)
{
    const uint8_t *len = next(cursor, 1);
    const uint8_t *name = len ? next(cursor, *len) : NULL;
    if (!name)
        return bad(cursor, cursor->at, "layout: ends inside a name");
    claim->name = (const char *)name;
    claim->name_len = *len;
    const size_t control = tsi_claim_control(claim);
    if (control < claim->name_len)
        return bad(cursor, cursor->at - claim->name_len + control,
                   "layout: control character in a name");
    return TERSE_OK;
}

static terse_status next_dims(struct cursor *cursor, struct tsi_claim *claim, uint64_t *count)
{
    const size_t start = cursor->at;
    const uint8_t *ndim = next(cursor, 1);
    if (ndim && *ndim > TERSE_MAX_DIMS)
        return bad(cursor, start, "layout: more than 8 dimensions");
    const uint8_t *dims = ndim ? next(cursor, *ndim * sizeof(uint64_t)) : NULL;
    if (!dims)
        return bad(cursor, cursor->at, "layout: ends inside the dimensions");
    claim->ndim = *ndim;
    for (uint32_t i = 0; i < claim->ndim; i++)
        claim->dims[i] = tsi_load_u64(dims + 8 * i);
    if (!tsi_claim_count(claim, count))
        return bad(cursor, start + 1, "layout: more than 2^32-1 elements in a tensor");
    if (*count > TERSE_MAX_COUNT - cursor->count)
        return bad(cursor, start + 1, "layout: more than 2^40 elements");
    cursor->count += *count;
    return TERSE_OK;
}

/* Checks a description, and appends its tensors to `layout` unless that is NULL. */
static terse_status walk(struct cursor *cursor, terse_layout *layout)
{
    const uint8_t *head = next(cursor, 4);
    if (!head)
        return bad(cursor, cursor->len, "layout: ends inside the tensor count");
    const uint32_t tensor_count = tsi_load_u32(head);
    if (tensor_count > TERSE_MAX_TENSORS)
        return bad(cursor, 0, "layout: more than 2^20 tensors");
    for (uint32_t i = 0; i < tensor_count; i++) {
        struct tsi_claim claim;
        uint64_t count = 0;
        terse_status status = next_name(cursor, &claim);
        if (status == TERSE_OK)
            status = next_dims(cursor, &claim, &count);
        if (status == TERSE_OK && layout)
            status = tsi_layout_append(layout, &claim, count);
        if (status != TERSE_OK)
            return status;
    }
    if (cursor->at < cursor->len)
        return bad(cursor, cursor->at, "layout: bytes after the last tensor");
    return TERSE_OK;
}

terse_status tsi_layout_check(const uint8_t *bytes, size_t len, uint64_t *count, terse_fault *fault)
{
    struct cursor cursor = {.bytes = bytes, .len = len, .fault = fault};
    const terse_status status = walk(&cursor, NULL);
    if (status == TERSE_OK && count)
        *count = cursor.count;
    return status;
}

terse_status tsi_layout_read(const uint8_t *bytes, size_t len, terse_layout **out,
                             terse_fault *fault)
{
    terse_layout *layout;
    terse_status status = terse_layout_create(&layout);
    if (status != TERSE_OK)
        return tsi_fail(fault, status, 0, "layout: out of memory");
    struct cursor cursor = {.bytes = bytes, .len = len, .fault = fault};
    status = walk(&cursor, layout);
    if (status != TERSE_OK) {
        terse_layout_destroy(layout);
        if (status == TERSE_NO_MEMORY)
            return tsi_fail(fault, status, cursor.at, "layout: out of memory");
        return status;
    }
    tsi_layout_settle(layout);
    *out = layout;
    return TERSE_OK;
}
