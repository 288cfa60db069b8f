/* Layouts that are not a model's: of so many parameters, of typed shapes, and scaled down. */
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "record.h"

enum { SIDE = 1024, SMALL = 4096, MOST_ALIKE = 4096 };

terse_status pln_layout_of(uint64_t parameters, terse_layout **out)
{
    terse_layout *layout = NULL;
    terse_status status = terse_layout_create(&layout);
    uint64_t left = parameters;
    for (unsigned i = 0; status == TERSE_OK && left >= SIDE; i++) {
        const uint64_t rows = left / SIDE < SIDE ? left / SIDE : SIDE;
        const uint64_t dims[2] = {rows, SIDE};
        char name[32];
        (void)snprintf(name, sizeof name, "matrix%u", i);
        status = terse_layout_add(layout, name, 2, dims);
        left -= rows * SIDE;
    }
    if (status == TERSE_OK && left > 0)
        status = terse_layout_add(layout, "rest", 1, &left);
    if (status == TERSE_OK)
        *out = layout;
    else
        terse_layout_destroy(layout);
    return status;
}

terse_status pln_layout_parse(const char *shapes, terse_layout **out, terse_fault *fault)
{
    terse_layout *layout = NULL;
    terse_status status = terse_layout_create(&layout);
    const char *at = shapes;
    for (unsigned i = 0; status == TERSE_OK; i++) {
        uint64_t dims[TERSE_MAX_DIMS];
        uint32_t ndim = 0;
        char name[32];
        do {
            char *end = NULL;
            const unsigned long long dim = *at >= '0' && *at <= '9' ? strtoull(at, &end, 10) : 0;
            if (!end || dim == 0 || ndim == TERSE_MAX_DIMS ||
                (*end != 'x' && *end != ',' && *end != '\0')) {
                terse_layout_destroy(layout);
                return com_fail(fault, TERSE_BAD_SPEC,
                                "shapes: '%.40s' at tensor %u: expected like 64x3x7x7,64,1000x512 "
                                "with 1 to %u dimensions",
                                at, i, TERSE_MAX_DIMS);
            }
            dims[ndim++] = dim;
            at = end + (*end != '\0');
            if (*end != 'x')
                break;
        } while (1);
        (void)snprintf(name, sizeof name, "tensor%u", i);
        status = terse_layout_add(layout, name, ndim, dims);
        if (*at == '\0' && at[-1] != ',' && at[-1] != 'x')
            break;
    }
    if (status == TERSE_OK) {
        *out = layout;
        return TERSE_OK;
    }
    terse_layout_destroy(layout);
    return com_fail(fault, status, "shapes: more elements than a layout can have");
}

/* How many tensors have the shape of tensor t, in all and before it. */
static terse_status count_alike(const terse_layout *layout, const terse_tensor *tensor, uint32_t t,
                                double *all, double *before)
{
    terse_tensor other;
    terse_status status = TERSE_OK;
    *all = *before = 0;
    for (uint32_t i = 0; i < terse_layout_tensors(layout) && status == TERSE_OK; i++) {
        status = terse_layout_tensor(layout, i, &other);
        if (status == TERSE_OK && other.ndim == tensor->ndim &&
            memcmp(other.dims, tensor->dims, tensor->ndim * sizeof *other.dims) == 0) {
            *all += 1;
            *before += i < t;
        }
    }
    return status;
}

terse_status pln_layout_large(const terse_layout *layout, double *count)
{
    terse_tensor tensor;
    terse_status status = TERSE_OK;
    *count = 0;
    for (uint32_t t = 0; t < terse_layout_tensors(layout) && status == TERSE_OK; t++) {
        status = terse_layout_tensor(layout, t, &tensor);
        *count += status == TERSE_OK && tensor.count > SMALL;
    }
    return status;
}

/* The longest dimension shrinks, also by what was not left out because tensors are whole. */
terse_status pln_layout_scaled(const terse_layout *layout, const struct pln_scale *scale,
                               terse_layout **out)
{
    const int may_drop = terse_layout_tensors(layout) <= MOST_ALIKE;
    terse_layout *scaled = NULL;
    terse_status status = terse_layout_create(&scaled);
    for (uint32_t t = 0; t < terse_layout_tensors(layout) && status == TERSE_OK; t++) {
        uint64_t dims[TERSE_MAX_DIMS] = {0};
        terse_tensor tensor;
        uint32_t longest = 0;
        double all = 1;
        double before = 0;
        status = terse_layout_tensor(layout, t, &tensor);
        if (status == TERSE_OK && may_drop && tensor.count > SMALL)
            status = count_alike(layout, &tensor, t, &all, &before);
        const double kept = ceil(all * scale->tensors);
        if (status != TERSE_OK || (tensor.count > SMALL && before >= kept))
            continue;
        for (uint32_t i = 0; i < tensor.ndim; i++) {
            dims[i] = tensor.dims[i];
            longest = dims[i] > dims[longest] ? i : longest;
        }
        const double count = (double)tensor.count;
        const double share = scale->elements * scale->tensors * all / kept;
        const double rounded = scale->unit * ceil(count * share / scale->unit);
        const double wanted = fmin(fmax(rounded, scale->least), count);
        if (tensor.count > SMALL)
            dims[longest] = (uint64_t)ceil(wanted / count * (double)dims[longest]);
        status = terse_layout_add(scaled, tensor.name, tensor.ndim, dims);
    }
    if (status == TERSE_OK)
        *out = scaled;
    else
        terse_layout_destroy(scaled);
    return status;
}
