#include "combine/list.h"

#include <string.h>

#include "base/bytes.h"
#include "base/fault.h"
#include "codec/index_stream.h"

#define COUNT_LEN sizeof(uint32_t)

size_t tsi_list_len(size_t n, size_t count)
{
    if (count == 0)
        return COUNT_LEN;
    const struct tsi_index_shape shape = tsi_index_shape(n, count);
    return COUNT_LEN + shape.len + count * sizeof(float);
}

size_t tsi_list_write(const struct tsi_list *list, const struct tsk_table *kernel,
                      const struct tsi_piece *piece, const float *floats, uint8_t *out)
{
    const size_t count =
        kernel->collect_f32(floats + piece->offset, piece->count, 1, 0, list->index, list->value);
    tsi_store_u32(out, (uint32_t)count);
    if (count == 0)
        return COUNT_LEN;
    const struct tsi_index_shape shape = tsi_index_shape(piece->count, count);
    tsi_index_write(&shape, list->index, out + COUNT_LEN);
    memcpy(out + COUNT_LEN + shape.len, list->value, count * sizeof(float));
    return tsi_list_len(piece->count, count);
}

terse_status tsi_list_add(const struct tsi_list *list, const struct tsk_table *kernel,
                          const struct tsi_piece *piece, const uint8_t *bytes, size_t len,
                          size_t *used, float *floats, terse_fault *fault)
{
    const size_t count = len < COUNT_LEN ? 0 : tsi_load_u32(bytes);
    if (count > piece->count)
        return tsi_fail(fault, TERSE_BAD_FRAME, 0, "list: %zu of %zu elements", count,
                        piece->count);
    *used = tsi_list_len(piece->count, count);
    if (len < *used)
        return tsi_fail(fault, TERSE_BAD_FRAME, len, "list: needs %zu bytes, %zu are left", *used,
                        len);
    if (count == 0)
        return TERSE_OK;
    const struct tsi_index_shape shape = tsi_index_shape(piece->count, count);
    struct tsi_index_reader reader;
    float *const out = floats + piece->offset;
    memset(list->value, 0, count * sizeof(float));
    if (kernel->add_f32(list->value, bytes + COUNT_LEN + shape.len, count))
        return tsi_fail(fault, TERSE_BAD_FRAME, COUNT_LEN + shape.len, "a value is not finite");
    terse_status status = tsi_index_open(&shape, bytes + COUNT_LEN, &reader, fault);
    if (status == TERSE_OK)
        status = tsi_index_next(&reader, count, out, list->index, fault);
    for (size_t i = 0; i < count && status == TERSE_OK; i++)
        out[list->index[i]] += list->value[i];
    return status;
}
