/* Training data, by name.
 *
 *     fashion            Fashion-MNIST from the distribution's package dataset-fashion-mnist
 *     digits             drawn digits, 28x28, generated from the seed
 *     regression         a linear law with noise, generated
 *     quadratic          least squares with curvatures from 1 to 0.01, without noise, generated
 *     idx:DIR            MNIST's four files, plain or .gz
 *     cifar10:DIR        binary batches; all that exist
 *     cifar100:DIR       train.bin, test.bin; the fine labels
 *     agnews:DIR         train.csv, test.csv: class, title, description
 *     libsvm:FILE        and FILE.t as the test set, or libsvm:FILE,test=FILE2
 *     npy:DIR            NumPy arrays x_train.npy, y_train.npy, x_test.npy, y_test.npy; or npy:X,Y
 *
 * Data are constant after open: any number of threads may read batches. */
#ifndef TRN_DATA_H
#define TRN_DATA_H

#include <stdint.h>

#include "common/fault.h"

#define TRN_MAX_CHANNELS 4u

enum trn_data_kind {
    TRN_DATA_IMAGE,  /* channels x height x width floats */
    TRN_DATA_VECTOR, /* features floats */
    TRN_DATA_TEXT,   /* tokens */
};

enum trn_split { TRN_TRAIN, TRN_TEST, TRN_SPLITS };

struct trn_data;

struct trn_about {
    const char *name; /* as given to open */
    enum trn_data_kind kind;
    uint32_t channels, height, width; /* of images */
    uint32_t features;                /* floats of an example: c*h*w for images, 0 for text */
    uint32_t classes;                 /* 0: targets are real numbers */
    uint32_t count[TRN_SPLITS];       /* examples; each at least 1 */
    float mean[TRN_MAX_CHANNELS];     /* of the training images, pixels in 0..1; 0 for floats */
    float std[TRN_MAX_CHANNELS];      /* 1 for floats */
    const char *notes;                /* "3 of 5 training batches are there", or "" */
};

/* TERSE_BAD_SPEC: no such name, the nearest is suggested. COM_NO_FILE: the fault has what is
 * missing and how to get it. COM_BAD_FILE: file, offset, reason. Only generated data use the seed.
 */
TERSE_CHECK terse_status trn_data_open(const char *name, uint64_t seed, struct trn_data **out,
                                       terse_fault *fault);
void trn_data_close(struct trn_data *data); /* NULL is fine */

/* Takes this share of the training examples, the same ones with every seed, out of training and
 * puts them in place of the test set: TRN_TEST is then what was held out, and the test set is not
 * there. Pixels stay normalised by all training images. On failure the data are as before. */
TERSE_CHECK terse_status trn_data_hold_out(struct trn_data *data, double share, terse_fault *fault);

/* Keeps the examples of some classes alone, of both splits: "0-4,7" are 0, 1, 2, 3, 4 and 7, which
 * become 0 to 5. Pixels stay normalised by all training images. TERSE_BAD_SPEC: the text is no list
 * of different classes of the data. On failure the data are as before. */
TERSE_CHECK terse_status trn_data_keep_classes(struct trn_data *data, const char *classes,
                                               terse_fault *fault);
const struct trn_about *trn_data_about(const struct trn_data *data);
/* A hash of all examples, labels and targets, in their order. */
uint64_t trn_data_hash(const struct trn_data *data);

/* Names for help texts: NULL past the last. */
const char *trn_data_name(uint32_t index);

/* The default model of the data of this name; that of the first row if there is no such name. */
const char *trn_data_model(const char *name);

/* Random crop (a window after padding by 4 black pixels) and mirroring. They depend only on seed,
 * epoch and example. */
struct trn_augment {
    int crop;
    int flip;
    uint64_t seed;
    uint64_t epoch;
};

enum trn_tokens {
    TRN_WORDS,  /* words in order */
    TRN_NGRAMS, /* words, then pairs of neighbours */
};

/* Text is lower-cased; a word is a run of letters, digits or bytes above 127. Its id is 1 + hash
 * mod (buckets - 1); 0 is padding. */
struct trn_text {
    enum trn_tokens tokens;
    uint32_t buckets; /* >= 4: ids are 0 .. buckets-1 */
    uint32_t max_len; /* >= 1: tokens of an example; further ones are dropped */
};

/* Where a batch is written; NULL members are left out. */
struct trn_place {
    float *x;          /* [count][features], normalised; image and vector */
    int32_t *tokens;   /* [count][max_len], padded with 0; text */
    uint32_t *lengths; /* [count], each 1 .. max_len (an empty text is one padding token) */
    uint32_t *labels;  /* [count], < classes */
    float *targets;    /* [count]; real targets, or the label as a number */
};

/* `augment` may be NULL; it applies to images only. `text` may be NULL unless tokens are wanted.
 * TERSE_BAD_ARGUMENT: an example past the end, or a member that this kind of data does not have. */
TERSE_CHECK terse_status trn_data_batch(const struct trn_data *data, enum trn_split split,
                                        const uint32_t *examples, uint32_t count,
                                        const struct trn_augment *augment,
                                        const struct trn_text *text, const struct trn_place *out,
                                        terse_fault *fault);

#endif
