/* The end of a step: how it went here and elsewhere, then the answer, or everything as before. */
#include <string.h>

#include "base/hash.h"
#include "exchange/exchange.h"

int tsi_is_death(terse_status status)
{
    return status == TERSE_TIMEOUT || status == TERSE_PEER_LOST;
}

/* A gradient that cannot be said makes everybody skip; nobody is broken by it. */
static int is_skip(terse_status status)
{
    return status == TERSE_NOT_FINITE || status == TERSE_OUT_OF_RANGE;
}

static const struct tsi_bucket *first_failure(const terse_exchange *exchange)
{
    for (uint32_t i = 0; i < exchange->posted_count; i++)
        if (exchange->posted[i]->status != TERSE_OK)
            return exchange->posted[i];
    return NULL;
}

/* ---- taking it back ---- */

/* What was said goes back into the memories. */
static void undo(terse_exchange *exchange)
{
    for (uint32_t i = 0; i < exchange->posted_count; i++) {
        exchange->combine->undo(exchange->posted[i]);
        tsi_codec_forget(exchange->posted[i]->codec);
    }
    for (uint32_t i = 0; i < exchange->bucket_count; i++)
        exchange->bucket[i]->clean = 0; /* whichever speaks of these elements next */
}

terse_status tsi_step_break(terse_exchange *exchange, terse_status status, const terse_fault *fault)
{
    if (exchange->phase != TSI_IDLE)
        undo(exchange);
    exchange->broken = status;
    if (fault)
        exchange->cause = *fault;
    exchange->phase = TSI_IDLE;
    return status;
}

/* This rank's own slices of a bucket, where there is an owner's memory. */
static void restore_owned(const struct tsi_bucket *bucket, const float *from, float *to)
{
    const struct tsi_pieces mine = bucket->owned[bucket->room->rank];
    for (uint32_t i = mine.first; to && i < mine.first + mine.count; i++) {
        const struct tsi_piece *const piece = &bucket->codec->piece[i];
        memcpy(to + piece->offset, from + piece->offset, piece->count * sizeof *to);
    }
}

/* The memories as they were before the step: from the copy where buckets were posted one by one,
 * else by taking out again what was added (to rounding). */
static void roll_back(terse_exchange *exchange)
{
    struct tsi_room *const room = &exchange->room;
    undo(exchange);
    for (uint32_t i = 0; i < exchange->posted_count; i++) {
        struct tsi_bucket *const bucket = exchange->posted[i];
        const size_t len = (size_t)bucket->count * sizeof(float);
        if (bucket->copied && room->memory) {
            memcpy(room->memory + bucket->first, exchange->memory_before + bucket->first, len);
            restore_owned(bucket, exchange->owner_memory_before, room->owner_memory);
        } else if (room->host) {
            room->host->undirect(room->host->context, bucket);
        } else if (room->memory) {
            for (uint64_t j = bucket->first; j < bucket->first + bucket->count; j++)
                room->memory[j] -= exchange->gradient[j];
        }
    }
}

/* ---- the answer ---- */

static void write_answer(terse_exchange *exchange)
{
    struct tsi_room *const room = &exchange->room;
    const float parts = exchange->combine->mean ? (float)room->workers : 1.0f;
    uint64_t from = tsi_now();
    for (uint32_t i = 0; i < exchange->posted_count; i++) {
        struct tsi_bucket *const bucket = exchange->posted[i];
        if (room->host && room->host->commit) {
            room->host->commit(room->host->context, bucket, parts);
            continue;
        }
        const float *const sum = room->sum + bucket->first;
        float *const out = exchange->answer + bucket->first;
        for (uint64_t j = 0; j < bucket->count; j++)
            out[j] = sum[j] / parts;
    }
    tsi_clock(room, TERSE_STAGE_UPDATE, &from);
}

void tsi_step_report(terse_exchange *exchange, terse_status skipped, int32_t skipped_by,
                     terse_exchange_report *report)
{
    struct tsi_room *const room = &exchange->room;
    uint64_t said;
    uint64_t heard;
    terse_group_traffic(room->group, &said, &heard);
    if (report) {
        const double dense = 2.0 * (room->workers - 1) / room->workers * sizeof(float) *
                             (double)terse_layout_count(room->layout);
        *report = (terse_exchange_report){.step = exchange->step,
                                          .bytes_sent = said - exchange->said_before,
                                          .bytes_received = heard - exchange->heard_before,
                                          .dense_bytes = (uint64_t)dense,
                                          .skipped = skipped,
                                          .skipped_by = skipped_by};
        memcpy(report->nanoseconds, room->nanoseconds, sizeof report->nanoseconds);
    }
    memset(room->nanoseconds, 0, sizeof room->nanoseconds);
}

static void finish(terse_exchange *exchange, terse_exchange_report *report)
{
    write_answer(exchange);
    tsi_step_report(exchange, TERSE_OK, -1, report);
    exchange->step++;
    exchange->phase = TSI_IDLE;
}

/* ---- agreeing ---- */

