/* A layout is the list of tensors, with names and shapes, in one flat float buffer without gaps.
 * Scales, blocks and k are per tensor, so payloads depend on the layout: workers compare its hash.
 */
#ifndef TERSE_LAYOUT_H
#define TERSE_LAYOUT_H

#include <stddef.h>
#include <stdint.h>

#include <terse/export.h>
#include <terse/status.h>

#ifdef __cplusplus
extern "C" {
#endif

#define TERSE_MAX_NAME 255u /* bytes of a tensor name, without the closing zero */
#define TERSE_MAX_DIMS 8u   /* dimensions of a tensor; 0 dimensions: a single element */
#define TERSE_MAX_TENSORS 1048576u
#define TERSE_MAX_TENSOR_COUNT 4294967295u  /* elements of one tensor */
#define TERSE_MAX_COUNT (UINT64_C(1) << 40) /* elements of a layout */

typedef struct terse_layout terse_layout;

/* One tensor. `name` and `dims` belong to the layout. */
typedef struct terse_tensor {
    const char *name;
    const uint64_t *dims;
    uint32_t ndim;
    uint64_t count;  /* elements: the product of dims */
    uint64_t offset; /* number of its first element in the flat buffer */
} terse_tensor;

/* An empty layout. The caller destroys it. */
TERSE_API TERSE_CHECK terse_status terse_layout_create(terse_layout **out);

/* A layout of one vector of `count` elements with an empty name. */
TERSE_API TERSE_CHECK terse_status terse_layout_vector(uint64_t count, terse_layout **out);

/* Appends a tensor. Names may repeat or be empty, but have no control characters; a dimension may
 * be 0. TERSE_BAD_ARGUMENT: a limit above is exceeded. */
TERSE_API TERSE_CHECK terse_status terse_layout_add(terse_layout *layout, const char *name,
                                                    uint32_t ndim, const uint64_t *dims);

TERSE_API uint64_t terse_layout_count(const terse_layout *layout);   /* total elements */
TERSE_API uint32_t terse_layout_tensors(const terse_layout *layout); /* number of tensors */
TERSE_API uint64_t terse_layout_hash(const terse_layout *layout);    /* hash of names and shapes */
TERSE_API TERSE_CHECK terse_status terse_layout_tensor(const terse_layout *layout, uint32_t index,
                                                       terse_tensor *out);
TERSE_API void terse_layout_destroy(terse_layout *layout); /* NULL is fine */

#ifdef __cplusplus
}
#endif
#endif
