#include "direction/clip.h"

#include <math.h>
#include <string.h>

#include "base/parallel.h"

#define LANES ((size_t)16)
#define BATCH ((size_t)64) /* chunks whose sums are on the stack */

struct sweep {
    const float *in;
    float *out;
    double mean;
    float limit;
    double sum[BATCH]; /* by chunk */
};

static double sum_of_lanes(const double *lane)
{
    double sum = 0;
    for (size_t i = 0; i < LANES; i++)
        sum += lane[i];
    return sum;
}

static void sum_chunk(void *context, size_t chunk, size_t first, size_t count)
{
    struct sweep *const sweep = context;
    const float *const in = sweep->in + first;
    double lane[LANES] = {0};
    size_t at = 0;
    for (; at + LANES <= count; at += LANES)
        for (size_t i = 0; i < LANES; i++)
            lane[i] += (double)in[at + i];
    for (size_t i = 0; at + i < count; i++)
        lane[i] += (double)in[at + i];
    sweep->sum[chunk] = sum_of_lanes(lane);
}

static void square_chunk(void *context, size_t chunk, size_t first, size_t count)
{
    struct sweep *const sweep = context;
    const float *const in = sweep->in + first;
    const double mean = sweep->mean;
    double lane[LANES] = {0};
    size_t at = 0;
    for (; at + LANES <= count; at += LANES)
        for (size_t i = 0; i < LANES; i++)
            lane[i] += ((double)in[at + i] - mean) * ((double)in[at + i] - mean);
    for (size_t i = 0; at + i < count; i++)
        lane[i] += ((double)in[at + i] - mean) * ((double)in[at + i] - mean);
    sweep->sum[chunk] = sum_of_lanes(lane);
}

/* The sums of all chunks, in ascending order, whichever thread computed them. */
static double sum_of_chunks(tsi_chunk_fn *work, double mean, const float *in, size_t count,
                            unsigned threads)
{
    double sum = 0;
    for (size_t at = 0; at < count; at += BATCH * TSI_CHUNK) {
        const size_t left = count - at;
        const size_t here = left < BATCH * TSI_CHUNK ? left : BATCH * TSI_CHUNK;
        struct sweep sweep = {.in = in + at, .mean = mean};
        tsi_each_chunk(threads, here, work, &sweep);
        for (size_t i = 0; i < tsi_chunk_total(here); i++)
            sum += sweep.sum[i];
    }
    return sum;
}

static void clip_chunk(void *context, size_t chunk, size_t first, size_t count)
{
    const struct sweep *const sweep = context;
    const float *const in = sweep->in + first;
    float *const out = sweep->out + first;
    const float limit = sweep->limit;
    (void)chunk;
    for (size_t i = 0; i < count; i++)
        out[i] = in[i] > limit ? limit : in[i] < -limit ? -limit : in[i];
}

/* Two sweeps, because the difference of two sums would be rounding where the mean is much larger
 * than the deviation. A sum of so few equal floats is exact in a double: they deviate by 0. */
void tsi_clip_elements(const float *in, float *out, size_t count, double sigma, unsigned threads)
{
    const double n = (double)count;
    const double mean = sum_of_chunks(sum_chunk, 0, in, count, threads) / n;
    const double variance = sum_of_chunks(square_chunk, mean, in, count, threads) / n;
    const float limit = (float)(sigma * sqrt(variance));
    struct sweep sweep = {.in = in, .out = out, .limit = limit > 0 ? limit : INFINITY};
    tsi_each_chunk(threads, count, clip_chunk, &sweep);
}
