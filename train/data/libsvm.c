/* libsvm's sparse text: a label and ascending index:value pairs on every line, indices from 1; a #
 * starts a comment. */
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "data/read.h"

enum { MOST_NUMBER = 63, MOST_FEATURES = 1 << 24, MOST_CLASSES = 1000 };

struct reader {
    const struct trn_bytes *in;
    size_t at;
    size_t line_end; /* end of the current line, before a comment */
    struct trn_examples *out;
    size_t elements;
    size_t element_cap;
    uint32_t features;
    terse_fault *fault;
};

static terse_status refuse(const struct reader *reader, size_t at, const char *why)
{
    return com_refuse(reader->fault, COM_BAD_FILE, reader->in->name, at, "%s", why);
}

static int is_blank(uint8_t byte)
{
    return byte == ' ' || byte == '\t' || byte == '\r';
}

static void skip_blanks(struct reader *reader)
{
    while (reader->at < reader->line_end && is_blank(reader->in->at[reader->at]))
        reader->at++;
}

/* A decimal number that ends at `stop`, a blank or the line's end. */
static terse_status read_number(struct reader *reader, char stop, double *value)
{
    char text[MOST_NUMBER + 1];
    size_t len = 0;
    char *end;
    const size_t start = reader->at;
    while (reader->at < reader->line_end && len < MOST_NUMBER) {
        const uint8_t byte = reader->in->at[reader->at];
        if (byte == (uint8_t)stop || is_blank(byte))
            break;
        if (byte == 0 || !strchr("0123456789+-.eE", byte)) /* strtod takes nan and hexadecimal */
            return refuse(reader, start, "not a number");
        text[len++] = (char)byte;
        reader->at++;
    }
    text[len] = '\0';
    *value = strtod(text, &end);
    if (len == 0 || len == MOST_NUMBER || *end != '\0' || !isfinite((float)*value))
        return refuse(reader, start, "not a number that a float can hold");
    return TERSE_OK;
}

static int grow(struct reader *reader)
{
    struct trn_examples *out = reader->out;
    if (reader->elements < reader->element_cap)
        return 1;
    const size_t cap = reader->element_cap ? reader->element_cap * 2 : 1024;
    uint32_t *columns = realloc(out->columns, cap * sizeof *columns);
    if (columns)
        out->columns = columns;
    float *values = columns ? realloc(out->values, cap * sizeof *values) : NULL;
    if (!values)
        return 0;
    out->values = values;
    reader->element_cap = cap;
    return 1;
}

/* One index:value; `*next` is the least column allowed. */
static terse_status read_element(struct reader *reader, uint32_t *next)
{
    const size_t start = reader->at;
    double index;
    double value;
    terse_status status = read_number(reader, ':', &index);
    if (status != TERSE_OK)
        return status;
    if (!(index >= 1 && index <= MOST_FEATURES) || index != floor(index))
        return refuse(reader, start, "an index is a whole number from 1 to 16777216");
    if ((uint32_t)index - 1 < *next)
        return refuse(reader, start, "indices do not ascend");
    if (reader->at >= reader->line_end || reader->in->at[reader->at] != ':')
        return refuse(reader, reader->at, "a colon is missing: index:value");
    reader->at++;
    status = read_number(reader, ' ', &value);
    if (status != TERSE_OK)
        return status;
    if (!grow(reader))
        return com_fail(reader->fault, TERSE_NO_MEMORY, "no memory for the data of '%s'",
                        reader->in->name);
    reader->out->columns[reader->elements] = (uint32_t)index - 1;
    reader->out->values[reader->elements++] = (float)value;
    *next = (uint32_t)index;
    return TERSE_OK;
}

static terse_status read_line(struct reader *reader)
{
    struct trn_examples *out = reader->out;
    double label;
    uint32_t next = 0;
    skip_blanks(reader);
    if (reader->at == reader->line_end)
        return TERSE_OK; /* an empty line */
    terse_status status = read_number(reader, ' ', &label);
    if (status != TERSE_OK)
        return status;
    for (skip_blanks(reader); reader->at < reader->line_end; skip_blanks(reader)) {
        status = read_element(reader, &next);
        if (status != TERSE_OK)
            return status;
    }
    if (next > reader->features)
        reader->features = next;
    out->targets[out->count++] = (float)label;
    out->row_at[out->count] = reader->elements;
    return TERSE_OK;
}

static terse_status read_lines(struct reader *reader)
{
    const struct trn_bytes *in = reader->in;
    while (reader->at < in->len) {
        const uint8_t *start = in->at + reader->at;
        const uint8_t *end = memchr(start, '\n', in->len - reader->at);
        const size_t len = end ? (size_t)(end - start) : in->len - reader->at;
        const uint8_t *remark = len > 0 ? memchr(start, '#', len) : NULL;
        reader->line_end = reader->at + (remark ? (size_t)(remark - start) : len);
        const size_t next = reader->at + len + (end != NULL);
        const terse_status status = read_line(reader);
        if (status != TERSE_OK)
            return status;
        reader->at = next;
    }
    return reader->out->count > 0 ? TERSE_OK : refuse(reader, 0, "no line with a label");
}

