/* The subject of a fuzz target: a layout, a codec and floats, made from arbitrary bytes.
 *
 *  byte  0      which codec of the registry
 *        1, 2   rows and columns of the first tensor (0..63); a second is empty, a third a vector
 *        3      bit 0: floats unchanged, else made finite; the other bits: the worker
 *        4..11  seed and step, 32 bits each
 *        12..27 options; those that the codec refuses are replaced by its defaults
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

/* Returns 0 if there are too few bytes. */
int fuzz_subject_make(struct fuzz_subject *subject, const uint8_t *bytes, size_t len);
void fuzz_subject_free(struct fuzz_subject *subject);

/* Makes subject->count floats of `rest`, which is repeated if too short. The caller frees them. */
float *fuzz_floats(const struct fuzz_subject *subject);

/* malloc that does not fail: exactly `len` bytes (at least one), so that a sanitizer detects
 * accesses behind them. */
void *fuzz_room(size_t len);

/* The bits of a float, which distinguish zeros and NaNs. */
uint32_t fuzz_bits(float value);

/* Stops the fuzzer with a message. */
#define FUZZ_CHECK(condition) fuzz_check(condition, #condition, __FILE__, __LINE__)
void fuzz_check(int holds, const char *condition, const char *file, int line);

#endif
