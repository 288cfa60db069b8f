/* What the fuzz targets share: a layout, a codec and floats, made from arbitrary bytes.
 *
 *  byte  0      which codec of the registry
 *        1, 2   rows and columns of the first tensor (0..63); a second is empty, a third a vector
 *        3      bit 0: floats as they come, else made finite; the rest: the worker
 *        4..11  seed and step, 32 bits each
 *        12..27 parameters; those that the codec refuses are replaced by its defaults
 *        28..   payload or floats */
#ifndef FUZZ_SUBJECT_H
#define FUZZ_SUBJECT_H

#include <stddef.h>
#include <stdint.h>

#include <terse/terse.h>

#define FUZZ_HEAD_LEN 28u
#define FUZZ_MAX_COUNT 4400u

struct fuzz_subject {
    terse_layout *layout;
    terse_codec *codec;
    terse_codec_about about;
    terse_rng_key key;
    size_t count; /* elements */
    int raw;      /* floats may be non-finite */
    const uint8_t *rest;
    size_t rest_len;
};

int LLVMFuzzerTestOneInput(const uint8_t *bytes, size_t len);

/* 0 if the bytes are too few for a subject. */
int fuzz_subject_make(struct fuzz_subject *subject, const uint8_t *bytes, size_t len);
void fuzz_subject_free(struct fuzz_subject *subject);

/* subject->count floats from `rest`, over and over if it is short. The caller frees them. */
float *fuzz_floats(const struct fuzz_subject *subject);

/* malloc that does not fail: at least one byte, exactly `len` otherwise, so that a sanitizer sees
 * the first byte behind it. */
void *fuzz_room(size_t len);

/* The float's bits: tells zeros and NaNs apart. */
uint32_t fuzz_bits(float value);

/* Stops the fuzzer with a message. */
#define FUZZ_CHECK(condition) fuzz_check(condition, #condition, __FILE__, __LINE__)
void fuzz_check(int holds, const char *condition, const char *file, int line);

#endif
