/* Finds the 32-bit score of a given rank by counting: each sweep over the scores narrows the range
 * to one bin of the sweep before. */
#ifndef TSI_RANK_H
#define TSI_RANK_H

#include <stddef.h>
#include <stdint.h>

#define TSI_RANK_BINS 4096u

struct tsi_rank {
    uint32_t low;   /* the sought score is >= low */
    unsigned shift; /* the bin of a score is (score - low) >> shift */
    uint32_t top;   /* the last bin; higher scores are out of range */
    size_t rank;    /* the sought score is the rank-th largest (from 1) of those in range */
    uint32_t bins[TSI_RANK_BINS];
};

/* Begins the search for the rank-th largest (from 1) of scores in low .. high. */
static inline void tsi_rank_begin(struct tsi_rank *sought, uint32_t low, uint32_t high, size_t rank)
{
    sought->low = low;
    sought->rank = rank;
    sought->shift = 0;
    while ((high - low) >> sought->shift >= TSI_RANK_BINS)
        sought->shift++;
    sought->top = (high - low) >> sought->shift;
    for (size_t i = 0; i < TSI_RANK_BINS; i++)
        sought->bins[i] = 0;
}

static inline void tsi_rank_count(struct tsi_rank *sought, uint32_t score)
{
    const uint32_t bin = (score - sought->low) >> sought->shift; /* wraps below low: out of range */
    if (bin <= sought->top)
        sought->bins[bin]++;
}

/* Call it after all scores were counted. Returns 1 if `low` is the sought score; `rank` is then the
 * number of scores equal to it that belong to the largest. Returns 0: count all scores again. */
static inline int tsi_rank_narrow(struct tsi_rank *sought)
{
    size_t bin = sought->top;
    while (bin > 0 && sought->bins[bin] < sought->rank)
        sought->rank -= sought->bins[bin--];
    const unsigned shift = sought->shift;
    const uint32_t low = sought->low + ((uint32_t)bin << shift);
    if (shift > 0)
        tsi_rank_begin(sought, low, low + ((1u << shift) - 1), sought->rank);
    sought->low = low;
    return shift == 0;
}

#endif
