/* shard: every rank is the server of a slice of every tensor. It hears its slice from all, takes
 * the mean, says that again (with its own error memory where the codec is contractive, so that
 * nothing is lost on the way back either) and all hear the owners. 2(K-1)/K payloads per worker.
 * server: the same with one owner, the papers' parameter server. */
#include <string.h>

#include "base/fault.h"
#include "combine/combine.h"

static const char *refuses(const terse_codec_about *codec)
{
    if (codec->passes > 1)
        return "it needs the sum of its first pass";
    if (!(codec->traits & (TERSE_CODEC_CONTRACTIVE | TERSE_CODEC_UNBIASED)))
        return "what comes back would be neither unbiased nor remembered";
    return NULL;
}

/* Adds the mean of what was heard to what earlier steps left unsaid. */
static void remember_mean(struct tsi_bucket *bucket, float sign)
{
    struct tsi_room *const room = bucket->room;
    const struct tsi_pieces mine = bucket->owned[room->rank];
    const float workers = (float)room->workers;
    for (uint32_t i = mine.first; i < mine.first + mine.count; i++) {
        const struct tsi_piece *const piece = &bucket->codec->piece[i];
        const float *const sum = room->sum + piece->offset;
        float *const owner = room->owner_memory + piece->offset;
        for (size_t j = 0; j < piece->count; j++)
            owner[j] += sign * (sum[j] / workers);
    }
}

/* The mean over the sum. Returns the largest magnitude's bits, found on the way. */
static uint32_t divide(float *sum, size_t count, float workers)
{
    uint32_t most = 0;
    for (size_t j = 0; j < count; j++) {
        uint32_t bits;
        sum[j] /= workers;
        memcpy(&bits, &sum[j], sizeof bits);
        bits &= 0x7fffffffu;
        most = bits > most ? bits : most;
    }
    return most;
}

/* Nobody makes anything of the sum but its mean. */
static int says_mean(const struct tsi_room *room)
{
    return !room->owner_memory && !(room->host && room->host->own);
}

/* The sum is finite, and the mean where that is all that is made of it. */
static terse_status check_or_divide(struct tsi_bucket *bucket)
{
    struct tsi_room *const room = bucket->room;
    const struct tsi_pieces mine = bucket->owned[room->rank];
    uint64_t from = tsi_now();
    terse_status status = TERSE_OK;
    if (!says_mean(room))
        return tsi_check_sum(bucket, mine);
    for (uint32_t i = mine.first; i < mine.first + mine.count; i++) {
        const struct tsi_piece *const piece = &bucket->codec->piece[i];
        if (divide(room->sum + piece->offset, piece->count, (float)room->workers) >=
            TSK_INFINITY_BITS)
            status = tsi_fail(&bucket->fault, TERSE_OUT_OF_RANGE, 0, "the sum is not finite");
    }
    tsi_clock(room, TERSE_STAGE_COMBINE, &from);
    return tsi_bucket_fail(bucket, status, -1);
}

/* What goes back: what the host makes of the sum, else the mean (with memory where there is one).
 */
static terse_status answer(struct tsi_bucket *bucket)
{
    struct tsi_room *const room = bucket->room;
    const struct tsi_pieces mine = bucket->owned[room->rank];
    uint64_t from = tsi_now();
    bucket->answered = 1;
    if (says_mean(room))
        return tsi_say_back(bucket, room->sum, NULL, bucket->back.memory);
    if (!room->host || !room->host->own) {
        remember_mean(bucket, 1.0f);
        tsi_clock(room, TERSE_STAGE_COMBINE, &from);
        return tsi_say_back(bucket, room->owner_memory, room->owner_memory, bucket->back.memory);
    }
    const float *in = room->sum;
    for (uint32_t i = mine.first; i < mine.first + mine.count; i++)
        in = room->host->own(room->host->context, bucket, &bucket->codec->piece[i]);
    tsi_clock(room, TERSE_STAGE_COMBINE, &from);
    return tsi_say_back(bucket, in, NULL, bucket->back.memory);
}

/* What all said about this rank's slice, in rank order, into the sum. */
static terse_status hear_all(struct tsi_bucket *bucket)
{
    struct tsi_room *const room = bucket->room;
    const struct tsi_pieces mine = bucket->owned[room->rank];
    terse_status status = TERSE_OK;
    for (uint32_t r = 0; r < room->workers && status == TERSE_OK; r++) {
        terse_rng_key draw = room->draw;
        draw.worker = r;
        status = (r == 0 ? tsi_hear_fresh
                         : tsi_hear)(bucket, mine, draw, (int32_t)r, bucket->there.recv_at[r],
                                     bucket->there.recv_cap[r], room->sum, TERSE_STAGE_COMBINE);
    }
    return status;
}

static terse_status turn(struct tsi_bucket *bucket)
{
    const struct tsi_pieces mine = bucket->owned[bucket->room->rank];
    terse_status status = tsi_mail_wait(bucket);
    if (status != TERSE_OK)
        return status;
    status = hear_all(bucket);
    if (status == TERSE_OK)
        status = check_or_divide(bucket);
    if (status == TERSE_OK && mine.count > 0)
        (void)!answer(bucket); /* noted; the agreement tells */
    else if (mine.count > 0)
        tsi_part_void(bucket->back.memory);
    return tsi_mail_post(bucket, &bucket->back);
}

static void undo(struct tsi_bucket *bucket)
{
    struct tsi_room *const room = bucket->room;
    for (uint32_t r = 0; room->memory && r < room->workers; r++)
        (void)!tsi_hear(bucket, bucket->owned[r], room->draw, (int32_t)room->rank,
                        bucket->there.send_at[r], bucket->there.send_cap[r], room->memory,
                        TERSE_STAGE_DIRECTION);
    if (!room->owner_memory || !bucket->answered)
        return;
    (void)!tsi_hear(bucket, bucket->owned[room->rank], tsi_owner_draw(bucket, room->rank),
                    (int32_t)room->rank, bucket->back.memory, bucket->back.send_cap[0],
                    room->owner_memory, TERSE_STAGE_DIRECTION);
    if (hear_all(bucket) == TERSE_OK)
        remember_mean(bucket, -1.0f);
}

const struct tsi_combine_ops tsi_combine_shard = {
    .name = "shard",
    .summary = "every rank is the server of a slice: 2(K-1)/K payloads per worker",
    .cut = TSI_CUT_SLICES,
    .refuses = refuses,
    .create = tsi_mail_both,
    .move = {tsi_say_to_owners, tsi_send_to_owners, turn, tsi_send_back, tsi_hear_owners},
    .runs = tsi_owners_runs,
    .say_rest = tsi_say_to_itself,
    .undo = undo,
};

const struct tsi_combine_ops tsi_combine_parameter_server = {
    .name = "parameter-server",
    .summary = "rank 0 is the server of everything: a payload up and one down",
    .cut = TSI_CUT_SERVER,
    .refuses = refuses,
    .create = tsi_mail_both,
    .move = {tsi_say_to_owners, tsi_send_to_owners, turn, tsi_send_back, tsi_hear_owners},
    .runs = tsi_owners_runs,
    .say_rest = tsi_say_to_itself,
    .undo = undo,
};
