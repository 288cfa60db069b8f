/* The user's own data as NumPy arrays: x, an example per row, and y, a label or a number each. */
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "common/npy.h"
#include "data/read.h"

enum { MOST_SIDE = 1024, MOST_CLASSES = 65536, FILES = 4 };
#define MOST_FEATURES (UINT32_C(1) << 28)
#define TEST_SHARE 0.1 /* of a pair of files without a test set */

static terse_status parse(const struct trn_bytes *in, unsigned types, struct com_npy *out,
                          terse_fault *fault)
{
    terse_fault why = {.rank = -1};
    if (com_npy_parse(in->at, in->len, types, out, &why))
        return TERSE_OK;
    return com_refuse(fault, COM_BAD_FILE, in->name, why.offset, "%s", why.text);
}

/* ---- x ---- */

/* Vectors [n][f], grey images [n][h][w], images [n][c][h][w] or [n][h][w][c]. *last: the channels
 * are the last dimension. */
static terse_status take_shape(const struct trn_bytes *in, const struct com_npy *x,
                               struct trn_about *about, int *last, terse_fault *fault)
{
    const uint64_t *const dims = x->dims;
    uint64_t image[3] = {1, 0, 0}; /* channels, height, width */
    *last = x->ndim == 4 && dims[1] > TRN_MAX_CHANNELS && dims[3] <= TRN_MAX_CHANNELS;
    if (x->ndim < 2 || x->ndim > 4 || dims[0] == 0 || dims[0] > UINT32_MAX || x->count == 0 ||
        x->count / dims[0] > MOST_FEATURES)
        return com_refuse(fault, COM_BAD_FILE, in->name, 0,
                          "examples have the shape (n, features), (n, height, width) or (n, "
                          "channels, height, width), this has %u dimensions and %llu elements",
                          x->ndim, (unsigned long long)x->count);
    about->features = (uint32_t)(x->count / dims[0]);
    about->kind = x->ndim == 2 ? TRN_DATA_VECTOR : TRN_DATA_IMAGE;
    if (x->ndim == 2)
        return TERSE_OK;
    if (x->ndim == 4)
        image[0] = *last ? dims[3] : dims[1];
    image[1] = dims[x->ndim == 3 || *last ? 1 : 2];
    image[2] = dims[x->ndim == 3 || *last ? 2 : 3];
    if (image[0] > TRN_MAX_CHANNELS || image[1] > MOST_SIDE || image[2] > MOST_SIDE)
        return com_refuse(fault, COM_BAD_FILE, in->name, 0,
                          "images of %llu channels, %llu x %llu; at most %u channels and %d x %d "
                          "are read",
                          (unsigned long long)image[0], (unsigned long long)image[1],
                          (unsigned long long)image[2], TRN_MAX_CHANNELS, MOST_SIDE, MOST_SIDE);
    about->channels = (uint32_t)image[0];
    about->height = (uint32_t)image[1];
    about->width = (uint32_t)image[2];
    return TERSE_OK;
}

/* Where element `i` of an example is in the file, whose channels may be the last dimension. */
static size_t place_of(const struct trn_about *about, int last, size_t i)
{
    const size_t plane = (size_t)about->height * about->width;
    return last ? i % plane * about->channels + i / plane : i;
}

