/* Philox4x32-10 (Salmon, Moraes, Dror, Shaw, SC 2011): its constants, and one block in plain C. */
#ifndef TSK_PHILOX_H
#define TSK_PHILOX_H

#include <stdint.h>

#define TSK_PHILOX_ROUNDS 10
#define TSK_PHILOX_MUL0 0xD2511F53u
#define TSK_PHILOX_MUL1 0xCD9E8D57u
#define TSK_PHILOX_KEY0 0x9E3779B9u
#define TSK_PHILOX_KEY1 0xBB67AE85u

/* Replaces the four counter words by four random words. */
static inline void tsk_philox_block(const uint32_t key[2], uint32_t word[4])
{
    uint32_t k0 = key[0];
    uint32_t k1 = key[1];
    for (int round = 0; round < TSK_PHILOX_ROUNDS; round++) {
        const uint64_t p0 = (uint64_t)TSK_PHILOX_MUL0 * word[0];
        const uint64_t p1 = (uint64_t)TSK_PHILOX_MUL1 * word[2];
        word[0] = (uint32_t)(p1 >> 32) ^ word[1] ^ k0;
        word[1] = (uint32_t)p1;
        word[2] = (uint32_t)(p0 >> 32) ^ word[3] ^ k1;
        word[3] = (uint32_t)p0;
        k0 += TSK_PHILOX_KEY0;
        k1 += TSK_PHILOX_KEY1;
    }
}

#endif
