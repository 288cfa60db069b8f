/* The readers, one function per format. Bad input is COM_BAD_FILE with file name and offset. */
#ifndef TRN_READ_H
#define TRN_READ_H

#include "data/object.h"

/* IDX images: [count][height][width] bytes, a view into `in`. */
struct trn_idx_images {
    uint32_t count, height, width;
    const uint8_t *pixels;
};
TERSE_CHECK terse_status trn_idx_images(const struct trn_bytes *in, struct trn_idx_images *out,
                                        terse_fault *fault);
/* IDX labels, a view into `in`. */
struct trn_idx_labels {
    uint32_t count;
    const uint8_t *labels;
};
TERSE_CHECK terse_status trn_idx_labels(const struct trn_bytes *in, struct trn_idx_labels *out,
                                        terse_fault *fault);

/* CIFAR records: the number of label bytes (10: one; 100: coarse and fine) before 3072 pixels. */
enum { TRN_CIFAR_PIXELS = 3 * 32 * 32 };
struct trn_cifar_form {
    uint32_t label_len;
    uint32_t limits[2]; /* each label byte is below its limit; the last one counts */
};
extern const struct trn_cifar_form trn_cifar10, trn_cifar100;
/* The number of records, all labels checked. */
TERSE_CHECK terse_status trn_cifar_count(const struct trn_bytes *in,
                                         const struct trn_cifar_form *form, uint32_t *count,
                                         terse_fault *fault);

/* "class","title","description": fills count, labels (class - 1), text and text_at. A failure
 * leaves `out` to be freed as it is. */
TERSE_CHECK terse_status trn_csv_read(const struct trn_bytes *in, struct trn_examples *out,
                                      terse_fault *fault);

/* label index:value ...: fills count, targets (the label as written), row_at, columns, values and
 * the number of features: one more than the largest column. A failure leaves `out` to be freed. */
TERSE_CHECK terse_status trn_libsvm_read(const struct trn_bytes *in, struct trn_examples *out,
                                         uint32_t *features, terse_fault *fault);

/* NPY: x and y as docs/train.md describes them. Fills count, labels or targets, pixels or dense of
 * `out`, and kind, shape and features of `about`. A failure leaves `out` to be freed. */
TERSE_CHECK terse_status trn_npy_read(const struct trn_bytes *x_file,
                                      const struct trn_bytes *y_file, struct trn_examples *out,
                                      struct trn_about *about, terse_fault *fault);

void trn_examples_free(struct trn_examples *examples);

/* Reads a file, and unpacks it if its name ends with .gz. The caller frees *bytes. */
TERSE_CHECK terse_status trn_data_load(const char *path, uint8_t **bytes, size_t *len,
                                       terse_fault *fault);

/* 1 + the largest training label become the classes; a test label beyond them is refused. */
TERSE_CHECK terse_status trn_data_count_classes(struct trn_data *data, terse_fault *fault);

#endif
