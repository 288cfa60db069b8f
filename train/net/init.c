/* The initial weights: Philox4x32-10 (Salmon, Moraes, Dror, Shaw, SC 2011) keyed by the seed, with
 * tensor and element as counter. Every worker computes the same. */
#include "graph.h"

static void philox(uint64_t seed, uint32_t word[4])
{
    uint32_t k0 = (uint32_t)seed;
    uint32_t k1 = (uint32_t)(seed >> 32);
    for (int round = 0; round < 10; round++) {
        const uint64_t p0 = (uint64_t)0xD2511F53u * word[0];
        const uint64_t p1 = (uint64_t)0xCD9E8D57u * word[2];
        word[0] = (uint32_t)(p1 >> 32) ^ word[1] ^ k0;
        word[1] = (uint32_t)p1;
        word[2] = (uint32_t)(p0 >> 32) ^ word[3] ^ k1;
        word[3] = (uint32_t)p0;
        k0 += 0x9E3779B9u;
        k1 += 0xBB67AE85u;
    }
}

/* Twenty-four bits to -1 ... 1 without rounding, never 0. */
static float symmetric(uint32_t word)
{
    return (float)((int32_t)(word >> 8) * 2 + 1 - (1 << 24)) * (1.0f / (1 << 24));
}

void trn_graph_init(const struct trn_graph *graph, uint64_t seed, float *weights)
{
    for (uint32_t t = 0; t < graph->parameter_count; t++) {
        const struct trn_parameter *parameter = &graph->parameters[t];
        float *at = weights + parameter->offset;
        for (uint64_t i = 0; i < parameter->count; i += 4) {
            uint32_t word[4] = {(uint32_t)(i / 4), (uint32_t)(i >> 34), t, 0x696e6974u};
            if (parameter->bound != 0.0f)
                philox(seed, word);
            for (uint64_t j = 0; j < 4 && i + j < parameter->count; j++)
                at[i + j] = parameter->bound == 0.0f
                                ? parameter->base
                                : parameter->base + parameter->bound * symmetric(word[j]);
        }
    }
}
