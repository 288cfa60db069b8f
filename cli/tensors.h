/* The layout of the command line: --tensor NAME=D1xD2..., or one tensor of the input's shape. */
#ifndef CLI_TENSORS_H
#define CLI_TENSORS_H

#include <stddef.h>
#include <stdint.h>

#include <terse/layout.h>

struct tensors {
    terse_layout *layout; /* from --tensor; NULL while there is none */
    const char *name;     /* from --name; may be NULL */
};

/* Each returns an exit code and prints errors. */
int tensors_add(struct tensors *tensors, const char *text);
int tensors_name(struct tensors *tensors, const char *name);

/* The layout for an input of this shape; the caller destroys it. */
int tensors_layout(struct tensors *tensors, uint32_t ndim, const uint64_t *dims,
                   terse_layout **out);
void tensors_free(struct tensors *tensors);

#endif
