/* The golden frames: what they are made of. make_golden.c writes them, golden_test.c makes them
 * again and compares. Public API only, no random numbers and no libm: the same on every machine. */
#ifndef GOLDEN_CASES_H
#define GOLDEN_CASES_H

#include <terse/terse.h>

#define GOLDEN_MAX_FRAMES 2

struct golden_case {
    const char *name;
    const char *spec;
    terse_status (*layout)(terse_layout **out);
    void (*fill)(float *values, uint64_t count);
    terse_rng_key key;
    int without_layout;
};

extern const struct golden_case golden_cases[];
extern const uint32_t golden_case_count;

/* One frame for each pass, and the sum that a reader of all of them has. */
struct golden_made {
    uint8_t *frame[GOLDEN_MAX_FRAMES];
    size_t len[GOLDEN_MAX_FRAMES];
    uint32_t frame_count;
    float *decoded;
    uint64_t count;
};

/* The caller frees it with golden_free, also after a failure. */
TERSE_CHECK terse_status golden_make(const struct golden_case *golden, struct golden_made *out);
void golden_free(struct golden_made *made);

/* "NAME.terse", or "NAME-PASS.terse" where there are several passes. */
void golden_frame_name(const struct golden_case *golden, const struct golden_made *made,
                       uint32_t pass, char *out, size_t cap);

#endif
