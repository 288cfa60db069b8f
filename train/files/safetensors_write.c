#include <stdlib.h>
#include <string.h>

#include "common/json.h"
#include "common/output.h"
#include "files/bytes.h"
#include "files/safetensors.h"

enum { ALIGNMENT = 8 };

static int compare_names(const void *a, const void *b)
{
    const struct trn_stored *const *x = a;
    const struct trn_stored *const *y = b;
    return strcmp((*x)->name, (*y)->name);
}

static terse_status check_names(const struct trn_stored *tensors, uint32_t count,
                                terse_fault *fault)
{
    terse_status status = TERSE_OK;
    const struct trn_stored **sorted = malloc((count + (size_t)1) * sizeof *sorted);
    if (!sorted)
        return com_fail(fault, TERSE_NO_MEMORY, "no memory for %u tensors", count);
    for (uint32_t i = 0; i < count; i++)
        sorted[i] = &tensors[i];
    qsort(sorted, count, sizeof *sorted, compare_names);
    for (uint32_t i = 0; i < count && status == TERSE_OK; i++) {
        const char *name = sorted[i]->name;
        if (name[0] == '\0' || strcmp(name, "__metadata__") == 0)
            status = com_fail(fault, TERSE_BAD_ARGUMENT, "a tensor cannot be named '%s'", name);
        else if (i > 0 && strcmp(sorted[i - 1]->name, name) == 0)
            status = com_fail(fault, TERSE_BAD_ARGUMENT, "two tensors are named '%s'", name);
    }
    free(sorted);
    return status;
}

static terse_status check_shape(const struct trn_stored *tensor, terse_fault *fault)
{
    uint64_t len = tensor->dtype == TRN_F32 ? 4 : 1;
    if (tensor->dtype != TRN_F32 && tensor->dtype != TRN_U8)
        return com_fail(fault, TERSE_BAD_ARGUMENT, "tensor '%s' is neither F32 nor U8",
                        tensor->name);
    if (tensor->ndim > TERSE_MAX_DIMS)
        return com_fail(fault, TERSE_BAD_ARGUMENT, "tensor '%s' has %u dimensions", tensor->name,
                        tensor->ndim);
    for (uint32_t i = 0; i < tensor->ndim; i++)
        if (__builtin_mul_overflow(len, tensor->dims[i], &len))
            return com_fail(fault, TERSE_BAD_ARGUMENT, "tensor '%s' is too large", tensor->name);
    if (len != tensor->len)
        return com_fail(fault, TERSE_BAD_ARGUMENT, "tensor '%s' has %llu bytes, its shape %llu",
                        tensor->name, (unsigned long long)tensor->len, (unsigned long long)len);
    return TERSE_OK;
}

static com_json *numbers(const uint64_t *values, uint32_t count)
{
    com_json *array = com_json_array();
    for (uint32_t i = 0; i < count; i++)
        com_json_append_real(array, (double)values[i]);
    return array;
}

/* The header's JSON; the caller frees it. */
static terse_status describe(const struct trn_stored *tensors, uint32_t count, const char *note,
                             char **text, terse_fault *fault)
{
    com_json *header = com_json_object();
    uint64_t at = 0;
    if (note) {
        com_json *metadata = com_json_object();
        com_json_put_text(metadata, "format", "pt");
        com_json_put_text(metadata, "note", note);
        com_json_put(header, "__metadata__", metadata);
    }
    for (uint32_t i = 0; i < count; i++) {
        const uint64_t place[2] = {at, at + tensors[i].len};
        com_json *entry = com_json_object();
        com_json_put_text(entry, "dtype", tensors[i].dtype == TRN_F32 ? "F32" : "U8");
        com_json_put(entry, "shape", numbers(tensors[i].dims, tensors[i].ndim));
        com_json_put(entry, "data_offsets", numbers(place, 2));
        com_json_put(header, tensors[i].name, entry);
        at = place[1];
    }
    const terse_status status = com_json_print(header, 0, text, fault);
    com_json_free(header);
    return status;
}

/* Length, header, spaces up to the alignment. */
static terse_status write_header(struct com_output *output, const char *text, terse_fault *fault)
{
    static const char spaces[ALIGNMENT] = {' ', ' ', ' ', ' ', ' ', ' ', ' ', ' '};
    const size_t len = strlen(text);
    const size_t padding = (ALIGNMENT - len % ALIGNMENT) % ALIGNMENT;
    uint8_t head[8];
    trn_put_u64(head, len + padding);
    terse_status status = com_output_write(output, head, sizeof head, fault);
    if (status == TERSE_OK)
        status = com_output_write(output, text, len, fault);
    if (status == TERSE_OK)
        status = com_output_write(output, spaces, padding, fault);
    return status;
}

static terse_status write_file(const char *path, const char *header,
                               const struct trn_stored *tensors, uint32_t count, terse_fault *fault)
{
    struct com_output output;
    terse_status status = com_output_open(&output, path, fault);
    if (status != TERSE_OK)
        return status;
    status = write_header(&output, header, fault);
    for (uint32_t i = 0; i < count && status == TERSE_OK; i++)
        status = com_output_write(&output, tensors[i].bytes, (size_t)tensors[i].len, fault);
    if (status == TERSE_OK)
        status = com_output_commit(&output, fault);
    com_output_discard(&output);
    return status;
}

terse_status trn_safetensors_write(const char *path, const struct trn_stored *tensors,
                                   uint32_t count, const char *note, terse_fault *fault)
{
    char *header;
    terse_status status = check_names(tensors, count, fault);
    for (uint32_t i = 0; i < count && status == TERSE_OK; i++)
        status = check_shape(&tensors[i], fault);
    if (status == TERSE_OK)
        status = describe(tensors, count, note, &header, fault);
    if (status != TERSE_OK)
        return status;
    status = write_file(path, header, tensors, count, fault);
    free(header);
    return status;
}

terse_status trn_safetensors_write_layout(const char *path, const terse_layout *layout,
                                          const float *flat, const struct trn_stored *more,
                                          uint32_t more_count, const char *note, terse_fault *fault)
{
    const uint32_t own = terse_layout_tensors(layout);
    const size_t count = (size_t)own + more_count;
    struct trn_stored *all = calloc(count + 1, sizeof *all);
    terse_status status = TERSE_OK;
    if (!all)
        return com_fail(fault, TERSE_NO_MEMORY, "no memory for %zu tensors", count);
    for (uint32_t i = 0; i < own && status == TERSE_OK; i++) {
        terse_tensor tensor = {0};
        status = terse_layout_tensor(layout, i, &tensor);
        all[i] = (struct trn_stored){.name = tensor.name,
                                     .ndim = tensor.ndim,
                                     .bytes = flat + tensor.offset,
                                     .len = tensor.count * sizeof(float)};
        if (tensor.ndim > 0)
            memcpy(all[i].dims, tensor.dims, tensor.ndim * sizeof *tensor.dims);
    }
    if (more_count > 0)
        memcpy(all + own, more, more_count * sizeof *more);
    if (status == TERSE_OK)
        status = trn_safetensors_write(path, all, (uint32_t)count, note, fault);
    free(all);
    return status;
}
