/* The object behind trn_data, and the readers that fill it. A reader takes bytes, never a path, so
 * that it can be fuzzed; no size in the bytes is used for an allocation before it is checked. */
#ifndef TRN_DATA_OBJECT_H
#define TRN_DATA_OBJECT_H

#include <stddef.h>
#include <stdint.h>

#include "common/file.h"
#include "data/data.h"
#include "files/bytes.h"

/* One split. Members that its kind does not need are NULL; close frees all of them. */
struct trn_examples {
    uint32_t count;
    uint32_t *labels;
    float *targets;

    uint8_t *image_block;  /* owns the pixels */
    const uint8_t *pixels; /* [count][channels][height][width] */

    float *dense;      /* dense vectors, or images whose values are floats, [count][features] */
    size_t *row_at;    /* sparse vectors: elements row_at[i] .. row_at[i+1]-1 of the next two */
    uint32_t *columns; /* ascending, from 0 */
    float *values;

    char *text;      /* texts without separators */
    size_t *text_at; /* text i is at text_at[i] .. text_at[i+1]-1 */
};

struct trn_data {
    struct trn_about about;
    char *name;
    char notes[160];
    struct trn_examples split[TRN_SPLITS];
    float shade[TRN_MAX_CHANNELS][256]; /* a pixel's normalised value */
};

/* Channel means, deviations and shades, from the training pixels. */
void trn_image_normalise(struct trn_data *data);
void trn_image_batch(const struct trn_data *data, const struct trn_examples *split,
                     const uint32_t *examples, uint32_t count, const struct trn_augment *augment,
                     float *x);
void trn_vector_batch(const struct trn_data *data, const struct trn_examples *split,
                      const uint32_t *examples, uint32_t count, float *x);
void trn_text_batch(const struct trn_examples *split, const uint32_t *examples, uint32_t count,
                    const struct trn_text *form, int32_t *tokens, uint32_t *lengths);

/* Openers: `where` is what follows the colon of the name, or "". */
terse_status trn_open_fashion(struct trn_data *data, const char *where, uint64_t seed,
                              terse_fault *fault);
terse_status trn_open_idx(struct trn_data *data, const char *where, uint64_t seed,
                          terse_fault *fault);
terse_status trn_open_cifar10(struct trn_data *data, const char *where, uint64_t seed,
                              terse_fault *fault);
terse_status trn_open_cifar100(struct trn_data *data, const char *where, uint64_t seed,
                               terse_fault *fault);
terse_status trn_open_agnews(struct trn_data *data, const char *where, uint64_t seed,
                             terse_fault *fault);
terse_status trn_open_libsvm(struct trn_data *data, const char *where, uint64_t seed,
                             terse_fault *fault);
terse_status trn_open_npy(struct trn_data *data, const char *where, uint64_t seed,
                          terse_fault *fault);
terse_status trn_open_digits(struct trn_data *data, const char *where, uint64_t seed,
                             terse_fault *fault);
terse_status trn_open_regression(struct trn_data *data, const char *where, uint64_t seed,
                                 terse_fault *fault);
terse_status trn_open_quadratic(struct trn_data *data, const char *where, uint64_t seed,
                                terse_fault *fault);

#endif
