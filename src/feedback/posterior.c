#include "feedback/posterior.h"

#include <math.h>
#include <stdlib.h>

#include "combine/combine.h"

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

enum { BATCH = 256, AHEAD = 16 };

/* Scores of up to BATCH elements whose a = g + e is in `now`. Under `prev` |1 + Delta| is a
 * quotient: 1 + (G - w a) / (w a) would cancel. Where it is 0 / 0 or overflows, the score is that
 * of an element that was not sent. */
static void score(enum tsi_posterior_form form, float mu, const float *now, const float *sum,
                  const float *before, size_t count, float *out)
{
    for (size_t i = 0; i < count; i++) {
        const float divisor = form == TSI_FORM_PREV ? before[i] : now[i];
        const float kept =
            fabsf(form == TSI_FORM_PREV ? sum[i] / before[i] : 1 + (sum[i] - before[i]) / now[i]);
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

/* ---- what was sent in a step, and its aggregate ---- */

/* The next bucket in the order of the flat buffer. */
static struct tsi_bucket *bucket_after(struct tsi_bucket *const *buckets, uint32_t count,
                                       uint64_t from)
{
    struct tsi_bucket *next = NULL;
    for (uint32_t i = 0; i < count; i++)
        if (buckets[i]->count > 0 && buckets[i]->first >= from &&
            (!next || buckets[i]->first < next->first))
            next = buckets[i];
    return next;
}

/* A position in an aggregate; elements are looked up in ascending order. */
struct place {
    const struct tsi_aggregate *aggregate;
    uint32_t span;
    size_t at; /* entry of a list span */
};

/* The value of an element; 0 if no span contains it. */
static float value_at(struct place *place, uint64_t element)
{
    for (; place->span < place->aggregate->count; place->span++, place->at = 0) {
        const struct tsi_span *const span = &place->aggregate->span[place->span];
        if (span->kind == TSI_SPAN_DENSE && element - span->first < span->count)
            return span->value[element - span->first];
        if (span->kind != TSI_SPAN_LIST)
            continue;
        while (place->at < span->count && span->first + span->index[place->at] < element)
            place->at++;
        if (place->at < span->count)
            return span->first + span->index[place->at] == element ? span->value[place->at] : 0;
    }
    return 0;
}

/* Records one piece and returns the length of its section. */
static size_t remember_piece(struct tsi_posterior *posterior, const struct tsi_call *call,
                             struct place *place, const uint8_t *section)
{
    struct tsi_entries entries;
    struct tsi_batch batch;
    size_t used = 0;
    /* This rank encoded the section itself, so it is well formed. */
    if (call->ops->open(call, section, SIZE_MAX, &used, &entries, NULL) != TERSE_OK)
        return used;
    while (!call->piece->plain && call->ops->next(call, &entries, &batch, NULL) == TERSE_OK &&
           batch.count > 0) {
        for (size_t i = 0; i < batch.count; i++) {
            const size_t at = posterior->count++;
            posterior->index[at] = call->piece->offset + batch.index[i];
            posterior->before[at] = batch.value[i];
            posterior->sum[at] = value_at(place, posterior->index[at]);
        }
    }
    return used;
}

void tsi_posterior_remember(struct tsi_posterior *posterior, struct tsi_bucket *const *buckets,
                            uint32_t count, const float *residual)
{
    struct tsi_bucket *bucket = bucket_after(buckets, count, 0);
    posterior->count = 0;
    for (; bucket; bucket = bucket_after(buckets, count, bucket->first + bucket->count)) {
        struct place place = {&bucket->aggregate, 0, 0};
        const uint8_t *section = bucket->payload;
        for (uint32_t i = 0; i < bucket->codec->piece_count; i++) {
            const struct tsi_call call = tsi_codec_call(bucket->codec, &bucket->in->key, 0, i);
            if (call.ops)
                section += remember_piece(posterior, &call, &place, section);
        }
    }
    for (size_t i = 0; residual && i < posterior->count; i++)
        posterior->before[i] += residual[posterior->index[i]];
    const float *const weight = count > 0 ? buckets[0]->in->weighting.weight : NULL;
    for (size_t i = 0; weight && i < posterior->count; i++)
        posterior->sum[i] /= weight[buckets[0]->in->rank];
}
