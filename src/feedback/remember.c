/* RegTop-k records which elements it sent in a step, and their aggregate. */
#include "combine/combine.h"
#include "feedback/posterior.h"

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
}
