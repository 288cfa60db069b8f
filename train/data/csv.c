/* CSV text in AG-News' layout: "class","title","description", classes from 1. Fields may be quoted
 * (a quote inside is doubled) or bare; a quoted field may hold line ends. */
#include <stdlib.h>
#include <string.h>

#include "data/read.h"

enum { FIELDS = 3, MOST_CLASS = 1000 };

/* The input, and where its text is written: never more bytes than were read. */
struct reader {
    const struct trn_bytes *in;
    size_t at;
    struct trn_examples *out;
    size_t text_len;
    terse_fault *fault;
};

static terse_status refuse(const struct reader *reader, size_t at, const char *why)
{
    return com_refuse(reader->fault, COM_BAD_FILE, reader->in->name, at, "%s", why);
}

static int peek(const struct reader *reader)
{
    return reader->at < reader->in->len ? reader->in->at[reader->at] : -1;
}

static void keep(struct reader *reader, int byte)
{
    reader->out->text[reader->text_len++] = (char)byte;
}

static terse_status read_quoted(struct reader *reader)
{
    const size_t start = reader->at++;
    for (;;) {
        const int byte = peek(reader);
        if (byte < 0)
            return refuse(reader, start, "this quote is never closed");
        reader->at++;
        if (byte == '"' && peek(reader) != '"')
            return TERSE_OK;
        if (byte == '"')
            reader->at++;
        keep(reader, byte);
    }
}

static terse_status read_field(struct reader *reader)
{
    int byte = peek(reader);
    if (byte == '"')
        return read_quoted(reader);
    for (; byte >= 0 && byte != ',' && byte != '\n' && byte != '\r'; byte = peek(reader)) {
        if (byte == '"')
            return refuse(reader, reader->at, "a quote inside a bare field");
        keep(reader, byte);
        reader->at++;
    }
    return TERSE_OK;
}

/* After a field: a comma, or after the last one the end of the line or of the file. */
static terse_status read_separator(struct reader *reader, int is_last)
{
    if (!is_last) {
        if (peek(reader) != ',')
            return refuse(reader, reader->at, "a comma is missing: class,title,description");
        reader->at++;
        return TERSE_OK;
    }
    if (peek(reader) == '\r')
        reader->at++;
    if (peek(reader) < 0)
        return TERSE_OK;
    if (peek(reader) != '\n')
        return refuse(reader, reader->at, "text after the description");
    reader->at++;
    return TERSE_OK;
}

/* Removes the class's digits from the text. */
static terse_status read_class(struct reader *reader, uint32_t *label)
{
    const size_t text_at = reader->text_len;
    const size_t at = reader->at;
    const terse_status status = read_field(reader);
    uint32_t value = 0;
    if (status != TERSE_OK)
        return status;
    for (size_t i = text_at; i < reader->text_len && value <= MOST_CLASS; i++) {
        const char digit = reader->out->text[i];
        if (digit < '0' || digit > '9')
            return refuse(reader, at, "the class is not a number");
        value = value * 10 + (uint32_t)(digit - '0');
    }
    if (value == 0 || value > MOST_CLASS)
        return refuse(reader, at, "the class is not in 1..1000");
    reader->text_len = text_at;
    *label = value - 1;
    return TERSE_OK;
}

static terse_status read_record(struct reader *reader)
{
    struct trn_examples *out = reader->out;
    terse_status status = read_class(reader, &out->labels[out->count]);
    for (int field = 1; field < FIELDS && status == TERSE_OK; field++) {
        status = read_separator(reader, 0);
        if (status != TERSE_OK)
            break;
        if (field > 1)
            keep(reader, ' '); /* in the place of the comma */
        status = read_field(reader);
    }
    if (status == TERSE_OK)
        status = read_separator(reader, 1);
    if (status == TERSE_OK)
        out->text_at[++out->count] = reader->text_len;
    return status;
}

terse_status trn_csv_read(const struct trn_bytes *in, struct trn_examples *out, terse_fault *fault)
{
    struct reader reader = {.in = in, .out = out, .fault = fault};
    size_t lines = 1; /* no fewer than records */
    for (size_t i = 0; i < in->len; i++)
        lines += in->at[i] == '\n';
    *out = (struct trn_examples){0};
    if (lines > UINT32_MAX)
        return refuse(&reader, in->len, "too many lines");
    out->labels = calloc(lines, sizeof *out->labels);
    out->text_at = calloc(lines + 1, sizeof *out->text_at);
    out->text = malloc(in->len + 1);
    if (!out->labels || !out->text_at || !out->text)
        return com_fail(fault, TERSE_NO_MEMORY, "no memory for the text of '%s'", in->name);
    while (reader.at < in->len) {
        const terse_status status = read_record(&reader);
        if (status != TERSE_OK)
            return status;
    }
    return out->count > 0 ? TERSE_OK : refuse(&reader, 0, "the file is empty");
}

static terse_status read_set(const char *folder, const char *name, struct trn_examples *out,
                             terse_fault *fault)
{
    char *path = com_path_join(folder, name);
    uint8_t *bytes = NULL;
    size_t len;
    terse_status status;
    if (!path)
        return com_fail(fault, TERSE_NO_MEMORY, "no memory to read '%s'", name);
    if (!com_file_exists(path))
        status = com_fail(fault, COM_NO_FILE, "no %s in '%.100s': tools/get-data agnews fetches it",
                          name, folder);
    else
        status = com_file_read(path, &bytes, &len, fault);
    if (status == TERSE_OK) {
        const struct trn_bytes in = {.name = path, .at = bytes, .len = len};
        status = trn_csv_read(&in, out, fault);
    }
    free(bytes);
    free(path);
    return status;
}

terse_status trn_open_agnews(struct trn_data *data, const char *where, uint64_t seed,
                             terse_fault *fault)
{
    (void)seed;
    terse_status status = read_set(where, "train.csv", &data->split[TRN_TRAIN], fault);
    if (status == TERSE_OK)
        status = read_set(where, "test.csv", &data->split[TRN_TEST], fault);
    if (status != TERSE_OK)
        return status;
    data->about.kind = TRN_DATA_TEXT;
    return trn_data_count_classes(data, fault);
}
