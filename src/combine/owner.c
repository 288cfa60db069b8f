#include "combine/owner.h"

#include <string.h>

static uint32_t larger(uint32_t most, float value)
{
    uint32_t bits;
    memcpy(&bits, &value, sizeof bits);
    bits &= 0x7fffffffu;
    return bits > most ? bits : most;
}

uint32_t tsi_owner_update(const struct tsi_owner *owner, float *sum, uint64_t first, size_t count,
                          float workers)
{
    float *restrict const total = sum;
    uint32_t most = 0;
    if (owner->kind == TSI_OWNER_MEAN) {
        for (size_t i = 0; i < count; i++) {
            total[i] /= workers;
            most = larger(most, total[i]);
        }
        return most;
    }
    const float *restrict const now = owner->now + first;
    float *restrict const next = owner->next + first;
    if (owner->kind == TSI_OWNER_RESIDUAL) {
        for (size_t i = 0; i < count; i++) {
            next[i] = now[i] + total[i] / workers;
            most = larger(most, next[i]);
        }
        return most;
    }
    for (size_t i = 0; i < count; i++) {
        next[i] = now[i] - total[i] / workers;
        most = larger(most, next[i]);
    }
    return most;
}
