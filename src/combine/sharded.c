/* shard: every rank owns a slice of every tensor. An all-to-all brings each owner everybody's
 * payload of its slices; it adds them in rank order, makes of the sum what the method asks for (the
 * mean; the mean and its own residual; its new weights), encodes that, and an all-gather brings it
 * to all. 2(K-1)/K payloads per worker each way.
 * parameter-server: the same with one owner, rank 0. */
#include "combine/sharded.h"

#include <stdatomic.h>
#include <stdlib.h>

#include "base/fault.h"
#include "base/parallel.h"

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
    const size_t pieces = bucket->codec->piece_count;
    const size_t sent = (size_t)bucket->in->workers * bucket->owned[bucket->in->rank].count;
    struct tsi_sharded *const sharded = calloc(1, sizeof *sharded);
    bucket->private = sharded;
    if (!sharded || !tsi_aggregate_create(&bucket->aggregate, pieces + 1))
        return TERSE_NO_MEMORY;
    sharded->sent = calloc(sent + 1, sizeof *sharded->sent);
    sharded->received = calloc(pieces + 1, sizeof *sharded->received);
    return sharded->sent && sharded->received ? tsi_sharded_create(bucket, sharded)
                                              : TERSE_NO_MEMORY;
}

static void destroy(struct tsi_bucket *bucket)
{
    struct tsi_sharded *const sharded = bucket->private;
    free(sharded->sent);
    free(sharded->received);
    tsi_sharded_destroy(sharded);
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

/* Opens the part of a sender about `pieces`, the first of a sum or the next. Its sections are
 * opened into `sections`, where they wait to be decoded; where the codec is not coded, they are
 * decoded to in->dense at once. */
static void open_codes(struct tsi_bucket *bucket, terse_codec *codec, const struct tsi_part *part,
                       const struct tsi_messages *messages, struct tsi_pieces pieces, int stage,
                       struct tsi_coded *sections)
{
    const int fresh = messages->to_all || part->route.sender == 0;
    terse_fault fault = {.rank = -1};
    const uint8_t *payload = NULL;
    size_t len = 0;
    terse_status status;
    if (bucket->status != TERSE_OK || pieces.count == 0 ||
        !tsi_open_part(bucket, codec, part, messages, &payload, &len))
        return;
    uint64_t from = tsi_now();
    if (codec->ops->open_codes)
        status = tsi_codec_open(codec, &part->key, pieces, payload, len, fresh, sections, &fault);
    else
        status = tsi_codec_decode(codec, 0, &part->key, pieces, payload, len, fresh,
                                  bucket->in->dense, &fault);
    tsi_clock(bucket->in, stage, &from);
    (void)tsi_bucket_fail(bucket, status, (int32_t)part->route.sender, &fault);
}

/* Checks the codes of opened sections. Those of this process were encoded here. */
static void check_codes(struct tsi_bucket *bucket, uint32_t sender,
                        const struct tsi_coded *sections, uint32_t count)
{
    uint64_t from = tsi_now();
    for (uint32_t i = 0; i < count && bucket->status == TERSE_OK; i++) {
        terse_fault fault = {.rank = -1};
        const terse_status status = tsi_coded_decode(&sections[i], NULL, &fault);
        (void)tsi_bucket_fail(bucket, status, (int32_t)sender, &fault);
    }
    tsi_clock(bucket->in, TERSE_STAGE_DECODE, &from);
}

/* One piece of this rank, slice by slice. */
struct reduction {
    const struct tsi_collective *in;
    const struct tsi_coded *section; /* of the first worker; NULL: the sums lie in in->dense */
    size_t stride;                   /* from a worker's section to that of the next */
    uint64_t offset;                 /* of the piece */
    size_t first;                    /* of the slice, in the piece */
    atomic_int bad_code;
    atomic_int not_finite;
};

/* Adds in rank order and updates, tile by tile. Sums that nobody needs later stay in the cache. */
static void reduce_chunk(void *context, size_t chunk, size_t first, size_t count)
{
    struct reduction *const reduction = context;
    const struct tsi_collective *const in = reduction->in;
    const int in_tile = reduction->section && in->owner.kind != TSI_OWNER_MEAN;
    const size_t end = reduction->first + first + count;
    (void)chunk;
    for (size_t at = reduction->first + first; at < end; at += TSI_TILE) {
        const size_t here = end - at < TSI_TILE ? end - at : TSI_TILE;
        const uint64_t element = reduction->offset + at;
        float tile[TSI_TILE];
        float *const sum = in_tile ? tile : in->dense + element;
        for (uint32_t r = 0; reduction->section && r < in->workers; r++)
            if (tsi_coded_add(reduction->section + r * reduction->stride, at, here, sum))
                atomic_store(&reduction->bad_code, 1);
        if (!tsi_owner_update(&in->owner, sum, element, here, (float)in->workers))
            atomic_store(&reduction->not_finite, 1);
    }
}

/* Where an owner's state or mean lies that it encodes for all. */
static float *made_by(const struct tsi_owner *owner, float *dense)
{
    return owner->kind == TSI_OWNER_MEAN ? dense : owner->next;
}

/* What the method makes of the sum of piece `number`, which is the i-th of this rank. */
static void reduce_piece(struct tsi_bucket *bucket, const terse_rng_key *key, uint32_t number,
                         uint32_t i)
{
    const struct tsi_collective *const in = bucket->in;
    const struct tsi_sharded *const sharded = bucket->private;
    const struct tsi_piece *const piece = &bucket->codec->piece[number];
    const size_t slice = TSI_CHUNK * bucket->codec->threads;
    const size_t mine = bucket->owned[in->rank].count;
    const int coded = bucket->codec->ops->open_codes != NULL;
    struct reduction reduction = {.in = in,
                                  .section = coded ? sharded->sent + i : NULL,
                                  .stride = mine,
                                  .offset = piece->offset};
    terse_fault fault;
    for (size_t at = 0; at < piece->count; at += slice) {
        const size_t here = piece->count - at < slice ? piece->count - at : slice;
        reduction.first = at;
        tsi_each_chunk(bucket->codec->threads, here, reduce_chunk, &reduction);
        tsi_codec_prescan(bucket->back_codec, key, made_by(&in->owner, in->dense),
                          piece->offset + at, here);
    }
    for (uint32_t r = 0; atomic_load(&reduction.bad_code) && r < in->workers; r++)
        check_codes(bucket, r, &sharded->sent[r * mine + i], 1);
    if (bucket->status == TERSE_OK && atomic_load(&reduction.not_finite))
        (void)tsi_bucket_fail(
            bucket, tsi_fail(&fault, TERSE_OUT_OF_RANGE, 0, "the sum is not finite"), -1, &fault);
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
        open_codes(bucket, bucket->codec, &part, &sharded->there, mine, TERSE_STAGE_COMBINE,
                   sharded->sent + (size_t)r * mine.count);
    }
    const struct tsi_part part =
        tsi_part_of(bucket, &sharded->back, in->rank, TSI_TO_ALL, tsi_owner_key(bucket, in->rank),
                    bucket->codec->piece, mine);
    uint64_t from = tsi_now();
    for (uint32_t i = 0; i < mine.count && bucket->status == TERSE_OK; i++)
        reduce_piece(bucket, &part.key, mine.first + i, i);
    tsi_clock(in, TERSE_STAGE_COMBINE, &from);
    float *const next = made_by(&in->owner, in->dense);
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

/* The aggregate stays coded until somebody visits it. */
static void add_spans(struct tsi_bucket *bucket)
{
    const struct tsi_sharded *const sharded = bucket->private;
    const terse_codec *const codec = bucket->back_codec;
    const int coded = codec->ops->open_codes != NULL;
    for (uint32_t i = 0; coded && i < codec->piece_count; i++)
        tsi_aggregate_add(&bucket->aggregate, (struct tsi_span){.kind = TSI_SPAN_CODED,
                                                                .first = codec->piece[i].offset,
                                                                .count = codec->piece[i].count,
                                                                .coded = &sharded->received[i]});
    if (!coded)
        tsi_aggregate_add(&bucket->aggregate,
                          (struct tsi_span){.kind = TSI_SPAN_DENSE,
                                            .first = bucket->first,
                                            .count = (size_t)bucket->count,
                                            .value = bucket->in->dense + bucket->first});
}

static terse_status receive(struct tsi_bucket *bucket)
{
    struct tsi_collective *const in = bucket->in;
    struct tsi_sharded *const sharded = bucket->private;
    const terse_status status = tsi_messages_wait(bucket);
    if (status != TERSE_OK)
        return status;
    for (uint32_t r = 0; r < in->workers; r++) {
        const struct tsi_pieces pieces = bucket->owned[r];
        struct tsi_coded *const sections = sharded->received + pieces.first;
        const struct tsi_part part =
            tsi_part_of(bucket, &sharded->back, r, TSI_TO_ALL, tsi_owner_key(bucket, r),
                        bucket->codec->piece, pieces);
        open_codes(bucket, bucket->back_codec, &part, &sharded->back, pieces, TERSE_STAGE_DECODE,
                   sections);
        if (r != in->rank && !in->unchecked && bucket->back_codec->ops->open_codes)
            check_codes(bucket, r, sections, pieces.count);
        if (bucket->status == TERSE_OK && pieces.count > 0)
            bucket->agreed = tsi_fold(bucket->agreed, tsi_part_checksum(sharded->back.recv_at[r]));
    }
    if (bucket->status == TERSE_OK)
        add_spans(bucket);
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
