/* Division of many floats by one number. A product with the reciprocal of a power of two has the
 * bits of the quotient, and takes a fraction of the time. */
#ifndef TSI_DIVIDE_H
#define TSI_DIVIDE_H

#include <math.h>

struct tsi_divisor {
    float by;
    float factor; /* 1 / by where that is exact, else 0 */
};

/* `by` is a positive integer. */
static inline struct tsi_divisor tsi_divisor_of(float by)
{
    int exponent = 0;
    return (struct tsi_divisor){by, frexpf(by, &exponent) == 0.5f ? 1 / by : 0};
}

/* The choice is the same for all elements of a loop: compilers make two loops of it. */
static inline float tsi_divide(float x, struct tsi_divisor divisor)
{
    return divisor.factor != 0 ? x * divisor.factor : x / divisor.by;
}

#endif
