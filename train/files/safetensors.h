/* Weights in the safetensors format, which other programs read: eight bytes length, a JSON header
 * with name, dtype, shape and offsets of every tensor, then the bytes, without gaps. */
#ifndef TRN_SAFETENSORS_H
#define TRN_SAFETENSORS_H

#include <stddef.h>
#include <stdint.h>

#include <terse/layout.h>

#include "common/file.h"
#include "files/bytes.h"

enum trn_dtype {
    TRN_F32,
    TRN_U8,
    TRN_OTHER, /* read only: bytes of a type that is not converted to numbers */
};

/* One tensor, to write or as read. */
struct trn_stored {
    const char *name;
    enum trn_dtype dtype;
    uint32_t ndim;
    uint64_t dims[TERSE_MAX_DIMS];
    const void *bytes; /* little-endian; as read it may be aligned to nothing */
    uint64_t len;      /* bytes */
};

/* Atomic. Names must be different and not empty. `note` (may be NULL) is kept in __metadata__. */
TERSE_CHECK terse_status trn_safetensors_write(const char *path, const struct trn_stored *tensors,
                                               uint32_t count, const char *note,
                                               terse_fault *fault);
/* Writes the tensors of a layout from its flat buffer, then `more` (running statistics). */
TERSE_CHECK terse_status trn_safetensors_write_layout(const char *path, const terse_layout *layout,
                                                      const float *flat,
                                                      const struct trn_stored *more,
                                                      uint32_t more_count, const char *note,
                                                      terse_fault *fault);

struct trn_safetensors;

TERSE_CHECK terse_status trn_safetensors_read(const char *path, struct trn_safetensors **out,
                                              terse_fault *fault);
/* From memory; the bytes are copied. */
TERSE_CHECK terse_status trn_safetensors_parse(const struct trn_bytes *in,
                                               struct trn_safetensors **out, terse_fault *fault);
void trn_safetensors_free(struct trn_safetensors *file); /* NULL is fine */

uint32_t trn_safetensors_count(const struct trn_safetensors *file);
const struct trn_stored *trn_safetensors_at(const struct trn_safetensors *file, uint32_t index);
const struct trn_stored *trn_safetensors_find(const struct trn_safetensors *file, const char *name);

/* Every tensor of the layout, but for those whose name matches a pattern of `except`
 * (com_patterns_match), must be there, F32, finite and of its shape, or nothing is written to
 * `flat`: TERSE_MISMATCH names the first that is not. Further tensors in the file are fine. */
TERSE_CHECK terse_status trn_safetensors_to_layout(const struct trn_safetensors *file,
                                                   const terse_layout *layout, const char *except,
                                                   float *flat, terse_fault *fault);

/* "64 x 3 x 3 x 3", or "()" for a scalar. Returns `out`. */
char *trn_shape_text(uint32_t ndim, const uint64_t *dims, char *out, size_t cap);

#endif
