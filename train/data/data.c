#include "data/data.h"

#include <stdlib.h>
#include <string.h>

#include "common/names.h"
#include "data/object.h"
#include "data/read.h"
#include "files/hash.h"

typedef terse_status opener(struct trn_data *data, const char *where, uint64_t seed,
                            terse_fault *fault);

/* The table of data. To add some: a reader, and a row here, the only place that names it. */
static const struct {
    const char *name;
    const char *usage; /* the name and what follows the colon */
    opener *open;
    const char *model; /* the default model */
} sources[] = {
    {"fashion", "fashion", trn_open_fashion, "cnn"},
    {"digits", "digits", trn_open_digits, "cnn"},
    {"regression", "regression", trn_open_regression, "linear"},
    {"quadratic", "quadratic", trn_open_quadratic, "linear"},
    {"idx", "idx:DIR", trn_open_idx, "cnn"},
    {"cifar10", "cifar10:DIR", trn_open_cifar10, "resnet20"},
    {"cifar100", "cifar100:DIR", trn_open_cifar100, "resnet20"},
    {"agnews", "agnews:DIR", trn_open_agnews, "textbag"},
    {"libsvm", "libsvm:FILE", trn_open_libsvm, "logistic"},
    {"npy", "npy:DIR", trn_open_npy, "logistic"},
};
enum { SOURCES = sizeof sources / sizeof sources[0], MOST_NAME = 32 };

const char *trn_data_name(uint32_t index)
{
    return index < SOURCES ? sources[index].usage : NULL;
}

static const char *bare_name(uint32_t index)
{
    return index < SOURCES ? sources[index].name : NULL;
}

/* The row of a name, without what follows the colon; SOURCES: there is none. */
static size_t row_of(const char *name)
{
    const size_t len = strcspn(name, ":");
    size_t i = 0;
    while (i < SOURCES &&
           (strlen(sources[i].name) != len || strncmp(sources[i].name, name, len) != 0))
        i++;
    return i;
}

const char *trn_data_model(const char *name)
{
    const size_t row = row_of(name);
    return sources[row < SOURCES ? row : 0].model;
}

static terse_status unknown(const char *name, terse_fault *fault)
{
    char there[160];
    const size_t len = strcspn(name, ":");
    const int shown = (int)(len < MOST_NAME ? len : MOST_NAME);
    const int nearest = com_names_nearest(bare_name, name, len);
    if (nearest != COM_NO_NAME)
        return com_fail(fault, TERSE_BAD_SPEC, "no data named '%.*s'; did you mean '%s'?", shown,
                        name, sources[nearest].usage);
    return com_fail(fault, TERSE_BAD_SPEC, "no data named '%.*s'; there are %s", shown, name,
                    com_names_join(trn_data_name, ", ", there, sizeof there));
}

static terse_status find(const char *name, size_t *index, const char **where, terse_fault *fault)
{
    const char *const colon = strchr(name, ':');
    const size_t i = row_of(name);
    if (i == SOURCES)
        return unknown(name, fault);
    const int has_where = strchr(sources[i].usage, ':') != NULL;
    if (has_where && (!colon || !colon[1]))
        return com_fail(fault, TERSE_BAD_SPEC, "%s needs a path: write %s", sources[i].name,
                        sources[i].usage);
    if (!has_where && colon)
        return com_fail(fault, TERSE_BAD_SPEC, "'%s' takes no path", sources[i].name);
    *index = i;
    *where = colon ? colon + 1 : "";
    return TERSE_OK;
}

terse_status trn_data_open(const char *name, uint64_t seed, struct trn_data **out,
                           terse_fault *fault)
{
    size_t index;
    const char *where;
    terse_status status = find(name, &index, &where, fault);
    if (status != TERSE_OK)
        return status;
    struct trn_data *data = calloc(1, sizeof *data);
    char *copy = strdup(name);
    if (!data || !copy) {
        free(copy);
        free(data);
        return com_fail(fault, TERSE_NO_MEMORY, "no memory for the data '%s'", name);
    }
    data->name = copy;
    data->about.name = copy;
    data->about.notes = data->notes;
    status = sources[index].open(data, where, seed, fault);
    if (status != TERSE_OK) {
        trn_data_close(data);
        return status;
    }
    for (int i = 0; i < TRN_SPLITS; i++)
        data->about.count[i] = data->split[i].count;
    *out = data;
    return TERSE_OK;
}

void trn_examples_free(struct trn_examples *examples)
{
    free(examples->labels);
    free(examples->targets);
    free(examples->image_block);
    free(examples->dense);
    free(examples->row_at);
    free(examples->columns);
    free(examples->values);
    free(examples->text);
    free(examples->text_at);
    *examples = (struct trn_examples){0};
}

void trn_data_close(struct trn_data *data)
{
    if (!data)
        return;
    for (int i = 0; i < TRN_SPLITS; i++)
        trn_examples_free(&data->split[i]);
    free(data->name);
    free(data);
}

const struct trn_about *trn_data_about(const struct trn_data *data)
{
    return &data->about;
}

