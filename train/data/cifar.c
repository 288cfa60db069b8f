/* CIFAR-10 and CIFAR-100, binary version: records of one or two label bytes and 3072 pixels, red,
 * green and blue plane of 32x32. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "data/read.h"

enum { SIDE = 32, MOST_BATCHES = 5 };

const struct trn_cifar_form trn_cifar10 = {.label_len = 1, .limits = {10}};
const struct trn_cifar_form trn_cifar100 = {.label_len = 2, .limits = {20, 100}};

static size_t record_len(const struct trn_cifar_form *form)
{
    return (size_t)form->label_len + TRN_CIFAR_PIXELS;
}

terse_status trn_cifar_count(const struct trn_bytes *in, const struct trn_cifar_form *form,
                             uint32_t *count, terse_fault *fault)
{
    const size_t len = record_len(form);
    const size_t records = in->len / len;
    if (records == 0 || records > UINT32_MAX / 2)
        return com_refuse(fault, COM_BAD_FILE, in->name, in->len, "%zu records of %zu bytes",
                          records, len);
    if (in->len % len != 0)
        return com_refuse(fault, COM_BAD_FILE, in->name, records * len,
                          "the last record has %zu of %zu bytes", in->len % len, len);
    for (size_t i = 0; i < records; i++)
        for (uint32_t j = 0; j < form->label_len; j++)
            if (in->at[i * len + j] >= form->limits[j])
                return com_refuse(fault, COM_BAD_FILE, in->name, i * len + j,
                                  "label %u, the largest is %u", in->at[i * len + j],
                                  form->limits[j] - 1);
    *count = (uint32_t)records;
    return TERSE_OK;
}

/* Appends the records of a file that trn_cifar_count has accepted. */
static terse_status append(const struct trn_bytes *in, const struct trn_cifar_form *form,
                           uint32_t count, struct trn_examples *out, terse_fault *fault)
{
    const size_t all = (size_t)out->count + count;
    uint8_t *pixels = all <= UINT32_MAX ? realloc(out->image_block, all * TRN_CIFAR_PIXELS) : NULL;
    if (pixels)
        out->image_block = pixels;
    uint32_t *labels = pixels ? realloc(out->labels, all * sizeof *labels) : NULL;
    if (!labels)
        return com_fail(fault, TERSE_NO_MEMORY, "no memory for the images of '%s'", in->name);
    out->labels = labels;
    for (uint32_t i = 0; i < count; i++) {
        const uint8_t *record = in->at + i * record_len(form);
        labels[out->count + i] = record[form->label_len - 1];
        memcpy(pixels + ((size_t)out->count + i) * TRN_CIFAR_PIXELS, record + form->label_len,
               TRN_CIFAR_PIXELS);
    }
    out->pixels = pixels;
    out->count = (uint32_t)all;
    return TERSE_OK;
}

/* Reads one file if it exists; *found: 1 if it does. */
static terse_status read_file(const char *folder, const char *name,
                              const struct trn_cifar_form *form, struct trn_examples *out,
                              int *found, terse_fault *fault)
{
    char *path = com_path_join(folder, name);
    uint8_t *bytes = NULL;
    size_t len;
    uint32_t count = 0;
    if (!path)
        return com_fail(fault, TERSE_NO_MEMORY, "no memory to read '%s'", name);
    *found = com_file_exists(path);
    terse_status status = *found ? com_file_read(path, &bytes, &len, fault) : TERSE_OK;
    if (bytes) {
        const struct trn_bytes in = {.name = path, .at = bytes, .len = len};
        status = trn_cifar_count(&in, form, &count, fault);
        if (status == TERSE_OK)
            status = append(&in, form, count, out, fault);
    }
    free(bytes);
    free(path);
    return status;
}

static terse_status missing(const char *folder, const char *what, const char *name,
                            terse_fault *fault)
{
    return com_fail(fault, COM_NO_FILE, "no %s in '%.100s': tools/get-data %s fetches it", what,
                    folder, name);
}

static terse_status finish(struct trn_data *data, uint32_t classes)
{
    data->about.kind = TRN_DATA_IMAGE;
    data->about.channels = 3;
    data->about.height = SIDE;
    data->about.width = SIDE;
    data->about.features = TRN_CIFAR_PIXELS;
    data->about.classes = classes;
    trn_image_normalise(data);
    return TERSE_OK;
}

terse_status trn_open_cifar10(struct trn_data *data, const char *where, uint64_t seed,
                              terse_fault *fault)
{
    int batches = 0;
    int found;
    (void)seed;
    for (int i = 1; i <= MOST_BATCHES; i++) {
        char name[32];
        (void)snprintf(name, sizeof name, "data_batch_%d.bin", i);
        const terse_status status =
            read_file(where, name, &trn_cifar10, &data->split[TRN_TRAIN], &found, fault);
        if (status != TERSE_OK)
            return status;
        batches += found;
    }
    if (batches == 0)
        return missing(where, "data_batch_1.bin", "cifar10", fault);
    const terse_status status =
        read_file(where, "test_batch.bin", &trn_cifar10, &data->split[TRN_TEST], &found, fault);
    if (status != TERSE_OK)
        return status;
    if (!found)
        return missing(where, "test_batch.bin", "cifar10", fault);
    if (batches < MOST_BATCHES)
        (void)snprintf(data->notes, sizeof data->notes,
                       "%d of %d training batches are there: %u images", batches, MOST_BATCHES,
                       data->split[TRN_TRAIN].count);
    return finish(data, trn_cifar10.limits[0]);
}

terse_status trn_open_cifar100(struct trn_data *data, const char *where, uint64_t seed,
                               terse_fault *fault)
{
    static const char *const names[TRN_SPLITS] = {"train.bin", "test.bin"};
    (void)seed;
    for (int i = 0; i < TRN_SPLITS; i++) {
        int found;
        const terse_status status =
            read_file(where, names[i], &trn_cifar100, &data->split[i], &found, fault);
        if (status != TERSE_OK)
            return status;
        if (!found)
            return missing(where, names[i], "cifar100", fault);
    }
    return finish(data, trn_cifar100.limits[1]);
}
