#include "feedback/posterior.h"

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
    size_t high = (size_t)posterior->count;
    while (low < high) {
        const size_t middle = low + (high - low) / 2;
        if (posterior->index[middle] < end)
            low = middle + 1;
        else
            high = middle;
    }
    return low;
}

/* exp(-z) for 0 <= z <= 80, within 2e-7 of it: 2^whole * 2^part, the latter a Taylor polynomial. */
static inline float exp_minus(float z)
{
    const float t = z * -1.44269504f;
    const int whole = (int)(t - 0.5f); /* to nearest, as t <= 0 */
    const float part = (t - (float)whole) * 0.693147181f;
    const float power =
        1 + part * (1 + part * (1.0f / 2 +
                                part * (1.0f / 6 +
                                        part * (1.0f / 24 + part * (1.0f / 120 + part / 720)))));
    const union {
        uint32_t bits;
        float value;
    } scale = {(uint32_t)(whole + 127) << 23};
    return power * scale.value;
}

/* tanh of y >= 0; a series where 1 - exp would cancel. No branch, so that compilers vectorise. */
static inline float tanh_of(float y)
{
    const float square = y * y;
    const float series =
        y * (1 - square * (1.0f / 3 - square * (2.0f / 15 - square * (17.0f / 315))));
    const float fall = exp_minus(2 * (y < 40 ? y : 40));
    return y < 0.125f ? series : (1 - fall) / (1 + fall);
}

/* |1 + Delta|. Under `prev` directly as a quotient: 1 + (G - w a) / (w a) would cancel. */
static float balance(enum tsi_posterior_form form, float sum, float before, float now)
{
    return fabsf(form == TSI_FORM_PREV ? sum / before : 1 + (sum - before) / now);
}

/* Scores of up to BATCH elements whose a = g + e is in `now`. Where the quotient is 0 / 0 or
 * overflows, the score is that of an element that was not sent. */
enum { BATCH = 256, AHEAD = 16 };

static void score(enum tsi_posterior_form form, float mu, const float *now, const float *sum,
                  const float *before, size_t count, float *out)
{
    for (size_t i = 0; i < count; i++) {
        const float divisor = form == TSI_FORM_PREV ? before[i] : now[i];
        const float kept = balance(form, sum[i], before[i], now[i]);
        const float factor = tanh_of(kept / mu);
        out[i] = fabsf(now[i]) * (divisor != 0 && kept <= 1e30f ? factor : 1.0f);
    }
}

void tsi_posterior_score(struct tsi_posterior *posterior, enum tsi_posterior_form form, float mu,
                         const float *residual, size_t from, size_t to)
{
    float now[BATCH];
    for (size_t first = from; first < to; first += BATCH) {
        const size_t count = to - first < BATCH ? to - first : BATCH;
        for (size_t i = 0; i < count; i++) {
            const size_t soon = first + i + AHEAD < to ? first + i + AHEAD : to - 1;
            __builtin_prefetch(&residual[posterior->index[soon]]);
            now[i] = residual[posterior->index[first + i]];
        }
        score(form, mu, now, posterior->sum + first, posterior->before + first, count,
              posterior->score + first);
    }
}
