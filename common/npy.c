/* The header is text: a Python dictionary with exactly the keys descr, fortran_order and shape. It
 * is read strictly, character by character; only what NumPy writes is accepted. */
#include "common/npy.h"

#include <stdarg.h>
#include <stdio.h>
#include <string.h>

enum { MAGIC_LEN = 6, LONGEST_HEADER = 65536 };

struct reader {
    const unsigned char *bytes;
    size_t at;
    size_t end;     /* of the header */
    unsigned types; /* that are accepted */
    terse_fault *fault;
};

__attribute__((format(printf, 3, 4))) static int refuse(const struct reader *r, size_t at,
                                                        const char *format, ...)
{
    r->fault->offset = at;
    va_list values;
    va_start(values, format);
    vsnprintf(r->fault->text, sizeof r->fault->text, format, values);
    va_end(values);
    return 0;
}

static void skip_blanks(struct reader *r)
{
    while (r->at < r->end && (r->bytes[r->at] == ' ' || r->bytes[r->at] == '\t'))
        r->at++;
}

/* The next character if it is `wanted`, past blanks. */
static int accept(struct reader *r, char wanted)
{
    skip_blanks(r);
    if (r->at < r->end && r->bytes[r->at] == (unsigned char)wanted) {
        r->at++;
        return 1;
    }
    return 0;
}

static int expect(struct reader *r, char wanted)
{
    if (accept(r, wanted))
        return 1;
    return refuse(r, r->at, "header: '%c' expected", wanted);
}

/* 'text' or "text", without escapes. */
static int read_string(struct reader *r, char *out, size_t cap)
{
    skip_blanks(r);
    size_t start = r->at;
    if (start == r->end || (r->bytes[start] != '\'' && r->bytes[start] != '"'))
        return refuse(r, start, "header: a quoted word expected");
    const unsigned char *text = r->bytes + start + 1;
    const unsigned char *close = memchr(text, r->bytes[start], r->end - start - 1);
    size_t len = !close ? 0 : (size_t)(close - text);
    if (!close || len >= cap) {
        return refuse(r, start, "header: %s",
                      !close ? "a quote is not closed" : "a quoted word is too long");
    }
    for (size_t i = 0; i < len; i++)
        if (text[i] < ' ' || text[i] > '~' || text[i] == '\\')
            return refuse(r, start + 1 + i, "header: byte 0x%02x inside a word", text[i]);
    memcpy(out, text, len);
    out[len] = '\0';
    r->at = start + len + 2;
    return 1;
}

static int accept_word(struct reader *r, const char *word)
{
    size_t len = strlen(word);
    skip_blanks(r);
    if (r->end - r->at < len || memcmp(r->bytes + r->at, word, len) != 0)
        return 0;
    r->at += len;
    return 1;
}

static const struct {
    const char *descr; /* of one byte also with '<' */
    const char *name;
    unsigned type; /* 0: it is known, to be refused by its name */
    size_t width;
} types[] = {
    {"<f4", "float32", COM_NPY_F32, 4},
    {"|u1", "uint8", COM_NPY_U8, 1},
    {"|i1", "int8", COM_NPY_I8, 1},
    {"<u2", "uint16", COM_NPY_U16, 2},
    {"<i2", "int16", COM_NPY_I16, 2},
    {"<u4", "uint32", COM_NPY_U32, 4},
    {"<i4", "int32", COM_NPY_I32, 4},
    {"<u8", "uint64", COM_NPY_U64, 8},
    {"<i8", "int64", COM_NPY_I64, 8},
    {"<f8", "float64", 0, 8},
    {"<f2", "float16", 0, 2},
    {">f4", "big-endian float32", 0, 4},
    {"|b1", "bool", 0, 1},
};
enum { TYPES = sizeof types / sizeof types[0] };

