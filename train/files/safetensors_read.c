#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "common/json.h"
#include "common/names.h"
#include "files/bytes.h"
#include "files/safetensors.h"

enum { LENGTH_LEN = 8 };
#define MOST_HEADER (100u << 20) /* the limit of the format's own reader */

struct trn_safetensors {
    uint8_t *bytes;
    com_json *header; /* names point into it */
    struct trn_stored *tensors;
    uint32_t count;
};

static const struct {
    const char *name;
    uint64_t len;
} dtypes[] = {
    {"F32", 4},  {"U8", 1},  {"BOOL", 1}, {"I8", 1},  {"I16", 2}, {"U16", 2}, {"F16", 2},
    {"BF16", 2}, {"I32", 4}, {"U32", 4},  {"F64", 8}, {"I64", 8}, {"U64", 8},
};

static int find_dtype(const char *name, enum trn_dtype *dtype, uint64_t *len)
{
    for (size_t i = 0; i < sizeof dtypes / sizeof dtypes[0]; i++) {
        if (strcmp(name, dtypes[i].name) != 0)
            continue;
        *dtype = i < TRN_OTHER ? (enum trn_dtype)i : TRN_OTHER;
        *len = dtypes[i].len;
        return 1;
    }
    return 0;
}

static const char *read_shape(const com_json *shape, struct trn_stored *tensor, uint64_t *len)
{
    if (!com_json_is_array(shape))
        return "has no shape";
    for (const com_json *item = com_json_first(shape); item; item = com_json_next(item)) {
        uint64_t dim;
        if (tensor->ndim == TERSE_MAX_DIMS)
            return "has too many dimensions";
        if (!com_json_u64(item, &dim) || com_json_text(item))
            return "has a dimension that is not a count";
        if (__builtin_mul_overflow(*len, dim, len))
            return "is too large";
        tensor->dims[tensor->ndim++] = dim;
    }
    return NULL;
}

static const char *read_place(const com_json *offsets, uint64_t data_len, uint64_t *begin,
                              uint64_t *end)
{
    const com_json *first = com_json_is_array(offsets) ? com_json_first(offsets) : NULL;
    const com_json *second = first ? com_json_next(first) : NULL;
    if (!second || com_json_next(second) || !com_json_u64(first, begin) ||
        !com_json_u64(second, end) || com_json_text(first) || com_json_text(second))
        return "has no data_offsets";
    if (*begin > *end || *end > data_len)
        return "is outside of the file";
    return NULL;
}

/* What is wrong with an entry, or NULL. */
static const char *read_entry(const com_json *entry, const uint8_t *data, uint64_t data_len,
                              struct trn_stored *tensor)
{
    const char *dtype;
    uint64_t len;
    uint64_t begin;
    uint64_t end;
    if (!com_json_is_object(entry) || !com_json_get_text(entry, "dtype", &dtype))
        return "has no dtype";
    if (!find_dtype(dtype, &tensor->dtype, &len))
        return "has an unknown dtype";
    const char *wrong = read_shape(com_json_get(entry, "shape"), tensor, &len);
    if (!wrong)
        wrong = read_place(com_json_get(entry, "data_offsets"), data_len, &begin, &end);
    if (wrong)
        return wrong;
    if (end - begin != len)
        return "has another number of bytes than its shape needs";
    tensor->bytes = data + begin;
    tensor->len = len;
    return NULL;
}

static int compare_places(const void *a, const void *b)
{
    const struct trn_stored *x = a;
    const struct trn_stored *y = b;
    const uint8_t *p = x->bytes;
    const uint8_t *q = y->bytes;
    if (p != q)
        return p < q ? -1 : 1;
    return (x->len > y->len) - (x->len < y->len); /* an empty tensor comes before its neighbour */
}

static int compare_names(const void *a, const void *b)
{
    const struct trn_stored *x = a;
    const struct trn_stored *y = b;
    return strcmp(x->name, y->name);
}

