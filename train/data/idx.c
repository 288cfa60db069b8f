/* IDX: two zero bytes, the type, the number of dimensions, each dimension as a big-endian u32, then
 * the numbers. MNIST and its relatives are four such files. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "data/read.h"

enum { UNSIGNED_BYTE = 8, MOST_SIDE = 1024 };
#define FASHION_FOLDER "/usr/share/datasets/fashion-mnist"

static uint32_t get_u32(const uint8_t *at)
{
    return (uint32_t)at[0] << 24 | (uint32_t)at[1] << 16 | (uint32_t)at[2] << 8 | at[3];
}

/* Checks the head, and that the values fill the rest of the file exactly. */
static terse_status read_head(const struct trn_bytes *in, uint32_t ndim, uint32_t dims[3],
                              terse_fault *fault)
{
    const size_t head_len = 4 + 4 * (size_t)ndim;
    uint64_t count = 1;
    if (in->len < head_len)
        return com_refuse(fault, COM_BAD_FILE, in->name, in->len, "the file ends in its head");
    if (in->at[0] != 0 || in->at[1] != 0 || in->at[2] != UNSIGNED_BYTE || in->at[3] != ndim)
        return com_refuse(fault, COM_BAD_FILE, in->name, 0,
                          "not an IDX file of bytes in %u dimensions", ndim);
    for (uint32_t i = 0; i < ndim; i++) {
        dims[i] = get_u32(in->at + 4 + 4 * (size_t)i);
        if (dims[i] == 0 || (i > 0 && dims[i] > MOST_SIDE))
            return com_refuse(fault, COM_BAD_FILE, in->name, 4 + 4 * (size_t)i,
                              "dimension %u is %u", i, dims[i]);
        count *= dims[i];
    }
    if (count != in->len - head_len)
        return com_refuse(fault, COM_BAD_FILE, in->name, in->len,
                          "%llu bytes of values, the head announces %llu",
                          (unsigned long long)(in->len - head_len), (unsigned long long)count);
    return TERSE_OK;
}

terse_status trn_idx_images(const struct trn_bytes *in, struct trn_idx_images *out,
                            terse_fault *fault)
{
    uint32_t dims[3] = {0};
    const terse_status status = read_head(in, 3, dims, fault);
    if (status == TERSE_OK)
        *out = (struct trn_idx_images){dims[0], dims[1], dims[2], in->at + 16};
    return status;
}

terse_status trn_idx_labels(const struct trn_bytes *in, struct trn_idx_labels *out,
                            terse_fault *fault)
{
    uint32_t dims[3] = {0};
    const terse_status status = read_head(in, 1, dims, fault);
    if (status == TERSE_OK)
        *out = (struct trn_idx_labels){dims[0], in->at + 8};
    return status;
}

/* The first of the usual spellings that exists; the caller frees it. NULL: none, or no memory. */
static char *find_file(const char *folder, const char *set, const char *what, const char *shape)
{
    static const char *const joints[] = {"-", "-", ".", "."};
    static const char *const endings[] = {"", ".gz", "", ".gz"};
    for (size_t i = 0; i < sizeof joints / sizeof joints[0]; i++) {
        char name[64];
        (void)snprintf(name, sizeof name, "%s-%s%s%s-ubyte%s", set, what, joints[i], shape,
                       endings[i]);
        char *path = com_path_join(folder, name);
        if (!path || com_file_exists(path))
            return path;
        free(path);
    }
    return NULL;
}

static terse_status load(const char *folder, const char *set, int is_labels, char **path,
                         uint8_t **bytes, size_t *len, terse_fault *fault)
{
    const char *what = is_labels ? "labels" : "images";
    const char *shape = is_labels ? "idx1" : "idx3";
    *path = find_file(folder, set, what, shape);
    if (!*path)
        return com_fail(fault, COM_NO_FILE, "no %s-%s-%s-ubyte or .gz in '%s'", set, what, shape,
                        folder);
    return trn_data_load(*path, bytes, len, fault);
}

static terse_status read_images(const char *folder, const char *set, struct trn_examples *out,
                                struct trn_idx_images *images, terse_fault *fault)
{
    char *path;
    size_t len;
    uint8_t *bytes = NULL;
    terse_status status = load(folder, set, 0, &path, &bytes, &len, fault);
    if (status == TERSE_OK) {
        const struct trn_bytes in = {.name = path, .at = bytes, .len = len};
        out->image_block = bytes;
        status = trn_idx_images(&in, images, fault);
        if (status == TERSE_OK) {
            out->pixels = images->pixels;
            out->count = images->count;
        }
    }
    free(path);
    return status;
}

/* The labels of as many images as were read. */
static terse_status take_labels(const struct trn_bytes *in, struct trn_examples *out,
                                terse_fault *fault)
{
    struct trn_idx_labels labels;
    const terse_status status = trn_idx_labels(in, &labels, fault);
    if (status != TERSE_OK)
        return status;
    if (labels.count != out->count)
        return com_refuse(fault, COM_BAD_FILE, in->name, 4, "%u labels for %u images", labels.count,
                          out->count);
    out->labels = malloc(labels.count * sizeof *out->labels);
    if (!out->labels)
        return com_fail(fault, TERSE_NO_MEMORY, "no memory for the labels of '%s'", in->name);
    for (uint32_t i = 0; i < labels.count; i++)
        out->labels[i] = labels.labels[i];
    return TERSE_OK;
}

static terse_status read_labels(const char *folder, const char *set, struct trn_examples *out,
                                terse_fault *fault)
{
    char *path;
    size_t len;
    uint8_t *bytes = NULL;
    terse_status status = load(folder, set, 1, &path, &bytes, &len, fault);
    if (status == TERSE_OK) {
        const struct trn_bytes in = {.name = path, .at = bytes, .len = len};
        status = take_labels(&in, out, fault);
    }
    free(bytes);
    free(path);
    return status;
}

terse_status trn_open_idx(struct trn_data *data, const char *where, uint64_t seed,
                          terse_fault *fault)
{
    static const char *const sets[TRN_SPLITS] = {"train", "t10k"};
    struct trn_idx_images images[TRN_SPLITS];
    (void)seed;
    for (int i = 0; i < TRN_SPLITS; i++) {
        terse_status status = read_images(where, sets[i], &data->split[i], &images[i], fault);
        if (status == TERSE_OK)
            status = read_labels(where, sets[i], &data->split[i], fault);
        if (status != TERSE_OK)
            return status;
    }
    if (images[0].height != images[1].height || images[0].width != images[1].width)
        return com_fail(fault, COM_BAD_FILE, "%s: training images are %ux%u, test images %ux%u",
                        where, images[0].height, images[0].width, images[1].height,
                        images[1].width);
    data->about.kind = TRN_DATA_IMAGE;
    data->about.channels = 1;
    data->about.height = images[0].height;
    data->about.width = images[0].width;
    data->about.features = images[0].height * images[0].width;
    trn_image_normalise(data);
    return trn_data_count_classes(data, fault);
}

terse_status trn_open_fashion(struct trn_data *data, const char *where, uint64_t seed,
                              terse_fault *fault)
{
    (void)where;
    if (!com_file_exists(FASHION_FOLDER "/train-images-idx3-ubyte.gz"))
        return com_fail(fault, COM_NO_FILE,
                        "Fashion-MNIST is not in %s: apt-get install dataset-fashion-mnist, or use "
                        "--data digits, which needs no files",
                        FASHION_FOLDER);
    return trn_open_idx(data, FASHION_FOLDER, seed, fault);
}
