#include "memory/posterior.h"

#include <math.h>
#include <stdlib.h>

int tsi_posterior_create(struct tsi_posterior *posterior, size_t cap)
{
    posterior->cap = cap;
    posterior->index = calloc(cap + 1, sizeof *posterior->index);
    posterior->before = calloc(cap + 1, sizeof *posterior->before);
    posterior->sum = calloc(cap + 1, sizeof *posterior->sum);
    posterior->score = calloc(cap + 1, sizeof *posterior->score);
    return posterior->index && posterior->before && posterior->sum && posterior->score;
}

void tsi_posterior_destroy(struct tsi_posterior *posterior)
{
    free(posterior->index);
    free(posterior->before);
    free(posterior->sum);
    free(posterior->score);
}

size_t tsi_posterior_before(const struct tsi_posterior *posterior, uint64_t end)
{
    size_t low = 0;
    size_t high = posterior->count;
    while (low < high) {
        const size_t middle = low + (high - low) / 2;
        if (posterior->index[middle] < end)
            low = middle + 1;
        else
            high = middle;
    }
    return low;
}

/* tanh of y >= 0, to a few units in the last place; a series where 1 - exp would cancel. */
static float tanh_of(float y)
{
    const float square = y * y;
    if (y < 0.125f)
        return y * (1 - square * (1.0f / 3 - square * (2.0f / 15 - square * (17.0f / 315))));
    const float fall = expf(-2 * y);
    return (1 - fall) / (1 + fall);
}

/* |1 + Delta|. Under `prev` directly as a quotient: 1 + (G - w a) / (w a) would cancel. */
static float balance(enum tsi_posterior_form form, float sum, float before, float now)
{
    return fabsf(form == TSI_FORM_PREV ? sum / before : 1 + (sum - before) / now);
}

void tsi_posterior_score(struct tsi_posterior *posterior, enum tsi_posterior_form form, float mu,
                         const float *memory, size_t from, size_t to)
{
    enum { AHEAD = 16 };
    for (size_t i = from; i < to; i++) {
        __builtin_prefetch(&memory[posterior->index[i + AHEAD < to ? i + AHEAD : to - 1]]);
        const float now = memory[posterior->index[i]];
        const float divisor = form == TSI_FORM_PREV ? posterior->before[i] : now;
        const float kept = balance(form, posterior->sum[i], posterior->before[i], now);
        /* 0 / 0 and overflow: nothing is known, as if it had not been said */
        const float factor = divisor != 0 && kept <= 1e30f ? tanh_of(kept / mu) : 1.0f;
        posterior->score[i] = fabsf(now) * factor;
    }
}