/* The tensors cover the data from its first byte to its last, none twice. */
static terse_status check_cover(const struct trn_safetensors *file, const char *name,
                                uint64_t data_at, uint64_t data_len, terse_fault *fault)
{
    const uint8_t *next = file->bytes + data_at;
    for (uint32_t i = 0; i < file->count; i++) {
        if (file->tensors[i].bytes != next)
            return com_refuse(fault, COM_BAD_FILE, name, (uint64_t)(next - file->bytes),
                              "a gap or an overlap before tensor '%.60s'", file->tensors[i].name);
        next += file->tensors[i].len;
    }
    if (next != file->bytes + data_at + data_len)
        return com_refuse(fault, COM_BAD_FILE, name, (uint64_t)(next - file->bytes),
                          "bytes that belong to no tensor");
    return TERSE_OK;
}

static terse_status read_entries(struct trn_safetensors *file, const char *name, uint64_t data_at,
                                 uint64_t data_len, terse_fault *fault)
{
    size_t entries = 0;
    for (const com_json *item = com_json_first(file->header); item; item = com_json_next(item))
        entries++;
    file->tensors = calloc(entries + 1, sizeof *file->tensors);
    if (!file->tensors)
        return com_fail(fault, TERSE_NO_MEMORY, "no memory for %zu tensors", entries);
    for (const com_json *item = com_json_first(file->header); item; item = com_json_next(item)) {
        struct trn_stored *tensor = &file->tensors[file->count];
        if (strcmp(com_json_key(item), "__metadata__") == 0)
            continue;
        tensor->name = com_json_key(item);
        const char *wrong = read_entry(item, file->bytes + data_at, data_len, tensor);
        if (wrong)
            return com_refuse(fault, COM_BAD_FILE, name, LENGTH_LEN, "tensor '%.60s' %s",
                              tensor->name, wrong);
        file->count++;
    }
    qsort(file->tensors, file->count, sizeof *file->tensors, compare_places);
    const terse_status status = check_cover(file, name, data_at, data_len, fault);
    qsort(file->tensors, file->count, sizeof *file->tensors, compare_names);
    return status;
}

static terse_status parse_own(struct trn_safetensors *file, const char *name, size_t len,
                              terse_fault *fault)
{
    if (len < LENGTH_LEN)
        return com_refuse(fault, COM_BAD_FILE, name, len, "too short for a safetensors file");
    const uint64_t header_len = trn_get_u64(file->bytes);
    if (header_len > len - LENGTH_LEN || header_len > MOST_HEADER)
        return com_refuse(fault, COM_BAD_FILE, name, 0,
                          "the header has %llu bytes, which is more than the file",
                          (unsigned long long)header_len);
    if (header_len == 0 || file->bytes[LENGTH_LEN] != '{')
        return com_refuse(fault, COM_BAD_FILE, name, LENGTH_LEN, "the header is not a JSON object");
    terse_status status =
        com_json_parse(name, file->bytes + LENGTH_LEN, (size_t)header_len, &file->header, fault);
    if (status != TERSE_OK) {
        if (fault)
            fault->offset += LENGTH_LEN;
        return status;
    }
    const uint64_t data_at = LENGTH_LEN + header_len;
    status = read_entries(file, name, data_at, len - data_at, fault);
    return status;
}

/* Owns `bytes` from here on, also on failure. */
static terse_status take(const char *name, uint8_t *bytes, size_t len, struct trn_safetensors **out,
                         terse_fault *fault)
{
    struct trn_safetensors *file = calloc(1, sizeof *file);
    if (!file) {
        free(bytes);
        return com_fail(fault, TERSE_NO_MEMORY, "no memory to read '%s'", name);
    }
    file->bytes = bytes;
    const terse_status status = parse_own(file, name, len, fault);
    if (status != TERSE_OK)
        trn_safetensors_free(file);
    else
        *out = file;
    return status;
}

terse_status trn_safetensors_read(const char *path, struct trn_safetensors **out,
                                  terse_fault *fault)
{
    uint8_t *bytes;
    size_t len;
    const terse_status status = com_file_read(path, &bytes, &len, fault);
    return status == TERSE_OK ? take(path, bytes, len, out, fault) : status;
}