/* Pixels stay bytes; all else becomes floats: float32 as they are, uint8 vectors from 0 to 1. */
static terse_status take_values(const struct trn_bytes *in, const struct com_npy *x,
                                const struct trn_about *about, int last, struct trn_examples *out,
                                terse_fault *fault)
{
    const uint8_t *const from = in->at + x->data_at;
    const int is_pixels = x->type == COM_NPY_U8 && about->kind == TRN_DATA_IMAGE;
    uint8_t *const pixels = is_pixels ? malloc((size_t)x->count) : NULL;
    float *const dense = is_pixels ? NULL : malloc((size_t)x->count * sizeof *dense);
    out->pixels = out->image_block = pixels;
    out->dense = dense;
    if (is_pixels ? !pixels : !dense)
        return com_fail(fault, TERSE_NO_MEMORY, "no memory for the examples of '%.100s'", in->name);
    for (uint32_t n = 0; n < out->count; n++) {
        const size_t row = (size_t)n * about->features;
        for (size_t i = 0; i < about->features; i++) {
            const size_t at = row + place_of(about, last, i);
            if (is_pixels) {
                pixels[row + i] = from[at];
                continue;
            }
            float value;
            if (x->type == COM_NPY_F32) /* the bytes are aligned to nothing */
                memcpy(&value, from + at * sizeof value, sizeof value);
            else
                value = (float)from[at] / 255.0f;
            if (!isfinite(value))
                return com_refuse(fault, COM_BAD_FILE, in->name, x->data_at + at * sizeof value,
                                  "example %u has a value that is not finite", n);
            dense[row + i] = value;
        }
    }
    return TERSE_OK;
}

/* ---- y ---- */

static terse_status take_targets(const struct trn_bytes *in, const struct com_npy *y,
                                 struct trn_examples *out, terse_fault *fault)
{
    const int is_real = y->type == COM_NPY_F32;
    float *const targets = is_real ? malloc(out->count * sizeof *targets) : NULL;
    uint32_t *const labels = is_real ? NULL : malloc(out->count * sizeof *labels);
    out->targets = targets;
    out->labels = labels;
    if (is_real ? !targets : !labels)
        return com_fail(fault, TERSE_NO_MEMORY, "no memory for the labels of '%.100s'", in->name);
    if (is_real)
        memcpy(targets, in->at + y->data_at, out->count * sizeof *targets);
    for (uint32_t i = 0; i < out->count; i++) {
        uint64_t label = 0;
        const uint64_t at = y->data_at + i * y->width;
        if (is_real && !isfinite(targets[i]))
            return com_refuse(fault, COM_BAD_FILE, in->name, at, "target %u is not finite", i);
        if (!is_real && (!com_npy_whole(y, in->at, i, &label) || label >= MOST_CLASSES))
            return com_refuse(fault, COM_BAD_FILE, in->name, at, "label %u is negative or above %d",
                              i, MOST_CLASSES - 1);
        if (!is_real)
            labels[i] = (uint32_t)label;
    }
    return TERSE_OK;
}

terse_status trn_npy_read(const struct trn_bytes *x_file, const struct trn_bytes *y_file,
                          struct trn_examples *out, struct trn_about *about, terse_fault *fault)
{
    struct com_npy x;
    struct com_npy y;
    int last = 0;
    terse_status status = parse(x_file, COM_NPY_F32 | COM_NPY_U8, &x, fault);
    if (status == TERSE_OK)
        status = take_shape(x_file, &x, about, &last, fault);
    if (status == TERSE_OK)
        status = parse(y_file, COM_NPY_F32 | COM_NPY_INTEGERS, &y, fault);
    if (status != TERSE_OK)
        return status;
    if (y.count != x.dims[0] || y.ndim < 1 || y.dims[0] != y.count)
        return com_refuse(fault, COM_BAD_FILE, y_file->name, 0,
                          "%u dimensions and %llu elements; for %llu examples the shape is (%llu,)",
                          y.ndim, (unsigned long long)y.count, (unsigned long long)x.dims[0],
                          (unsigned long long)x.dims[0]);
    out->count = (uint32_t)x.dims[0];
    status = take_values(x_file, &x, about, last, out, fault);
    return status == TERSE_OK ? take_targets(y_file, &y, out, fault) : status;
}

/* ---- opening ---- */

static terse_status read_pair(char *const paths[2], struct trn_examples *out,
                              struct trn_about *about, terse_fault *fault)
{
    uint8_t *bytes[2] = {NULL, NULL};
    size_t len[2] = {0, 0};
    terse_status status = TERSE_OK;
    for (int i = 0; i < 2 && status == TERSE_OK; i++)
        status = com_file_read(paths[i], &bytes[i], &len[i], fault);
    if (status == TERSE_OK) {
        const struct trn_bytes x = {paths[0], bytes[0], len[0]};
        const struct trn_bytes y = {paths[1], bytes[1], len[1]};
        status = trn_npy_read(&x, &y, out, about, fault);
    }
    free(bytes[0]);
    free(bytes[1]);
    return status;
}

