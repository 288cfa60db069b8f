#include "support/support.h"

#include <math.h>
#include <stdio.h>

const char *const test_kind_names[TEST_KINDS] = {"normal", "heavy", "ties",
                                                 "sparse", "zero",  "denormal"};

uint64_t test_seed(void)
{
    static int printed;
    const char *const given = getenv("TERSE_TEST_SEED");
    const uint64_t seed = given ? strtoull(given, NULL, 0) : 1;
    if (!printed) {
        printf("seed %llu (TERSE_TEST_SEED)\n", (unsigned long long)seed);
        printed = 1;
    }
    return seed;
}

/* SplitMix64. */
uint64_t test_next(struct test_random *random)
{
    uint64_t z = random->state += UINT64_C(0x9E3779B97F4A7C15);
    z = (z ^ z >> 30) * UINT64_C(0xBF58476D1CE4E5B9);
    z = (z ^ z >> 27) * UINT64_C(0x94D049BB133111EB);
    return z ^ z >> 31;
}

double test_uniform(struct test_random *random)
{
    return (double)(test_next(random) >> 11) * 0x1p-53;
}

double test_normal(struct test_random *random)
{
    const double radius = sqrt(-2 * log(1 - test_uniform(random)));
    return radius * cos(6.283185307179586 * test_uniform(random));
}

static float one(struct test_random *random, enum test_kind kind, size_t i)
{
    static const float few[] = {0.5f, -0.5f, 1.0f, -1.0f, 0.0f, 2.0f};
    switch (kind) {
    case TEST_NORMAL: return (float)test_normal(random);
    case TEST_HEAVY: return (float)(test_normal(random) * (i / 300 % 17 == 3 ? 1000 : 0.01));
    case TEST_TIES: return few[test_next(random) % 6];
    case TEST_SPARSE:
        if (test_next(random) % 50 == 0)
            return (float)test_normal(random);
        return test_next(random) % 2 ? 0.0f : -0.0f;
    case TEST_DENORMAL: return (float)(test_normal(random) * 1e-40);
    case TEST_ZERO:
    case TEST_KINDS: break;
    }
    return 0;
}

void test_fill(struct test_random *random, enum test_kind kind, float *out, size_t count)
{
    for (size_t i = 0; i < count; i++)
        out[i] = one(random, kind, i);
}

terse_layout *test_layout(uint64_t large)
{
    terse_layout *layout = NULL;
    assert_int_equal(terse_layout_create(&layout), TERSE_OK);
    assert_int_equal(terse_layout_add(layout, "conv.weight", 4, (const uint64_t[]){12, 5, 3, 3}),
                     0);
    assert_int_equal(terse_layout_add(layout, "empty", 2, (const uint64_t[]){0, 7}), 0);
    assert_int_equal(terse_layout_add(layout, "scalar", 0, NULL), 0);
    assert_int_equal(terse_layout_add(layout, "bias", 1, (const uint64_t[]){77}), 0);
    assert_int_equal(terse_layout_add(layout, "linear", 2, (const uint64_t[]){131, 257}), 0);
    assert_int_equal(terse_layout_add(layout, "large", 1, &large), 0);
    return layout;
}

void *test_alloc(size_t len)
{
    void *const memory = calloc(1, len ? len : 1);
    assert_non_null(memory);
    return memory;
}

float *test_floats(size_t count)
{
    return test_alloc(count * sizeof(float));
}

int test_same_bits(const float *a, const float *b, size_t count)
{
    return memcmp(a, b, count * sizeof *a) == 0;
}