terse_status trn_safetensors_parse(const struct trn_bytes *in, struct trn_safetensors **out,
                                   terse_fault *fault)
{
    uint8_t *bytes;
    const terse_status status = trn_bytes_copy(in, &bytes, fault);
    return status != TERSE_OK ? status : take(in->name, bytes, in->len, out, fault);
}

void trn_safetensors_free(struct trn_safetensors *file)
{
    if (!file)
        return;
    free(file->tensors);
    com_json_free(file->header);
    free(file->bytes);
    free(file);
}

uint32_t trn_safetensors_count(const struct trn_safetensors *file)
{
    return file->count;
}

const struct trn_stored *trn_safetensors_at(const struct trn_safetensors *file, uint32_t index)
{
    return index < file->count ? &file->tensors[index] : NULL;
}

const struct trn_stored *trn_safetensors_find(const struct trn_safetensors *file, const char *name)
{
    const struct trn_stored key = {.name = name};
    return bsearch(&key, file->tensors, file->count, sizeof key, compare_names);
}

char *trn_shape_text(uint32_t ndim, const uint64_t *dims, char *out, size_t cap)
{
    size_t used = (size_t)snprintf(out, cap, "%s", ndim == 0 ? "()" : "");
    for (uint32_t i = 0; i < ndim && used < cap; i++)
        used += (size_t)snprintf(out + used, cap - used, "%s%llu", i == 0 ? "" : " x ",
                                 (unsigned long long)dims[i]);
    return out;
}

static int is_finite(const struct trn_stored *stored)
{
    const uint8_t *const bytes = stored->bytes;
    for (uint64_t i = 0; i + sizeof(float) <= stored->len; i += sizeof(float)) {
        float value; /* the bytes are aligned to nothing */
        memcpy(&value, bytes + i, sizeof value);
        if (!isfinite(value))
            return 0;
    }
    return 1;
}

static terse_status match(const struct trn_safetensors *file, const terse_tensor *tensor,
                          const struct trn_stored **out, terse_fault *fault)
{
    enum { CAP = 100 };
    char wanted[CAP];
    char found[CAP];
    const struct trn_stored *stored = trn_safetensors_find(file, tensor->name);
    trn_shape_text(tensor->ndim, tensor->dims, wanted, sizeof wanted);
    if (!stored)
        return com_fail(fault, TERSE_MISMATCH,
                        "the file has no tensor '%.80s', which the network has with the shape %s",
                        tensor->name, wanted);
    if (stored->dtype != TRN_F32)
        return com_fail(fault, TERSE_MISMATCH, "tensor '%.80s' in the file is not F32",
                        tensor->name);
    if (stored->ndim != tensor->ndim ||
        (tensor->ndim > 0 &&
         memcmp(stored->dims, tensor->dims, tensor->ndim * sizeof *tensor->dims) != 0))
        return com_fail(
            fault, TERSE_MISMATCH, "tensor '%.80s' has the shape %s in the file, %s in the network",
            tensor->name, trn_shape_text(stored->ndim, stored->dims, found, sizeof found), wanted);
    if (!is_finite(stored))
        return com_fail(fault, TERSE_MISMATCH, "tensor '%.80s' in the file is not finite",
                        tensor->name);
    *out = stored;
    return TERSE_OK;
}

terse_status trn_safetensors_to_layout(const struct trn_safetensors *file,
                                       const terse_layout *layout, const char *except, float *flat,
                                       terse_fault *fault)
{
    const uint32_t count = terse_layout_tensors(layout);
    for (int copy = 0; copy <= 1; copy++) { /* all are checked before one is written */
        for (uint32_t i = 0; i < count; i++) {
            terse_tensor tensor;
            const struct trn_stored *stored;
            terse_status status = terse_layout_tensor(layout, i, &tensor);
            if (status == TERSE_OK && com_patterns_match(except, tensor.name))
                continue;
            if (status == TERSE_OK)
                status = match(file, &tensor, &stored, fault);
            if (status != TERSE_OK)
                return status;
            if (copy && stored->len > 0)
                memcpy(flat + tensor.offset, stored->bytes, (size_t)stored->len);
        }
    }
    return TERSE_OK;
}
