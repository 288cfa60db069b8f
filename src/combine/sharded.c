/* shard: every rank owns a slice of every tensor. An all-to-all brings each owner everybody's
 * payload of its slices; it adds them in rank order, makes of the sum what the method asks for (the
 * mean; the mean and its own residual; its new weights), encodes that, and an all-gather brings it
 * to all. 2(K-1)/K payloads per worker each way.
 * parameter-server: the same with one owner, rank 0. */
#include <stdatomic.h>
#include <stdlib.h>
#include <string.h>

#include "base/divide.h"
#include "base/fault.h"
#include "base/parallel.h"
#include "combine/combine.h"

static const char *refuses(const terse_codec_about *codec)
{
    if (codec->passes > 1)
        return "its second pass needs the sum of the first";
    if (!(codec->traits & (TERSE_CODEC_CONTRACTIVE | TERSE_CODEC_UNBIASED | TERSE_CODEC_TERNARY)))
        return "what owners send back would be neither unbiased nor corrected by a residual";
    return NULL;
}

/* ---- as a worker ---- */

/* The other owners' pieces are encoded first, as somebody waits for them. */
terse_status tsi_create_for_owners(struct tsi_bucket *bucket)
{
    const struct tsi_collective *const in = bucket->in;
    const struct tsi_piece *const piece = bucket->codec->piece;
    bucket->there = (struct tsi_messages){.codec = bucket->codec,
                                          .piece = piece,
                                          .owned = bucket->owned,
                                          .varies = tsi_lengths_vary(bucket)};
    bucket->back = bucket->there;
    bucket->back.codec = bucket->back_codec;
    bucket->back.from_owners = bucket->back.to_all = 1;
    bucket->run_count = 0;
    for (uint32_t i = 0; i < in->workers; i++) {
        const uint32_t r = (in->rank + 1 + i) % in->workers; /* this rank last */
        const struct tsi_pieces pieces = bucket->owned[r];
        if (r == in->rank)
            bucket->early = bucket->run_count;
        for (uint32_t p = pieces.first; p < pieces.first + pieces.count; p++)
            bucket->run[bucket->run_count++] = (struct tsi_run){piece[p].offset, piece[p].count};
    }
    const terse_status status = tsi_messages_create(bucket, &bucket->there);
    return status == TERSE_OK ? tsi_messages_create(bucket, &bucket->back) : status;
}

terse_status tsi_send_to_owners(struct tsi_bucket *bucket)
{
    const struct tsi_collective *const in = bucket->in;
    for (uint32_t r = 0; r < in->workers; r++)
        if (r != in->rank)
            bucket->payload_len += tsi_encode_part(bucket, &bucket->there, r, in->source, in->take);
    return tsi_messages_post(bucket, &bucket->there);
}

void tsi_encode_own(struct tsi_bucket *bucket)
{
    const struct tsi_collective *const in = bucket->in;
    bucket->payload_len += tsi_encode_part(bucket, &bucket->there, in->rank, in->source, in->take);
}

terse_status tsi_sharded_create(struct tsi_bucket *bucket)
{
    const size_t pieces = bucket->codec->piece_count;
    const size_t sent = (size_t)bucket->in->workers * bucket->owned[bucket->in->rank].count;
    struct tsi_sharded *const sharded = calloc(1, sizeof *sharded);
    bucket->private = sharded;
    if (!sharded || !tsi_aggregate_create(&bucket->aggregate, pieces + 1))
        return TERSE_NO_MEMORY;
    sharded->sent = calloc(sent + 1, sizeof *sharded->sent);
    sharded->received = calloc(pieces + 1, sizeof *sharded->received);
    return sharded->sent && sharded->received ? tsi_create_for_owners(bucket) : TERSE_NO_MEMORY;
}

void tsi_sharded_destroy(struct tsi_bucket *bucket)
{
    struct tsi_sharded *const sharded = bucket->private;
    free(sharded->sent);
    free(sharded->received);
    free(sharded->tile);
}

/* ---- parts that arrive ---- */

/* Adds what a worker sent of this rank's pieces, weighted; the first one begins the sum. */
static void add_pieces(const struct tsi_bucket *bucket, uint32_t sender)
{
    const struct tsi_collective *const in = bucket->in;
    const struct tsi_pieces mine = bucket->owned[in->rank];
    for (uint32_t i = mine.first; i < mine.first + mine.count; i++) {
        const struct tsi_piece *const piece = &bucket->codec->piece[i];
        if (sender == 0)
            memset(in->dense + piece->offset, 0, piece->count * sizeof(float));
        tsi_add_weighted(in->dense + piece->offset, in->weighting.one + piece->offset,
                         tsi_weight(in, sender), piece->count);
    }
}