/* What this worker blames, and whom. */
static terse_status own_failure(const terse_exchange *exchange, terse_fault *why)
{
    const struct tsi_bucket *const failed = first_failure(exchange);
    *why = failed ? failed->cause : (terse_fault){.rank = -1};
    if (failed)
        return failed->status;
    if (exchange->skip)
        why->rank = (int32_t)exchange->room.rank;
    return exchange->skip ? TERSE_NOT_FINITE : TERSE_OK;
}

terse_status tsi_step_close(terse_exchange *exchange, terse_status moved, terse_fault *fault)
{
    terse_fault why;
    const terse_status mine = own_failure(exchange, &why);
    uint64_t from = tsi_now();
    if (moved == TERSE_OK) {
        moved = tsi_say_close(exchange, mine, why.rank, &why);
        tsi_clock(&exchange->room, TERSE_STAGE_GROUP, &from);
        exchange->phase = TSI_CLOSING;
        if (moved == TERSE_OK && exchange->room.host && exchange->room.host->meanwhile) {
            exchange->room.host->meanwhile(exchange->room.host->context);
            tsi_clock(&exchange->room, TERSE_STAGE_UPDATE, &from);
        }
        if (moved == TERSE_OK)
            return TERSE_OK;
    }
    if (fault) /* the group is dead: nobody can be told */
        *fault = why;
    return tsi_step_break(exchange, moved, &why);
}

static void hash_signs(void *context, uint64_t first, uint64_t count, const uint8_t *negative)
{
    uint64_t *const hash = context;
    (void)first;
    *hash = *hash * UINT64_C(0x9E3779B97F4A7C15) + tsi_hash64(negative, (size_t)(count + 7) / 8);
}

static void hash_entries(void *context, uint64_t base, const uint32_t *index, const float *sum,
                         size_t count)
{
    uint64_t *const hash = context;
    (void)base;
    *hash = *hash * UINT64_C(0x9E3779B97F4A7C15) + tsi_hash64(index, count * sizeof *index);
    *hash = *hash * UINT64_C(0x9E3779B97F4A7C15) + tsi_hash64(sum, count * sizeof *sum);
}

static uint64_t hash_answer(const terse_exchange *exchange)
{
    uint64_t hash = 0;
    for (uint32_t i = 0; i < exchange->posted_count; i++) {
        const struct tsi_bucket *const bucket = exchange->posted[i];
        if (bucket->packed) {
            bucket->ops->signs(bucket, &(struct tsi_signer){&hash, hash_signs});
            continue;
        }
        if (bucket->merged) {
            tsi_merged_each(bucket->merged, bucket->codec,
                            &(struct tsi_merged_taker){&hash, hash_entries});
            continue;
        }
        const uint64_t here =
            tsi_hash64(exchange->room.sum + bucket->first, (size_t)bucket->count * sizeof(float));
        hash = hash * UINT64_C(0x9E3779B97F4A7C15) + here;
    }
    return hash;
}

/* All is well: the answer, or first a comparison of answers where it is time for one. */
static terse_status close_well(terse_exchange *exchange, int *done, terse_exchange_report *report,
                               terse_fault *fault)
{
    if (exchange->compare_every == 0 || exchange->step % exchange->compare_every != 0) {
        finish(exchange, report);
        *done = 1;
        return TERSE_OK;
    }
    exchange->phase = TSI_COMPARING;
    terse_fault why = {.rank = -1};
    const terse_status status = tsi_say_hash(exchange, hash_answer(exchange), &why);
    if (status == TERSE_OK)
        return TERSE_OK;
    if (fault)
        *fault = why;
    return tsi_step_break(exchange, status, &why);
}

terse_status tsi_step_closed(terse_exchange *exchange, int *done, terse_exchange_report *report,
                             terse_fault *fault)
{
    terse_fault own;
    terse_fault why = {.rank = -1};
    const terse_status mine = own_failure(exchange, &own);
    uint64_t from = tsi_now();
    const terse_status status = tsi_agree_close(exchange, &why);
    tsi_clock(&exchange->room, TERSE_STAGE_GROUP, &from);
    if (status == TERSE_OK)
        return close_well(exchange, done, report, fault);
    if (status == mine && why.rank == own.rank && own.text[0] != '\0')
        why = own; /* this worker has seen it itself: offset and rule */
    *done = 1;
    if (is_skip(status)) {
        roll_back(exchange);
        tsi_step_report(exchange, status, why.rank, report);
        exchange->phase = TSI_IDLE;
        return TERSE_OK;
    }
    if (fault)
        *fault = why;
    return tsi_step_break(exchange, status, &why);
}

terse_status tsi_step_compared(terse_exchange *exchange, terse_exchange_report *report,
                               terse_fault *fault)
{
    terse_fault why = {.rank = -1};
    const terse_status status = tsi_agree_hash(exchange, &why);
    if (status == TERSE_OK) {
        finish(exchange, report);
        return TERSE_OK;
    }
    if (fault)
        *fault = why;
    return tsi_step_break(exchange, status, &why);
}
