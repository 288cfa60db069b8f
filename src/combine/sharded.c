/* shard: every rank owns a slice of every tensor. An all-to-all brings each owner everybody's
 * payload of its slices; it adds them in rank order, makes of the sum what the method asks for (the
 * mean; the mean and its own residual; its new weights), encodes that, and an all-gather brings it
 * to all. 2(K-1)/K payloads per worker each way.
 * parameter-server: the same with one owner, rank 0. */
#include "combine/sharded.h"

#include <stdlib.h>

#include "base/fault.h"

static const char *refuses(const terse_codec_about *codec)
{
    if (codec->passes > 1)
        return "its second pass needs the sum of the first";
    if (!(codec->traits & (TERSE_CODEC_CONTRACTIVE | TERSE_CODEC_UNBIASED)))
        return "what owners send back would be neither unbiased nor corrected by a residual";
    return NULL;
}

/* ---- messages ---- */

static size_t part_cap(const terse_codec *codec, struct tsi_pieces pieces)
{
    return pieces.count == 0 ? 0 : TSI_PART_EXTRA + tsi_codec_bound(codec, 0, pieces);
}

/* The other owners' pieces are encoded first, as somebody waits for them. */
static void plan_runs(struct tsi_bucket *bucket)
{
    bucket->run_count = 0;
    for (uint32_t i = 0; i < bucket->in->workers; i++) {
        const uint32_t r = (bucket->in->rank + 1 + i) % bucket->in->workers; /* this rank last */
        const struct tsi_pieces pieces = bucket->owned[r];
        if (r == bucket->in->rank)
            bucket->early = bucket->run_count;
        for (uint32_t p = pieces.first; p < pieces.first + pieces.count; p++)
            bucket->run[bucket->run_count++] =
                (struct tsi_run){bucket->codec->piece[p].offset, bucket->codec->piece[p].count};
    }
}

terse_status tsi_sharded_create(struct tsi_bucket *bucket, struct tsi_sharded *sharded)
{
    const uint32_t workers = bucket->in->workers;
    const uint32_t rank = bucket->in->rank;
    const int varies = bucket->in->rule != NULL;
    size_t *const cap = calloc(4 * (size_t)workers, sizeof *cap);
    if (!cap)
        return TERSE_NO_MEMORY;
    sharded->there = (struct tsi_messages){.phase = 0, .varies = varies};
    sharded->back = (struct tsi_messages){.phase = 1, .varies = varies, .to_all = 1};
    for (uint32_t r = 0; r < workers; r++) {
        cap[r] = part_cap(bucket->codec, bucket->owned[r]);
        cap[workers + r] = part_cap(bucket->codec, bucket->owned[rank]);
        cap[2 * workers + r] = part_cap(bucket->back_codec, bucket->owned[rank]);
        cap[3 * workers + r] = part_cap(bucket->back_codec, bucket->owned[r]);
    }
    terse_status status = tsi_messages_create(&sharded->there, rank, workers, cap, cap + workers);
    if (status == TERSE_OK)
        status = tsi_messages_create(&sharded->back, rank, workers, cap + 2 * (size_t)workers,
                                     cap + 3 * (size_t)workers);
    free(cap);
    plan_runs(bucket);
    return status;
}

void tsi_sharded_destroy(struct tsi_sharded *sharded)
{
    tsi_messages_destroy(&sharded->there);
    tsi_messages_destroy(&sharded->back);
}

/* This worker's part for one owner. */
static void encode_for(struct tsi_bucket *bucket, const struct tsi_sharded *sharded, uint32_t owner)
{
    const struct tsi_collective *const in = bucket->in;
    const struct tsi_pieces pieces = bucket->owned[owner];
    const struct tsi_part part = tsi_part_of(bucket, &sharded->there, in->rank, owner, in->key,
                                             bucket->codec->piece, pieces);
    uint8_t *const frame = sharded->there.send_at[owner];
    tsi_encode_part(bucket, bucket->codec, &part, pieces, in->source, in->take, frame);
    if (pieces.count > 0)
        bucket->payload_len += tsi_part_len(frame) - TSI_PART_EXTRA;
}

terse_status tsi_sharded_send(struct tsi_bucket *bucket, struct tsi_sharded *sharded)
{
    for (uint32_t r = 0; r < bucket->in->workers; r++)
        if (r != bucket->in->rank)
            encode_for(bucket, sharded, r);
    return tsi_messages_post(bucket, &sharded->there);
}

void tsi_sharded_rest(struct tsi_bucket *bucket, struct tsi_sharded *sharded)
{
    encode_for(bucket, sharded, bucket->in->rank);
}

/* ---- the phases ---- */

static terse_status create(struct tsi_bucket *bucket)
{
    struct tsi_sharded *const sharded = calloc(1, sizeof *sharded);
    bucket->private = sharded;
    if (!sharded || !tsi_aggregate_create(&bucket->aggregate, 1))
        return TERSE_NO_MEMORY;
    return tsi_sharded_create(bucket, sharded);
}

static void destroy(struct tsi_bucket *bucket)
{
    tsi_sharded_destroy(bucket->private);
}

static terse_status send(struct tsi_bucket *bucket)
{
    return tsi_sharded_send(bucket, bucket->private);
}

static void rest(struct tsi_bucket *bucket)
{
    tsi_sharded_rest(bucket, bucket->private);
}

static terse_status confirm_there(struct tsi_bucket *bucket)
{
    return tsi_messages_confirm(bucket, &((struct tsi_sharded *)bucket->private)->there);
}

static terse_status send_there(struct tsi_bucket *bucket)
{
    return tsi_messages_send(bucket, &((struct tsi_sharded *)bucket->private)->there);
}

