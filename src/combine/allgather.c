/* allgather: every rank gets every payload and adds them in rank order. Exact for sparse payloads;
 * K-1 payloads per worker, so for small groups or small payloads. */
#include <stdlib.h>
#include <string.h>

#include "base/fault.h"
#include "combine/combine.h"
#include "combine/merge.h"

struct allgather {
    struct tsi_messages messages;
    struct tsi_merge merge; /* of codecs that select single elements */
};

static const char *refuses(const terse_codec_about *codec)
{
    return codec->passes > 1 ? "its second pass needs the sum of the first" : NULL;
}

static int merges(const struct tsi_bucket *bucket)
{
    return bucket->codec->ops->next != NULL;
}

static terse_status create(struct tsi_bucket *bucket)
{
    const uint32_t workers = bucket->in->workers;
    const struct tsi_pieces all = bucket->owned[bucket->in->rank];
    struct allgather *const gather = calloc(1, sizeof *gather);
    size_t *const cap = calloc(workers, sizeof *cap);
    bucket->private = gather;
    if (!gather || !cap ||
        !tsi_aggregate_create(&bucket->aggregate, (size_t)bucket->codec->piece_count + 1) ||
        !tsi_merge_create(&gather->merge, bucket->codec, workers)) {
        free(cap);
        return TERSE_NO_MEMORY;
    }
    for (uint32_t r = 0; r < workers && all.count > 0; r++)
        cap[r] = TSI_PART_EXTRA + tsi_codec_bound(bucket->codec, 0, all);
    gather->messages = (struct tsi_messages){.varies = bucket->in->rule != NULL, .to_all = 1};
    const terse_status status =
        tsi_messages_create(&gather->messages, bucket->in->rank, workers, cap, cap);
    free(cap);
    return status;
}

static void destroy(struct tsi_bucket *bucket)
{
    struct allgather *const gather = bucket->private;
    tsi_messages_destroy(&gather->messages);
    tsi_merge_destroy(&gather->merge);
}

static struct tsi_part part_of(const struct tsi_bucket *bucket, uint32_t rank)
{
    const struct allgather *const gather = bucket->private;
    return tsi_part_of(bucket, &gather->messages, rank, TSI_TO_ALL, tsi_worker_key(bucket, rank),
                       bucket->codec->piece, bucket->owned[rank]);
}

static terse_status send(struct tsi_bucket *bucket)
{
    struct allgather *const gather = bucket->private;
    const struct tsi_pieces all = bucket->owned[bucket->in->rank];
    const struct tsi_part part = part_of(bucket, bucket->in->rank);
    uint8_t *const frame = gather->messages.memory;
    tsi_encode_part(bucket, bucket->codec, &part, all, bucket->in->source, bucket->in->take, frame);
    bucket->payload = frame + TSI_PART_PAYLOAD_AT;
    if (all.count > 0)
        bucket->payload_len += tsi_part_len(frame) - TSI_PART_EXTRA;
    return tsi_messages_post(bucket, &gather->messages);
}

static terse_status confirm(struct tsi_bucket *bucket)
{
    return tsi_messages_confirm(bucket, &((struct allgather *)bucket->private)->messages);
}

static terse_status send_all(struct tsi_bucket *bucket)
{
    return tsi_messages_send(bucket, &((struct allgather *)bucket->private)->messages);
}

/* A list for each piece, added up in rank order without a buffer of all elements. */
static void merge_lists(struct tsi_bucket *bucket)
{
    struct tsi_merge *const merge = &((struct allgather *)bucket->private)->merge;
    terse_fault fault = {.rank = -1};
    int32_t blamed = -1;
    const terse_status status = tsi_merge_lists(merge, bucket->codec, &bucket->in->key,
                                                bucket->in->workers, &blamed, &fault);
    (void)tsi_bucket_fail(bucket, status, blamed, &fault);
    if (status != TERSE_OK)
        return;
    tsi_merge_spans(merge, bucket->codec, &bucket->aggregate);
    bucket->aggregate.partial = 1;
}

/* Payloads that are dense are decoded one after the other into one buffer. */
static void add_dense(struct tsi_bucket *bucket)
{
    const struct tsi_collective *const in = bucket->in;
    const struct allgather *const gather = bucket->private;
    float *const sum = in->dense + bucket->first;
    terse_fault fault = {.rank = -1};
    memset(sum, 0, (size_t)bucket->count * sizeof *sum);
    for (uint32_t r = 0; r < in->workers && bucket->status == TERSE_OK; r++) {
        const terse_rng_key key = tsi_worker_key(bucket, r);
        const struct tsi_source *const source = &gather->merge.source[r];
        const terse_status status =
            tsi_codec_decode(bucket->codec, 0, &key, bucket->owned[r], source->payload, source->len,
                             0, in->dense, &fault);
        (void)tsi_bucket_fail(bucket, status, (int32_t)r, &fault);
    }
    if (in->kernel->magnitude_max_f32(sum, (size_t)bucket->count) >= TSK_INFINITY_BITS)
        (void)tsi_bucket_fail(
            bucket, tsi_fail(&fault, TERSE_OUT_OF_RANGE, 0, "the sum is not finite"), -1, &fault);
    tsi_aggregate_add(&bucket->aggregate, (struct tsi_span){.kind = TSI_SPAN_DENSE,
                                                            .first = bucket->first,
                                                            .count = (size_t)bucket->count,
                                                            .value = sum});
}

static terse_status receive(struct tsi_bucket *bucket)
{
    struct allgather *const gather = bucket->private;
    const terse_status status = tsi_messages_wait(bucket);
    if (status != TERSE_OK || bucket->owned[0].count == 0)
        return status;
    for (uint32_t r = 0; r < bucket->in->workers && bucket->status == TERSE_OK; r++) {
        const struct tsi_part part = part_of(bucket, r);
        struct tsi_source *const source = &gather->merge.source[r];
        if (tsi_open_part(bucket, bucket->codec, &part, &gather->messages, &source->payload,
                          &source->len))
            bucket->agreed =
                tsi_fold(bucket->agreed, tsi_part_checksum(gather->messages.recv_at[r]));
    }
    uint64_t from = tsi_now();
    if (bucket->status == TERSE_OK)
        (merges(bucket) ? merge_lists : add_dense)(bucket);
    tsi_clock(bucket->in, TERSE_STAGE_DECODE, &from);
    return TERSE_OK;
}

const struct tsi_combine_ops tsi_combine_allgather = {
    .name = "allgather",
    .summary = "every rank gets every payload: K-1 payloads per worker, exact for sparse payloads",
    .cut = TSI_CUT_WHOLE,
    .mean = 1,
    .refuses = refuses,
    .create = create,
    .destroy = destroy,
    .phase = {send, confirm, send_all, receive},
};