/* "float32 ('<f4')" of one type, "float32, uint8" of several. */
static const char *list_types(unsigned accepted, char *out, size_t cap)
{
    const int is_one = (accepted & (accepted - 1)) == 0;
    size_t used = 0;
    for (size_t i = 0; i < TYPES && used < cap; i++) {
        if (!(types[i].type & accepted))
            continue;
        used += (size_t)snprintf(out + used, cap - used, "%s%s", used ? ", " : "", types[i].name);
        if (is_one && used < cap)
            used += (size_t)snprintf(out + used, cap - used, " ('%s')", types[i].descr);
    }
    return out;
}

static int read_descr(struct reader *r, struct com_npy *out)
{
    char type[16];
    char listed[120] = "";
    skip_blanks(r);
    size_t at = r->at;
    list_types(r->types, listed, sizeof listed);
    if (accept(r, '['))
        return refuse(r, at, "a structured type; only %s is read", listed);
    if (!read_string(r, type, sizeof type))
        return 0;
    if (strcmp(type, "<u1") == 0 || strcmp(type, "<i1") == 0)
        type[0] = '|'; /* the order of one byte */
    size_t i = 0;
    while (i < TYPES && strcmp(type, types[i].descr) != 0)
        i++;
    if (i == TYPES || !(types[i].type & r->types))
        return refuse(r, at, "type '%s'%s%s%s; only %s is read", type, i < TYPES ? " (" : "",
                      i < TYPES ? types[i].name : "", i < TYPES ? ")" : "", listed);
    out->type = types[i].type;
    out->width = types[i].width;
    return 1;
}

static int read_order(struct reader *r)
{
    skip_blanks(r);
    size_t at = r->at;
    if (accept_word(r, "False"))
        return 1;
    if (accept_word(r, "True"))
        return refuse(r, at, "fortran_order is True; only C order is read");
    return refuse(r, at, "header: True or False expected");
}

static int read_dim(struct reader *r, uint64_t *out)
{
    skip_blanks(r);
    size_t start = r->at;
    uint64_t value = 0;
    while (r->at < r->end && r->bytes[r->at] >= '0' && r->bytes[r->at] <= '9') {
        uint64_t digit = (uint64_t)(r->bytes[r->at] - '0');
        if (value > TERSE_MAX_COUNT)
            return refuse(r, start, "shape: a dimension is over the limit of 2^40");
        value = value * 10 + digit;
        r->at++;
    }
    if (r->at == start)
        return refuse(r, start, "shape: a dimension expected");
    *out = value;
    return 1;
}

/* (), (n,), (n, m), (n, m,) */
static int read_shape(struct reader *r, struct com_npy *out)
{
    skip_blanks(r);
    size_t start = r->at;
    int comma = 1;
    out->ndim = 0;
    if (!expect(r, '('))
        return 0;
    while (!accept(r, ')')) {
        if (!comma)
            return refuse(r, r->at, "shape: ',' or ')' expected");
        if (out->ndim == TERSE_MAX_DIMS)
            return refuse(r, start, "shape: more than %u dimensions", TERSE_MAX_DIMS);
        if (!read_dim(r, &out->dims[out->ndim]))
            return 0;
        out->ndim++;
        comma = accept(r, ',');
    }
    if (out->ndim == 1 && !comma)
        return refuse(r, start, "shape: (n) is not a tuple, (n,) is");
    out->count = 1;
    for (uint32_t i = 0; i < out->ndim; i++) {
        if (out->dims[i] != 0 && out->count > TERSE_MAX_COUNT / out->dims[i])
            return refuse(r, start, "shape: more than 2^40 elements");
        out->count *= out->dims[i];
    }
    return 1;
}

static int read_entry(struct reader *r, struct com_npy *out, unsigned *seen)
{
    static const char *const keys[] = {"descr", "fortran_order", "shape"};
    char key[24];
    skip_blanks(r);
    size_t at = r->at;
    if (!read_string(r, key, sizeof key))
        return 0;
    unsigned which = 0;
    while (which < 3 && strcmp(key, keys[which]) != 0)
        which++;
    if (which == 3)
        return refuse(r, at, "header: unknown key '%s'", key);
    if (*seen & 1u << which)
        return refuse(r, at, "header: '%s' is given twice", key);
    *seen |= 1u << which;
    if (!expect(r, ':'))
        return 0;
    return which == 0 ? read_descr(r, out) : which == 1 ? read_order(r) : read_shape(r, out);
}

