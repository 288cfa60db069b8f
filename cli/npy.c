#include "npy.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "common/npy.h"
#include "message.h"

int npy_read(const char *path, struct npy *out)
{
    unsigned char *bytes;
    size_t len;
    int code = file_read(path, &bytes, &len);
    if (code != CLI_OK)
        return code;
    struct com_npy header;
    terse_fault fault = {0};
    if (!com_npy_parse(bytes, len, COM_NPY_F32, &header, &fault)) {
        free(bytes);
        return msg_error(CLI_REFUSED, "cannot read '%s' as an NPY vector: offset %llu: %s",
                         strcmp(path, "-") == 0 ? "standard input" : path,
                         (unsigned long long)fault.offset, fault.text);
    }
    /* The floats move to the front of the buffer, where malloc aligned it for them. */
    memmove(bytes, bytes + header.data_at, len - header.data_at);
    out->ndim = header.ndim;
    memcpy(out->dims, header.dims, sizeof out->dims);
    out->count = header.count;
    out->data = (void *)bytes;
    return CLI_OK;
}

void npy_free(struct npy *npy)
{
    free(npy->data);
    npy->data = NULL;
}

/* "(3, 4)", "(5,)", "()" */
static void write_shape(char *out, size_t cap, uint32_t ndim, const uint64_t *dims)
{
    size_t at = (size_t)snprintf(out, cap, "(");
    for (uint32_t i = 0; i < ndim; i++) {
        at += (size_t)snprintf(out + at, cap - at, "%s%llu", i == 0 ? "" : ", ",
                               (unsigned long long)dims[i]);
    }
    snprintf(out + at, cap - at, ndim == 1 ? ",)" : ")");
}

int npy_write(struct com_output *output, uint32_t ndim, const uint64_t *dims, const float *data)
{
    enum { PREFIX_LEN = 10, ALIGNMENT = 64, CAP = 512 };
    char shape[TERSE_MAX_DIMS * 24];
    write_shape(shape, sizeof shape, ndim, dims);
    char header[CAP];
    memset(header, ' ', sizeof header);
    int len = snprintf(header + PREFIX_LEN, CAP - PREFIX_LEN,
                       "{'descr': '<f4', 'fortran_order': False, 'shape': %s, }", shape);
    size_t total = (PREFIX_LEN + (size_t)len + 1 + ALIGNMENT - 1) / ALIGNMENT * ALIGNMENT;
    header[PREFIX_LEN + len] = ' '; /* snprintf's closing zero */
    header[total - 1] = '\n';
    size_t header_len = total - PREFIX_LEN;
    memcpy(header, "\x93NUMPY\x01\x00", 8);
    header[8] = (char)(header_len & 0xFF);
    header[9] = (char)(header_len >> 8);

    uint64_t count = 1;
    for (uint32_t i = 0; i < ndim; i++)
        count *= dims[i];
    int code = output_write(output, header, total);
    return code != CLI_OK ? code : output_write(output, data, (size_t)count * sizeof *data);
}
