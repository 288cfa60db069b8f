/* A layout keeps its canonical description up to date: writing it is a copy, its hash is one pass,
 * and a layout is copied by reading its description. */
#include "layout/layout.h"

#include <stdlib.h>
#include <string.h>

#include "base/bytes.h"
#include "base/hash.h"
#include "layout/claim.h"

#define COUNT_LEN 4u /* bytes of the tensor count at the start of a description */
#define MAX_TENSOR_LEN (1u + TERSE_MAX_NAME + 1u + 8u * TERSE_MAX_DIMS)

/* Each tensor is one allocation, so that names and dims do not move when others are added. */
struct tensor {
    uint64_t count;
    uint64_t offset;
    uint32_t ndim;
    uint64_t dims[]; /* ndim dimensions, then the name with its closing zero */
};

struct terse_layout {
    uint64_t count;
    uint32_t tensor_count;
    uint32_t tensor_cap;
    struct tensor **tensor;
    uint8_t *description;
    size_t description_len;
    size_t description_cap;
    uint64_t hash;
    int is_hashed; /* set once a layout is complete; reading the hash never writes */
};

static const char *tensor_name(const struct tensor *tensor)
{
    return (const char *)(tensor->dims + tensor->ndim);
}

/* ---- rules for calls and for bytes ---- */

size_t tsi_claim_control(const struct tsi_claim *claim)
{
    size_t i = 0;
    while (i < claim->name_len && (uint8_t)claim->name[i] >= 0x20 && claim->name[i] != 0x7f)
        i++;
    return i;
}

/* The limit also applies to the product of the nonzero dims: so the rule does not depend on the
 * order of the dims, and no partial product can overflow. */
int tsi_claim_count(const struct tsi_claim *claim, uint64_t *count)
{
    uint64_t product = 1;
    int is_empty = 0;
    for (uint32_t i = 0; i < claim->ndim; i++) {
        const uint64_t dim = claim->dims[i];
        is_empty |= dim == 0;
        if (dim == 0)
            continue;
        if (dim > TERSE_MAX_TENSOR_COUNT / product)
            return 0;
        product *= dim;
    }
    *count = is_empty ? 0 : product;
    return 1;
}

/* ---- building ---- */

terse_status terse_layout_create(terse_layout **out)
{
    if (!out)
        return TERSE_BAD_ARGUMENT;
    terse_layout *layout = calloc(1, sizeof *layout);
    if (!layout)
        return TERSE_NO_MEMORY;
    layout->description_cap = COUNT_LEN + MAX_TENSOR_LEN;
    layout->description = malloc(layout->description_cap);
    if (!layout->description) {
        free(layout);
        return TERSE_NO_MEMORY;
    }
    tsi_store_u32(layout->description, 0);
    layout->description_len = COUNT_LEN;
    *out = layout;
    return TERSE_OK;
}

void terse_layout_destroy(terse_layout *layout)
{
    if (!layout)
        return;
    for (uint32_t i = 0; i < layout->tensor_count; i++)
        free(layout->tensor[i]);
    free(layout->tensor);
    free(layout->description);
    free(layout);
}

static terse_status grow(terse_layout *layout)
{
    if (layout->tensor_count == layout->tensor_cap) {
        const uint32_t cap = layout->tensor_cap ? 2 * layout->tensor_cap : 8;
        struct tensor **grown = realloc(layout->tensor, cap * sizeof(struct tensor *));
        if (!grown)
            return TERSE_NO_MEMORY;
        layout->tensor = grown;
        layout->tensor_cap = cap;
    }
    if (layout->description_cap - layout->description_len < MAX_TENSOR_LEN) {
        const size_t cap = 2 * layout->description_cap;
        uint8_t *grown = realloc(layout->description, cap);
        if (!grown)
            return TERSE_NO_MEMORY;
        layout->description = grown;
        layout->description_cap = cap;
    }
    return TERSE_OK;
}

static void describe(terse_layout *layout, const struct tsi_claim *claim)
{
    uint8_t *at = layout->description + layout->description_len;
    *at++ = (uint8_t)claim->name_len;
    memcpy(at, claim->name, claim->name_len);
    at += claim->name_len;
    *at++ = (uint8_t)claim->ndim;
    for (uint32_t i = 0; i < claim->ndim; i++, at += 8)
        tsi_store_u64(at, claim->dims[i]);
    layout->description_len = (size_t)(at - layout->description);
    tsi_store_u32(layout->description, layout->tensor_count);
}