void tsi_open_codes(struct tsi_bucket *bucket, const struct tsi_messages *messages, uint32_t sender,
                    int begins, struct tsi_coded *sections)
{
    terse_codec *const codec = messages->codec;
    const struct tsi_collective *const in = bucket->in;
    const int apart = in->weighting.one && !messages->to_all; /* weighted before it is added */
    const int fresh = begins || apart;
    const int stage = messages->to_all ? TERSE_STAGE_DECODE : TERSE_STAGE_COMBINE;
    terse_fault fault = {.rank = -1};
    struct tsi_opened part;
    terse_status status;
    if (!tsi_open_part(bucket, messages, sender, &part))
        return;
    uint64_t from = tsi_now();
    if (codec->ops->open_codes)
        status = tsi_codec_open(codec, &part.key, part.pieces, part.payload, part.len, fresh,
                                sections, &fault);
    else
        status = tsi_codec_decode(codec, 0, &part.key, part.pieces, part.payload, part.len, fresh,
                                  apart ? in->weighting.one : in->dense, &fault);
    if (apart && !codec->ops->open_codes && status == TERSE_OK)
        add_pieces(bucket, sender);
    tsi_clock(bucket->in, stage, &from);
    (void)tsi_bucket_fail(bucket, status, (int32_t)sender, &fault);
}

void tsi_check_codes(struct tsi_bucket *bucket, uint32_t sender, const struct tsi_coded *sections,
                     uint32_t count)
{
    uint64_t from = tsi_now();
    for (uint32_t i = 0; i < count && bucket->status == TERSE_OK; i++) {
        terse_fault fault = {.rank = -1};
        const terse_status status = tsi_coded_decode(&sections[i], NULL, &fault);
        (void)tsi_bucket_fail(bucket, status, (int32_t)sender, &fault);
    }
    tsi_clock(bucket->in, TERSE_STAGE_DECODE, &from);
}

/* ---- as an owner ---- */

/* What the owner makes of elements first .. first+count-1, whose sum over `workers` lies at `sum`.
 * Returns where it lies. */
static const float *update(const struct tsi_owner *owner, float *sum, uint64_t first, size_t count,
                           float workers)
{
    const struct tsi_divisor by = tsi_divisor_of(workers);
    float *restrict const total = sum;
    if (owner->kind == TSI_OWNER_MEAN) {
        for (size_t i = 0; i < count; i++)
            total[i] = tsi_divide(total[i], by);
        return total;
    }
    const float *restrict const now = owner->now + first;
    float *restrict const next = owner->next + first;
    if (owner->kind == TSI_OWNER_RESIDUAL)
        for (size_t i = 0; i < count; i++)
            next[i] = now[i] + tsi_divide(total[i], by);
    else
        for (size_t i = 0; i < count; i++)
            next[i] = now[i] - tsi_divide(total[i], by);
    return next;
}

/* One piece of this rank, slice by slice. */
struct reduction {
    const struct tsi_collective *in;
    const struct tsi_coded *section; /* of the first worker; NULL: the sums lie in in->dense */
    size_t stride;                   /* from a worker's section to that of the next */
    uint64_t offset;                 /* of the piece */
    size_t first;                    /* of the slice, in the piece */
    atomic_int bad_code;
    atomic_uint largest; /* bits of the largest magnitude made so far */
};

/* One tile of the sum of coded sections with weights. Each is decoded by itself. */
static void add_weighted(struct reduction *reduction, size_t at, size_t count, float *sum)
{
    const struct tsi_collective *const in = reduction->in;
    memset(sum, 0, count * sizeof *sum);
    for (uint32_t r = 0; r < in->workers; r++) {
        float one[TSI_TILE];
        if (tsi_coded_add(reduction->section + r * reduction->stride, at, count, one))
            atomic_store(&reduction->bad_code, 1);
        else
            tsi_add_weighted(sum, one, tsi_weight(in, r), count);
    }
}

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
        const int plain = reduction->section && !in->weighting.weight;
        uint32_t r = 0;
        do /* the first of at least one worker overwrites the sum */
            if (plain && tsi_coded_add(reduction->section + r * reduction->stride, at, here, sum))
                atomic_store(&reduction->bad_code, 1);
        while (++r < in->workers);
        if (reduction->section && !plain)
            add_weighted(reduction, at, here, sum);
        const float *const made = update(&in->owner, sum, element, here, (float)in->workers);
        const uint32_t most = in->kernel->magnitude_max_f32(made, here);
        unsigned before = atomic_load(&reduction->largest);
        while (most > before && !atomic_compare_exchange_weak(&reduction->largest, &before, most))
            ;
    }
}

/* What the method makes of the sum of piece `number`, which is the i-th of this rank: at `made`, a
 * flat buffer that is encoded next, with `key`. */
