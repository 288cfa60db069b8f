/* allgather: every rank gets every payload and adds them in rank order. Exact for sparse payloads;
 * K-1 payloads per worker, so for small groups or small payloads. */
#include <stdlib.h>
#include <string.h>

#include "base/fault.h"
#include "combine/combine.h"
#include "combine/merge.h"

static const char *refuses(const terse_codec_about *codec)
{
    return codec->passes > 1 ? "its second pass needs the sum of the first" : NULL;
}

static terse_status create(struct tsi_bucket *bucket)
{
    struct tsi_merge *const merge = calloc(1, sizeof *merge);
    bucket->private = merge;
    bucket->there = (struct tsi_messages){.codec = bucket->codec,
                                          .piece = bucket->codec->piece,
                                          .owned = bucket->owned,
                                          .varies = tsi_lengths_vary(bucket),
                                          .to_all = 1};
    if (!merge ||
        !tsi_aggregate_create(&bucket->aggregate, (size_t)bucket->codec->piece_count + 1) ||
        !tsi_merge_create(merge, bucket->codec, bucket->in->workers))
        return TERSE_NO_MEMORY;
    return tsi_messages_create(bucket, &bucket->there);
}

static void destroy(struct tsi_bucket *bucket)
{
    tsi_merge_destroy(bucket->private);
}

static terse_status send(struct tsi_bucket *bucket)
{
    const struct tsi_collective *const in = bucket->in;
    bucket->payload = (uint8_t *)bucket->there.send_at[in->rank] + TSI_PART_PAYLOAD_AT;
    bucket->payload_len = tsi_encode_part(bucket, &bucket->there, in->rank, in->source, in->take);
    return tsi_messages_post(bucket, &bucket->there);
}

/* Payloads that are dense are decoded one after the other into one buffer, or beside it to be
 * weighted. */
static terse_status add_dense(struct tsi_bucket *bucket, int32_t *blamed, terse_fault *fault)
{
    const struct tsi_collective *const in = bucket->in;
    const struct tsi_merge *const merge = bucket->private;
    float *const sum = in->dense + bucket->first;
    float *const one = in->weighting.one;
    terse_rng_key key = in->key;
    memset(sum, 0, (size_t)bucket->count * sizeof *sum);
    for (uint32_t r = 0; r < in->workers; r++) {
        key.worker = r;
        const terse_status status =
            tsi_codec_decode(bucket->codec, 0, &key, bucket->owned[r], merge->source[r].payload,
                             merge->source[r].len, one != NULL, one ? one : in->dense, fault);
        *blamed = (int32_t)r;
        if (status != TERSE_OK)
            return status;
        if (one)
            tsi_add_weighted(sum, one + bucket->first, tsi_weight(in, r), (size_t)bucket->count);
    }
    *blamed = -1;
    bucket->aggregate.largest = in->kernel->magnitude_max_f32(sum, (size_t)bucket->count);
    if (bucket->aggregate.largest >= TSK_INFINITY_BITS)
        return tsi_fail(fault, TERSE_OUT_OF_RANGE, 0, "the sum is not finite");
    tsi_aggregate_add(&bucket->aggregate, (struct tsi_span){TSI_SPAN_DENSE, bucket->first,
                                                            (size_t)bucket->count, .value = sum});
    return TERSE_OK;
}

/* Codecs that select single elements make a list for each piece, without a buffer of all. */
static terse_status receive(struct tsi_bucket *bucket)
{
    const struct tsi_collective *const in = bucket->in;
    struct tsi_merge *const merge = bucket->private;
    terse_fault fault = {.rank = -1};
    int32_t blamed = -1;
    struct tsi_opened part;
    terse_status status = tsi_messages_wait(bucket);
    if (status != TERSE_OK || bucket->owned[0].count == 0)
        return status;
    for (uint32_t r = 0; r < in->workers; r++)
        if (tsi_open_part(bucket, &bucket->there, r, &part))
            merge->source[r] = (struct tsi_source){part.payload, part.len, tsi_weight(in, r)};
    uint64_t from = tsi_now();
    bucket->aggregate.partial = bucket->codec->ops->next != NULL;
    if (bucket->status == TERSE_OK && bucket->aggregate.partial)
        status = tsi_merge_lists(merge, &in->key, &bucket->aggregate, &blamed, &fault);
    else if (bucket->status == TERSE_OK)
        status = add_dense(bucket, &blamed, &fault);
    tsi_clock(bucket->in, TERSE_STAGE_DECODE, &from);
    return tsi_bucket_fail(bucket, status, blamed, &fault);
}

const struct tsi_combine_ops tsi_combine_allgather = {
    .name = "allgather",
    .summary = "every rank gets every payload: K-1 payloads per worker, exact for sparse payloads",
    .cut = TSI_CUT_WHOLE,
    .mean = 1,
    .refuses = refuses,
    .create = create,
    .destroy = destroy,
    .phase = {send, tsi_confirm_lengths, tsi_send_parts, receive},
};
