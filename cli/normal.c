#include "normal.h"

#include <math.h>

static const float TWO_PI = 6.28318530717958647692f;

/* A Weyl sequence, its steps scrambled by two rounds of multiply and shift. */
uint64_t random_bits(struct random *random)
{
    random->state += UINT64_C(0x9E3779B97F4A7C15);
    uint64_t bits = random->state;
    bits = (bits ^ bits >> 30) * UINT64_C(0xBF58476D1CE4E5B9);
    bits = (bits ^ bits >> 27) * UINT64_C(0x94D049BB133111EB);
    return bits ^ bits >> 31;
}

static float unit(uint32_t bits24)
{
    return (float)(bits24 + 1) * 0x1p-24f;
}

float random_uniform(struct random *random)
{
    return unit((uint32_t)(random_bits(random) >> 40));
}

/* Box and Muller: a radius and an angle give two independent normals. */
static void normal_pair(struct random *random, float pair[2])
{
    uint64_t bits = random_bits(random);
    float radius = sqrtf(-2 * logf(unit((uint32_t)(bits >> 40))));
    float angle = TWO_PI * unit((uint32_t)bits & 0xFFFFFF);
    pair[0] = radius * cosf(angle);
    pair[1] = radius * sinf(angle);
}

float random_normal(struct random *random)
{
    float pair[2];
    normal_pair(random, pair);
    return pair[0];
}

void normal_fill(float *out, size_t count, uint64_t seed)
{
    struct random random = {seed};
    float pair[2];
    for (size_t i = 0; i + 1 < count; i += 2)
        normal_pair(&random, out + i);
    if (count % 2 == 1) {
        normal_pair(&random, pair);
        out[count - 1] = pair[0];
    }
}