terse_status tsi_layout_append(terse_layout *layout, const struct tsi_claim *claim, uint64_t count)
{
    const terse_status status = grow(layout);
    if (status != TERSE_OK)
        return status;
    const size_t dims_len = claim->ndim * sizeof(uint64_t);
    struct tensor *tensor = malloc(sizeof *tensor + dims_len + claim->name_len + 1);
    if (!tensor)
        return TERSE_NO_MEMORY;
    tensor->count = count;
    tensor->offset = layout->count;
    tensor->ndim = claim->ndim;
    memcpy(tensor->dims, claim->dims, dims_len);
    char *name = (char *)(tensor->dims + claim->ndim);
    memcpy(name, claim->name, claim->name_len);
    name[claim->name_len] = '\0';

    layout->tensor[layout->tensor_count++] = tensor;
    layout->count += count;
    layout->is_hashed = 0;
    describe(layout, claim);
    return TERSE_OK;
}

terse_status terse_layout_add(terse_layout *layout, const char *name, uint32_t ndim,
                              const uint64_t *dims)
{
    if (!layout || !name || ndim > TERSE_MAX_DIMS || (ndim > 0 && !dims))
        return TERSE_BAD_ARGUMENT;
    struct tsi_claim claim = {.name = name, .name_len = strlen(name), .ndim = ndim};
    for (uint32_t i = 0; i < ndim; i++)
        claim.dims[i] = dims[i];
    uint64_t count;
    if (claim.name_len > TERSE_MAX_NAME || tsi_claim_control(&claim) < claim.name_len ||
        !tsi_claim_count(&claim, &count) || count > TERSE_MAX_COUNT - layout->count ||
        layout->tensor_count == TERSE_MAX_TENSORS)
        return TERSE_BAD_ARGUMENT;
    return tsi_layout_append(layout, &claim, count);
}

terse_status terse_layout_vector(uint64_t count, terse_layout **out)
{
    if (!out)
        return TERSE_BAD_ARGUMENT;
    terse_layout *layout;
    terse_status status = terse_layout_create(&layout);
    if (status != TERSE_OK)
        return status;
    status = terse_layout_add(layout, "", 1, &count);
    if (status != TERSE_OK) {
        terse_layout_destroy(layout);
        return status;
    }
    *out = layout;
    return TERSE_OK;
}

/* ---- queries ---- */

uint64_t terse_layout_count(const terse_layout *layout)
{
    return layout->count;
}

uint32_t terse_layout_tensors(const terse_layout *layout)
{
    return layout->tensor_count;
}

uint64_t terse_layout_hash(const terse_layout *layout)
{
    return layout->is_hashed ? layout->hash
                             : tsi_hash64(layout->description, layout->description_len);
}

void tsi_layout_settle(terse_layout *layout)
{
    layout->hash = terse_layout_hash(layout);
    layout->is_hashed = 1;
}

terse_status terse_layout_tensor(const terse_layout *layout, uint32_t index, terse_tensor *out)
{
    if (!layout || !out || index >= layout->tensor_count)
        return TERSE_BAD_ARGUMENT;
    const struct tensor *tensor = layout->tensor[index];
    *out = (terse_tensor){
        .name = tensor_name(tensor),
        .dims = tensor->dims,
        .ndim = tensor->ndim,
        .count = tensor->count,
        .offset = tensor->offset,
    };
    return TERSE_OK;
}

struct tsi_piece tsi_layout_piece(const terse_layout *layout, uint32_t tensor)
{
    const struct tensor *t = layout->tensor[tensor];
    const int is_matrix = t->ndim >= 2;
    const uint64_t rows = is_matrix ? t->dims[0] : t->count;
    return (struct tsi_piece){
        .tensor = tensor,
        .first = 0,
        .offset = t->offset,
        .count = (size_t)t->count,
        .rows = (size_t)rows,
        .cols = (size_t)(!is_matrix ? 1
                         : rows > 0 ? t->count / rows
                                    : 0),
    };
}

/* ---- description ---- */

size_t tsi_layout_len(const terse_layout *layout)
{
    return layout->description_len;
}

void tsi_layout_write(const terse_layout *layout, uint8_t *out)
{
    memcpy(out, layout->description, layout->description_len);
}

terse_status tsi_layout_copy(const terse_layout *layout, terse_layout **out)
{
    return tsi_layout_read(layout->description, layout->description_len, out, NULL);
}