terse_status trn_libsvm_read(const struct trn_bytes *in, struct trn_examples *out,
                             uint32_t *features, terse_fault *fault)
{
    struct reader reader = {.in = in, .out = out, .fault = fault};
    size_t lines = 1;
    for (size_t i = 0; i < in->len; i++)
        lines += in->at[i] == '\n';
    *out = (struct trn_examples){0};
    if (lines > UINT32_MAX)
        return refuse(&reader, in->len, "too many lines");
    out->targets = calloc(lines, sizeof *out->targets);
    out->row_at = calloc(lines + 1, sizeof *out->row_at);
    if (!out->targets || !out->row_at || !grow(&reader))
        return com_fail(fault, TERSE_NO_MEMORY, "no memory for the data of '%s'", in->name);
    const terse_status status = read_lines(&reader);
    if (status == TERSE_OK)
        *features = reader.features;
    return status;
}

/* The distinct labels of the training set, sorted; 0 if they are not classes: not whole numbers, or
 * too many. */
static uint32_t list_labels(const struct trn_examples *train, float labels[MOST_CLASSES])
{
    uint32_t known = 0;
    for (uint32_t i = 0; i < train->count; i++) {
        const float label = train->targets[i];
        uint32_t at = 0;
        while (at < known && labels[at] < label)
            at++;
        if (at < known && labels[at] == label)
            continue;
        if (known == MOST_CLASSES || label != floorf(label))
            return 0;
        memmove(labels + at + 1, labels + at, (known - at) * sizeof *labels);
        labels[at] = label;
        known++;
    }
    return known;
}

/* Labels become their number in the sorted list: -1 and 1 become 0 and 1. */
static terse_status number_labels(struct trn_examples *split, const float *labels, uint32_t known,
                                  const char *name, terse_fault *fault)
{
    split->labels = malloc(split->count * sizeof *split->labels);
    if (!split->labels)
        return com_fail(fault, TERSE_NO_MEMORY, "no memory for the labels of '%s'", name);
    for (uint32_t i = 0; i < split->count; i++) {
        uint32_t at = 0;
        while (at < known && labels[at] != split->targets[i])
            at++;
        if (at == known)
            return com_fail(fault, COM_BAD_FILE,
                            "%s: example %u has label %g, which the training set lacks", name, i,
                            (double)split->targets[i]);
        split->labels[i] = at;
    }
    free(split->targets);
    split->targets = NULL;
    return TERSE_OK;
}

static terse_status find_classes(struct trn_data *data, terse_fault *fault)
{
    float labels[MOST_CLASSES + 1];
    const uint32_t known = list_labels(&data->split[TRN_TRAIN], labels);
    if (known == 0)
        return TERSE_OK; /* a regression */
    data->about.classes = known;
    for (int i = 0; i < TRN_SPLITS; i++) {
        const terse_status status =
            number_labels(&data->split[i], labels, known, data->name, fault);
        if (status != TERSE_OK)
            return status;
    }
    return TERSE_OK;
}

static terse_status read_file(const char *path, struct trn_examples *out, uint32_t *features,
                              terse_fault *fault)
{
    uint8_t *bytes;
    size_t len;
    uint32_t own = 0;
    terse_status status = trn_data_load(path, &bytes, &len, fault);
    if (status != TERSE_OK)
        return status;
    const struct trn_bytes in = {.name = path, .at = bytes, .len = len};
    status = trn_libsvm_read(&in, out, &own, fault);
    if (own > *features)
        *features = own;
    free(bytes);
    return status;
}

/* "FILE" or "FILE,test=FILE2"; the caller frees both. */
static int split_where(const char *where, char **train, char **test)
{
    static const char option[] = ",test=";
    const char *comma = strstr(where, option);
    const size_t len = comma ? (size_t)(comma - where) : strlen(where);
    *train = strndup(where, len);
    *test = comma ? strdup(comma + sizeof option - 1) : malloc(len + sizeof ".t");
    if (*test && !comma) {
        memcpy(*test, where, len);
        memcpy(*test + len, ".t", sizeof ".t");
    }
    return *train && *test;
}

static terse_status open_both(struct trn_data *data, const char *train, const char *test,
                              terse_fault *fault)
{
    terse_status status = read_file(train, &data->split[TRN_TRAIN], &data->about.features, fault);
    if (status != TERSE_OK)
        return status;
    if (!com_file_exists(test))
        return com_fail(fault, COM_NO_FILE, "no test set '%.100s': write libsvm:FILE,test=FILE2",
                        test);
    status = read_file(test, &data->split[TRN_TEST], &data->about.features, fault);
    if (status != TERSE_OK)
        return status;
    if (data->about.features == 0)
        return com_fail(fault, COM_BAD_FILE, "%s: no example has a feature", train);
    data->about.kind = TRN_DATA_VECTOR;
    data->about.std[0] = 1.0f;
    return find_classes(data, fault);
}

terse_status trn_open_libsvm(struct trn_data *data, const char *where, uint64_t seed,
                             terse_fault *fault)
{
    char *train;
    char *test;
    terse_status status;
    (void)seed;
    if (split_where(where, &train, &test))
        status = open_both(data, train, test, fault);
    else
        status = com_fail(fault, TERSE_NO_MEMORY, "no memory to read '%s'", where);
    free(train);
    free(test);
    return status;
}