/* The paths of "DIR", "X,Y" or "X,Y,XTEST,YTEST": 2 or 4 of them, or 0 if it is none of these or
 * there is no memory. The caller frees all. */
static int split_where(const char *where, char *paths[FILES])
{
    static const char *const names[FILES] = {"x_train.npy", "y_train.npy", "x_test.npy",
                                             "y_test.npy"};
    const int is_folder = !strchr(where, ',');
    int count = 0;
    for (const char *at = where; count < FILES && *at; count++) {
        const size_t len = strcspn(at, ",");
        paths[count] = is_folder ? com_path_join(where, names[count]) : strndup(at, len);
        if (!paths[count])
            return 0;
        at += is_folder ? 0 : len + (at[len] == ',');
        if (count + 1 == FILES && !is_folder && *at)
            return 0;
    }
    return count == 2 || count == FILES ? count : 0;
}

/* The test set must look like the training set. */
static terse_status compare(const struct trn_data *data, const struct trn_about *test,
                            terse_fault *fault)
{
    const struct trn_about *const train = &data->about;
    const struct trn_examples *const split = data->split;
    if (train->kind != test->kind || train->features != test->features ||
        train->channels != test->channels || train->height != test->height ||
        train->width != test->width || !split[0].dense != !split[1].dense ||
        !split[0].labels != !split[1].labels)
        return com_fail(fault, COM_BAD_FILE,
                        "%.100s: an example of the test set (%u values, %u x %u x %u, %s) has "
                        "another shape or type than one of the training set (%u values, %u x %u x "
                        "%u, %s)",
                        data->name, test->features, test->channels, test->height, test->width,
                        split[1].labels ? "labels" : "numbers", train->features, train->channels,
                        train->height, train->width, split[0].labels ? "labels" : "numbers");
    return TERSE_OK;
}

static terse_status finish(struct trn_data *data, int has_test, terse_fault *fault)
{
    struct trn_about *const about = &data->about;
    for (uint32_t c = 0; c < TRN_MAX_CHANNELS; c++)
        about->std[c] = 1;
    if (data->split[TRN_TRAIN].pixels)
        trn_image_normalise(data);
    terse_status status = TERSE_OK;
    if (!has_test) {
        status = trn_data_hold_out(data, TEST_SHARE, fault);
        (void)snprintf(data->notes, sizeof data->notes,
                       "no test set was given: a tenth of the examples, the same ones with every "
                       "seed, is the test set");
    }
    return status == TERSE_OK && data->split[TRN_TRAIN].labels ? trn_data_count_classes(data, fault)
                                                               : status;
}

terse_status trn_open_npy(struct trn_data *data, const char *where, uint64_t seed,
                          terse_fault *fault)
{
    char *paths[FILES] = {NULL};
    struct trn_about test = {0};
    const int count = split_where(where, paths);
    (void)seed;
    terse_status status =
        count ? read_pair(paths, &data->split[TRN_TRAIN], &data->about, fault)
              : com_fail(fault, TERSE_BAD_SPEC,
                         "npy:%.80s: write npy:DIR with x_train.npy, y_train.npy, x_test.npy and "
                         "y_test.npy, npy:X,Y or npy:X,Y,XTEST,YTEST",
                         where);
    if (status == TERSE_OK && count == FILES)
        status = read_pair(paths + 2, &data->split[TRN_TEST], &test, fault);
    if (status == TERSE_OK && count == FILES)
        status = compare(data, &test, fault);
    for (int i = 0; i < FILES; i++)
        free(paths[i]);
    return status == TERSE_OK ? finish(data, count == FILES, fault) : status;
}
