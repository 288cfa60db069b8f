/* What RegTop-k writes down of a step: what it said, and what all made of it there. */
#include "method/method.h"

/* The next bucket of this step in the order of the flat buffer. */
static const struct tsi_bucket *bucket_after(const terse_exchange *exchange, uint64_t from)
{
    const struct tsi_bucket *next = NULL;
    for (uint32_t i = 0; i < exchange->posted_count; i++) {
        const struct tsi_bucket *const bucket = exchange->posted[i];
        if (bucket->count > 0 && bucket->first >= from && (!next || bucket->first < next->first))
            next = bucket;
    }
    return next;
}

/* A place in the answer of a bucket; what is asked for ascends within a piece. */
struct answer {
    const struct tsi_bucket *bucket;
    uint64_t base; /* of the piece */
    size_t at;     /* in the list, where the answer is one */
};

static struct answer answer_of(const struct tsi_bucket *bucket, uint32_t piece)
{
    const struct tsi_merged *const merged = bucket->merged;
    return (struct answer){bucket, bucket->codec->piece[piece].offset,
                           merged && piece > 0 ? merged->end[piece - 1] : 0};
}

static float answer_at(struct answer *answer, uint32_t index)
{
    const struct tsi_merged *const merged = answer->bucket->merged;
    if (!merged)
        return answer->bucket->room->sum[answer->base + index];
    while (merged->index[answer->at] < index) /* ends: what this worker said is listed */
        answer->at++;
    return merged->sum[answer->at];
}

/* Of one piece. Returns how long its section is. */
static size_t remember_piece(struct tsi_posterior *posterior, const struct tsi_bucket *bucket,
                             const struct tsi_call *call, uint32_t piece, const uint8_t *section)
{
    struct answer answer = answer_of(bucket, piece);
    struct tsi_entries entries;
    struct tsi_batch batch;
    size_t used = 0;
    /* It was said here, so nothing about it can be wrong. */
    if (tsi_entries_open(bucket->codec, call, section, SIZE_MAX, &used, &entries, NULL) != TERSE_OK)
        return used;
    while (!call->piece->plain &&
           tsi_entries_next(bucket->codec, call, &entries, &batch, NULL) == TERSE_OK &&
           batch.count > 0) {
        for (size_t i = 0; i < batch.count; i++) {
            const size_t at = posterior->count++;
            posterior->index[at] = answer.base + batch.index[i];
            posterior->before[at] = batch.value[i];
            posterior->sum[at] = answer_at(&answer, batch.index[i]);
        }
    }
    return used;
}

void tsi_method_remember(terse_method *method)
{
    const terse_exchange *const exchange = method->under_way;
    const struct tsi_bucket *bucket = bucket_after(exchange, 0);
    method->posterior.count = 0;
    for (; bucket; bucket = bucket_after(exchange, bucket->first + bucket->count)) {
        const uint8_t *section = bucket->payload;
        for (uint32_t i = 0; i < bucket->codec->piece_count; i++) {
            struct tsi_call call;
            if (bucket->codec->piece[i].count > 0 &&
                tsi_codec_call(bucket->codec, &exchange->room.draw, i, &call) == TERSE_OK)
                section += remember_piece(&method->posterior, bucket, &call, i, section);
        }
    }
}

void tsi_method_add_left(terse_method *method)
{
    struct tsi_posterior *const posterior = &method->posterior;
    for (size_t i = 0; i < posterior->count && tsi_value(method, TSI_VALUES) != 0; i++)
        posterior->before[i] += method->memory[posterior->index[i]];
}