/* Decodes the part of `sender` about `pieces`; *fresh: into what counts as 0. */
static void decode(struct tsi_bucket *bucket, terse_codec *codec, const struct tsi_part *part,
                   const struct tsi_messages *messages, struct tsi_pieces pieces, int fresh,
                   int stage)
{
    terse_fault fault = {.rank = -1};
    const uint8_t *payload = NULL;
    size_t len = 0;
    if (bucket->status != TERSE_OK || pieces.count == 0 ||
        !tsi_open_part(bucket, codec, part, messages, &payload, &len))
        return;
    uint64_t from = tsi_now();
    const terse_status status = (fresh ? tsi_codec_decode : tsi_codec_decode_add)(
        codec, 0, &part->key, pieces, payload, len, bucket->in->dense, &fault);
    tsi_clock(bucket->in, stage, &from);
    (void)tsi_bucket_fail(bucket, status, (int32_t)part->route.sender, &fault);
}

/* What the method makes of the sums of this rank's pieces. */
static void update_pieces(struct tsi_bucket *bucket)
{
    const struct tsi_collective *const in = bucket->in;
    const struct tsi_pieces mine = bucket->owned[in->rank];
    uint32_t most = 0;
    terse_fault fault;
    uint64_t from = tsi_now();
    for (uint32_t i = mine.first; i < mine.first + mine.count && bucket->status == TERSE_OK; i++) {
        const struct tsi_piece *const piece = &bucket->codec->piece[i];
        const uint32_t here = tsi_owner_update(&in->owner, in->dense, piece->offset, piece->count,
                                               (float)in->workers);
        most = here > most ? here : most;
    }
    if (most >= TSK_INFINITY_BITS)
        (void)tsi_bucket_fail(
            bucket, tsi_fail(&fault, TERSE_OUT_OF_RANGE, 0, "the sum is not finite"), -1, &fault);
    tsi_clock(bucket->in, TERSE_STAGE_COMBINE, &from);
}

/* As an owner: adds in rank order, updates, encodes for all. */
static terse_status reduce(struct tsi_bucket *bucket)
{
    struct tsi_collective *const in = bucket->in;
    struct tsi_sharded *const sharded = bucket->private;
    const struct tsi_pieces mine = bucket->owned[in->rank];
    const terse_status status = tsi_messages_wait(bucket);
    if (status != TERSE_OK)
        return status;
    for (uint32_t r = 0; r < in->workers; r++) {
        const struct tsi_part part =
            tsi_part_of(bucket, &sharded->there, r, in->rank, tsi_worker_key(bucket, r),
                        bucket->codec->piece, mine);
        decode(bucket, bucket->codec, &part, &sharded->there, mine, r == 0, TERSE_STAGE_COMBINE);
    }
    update_pieces(bucket);
    const struct tsi_part part =
        tsi_part_of(bucket, &sharded->back, in->rank, TSI_TO_ALL, tsi_owner_key(bucket, in->rank),
                    bucket->codec->piece, mine);
    float *const next = in->owner.kind == TSI_OWNER_MEAN ? in->dense : in->owner.next;
    tsi_encode_part(bucket, bucket->back_codec, &part, mine, next,
                    in->owner.kind == TSI_OWNER_RESIDUAL ? next : NULL, sharded->back.memory);
    return tsi_messages_post(bucket, &sharded->back);
}

static terse_status confirm_back(struct tsi_bucket *bucket)
{
    return tsi_messages_confirm(bucket, &((struct tsi_sharded *)bucket->private)->back);
}

static terse_status send_back(struct tsi_bucket *bucket)
{
    return tsi_messages_send(bucket, &((struct tsi_sharded *)bucket->private)->back);
}

static terse_status receive(struct tsi_bucket *bucket)
{
    struct tsi_collective *const in = bucket->in;
    const struct tsi_messages *const back = &((struct tsi_sharded *)bucket->private)->back;
    const terse_status status = tsi_messages_wait(bucket);
    if (status != TERSE_OK)
        return status;
    for (uint32_t r = 0; r < in->workers; r++) {
        const struct tsi_part part =
            tsi_part_of(bucket, back, r, TSI_TO_ALL, tsi_owner_key(bucket, r), bucket->codec->piece,
                        bucket->owned[r]);
        decode(bucket, bucket->back_codec, &part, back, bucket->owned[r], 1, TERSE_STAGE_DECODE);
        if (bucket->status == TERSE_OK && bucket->owned[r].count > 0)
            bucket->agreed = tsi_fold(bucket->agreed, tsi_part_checksum(back->recv_at[r]));
    }
    tsi_aggregate_add(&bucket->aggregate, (struct tsi_span){.kind = TSI_SPAN_DENSE,
                                                            .first = bucket->first,
                                                            .count = (size_t)bucket->count,
                                                            .value = in->dense + bucket->first});
    return TERSE_OK;
}

#define PHASES                                                              \
    .refuses = refuses, .create = create, .destroy = destroy, .rest = rest, \
    .phase = {send, confirm_there, send_there, reduce, confirm_back, send_back, receive}

const struct tsi_combine_ops tsi_combine_shard = {
    .name = "shard",
    .summary = "every rank owns a slice and re-encodes its mean: 2(K-1)/K payloads per worker",
    .cut = TSI_CUT_SLICES,
    PHASES,
};

const struct tsi_combine_ops tsi_combine_parameter_server = {
    .name = "parameter-server",
    .summary = "rank 0 owns everything: a payload up and one down",
    .cut = TSI_CUT_SERVER,
    PHASES,
};
