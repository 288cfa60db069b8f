/* NPY files of float32 vectors: common/npy.h reads the header; version 1 is written. */
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

/* Reads a file ("-": standard input). Returns an exit code and prints errors. */
int npy_read(const char *path, struct npy *out);
void npy_free(struct npy *npy);

/* Header and data into an open output. Returns an exit code. */
int npy_write(struct com_output *output, uint32_t ndim, const uint64_t *dims, const float *data);

#endif
