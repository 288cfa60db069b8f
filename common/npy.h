/* NPY, NumPy's file format: the header of a little-endian array in C order, of any shape. Versions
 * 1, 2 and 3. What may follow is the caller's choice of types. */
#ifndef COM_NPY_H
#define COM_NPY_H

#include <stddef.h>
#include <stdint.h>

#include <terse/layout.h>
#include <terse/status.h>

/* Types of elements, as bits of a set. */
enum {
    COM_NPY_F32 = 1,
    COM_NPY_U8 = 2,
    COM_NPY_I8 = 4,
    COM_NPY_U16 = 8,
    COM_NPY_I16 = 16,
    COM_NPY_U32 = 32,
    COM_NPY_I32 = 64,
    COM_NPY_U64 = 128,
    COM_NPY_I64 = 256,
    COM_NPY_INTEGERS = COM_NPY_U8 | COM_NPY_I8 | COM_NPY_U16 | COM_NPY_I16 | COM_NPY_U32 |
                       COM_NPY_I32 | COM_NPY_U64 | COM_NPY_I64,
};

struct com_npy {
    unsigned type; /* one of the above */
    size_t width;  /* bytes of an element */
    uint32_t ndim;
    uint64_t dims[TERSE_MAX_DIMS];
    uint64_t count; /* product of dims */
    size_t data_at; /* where the elements begin in the file */
};

/* Reads the header of a complete file whose type is one of the set `types`. Returns 1, or 0 and the
 * fault's offset and rule. Touches only bytes[0..len-1]; afterwards data_at + width * count == len
 * holds. */
int com_npy_parse(const unsigned char *bytes, size_t len, unsigned types, struct com_npy *out,
                  terse_fault *fault);

/* Element `i` of integers as a number; the bytes are those of the file. 1, or 0 if it is negative.
 */
int com_npy_whole(const struct com_npy *npy, const unsigned char *bytes, uint64_t i, uint64_t *out);

#endif