uint64_t trn_data_hash(const struct trn_data *data)
{
    const struct trn_about *const about = &data->about;
    uint64_t hash = about->classes;
    for (int i = 0; i < TRN_SPLITS; i++) {
        const struct trn_examples *const from = &data->split[i];
        const size_t count = from->count;
        const size_t entries = from->row_at ? from->row_at[count] : 0;
        const struct {
            const void *at;
            size_t len;
        } parts[] = {
            {from->labels, count * sizeof *from->labels},
            {from->targets, count * sizeof *from->targets},
            {from->pixels, count * about->features},
            {from->dense, count * about->features * sizeof *from->dense},
            {from->row_at, (count + 1) * sizeof *from->row_at},
            {from->columns, entries * sizeof *from->columns},
            {from->values, entries * sizeof *from->values},
            {from->text, from->text_at ? from->text_at[count] : 0},
            {from->text_at, (count + 1) * sizeof *from->text_at},
        };
        for (size_t p = 0; p < sizeof parts / sizeof parts[0]; p++)
            if (parts[p].at)
                hash = trn_hash64(parts[p].at, parts[p].len, hash + p);
    }
    return hash;
}

terse_status trn_data_load(const char *path, uint8_t **bytes, size_t *len, terse_fault *fault)
{
    const size_t path_len = strlen(path);
    terse_status status = com_file_read(path, bytes, len, fault);
    if (status != TERSE_OK || path_len < 3 || strcmp(path + path_len - 3, ".gz") != 0)
        return status;
    const struct trn_bytes packed = {.name = path, .at = *bytes, .len = *len};
    uint8_t *plain;
    status = trn_gunzip(&packed, &plain, len, fault);
    free(*bytes);
    *bytes = status == TERSE_OK ? plain : NULL;
    return status;
}

terse_status trn_data_count_classes(struct trn_data *data, terse_fault *fault)
{
    const struct trn_examples *train = &data->split[TRN_TRAIN];
    const struct trn_examples *test = &data->split[TRN_TEST];
    uint32_t most = 0;
    for (uint32_t i = 0; i < train->count; i++)
        if (train->labels[i] > most)
            most = train->labels[i];
    for (uint32_t i = 0; i < test->count; i++)
        if (test->labels[i] > most)
            return com_fail(fault, COM_BAD_FILE,
                            "%s: test example %u has label %u, the largest in training is %u",
                            data->name, i, test->labels[i], most);
    data->about.classes = most + 1;
    return TERSE_OK;
}

static terse_status check(const struct trn_data *data, enum trn_split split,
                          const uint32_t *examples, uint32_t count, const struct trn_text *text,
                          const struct trn_place *out, terse_fault *fault)
{
    const struct trn_about *about = &data->about;
    for (uint32_t i = 0; i < count; i++)
        if (examples[i] >= data->split[split].count)
            return com_fail(fault, TERSE_BAD_ARGUMENT, "%s: there is no example %u", about->name,
                            examples[i]);
    if (out->x && about->kind == TRN_DATA_TEXT)
        return com_fail(fault, TERSE_BAD_ARGUMENT, "%s: text has tokens, not floats", about->name);
    if ((out->tokens || out->lengths) && about->kind != TRN_DATA_TEXT)
        return com_fail(fault, TERSE_BAD_ARGUMENT, "%s: only text has tokens", about->name);
    if (out->labels && about->classes == 0)
        return com_fail(fault, TERSE_BAD_ARGUMENT, "%s: targets are numbers, there are no classes",
                        about->name);
    if ((out->tokens || out->lengths) &&
        (!text || !out->tokens || !out->lengths || text->buckets < 4 || text->buckets > INT32_MAX ||
         text->max_len == 0))
        return com_fail(
            fault, TERSE_BAD_ARGUMENT,
            "%s: tokens need a buffer, lengths, at least 4 buckets and a maximum length",
            about->name);
    return TERSE_OK;
}

terse_status trn_data_batch(const struct trn_data *data, enum trn_split split,
                            const uint32_t *examples, uint32_t count,
                            const struct trn_augment *augment, const struct trn_text *text,
                            const struct trn_place *out, terse_fault *fault)
{
    const struct trn_examples *from = &data->split[split];
    const terse_status status = check(data, split, examples, count, text, out, fault);
    if (status != TERSE_OK)
        return status;
    if (out->x && data->about.kind == TRN_DATA_IMAGE)
        trn_image_batch(data, from, examples, count, augment, out->x);
    if (out->x && data->about.kind == TRN_DATA_VECTOR)
        trn_vector_batch(data, from, examples, count, out->x);
    if (out->tokens)
        trn_text_batch(from, examples, count, text, out->tokens, out->lengths);
    for (uint32_t i = 0; out->labels && i < count; i++)
        out->labels[i] = from->labels[examples[i]];
    for (uint32_t i = 0; out->targets && i < count; i++)
        out->targets[i] =
            from->targets ? from->targets[examples[i]] : (float)from->labels[examples[i]];
    return TERSE_OK;
}
