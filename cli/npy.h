/* NPY, NumPy's file format, as far as vectors need it: float32, little-endian, C order, any shape.
 * Versions 1, 2 and 3 are read, version 1 is written. */
#ifndef CLI_NPY_H
#define CLI_NPY_H

#include <stddef.h>
#include <stdint.h>

#include <terse/layout.h>
#include <terse/status.h>

#include "file.h"

struct npy {
    uint32_t ndim;
    uint64_t dims[TERSE_MAX_DIMS];
    uint64_t count; /* product of dims */
    float *data;    /* npy_free frees it */
};

/* Reads the header of a complete file: shape and where the data begin. Returns 1, or 0 and the
 * fault's offset and rule. Touches only bytes[0..len-1]; afterwards
 * *data_at + 4 * count == len holds. */
int npy_parse(const unsigned char *bytes, size_t len, struct npy *out, size_t *data_at,
              terse_fault *fault);

/* Reads a file ("-": standard input). Returns an exit code and prints errors. */
int npy_read(const char *path, struct npy *out);
void npy_free(struct npy *npy);

/* Header and data into an open output. Returns an exit code. */
int npy_write(struct com_output *output, uint32_t ndim, const uint64_t *dims, const float *data);

#endif