static void reduce_piece(struct tsi_bucket *bucket, const terse_rng_key *key, const float *made,
                         uint32_t number, uint32_t i)
{
    const struct tsi_collective *const in = bucket->in;
    const struct tsi_sharded *const sharded = bucket->private;
    const struct tsi_piece *const piece = &bucket->codec->piece[number];
    const size_t slice = TSI_CHUNK * bucket->codec->threads;
    const size_t mine = bucket->owned[in->rank].count;
    struct reduction reduction = {.in = in,
                                  .section =
                                      bucket->codec->ops->open_codes ? sharded->sent + i : NULL,
                                  .stride = mine,
                                  .offset = piece->offset};
    terse_fault fault;
    for (size_t at = 0; at < piece->count; at += slice) {
        const size_t here = piece->count - at < slice ? piece->count - at : slice;
        reduction.first = at;
        tsi_each_chunk(bucket->codec->threads, here, reduce_chunk, &reduction);
        tsi_codec_prescan(bucket->back_codec, key, made, piece->offset + at, here);
    }
    for (uint32_t r = 0; atomic_load(&reduction.bad_code) && r < in->workers; r++)
        tsi_check_codes(bucket, r, &sharded->sent[r * mine + i], 1);
    const uint32_t most = atomic_load(&reduction.largest);
    tsi_aggregate_note(&bucket->aggregate, most);
    if (bucket->status == TERSE_OK && most >= TSK_INFINITY_BITS)
        (void)tsi_bucket_fail(
            bucket, tsi_fail(&fault, TERSE_OUT_OF_RANGE, 0, "the sum is not finite"), -1, &fault);
}

/* Adds in rank order, updates, encodes for all. */
static terse_status reduce(struct tsi_bucket *bucket)
{
    struct tsi_collective *const in = bucket->in;
    struct tsi_sharded *const sharded = bucket->private;
    const struct tsi_pieces mine = bucket->owned[in->rank];
    float *const made = in->owner.kind == TSI_OWNER_MEAN ? in->dense : in->owner.next;
    terse_rng_key key = in->key;
    const terse_status status = tsi_messages_wait(bucket);
    if (status != TERSE_OK)
        return status;
    for (uint32_t r = 0; r < in->workers; r++)
        tsi_open_codes(bucket, &bucket->there, r, r == 0, sharded->sent + (size_t)r * mine.count);
    key.worker = in->workers + in->rank; /* that of an owner */
    uint64_t from = tsi_now();
    for (uint32_t i = 0; i < mine.count && bucket->status == TERSE_OK; i++)
        reduce_piece(bucket, &key, made, mine.first + i, i);
    tsi_clock(in, TERSE_STAGE_COMBINE, &from);
    (void)tsi_encode_part(bucket, &bucket->back, in->rank, made,
                          in->owner.kind == TSI_OWNER_RESIDUAL ? made : NULL);
    return tsi_messages_post(bucket, &bucket->back);
}

/* The aggregate stays coded until somebody visits it. */
terse_status tsi_receive_shards(struct tsi_bucket *bucket)
{
    const struct tsi_collective *const in = bucket->in;
    struct tsi_sharded *const sharded = bucket->private;
    const terse_codec *const codec = bucket->back_codec;
    const int coded = codec->ops->open_codes != NULL;
    const terse_status status = tsi_messages_wait(bucket);
    if (status != TERSE_OK)
        return status;
    for (uint32_t r = 0; r < in->workers; r++) {
        struct tsi_coded *const sections = sharded->received + bucket->owned[r].first;
        tsi_open_codes(bucket, &bucket->back, r, 1, sections);
        if (r != in->rank && !in->unchecked && coded)
            tsi_check_codes(bucket, r, sections, bucket->owned[r].count);
    }
    if (bucket->status != TERSE_OK)
        return TERSE_OK;
    for (uint32_t i = 0; coded && i < codec->piece_count; i++)
        tsi_aggregate_add(&bucket->aggregate,
                          (struct tsi_span){TSI_SPAN_CODED, codec->piece[i].offset,
                                            codec->piece[i].count, .coded = &sharded->received[i]});
    if (!coded)
        tsi_aggregate_add(&bucket->aggregate,
                          (struct tsi_span){TSI_SPAN_DENSE, bucket->first, (size_t)bucket->count,
                                            .value = in->dense + bucket->first});
    return TERSE_OK;
}

#define PHASES                                                                        \
    .refuses = refuses, .create = tsi_sharded_create, .destroy = tsi_sharded_destroy, \
    .rest = tsi_encode_own,                                                           \
    .phase = {tsi_send_to_owners,  tsi_confirm_lengths, tsi_send_parts,    reduce,    \
              tsi_confirm_lengths, tsi_send_parts,      tsi_receive_shards}

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
