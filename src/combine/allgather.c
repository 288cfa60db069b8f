/* gather: everybody hears everybody, in rank order. Exact for sparse payloads (the union comes
 * back); K-1 payloads per worker, so for small groups or small payloads. */
#include <stdlib.h>

#include "combine/combine.h"

static const char *refuses(const terse_codec_about *codec)
{
    return codec->passes > 1 ? "it needs the sum of its first pass" : NULL;
}

static terse_status create(struct tsi_bucket *bucket)
{
    const struct tsi_room *const room = bucket->room;
    if (room->host && room->host->sparse && bucket->codec->ops->next) {
        bucket->merged = calloc(1, sizeof *bucket->merged);
        if (!bucket->merged || !tsi_merged_create(bucket->merged, bucket->codec, room->workers))
            return TERSE_NO_MEMORY;
    }
    return tsi_mail_create(bucket, &bucket->back, 1);
}

static void destroy(struct tsi_bucket *bucket)
{
    if (bucket->merged)
        tsi_merged_destroy(bucket->merged);
    free(bucket->merged);
}

static terse_status post(struct tsi_bucket *bucket)
{
    const struct tsi_pieces all = bucket->owned[bucket->room->rank];
    if (all.count > 0)
        (void)!tsi_say(bucket, all, bucket->back.memory); /* noted; the agreement tells */
    return tsi_mail_post(bucket, &bucket->back);
}

/* Where all elements together are few, they are listed instead of added to room->sum. */
static terse_status merge(struct tsi_bucket *bucket)
{
    struct tsi_room *const room = bucket->room;
    const struct tsi_pieces all = bucket->owned[room->rank];
    terse_status status = TERSE_OK;
    int32_t blamed = -1;
    for (uint32_t r = 0; r < room->workers && status == TERSE_OK; r++) {
        struct tsi_voice *const voice = &bucket->merged->voice[r];
        terse_rng_key draw = room->draw;
        draw.worker = r;
        status = tsi_open(bucket, all, draw, (int32_t)r, bucket->back.recv_at[r],
                          bucket->back.recv_cap[r], &voice->payload, &voice->len);
    }
    uint64_t from = tsi_now();
    if (status != TERSE_OK || all.count == 0)
        return status;
    status = tsi_merge(bucket->merged, bucket->codec, &room->draw, room->workers, &blamed,
                       &bucket->fault);
    tsi_clock(room, TERSE_STAGE_DECODE, &from);
    return tsi_bucket_fail(bucket, status, blamed);
}

/* Waiting belongs to it: the buckets before are heard while the last is still on its way. */
static terse_status hear(struct tsi_bucket *bucket)
{
    struct tsi_room *const room = bucket->room;
    terse_status status = tsi_mail_wait(bucket);
    if (status != TERSE_OK)
        return status;
    if (bucket->merged)
        return merge(bucket);
    uint64_t from = tsi_now();
    tsi_clear_sum(bucket);
    tsi_clock(room, TERSE_STAGE_DECODE, &from);
    for (uint32_t r = 0; r < room->workers && status == TERSE_OK; r++) {
        terse_rng_key draw = room->draw;
        draw.worker = r;
        status = tsi_hear(bucket, bucket->owned[r], draw, (int32_t)r, bucket->back.recv_at[r],
                          bucket->back.recv_cap[r], room->sum, TERSE_STAGE_DECODE);
    }
    if (status != TERSE_OK)
        return status;
    return bucket->sparse ? tsi_check_touched(bucket)
                          : tsi_check_sum(bucket, bucket->owned[room->rank]);
}

/* What anybody spoke of. */
static void touch(struct tsi_bucket *bucket, const struct tsi_toucher *toucher)
{
    const struct tsi_room *const room = bucket->room;
    for (uint32_t r = 0; r < room->workers; r++) {
        terse_rng_key draw = room->draw;
        const uint8_t *const frame = bucket->back.recv_at[r];
        draw.worker = r;
        tsi_codec_touch(bucket->codec, &draw, frame + TERSE_FRAME_HEADER_LEN, toucher);
    }
}

static void undo(struct tsi_bucket *bucket)
{
    struct tsi_room *const room = bucket->room;
    if (room->memory)
        (void)!tsi_hear(bucket, bucket->owned[room->rank], room->draw, (int32_t)room->rank,
                        bucket->back.memory, bucket->back.send_cap[0], room->memory,
                        TERSE_STAGE_DIRECTION);
}

const struct tsi_combine_ops tsi_combine_allgather = {
    .name = "allgather",
    .summary = "everybody hears everybody: K-1 payloads per worker, exact for sparse payloads",
    .cut = TSI_CUT_WHOLE,
    .mean = 1,
    .refuses = refuses,
    .create = create,
    .destroy = destroy,
    .move = {post, tsi_send_back, hear},
    .undo = undo,
    .touch = touch,
};
