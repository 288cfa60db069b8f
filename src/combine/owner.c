#include "combine/owner.h"

#include <string.h>

#include "base/divide.h"

/* All bits of the exponent are set in infinities and NaNs. A comparison of integers is a vector
 * operation on every machine, a maximum is not. */
static uint32_t not_finite(float value)
{
    const uint32_t exponent = 0x7f800000u;
    uint32_t bits;
    memcpy(&bits, &value, sizeof bits);
    return (bits & exponent) == exponent;
}

int tsi_owner_update(const struct tsi_owner *owner, float *sum, uint64_t first, size_t count,
                     float workers)
{
    const struct tsi_divisor by = tsi_divisor_of(workers);
    float *restrict const total = sum;
    uint32_t bad = 0;
    if (owner->kind == TSI_OWNER_MEAN) {
        for (size_t i = 0; i < count; i++) {
            total[i] = tsi_divide(total[i], by);
            bad |= not_finite(total[i]);
        }
        return !bad;
    }
    const float *restrict const now = owner->now + first;
    float *restrict const next = owner->next + first;
    if (owner->kind == TSI_OWNER_RESIDUAL) {
        for (size_t i = 0; i < count; i++) {
            next[i] = now[i] + tsi_divide(total[i], by);
            bad |= not_finite(next[i]);
        }
        return !bad;
    }
    for (size_t i = 0; i < count; i++) {
        next[i] = now[i] - tsi_divide(total[i], by);
        bad |= not_finite(next[i]);
    }
    return !bad;
}
