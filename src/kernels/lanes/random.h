/* Philox4x32-10 over RANDOM_STREAMS times RANDOM_LANES blocks at a time, in the order of
 * random_u32. A round is a chain of slow operations: streams side by side fill the time that one
 * would wait.
 *
 * Of the four counter words only the block number differs from lane to lane, so that half of the
 * first two rounds is the same for all of them and is done once, in random_plan_of. */
#ifndef TSK_LANES_RANDOM_H
#define TSK_LANES_RANDOM_H

#include "kernels/philox.h"

#define RANDOM_BATCH (4 * RANDOM_STREAMS * RANDOM_LANES) /* draws at a time: whole groups */
#define RANDOM_VECTORS (RANDOM_BATCH / TSK_LANES)

struct random_plan {
    uint32_t key0[TSK_PHILOX_ROUNDS];
    uint32_t key1[TSK_PHILOX_ROUNDS];
    uint32_t round0_word2; /* what round 0 xors to the product that becomes word 2, key included */
    uint32_t round1_word0; /* the same in round 1 ... */
    uint32_t round1_word2;
    uint32_t round2_word2; /* ... and in round 2 */
};

static struct random_plan random_plan_of(const struct tsk_stream *stream)
{
    struct random_plan plan;
    for (uint32_t round = 0; round < TSK_PHILOX_ROUNDS; round++) {
        plan.key0[round] = stream->key[0] + round * TSK_PHILOX_KEY0;
        plan.key1[round] = stream->key[1] + round * TSK_PHILOX_KEY1;
    }
    const uint64_t product0 = (uint64_t)TSK_PHILOX_MUL1 * stream->counter[1];
    const uint32_t word0 = (uint32_t)(product0 >> 32) ^ stream->counter[0] ^ plan.key0[0];
    const uint64_t product1 = (uint64_t)TSK_PHILOX_MUL0 * word0;
    plan.round0_word2 = stream->counter[2] ^ plan.key1[0];
    plan.round1_word0 = (uint32_t)product0 ^ plan.key0[1];
    plan.round1_word2 = (uint32_t)(product1 >> 32) ^ plan.key1[1];
    plan.round2_word2 = (uint32_t)product1 ^ plan.key1[2];
    return plan;
}

/* One round on every stream. */
LANE void random_round(vw word[4][RANDOM_STREAMS], vk key0, vk key1)
{
    for (unsigned s = 0; s < RANDOM_STREAMS; s++) {
        const vp product0 = vw_mul(word[0][s], vk_of(TSK_PHILOX_MUL0));
        const vp product1 = vw_mul(word[2][s], vk_of(TSK_PHILOX_MUL1));
        word[0][s] = vp_high_xor2(product1, word[1][s], key0);
        word[1][s] = vp_low(product1);
        word[2][s] = vp_high_xor2(product0, word[3][s], key1);
        word[3][s] = vp_low(product0);
    }
}

/* Rounds 0 to 2, whose constants are in the plan. */
LANE void random_first_rounds(const struct random_plan *plan, uint32_t block,
                              vw word[4][RANDOM_STREAMS])
{
    const vk mul0 = vk_of(TSK_PHILOX_MUL0);
    const vk mul1 = vk_of(TSK_PHILOX_MUL1);
    for (unsigned s = 0; s < RANDOM_STREAMS; s++) {
        const vp round0 = vw_mul(vw_counting(block + s * RANDOM_LANES), mul0);
        const vp round1 = vw_mul(vp_high_xor(round0, vk_of(plan->round0_word2)), mul1);
        const vw word0 = vp_high_xor(round1, vk_of(plan->round1_word0));
        const vw word2 = vw_xor(vp_low(round0), vk_of(plan->round1_word2));
        const vp product0 = vw_mul(word0, mul0);
        const vp product1 = vw_mul(word2, mul1);
        word[0][s] = vp_high_xor2(product1, vp_low(round1), vk_of(plan->key0[2]));
        word[1][s] = vp_low(product1);
        word[2][s] = vp_high_xor(product0, vk_of(plan->round2_word2));
        word[3][s] = vp_low(product0);
    }
}

/* The last round puts the words in the order of the draws. */
LANE void random_last_round(const struct random_plan *plan, vw word[4][RANDOM_STREAMS],
                            vi random[RANDOM_VECTORS])
{
    const vk key0 = vk_of(plan->key0[TSK_PHILOX_ROUNDS - 1]);
    const vk key1 = vk_of(plan->key1[TSK_PHILOX_ROUNDS - 1]);
    for (unsigned s = 0; s < RANDOM_STREAMS; s++) {
        const unsigned part = s * RANDOM_LANES % TSK_LANES;
        vi *group = random + s * RANDOM_LANES / TSK_LANES * 4;
        const vp product0 = vw_mul(word[0][s], vk_of(TSK_PHILOX_MUL0));
        const vp product1 = vw_mul(word[2][s], vk_of(TSK_PHILOX_MUL1));
        vi_set_lanes(&group[0], part, vl_xor2(vp_high_lanes(product1), vl_of(word[1][s]), key0));
        vi_set_lanes(&group[1], part, vl_of(vp_low(product1)));
        vi_set_lanes(&group[2], part, vl_xor2(vp_high_lanes(product0), vl_of(word[3][s]), key1));
        vi_set_lanes(&group[3], part, vl_of(vp_low(product0)));
    }
}

/* Draws number first .. first + RANDOM_BATCH - 1, sixteen to a vector. */
LANE void random_batch(const struct random_plan *plan, uint64_t first, vi random[RANDOM_VECTORS])
{
    vw word[4][RANDOM_STREAMS];
    random_first_rounds(plan, (uint32_t)(first / TSK_RANDOM_GROUP * TSK_LANES), word);
    for (unsigned round = 3; round < TSK_PHILOX_ROUNDS - 1; round++)
        random_round(word, vk_of(plan->key0[round]), vk_of(plan->key1[round]));
    random_last_round(plan, word, random);
}

static void random_u32(const struct tsk_stream *stream, uint64_t first, size_t count, uint32_t *out)
{
    const struct random_plan plan = random_plan_of(stream);
    vi random[RANDOM_VECTORS];
    size_t i = 0;
    for (; i + RANDOM_BATCH <= count; i += RANDOM_BATCH) {
        random_batch(&plan, first + i, random);
        for (unsigned v = 0; v < RANDOM_VECTORS; v++)
            vi_store(out + i + TSK_LANES * v, random[v]);
    }
    if (i == count)
        return;
    random_batch(&plan, first + i, random);
    for (unsigned v = 0; i < count; v++, i += TSK_LANES)
        vi_store_first(out + i, random[v], lanes_of(count - i));
}

#endif
