#include "fuzz/subject.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

void fuzz_check(int holds, const char *condition, const char *file, int line)
{
    if (holds)
        return;
    (void)fprintf(stderr, "%s:%d: does not hold: %s\n", file, line, condition);
    abort();
}

void *fuzz_room(size_t len)
{
    void *room = malloc(len ? len : 1);
    FUZZ_CHECK(room != NULL);
    return room;
}

uint32_t fuzz_bits(float value)
{
    uint32_t bits;
    memcpy(&bits, &value, sizeof bits);
    return bits;
}

static terse_layout *layout_of(uint64_t rows, uint64_t cols)
{
    terse_layout *layout;
    const uint64_t matrix[] = {rows, cols};
    const uint64_t empty[] = {0, 3};
    const uint64_t vector[] = {(rows * 7 + cols) % 200};
    FUZZ_CHECK(terse_layout_create(&layout) == TERSE_OK);
    FUZZ_CHECK(terse_layout_add(layout, "matrix", 2, matrix) == TERSE_OK);
    FUZZ_CHECK(terse_layout_add(layout, "empty", 2, empty) == TERSE_OK);
    FUZZ_CHECK(terse_layout_add(layout, "vector", 1, vector) == TERSE_OK);
    return layout;
}

static uint32_t load_u32(const uint8_t *at)
{
    uint32_t value;
    memcpy(&value, at, sizeof value);
    return value;
}

int fuzz_subject_make(struct fuzz_subject *subject, const uint8_t *bytes, size_t len)
{
    uint32_t codecs = 0;
    terse_fault fault;
    if (len < FUZZ_HEAD_LEN)
        return 0;
    while (terse_codec_list(codecs, &subject->about) == TERSE_OK)
        codecs++;
    FUZZ_CHECK(terse_codec_list(bytes[0] % codecs, &subject->about) == TERSE_OK);
    subject->layout = layout_of(bytes[1] % 64, bytes[2] % 64);
    subject->count = (size_t)terse_layout_count(subject->layout);
    FUZZ_CHECK(subject->count <= FUZZ_MAX_COUNT);
    subject->raw = bytes[3] & 1;
    subject->key = (terse_rng_key){load_u32(bytes + 4), load_u32(bytes + 8), bytes[3] >> 1};
    if (terse_codec_open(subject->about.wire_id, bytes + 12, subject->layout, NULL, &subject->codec,
                         &fault) != TERSE_OK)
        FUZZ_CHECK(terse_codec_create(subject->about.name, subject->layout, NULL, &subject->codec,
                                      &fault) == TERSE_OK);
    subject->rest = bytes + FUZZ_HEAD_LEN;
    subject->rest_len = len - FUZZ_HEAD_LEN;
    return 1;
}

void fuzz_subject_free(struct fuzz_subject *subject)
{
    terse_codec_destroy(subject->codec);
    terse_layout_destroy(subject->layout);
}

float *fuzz_floats(const struct fuzz_subject *subject)
{
    float *floats = fuzz_room(subject->count * sizeof *floats);
    memset(floats, 0, subject->count * sizeof *floats);
    const size_t given = subject->rest_len / sizeof *floats;
    for (size_t i = 0; given > 0 && i < subject->count; i++) {
        memcpy(&floats[i], subject->rest + i % given * sizeof *floats, sizeof *floats);
        if (!subject->raw && !isfinite(floats[i]))
            floats[i] = (float)(i % 7) - 3;
    }
    return floats;
}
