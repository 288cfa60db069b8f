#include "tensors.h"

#include <stdlib.h>
#include <string.h>

#include "common/number.h"
#include "message.h"

/* "64x3x7x7" -> 4; 0 if it is anything else. */
static uint32_t read_dims(const char *text, uint64_t dims[TERSE_MAX_DIMS])
{
    uint32_t ndim = 0;
    while (ndim < TERSE_MAX_DIMS && *text >= '0' && *text <= '9') {
        char *end;
        dims[ndim++] = strtoull(text, &end, 10);
        if (*end == '\0')
            return ndim;
        if (*end != 'x')
            return 0;
        text = end + 1;
    }
    return 0;
}

int tensors_add(struct tensors *tensors, const char *text)
{
    char name[TERSE_MAX_NAME + 1];
    uint64_t dims[TERSE_MAX_DIMS];
    const char *equals = strrchr(text, '=');
    uint32_t ndim = !equals ? 0 : read_dims(equals + 1, dims);
    if (ndim == 0 || (size_t)(equals - text) >= sizeof name) {
        return msg_usage("encode", "--tensor: '%s' is not NAME=D1xD2x..., e.g. conv1=64x3x7x7",
                         text);
    }
    memcpy(name, text, (size_t)(equals - text));
    name[equals - text] = '\0';
    terse_status status = TERSE_OK;
    if (!tensors->layout)
        status = terse_layout_create(&tensors->layout);
    if (status == TERSE_OK)
        status = terse_layout_add(tensors->layout, name, ndim, dims);
    if (status == TERSE_BAD_ARGUMENT) {
        return msg_usage("encode", "--tensor: '%s' is over a limit (name, dimensions or size)",
                         text);
    }
    return status == TERSE_OK ? CLI_OK : msg_status("--tensor", status, NULL);
}

int tensors_name(struct tensors *tensors, const char *name)
{
    if (strlen(name) > TERSE_MAX_NAME)
        return msg_usage("encode", "--name: longer than %u bytes", TERSE_MAX_NAME);
    tensors->name = name;
    return CLI_OK;
}

int tensors_layout(struct tensors *tensors, uint32_t ndim, const uint64_t *dims, terse_layout **out)
{
    if (tensors->layout && tensors->name)
        return msg_usage("encode", "--name and --tensor exclude each other: --tensor has a name");
    if (tensors->layout) {
        uint64_t count = 1;
        for (uint32_t i = 0; i < ndim; i++)
            count *= dims[i];
        if (terse_layout_count(tensors->layout) != count) {
            return msg_error(CLI_REFUSED, "the tensors hold %s elements, the input %s",
                             com_show_count(terse_layout_count(tensors->layout)).text,
                             com_show_count(count).text);
        }
        *out = tensors->layout;
        tensors->layout = NULL;
        return CLI_OK;
    }
    const char *name = !tensors->name ? "" : tensors->name;
    terse_layout *layout;
    terse_status status = terse_layout_create(&layout);
    if (status != TERSE_OK)
        return msg_status("layout", status, NULL);
    status = terse_layout_add(layout, name, ndim, dims);
    if (status != TERSE_OK) {
        terse_layout_destroy(layout);
        return msg_error(CLI_REFUSED,
                         "the input's shape or name is over a limit: a tensor has at "
                         "most %s elements and no control characters in its name",
                         com_show_count(TERSE_MAX_TENSOR_COUNT).text);
    }
    *out = layout;
    return CLI_OK;
}

void tensors_free(struct tensors *tensors)
{
    terse_layout_destroy(tensors->layout);
    tensors->layout = NULL;
}
