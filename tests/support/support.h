/* Shared by several tests: a printed seed, numbers of every kind, layouts. */
#ifndef TERSE_TEST_SUPPORT_H
#define TERSE_TEST_SUPPORT_H

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>
#include <terse/terse.h>

/* TERSE_TEST_SEED, or 1; printed on first use. */
uint64_t test_seed(void);

/* A small generator for inputs; not the one under test. */
struct test_random {
    uint64_t state;
};
uint64_t test_next(struct test_random *random);
double test_uniform(struct test_random *random); /* [0, 1) */
double test_normal(struct test_random *random);

enum test_kind {
    TEST_NORMAL, /* N(0,1) */
    TEST_HEAVY,  /* a few elements far larger than the others, in clusters */
    TEST_TIES,   /* few distinct magnitudes */
    TEST_SPARSE, /* mostly zeros of both signs */
    TEST_ZERO,
    TEST_DENORMAL,
    TEST_KINDS
};
extern const char *const test_kind_names[TEST_KINDS];
void test_fill(struct test_random *random, enum test_kind kind, float *out, size_t count);

/* Tensors of every awkward kind: a matrix, an empty one, a scalar, a vector, a matrix with more
 * elements than a chunk, and one of `large` elements. */
terse_layout *test_layout(uint64_t large);

void *test_alloc(size_t len); /* never NULL; zeroed */
float *test_floats(size_t count);
int test_same_bits(const float *a, const float *b, size_t count);

#endif