static int read_dictionary(struct reader *r, struct com_npy *out)
{
    size_t start = r->at;
    unsigned seen = 0;
    int comma = 1;
    if (!expect(r, '{'))
        return 0;
    while (!accept(r, '}')) {
        if (!comma)
            return refuse(r, r->at, "header: ',' or '}' expected");
        if (!read_entry(r, out, &seen))
            return 0;
        comma = accept(r, ',');
    }
    if (seen != 7) {
        return refuse(r, start, "header: '%s' is missing",
                      !(seen & 1)   ? "descr"
                      : !(seen & 2) ? "fortran_order"
                                    : "shape");
    }
    skip_blanks(r);
    if (r->at + 1 != r->end || r->bytes[r->at] != '\n')
        return refuse(r, r->at, "header: blanks and one newline must end it");
    r->at++;
    return 1;
}

/* Magic, version and header length; leaves the reader at the header's text. */
static int read_prefix(struct reader *r, size_t len)
{
    static const unsigned char magic[MAGIC_LEN] = {0x93, 'N', 'U', 'M', 'P', 'Y'};
    size_t known = len < MAGIC_LEN ? len : MAGIC_LEN;
    if (known == 0 || memcmp(r->bytes, magic, known) != 0)
        return refuse(r, 0, len == 0 ? "the file is empty" : "no NPY magic");
    if (len < MAGIC_LEN + 4)
        return refuse(r, len, "the file ends before the header's length");
    unsigned major = r->bytes[MAGIC_LEN];
    unsigned minor = r->bytes[MAGIC_LEN + 1];
    if (major < 1 || major > 3 || minor != 0)
        return refuse(r, MAGIC_LEN, "NPY version %u.%u; 1.0, 2.0 and 3.0 are read", major, minor);
    size_t length_at = MAGIC_LEN + 2;
    size_t width = major == 1 ? 2 : 4;
    if (len < length_at + width)
        return refuse(r, len, "the file ends before the header's length");
    uint64_t header_len = 0;
    for (size_t i = width; i-- > 0;)
        header_len = header_len << 8 | r->bytes[length_at + i];
    r->at = length_at + width;
    if (header_len > LONGEST_HEADER) {
        return refuse(r, length_at, "a header of %llu bytes; at most %d are read",
                      (unsigned long long)header_len, LONGEST_HEADER);
    }
    if (header_len > len - r->at)
        return refuse(r, len, "the file ends inside the header");
    r->end = r->at + (size_t)header_len;
    return 1;
}

int com_npy_parse(const unsigned char *bytes, size_t len, unsigned accepted, struct com_npy *out,
                  terse_fault *fault)
{
    struct reader r = {.bytes = bytes, .types = accepted, .fault = fault};
    if (!read_prefix(&r, len) || !read_dictionary(&r, out))
        return 0;
    uint64_t here = len - r.at;
    uint64_t wanted = out->count * out->width;
    if (here < wanted) {
        return refuse(&r, len, "the file ends inside the data: %llu bytes of %llu",
                      (unsigned long long)here, (unsigned long long)wanted);
    }
    if (here > wanted) {
        return refuse(&r, r.at + (size_t)wanted, "%llu bytes after the data",
                      (unsigned long long)(here - wanted));
    }
    out->data_at = r.at;
    return 1;
}

int com_npy_whole(const struct com_npy *npy, const unsigned char *bytes, uint64_t i, uint64_t *out)
{
    const unsigned char *const at = bytes + npy->data_at + i * npy->width;
    const unsigned is_signed = COM_NPY_I8 | COM_NPY_I16 | COM_NPY_I32 | COM_NPY_I64;
    uint64_t value = 0;
    unsigned char top = 0;
    for (size_t b = 0; b < npy->width; b++)
        top = at[b];
    for (size_t b = npy->width; b-- > 0;)
        value = value << 8 | at[b];
    *out = value;
    return !(npy->type & is_signed && top & 0x80);
}
