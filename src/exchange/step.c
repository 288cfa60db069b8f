/* One step of many workers: open, say, turn, hear, agree, write. At once, or bucket by bucket. */
#include <stdlib.h>
#include <string.h>

#include "base/fault.h"
#include "base/hash.h"
#include "exchange/exchange.h"
#include "kernels/bind.h"

#define MAX_UNDER_WAY 6u /* buckets: reduce takes up to TERSE_SUM_SEGMENTS requests for each */

/* ---- buckets of a step ---- */

static struct tsi_bucket *known_bucket(const terse_exchange *exchange, uint32_t first,
                                       uint32_t count)
{
    for (uint32_t i = 0; i < exchange->bucket_count; i++)
        if (exchange->bucket[i]->first_tensor == first &&
            exchange->bucket[i]->tensor_count == count)
            return exchange->bucket[i];
    return NULL;
}

static terse_status grow(terse_exchange *exchange)
{
    const uint32_t cap = exchange->bucket_cap ? 2 * exchange->bucket_cap : 16;
    struct tsi_bucket **const bucket = realloc(exchange->bucket, cap * sizeof *bucket);
    if (bucket)
        exchange->bucket = bucket;
    struct tsi_bucket **const posted = realloc(exchange->posted, cap * sizeof *posted);
    if (posted)
        exchange->posted = posted;
    if (!bucket || !posted)
        return TERSE_NO_MEMORY;
    exchange->bucket_cap = cap;
    return TERSE_OK;
}

/* The bucket of these tensors, made when it is first posted. */
static terse_status bucket_of(terse_exchange *exchange, uint32_t first, uint32_t count,
                              struct tsi_bucket **out, terse_fault *fault)
{
    *out = known_bucket(exchange, first, count);
    if (*out)
        return TERSE_OK;
    if (exchange->bucket_count == exchange->bucket_cap && grow(exchange) != TERSE_OK)
        return tsi_fail(fault, TERSE_NO_MEMORY, 0, "out of memory");
    const terse_status status =
        tsi_bucket_create(&exchange->room, exchange->combine, first, count, out, fault);
    if (status == TERSE_OK)
        exchange->bucket[exchange->bucket_count++] = *out;
    return status;
}

/* ---- opening ---- */

static int is_finite(const struct tsk_table *kernel, const float *floats, uint64_t count)
{
    return kernel->magnitude_max_f32(floats, (size_t)count) < TSK_INFINITY_BITS;
}

static terse_status open_step(terse_exchange *exchange, int ready, int32_t *skipped_by,
                              terse_fault *fault)
{
    struct tsi_room *const room = &exchange->room;
    uint64_t from = tsi_now();
    terse_group_traffic(room->group, &exchange->said_before, &exchange->heard_before);
    room->draw.step = exchange->step;
    const terse_status status = tsi_agree_open(exchange, ready, skipped_by, fault);
    tsi_clock(room, TERSE_STATION_GROUP, &from);
    exchange->opened = status == TERSE_OK && *skipped_by < 0;
    exchange->skip = 0;
    exchange->posted_count = 0;
    return status;
}

/* ---- the moves ---- */

static void add_to_memory(terse_exchange *exchange, const struct tsk_table *kernel,
                          const struct tsi_bucket *bucket, const float *gradient)
{
    uint64_t from = tsi_now();
    if (exchange->room.memory)
        (void)kernel->add_f32(exchange->room.memory + bucket->first,
                              (const uint8_t *)(gradient + bucket->first), (size_t)bucket->count);
    tsi_clock(&exchange->room, TERSE_STATION_MEMORY, &from);
}

/* A failure of the group itself, after which nothing can be told to anybody. */
static int is_death(terse_status status)
{
    return status == TERSE_LATE || status == TERSE_BROKEN;
}

/* The next move of a bucket. A failure of its own is noted in it and told by the agreement. */
static terse_status move_on(const terse_exchange *exchange, struct tsi_bucket *bucket)
{
    const terse_status status = exchange->combine->move[bucket->next_move++](bucket);
    return is_death(status) ? status : TERSE_OK;
}

/* Makes the first move of a bucket. A group has requests for a few buckets under way; beyond, the
 * oldest goes all its way first. How many that is depends on counts that are the same everywhere.
 */
static terse_status post_bucket(terse_exchange *exchange, struct tsi_bucket *bucket)
{
    terse_status status = TERSE_OK;
    if (exchange->posted_count >= MAX_UNDER_WAY) {
        struct tsi_bucket *const oldest = exchange->posted[exchange->posted_count - MAX_UNDER_WAY];
        while (exchange->combine->move[oldest->next_move] && status == TERSE_OK)
            status = move_on(exchange, oldest);
    }
    bucket->round = 0;
    bucket->next_move = 0;
    bucket->status = TERSE_OK;
    bucket->answered = 0;
    bucket->fault = (terse_fault){.rank = -1};
    exchange->posted[exchange->posted_count++] = bucket;
    return status == TERSE_OK ? move_on(exchange, bucket) : status;
}

/* All buckets through the moves of a round that they have not made, MAX_UNDER_WAY at a time. */
static terse_status move_round(terse_exchange *exchange)
{
    terse_status status = TERSE_OK;
    for (uint32_t first = 0; first < exchange->posted_count; first += MAX_UNDER_WAY) {
        for (size_t move = 0; exchange->combine->move[move]; move++) {
            for (uint32_t i = first; i < first + MAX_UNDER_WAY && i < exchange->posted_count; i++)
                if (exchange->posted[i]->next_move == move && status == TERSE_OK)
                    status = move_on(exchange, exchange->posted[i]);
        }
    }
    return status;
}

static terse_status move_buckets(terse_exchange *exchange)
{
    terse_status status = move_round(exchange);
    for (uint32_t round = 1; round < exchange->room.about.rounds && status == TERSE_OK; round++) {
        for (uint32_t i = 0; i < exchange->posted_count; i++) {
            exchange->posted[i]->round = round;
            exchange->posted[i]->next_move = 0;
        }
        status = move_round(exchange);
    }
    return status;
}

static const struct tsi_bucket *first_failure(const terse_exchange *exchange)
{
    for (uint32_t i = 0; i < exchange->posted_count; i++)
        if (exchange->posted[i]->status != TERSE_OK)
            return exchange->posted[i];
    return NULL;
}

/* ---- closing ---- */

static void write_answer(terse_exchange *exchange, float *gradient)
{
    struct tsi_room *const room = &exchange->room;
    const float parts = exchange->combine->mean ? (float)room->workers : 1.0f;
    uint64_t from = tsi_now();
    for (uint32_t i = 0; i < exchange->posted_count; i++) {
        const struct tsi_bucket *const bucket = exchange->posted[i];
        const float *const sum = room->sum + bucket->first;
        float *const out = gradient + bucket->first;
        for (uint64_t j = 0; j < bucket->count; j++)
            out[j] = sum[j] / parts;
    }
    tsi_clock(room, TERSE_STATION_UPDATE, &from);
}

/* What was said goes back into the memories. */
static void undo(terse_exchange *exchange)
{
    for (uint32_t i = 0; i < exchange->posted_count; i++) {
        exchange->combine->undo(exchange->posted[i]);
        tsi_codec_forget(exchange->posted[i]->codec);
    }
}

/* From here on the exchange is of no use. */
static terse_status break_down(terse_exchange *exchange, terse_status status,
                               const terse_fault *fault)
{
    undo(exchange);
    exchange->broken = status;
    if (fault)
        exchange->cause = *fault;
    exchange->opened = 0;
    return status;
}

/* A gradient that cannot be said makes everybody skip; nobody is broken by it. */
static int is_skip(terse_status status)
{
    return status == TERSE_NOT_FINITE || status == TERSE_OUT_OF_RANGE;
}

static terse_status close_step(terse_exchange *exchange, terse_status moved, terse_fault *fault)
{
    uint64_t from = tsi_now();
    const struct tsi_bucket *const failed = first_failure(exchange);
    terse_fault why = failed ? failed->cause : (terse_fault){.rank = -1};
    if (moved != TERSE_OK) { /* the group is dead: nobody can be told */
        if (fault)
            *fault = why;
        return break_down(exchange, moved, &why);
    }
    const terse_status mine = failed           ? failed->status
                              : exchange->skip ? TERSE_NOT_FINITE
                                               : TERSE_OK;
    const int32_t blamed = failed || !exchange->skip ? why.rank : (int32_t)exchange->room.rank;
    const terse_fault own = why;
    const terse_status status = tsi_agree_close(exchange, mine, blamed, &why);
    tsi_clock(&exchange->room, TERSE_STATION_GROUP, &from);
    if (status == TERSE_OK)
        return TERSE_OK;
    if (failed && status == mine && why.rank == blamed && own.text[0] != '\0')
        why = own; /* this worker has seen it itself: offset and rule */
    if (fault)
        *fault = why;
    return is_skip(status) ? status : break_down(exchange, status, &why);
}

static terse_status compare_answers(terse_exchange *exchange, terse_fault *fault)
{
    uint64_t hash = 0;
    if (exchange->compare_every == 0 || exchange->step % exchange->compare_every != 0)
        return TERSE_OK;
    for (uint32_t i = 0; i < exchange->posted_count; i++) {
        const struct tsi_bucket *const bucket = exchange->posted[i];
        const uint64_t here =
            tsi_hash64(exchange->room.sum + bucket->first, (size_t)bucket->count * sizeof(float));
        hash = hash * UINT64_C(0x9E3779B97F4A7C15) + here;
    }
    return tsi_agree_hash(exchange, hash, fault);
}

static void write_report(terse_exchange *exchange, terse_status skipped, int32_t skipped_by,
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
                                          .said_len = said - exchange->said_before,
                                          .heard_len = heard - exchange->heard_before,
                                          .dense_len = (uint64_t)dense,
                                          .skipped = skipped,
                                          .skipped_by = skipped_by};
        memcpy(report->nanoseconds, room->nanoseconds, sizeof report->nanoseconds);
    }
    memset(room->nanoseconds, 0, sizeof room->nanoseconds);
}

static terse_status begin_call(const terse_exchange *exchange, const float *gradient,
                               const struct tsk_table **kernel, terse_fault *fault)
{
    if (!exchange || !gradient)
        return tsi_fail(fault, TERSE_BAD_ARGUMENT, 0, "exchange or gradient is NULL");
    if (exchange->broken == TERSE_OK)
        return tsk_bound(kernel, fault);
    if (fault)
        *fault = exchange->cause;
    return TERSE_BROKEN;
}

/* This rank's own slices of a bucket; without an owner's memory there is nothing to copy. */
static void copy_owned(const struct tsi_bucket *bucket, const float *from, float *to)
{
    const struct tsi_pieces mine = bucket->owned[bucket->room->rank];
    for (uint32_t i = mine.first; from && to && i < mine.first + mine.count; i++) {
        const struct tsi_piece *const piece = &bucket->codec->piece[i];
        memcpy(to + piece->offset, from + piece->offset, piece->count * sizeof *to);
    }
}

/* The memories as they were before the step: from the copy where buckets were posted one by one,
 * else by taking the gradient out again (to rounding). */
static void roll_back(terse_exchange *exchange, const float *gradient)
{
    struct tsi_room *const room = &exchange->room;
    undo(exchange);
    for (uint32_t i = 0; i < exchange->posted_count && room->memory; i++) {
        const struct tsi_bucket *const bucket = exchange->posted[i];
        const size_t len = (size_t)bucket->count * sizeof(float);
        if (bucket->copied) {
            memcpy(room->memory + bucket->first, exchange->memory_before + bucket->first, len);
            copy_owned(bucket, exchange->owner_memory_before, room->owner_memory);
            continue;
        }
        for (uint64_t j = bucket->first; j < bucket->first + bucket->count; j++)
            room->memory[j] -= gradient[j];
    }
}

/* Answers, or tells why not. */
static terse_status end_step(terse_exchange *exchange, terse_status moved, float *gradient,
                             terse_exchange_report *report, terse_fault *fault)
{
    terse_fault why = {.rank = -1};
    terse_status status = close_step(exchange, moved, &why);
    exchange->opened = 0;
    if (is_skip(status)) {
        roll_back(exchange, gradient);
        write_report(exchange, status, why.rank, report);
        return TERSE_OK;
    }
    if (status == TERSE_OK) {
        status = compare_answers(exchange, &why);
        if (status != TERSE_OK)
            (void)break_down(exchange, status, &why);
    }
    if (status != TERSE_OK) {
        if (fault)
            *fault = why;
        return status;
    }
    write_answer(exchange, gradient);
    write_report(exchange, TERSE_OK, -1, report);
    exchange->step++;
    return TERSE_OK;
}

/* ---- a step at once ---- */

terse_status terse_exchange_run(terse_exchange *exchange, float *gradient,
                                terse_exchange_report *report, terse_fault *fault)
{
    const struct tsk_table *kernel = NULL;
    struct tsi_bucket *bucket = NULL;
    int32_t skipped_by = -1;
    terse_status status = begin_call(exchange, gradient, &kernel, fault);
    if (status != TERSE_OK)
        return status;
    if (exchange->opened)
        return tsi_fail(fault, TERSE_BAD_ARGUMENT, 0, "buckets are under way: finish them");
    const uint64_t count = terse_layout_count(exchange->room.layout);
    status = bucket_of(exchange, 0, terse_layout_tensors(exchange->room.layout), &bucket, fault);
    if (status != TERSE_OK)
        return break_down(exchange, status, fault);
    uint64_t from = tsi_now();
    const int ready = exchange->trusted || is_finite(kernel, gradient, count);
    tsi_clock(&exchange->room, TERSE_STATION_MEMORY, &from);
    status = open_step(exchange, ready, &skipped_by, fault);
    if (status != TERSE_OK)
        return break_down(exchange, status, fault);
    if (skipped_by >= 0) {
        write_report(exchange, TERSE_NOT_FINITE, skipped_by, report);
        return TERSE_OK;
    }
    bucket->copied = 0;
    exchange->room.gradient = gradient;
    add_to_memory(exchange, kernel, bucket, gradient);
    status = post_bucket(exchange, bucket);
    if (!is_death(status))
        status = move_buckets(exchange);
    return end_step(exchange, status, gradient, report, fault);
}

/* ---- bucket by bucket ---- */

/* Copies of the memories, so that a gradient found unfit later than others were said can still be
 * skipped without a trace. */
static terse_status keep_copies(terse_exchange *exchange, struct tsi_bucket *bucket)
{
    const struct tsi_room *const room = &exchange->room;
    const size_t count = (size_t)terse_layout_count(room->layout);
    bucket->copied = room->memory != NULL;
    if (!room->memory)
        return TERSE_OK;
    if (!exchange->memory_before)
        exchange->memory_before = malloc((count + 1) * sizeof(float));
    if (room->owner_memory && !exchange->owner_memory_before)
        exchange->owner_memory_before = malloc((count + 1) * sizeof(float));
    if (!exchange->memory_before || (room->owner_memory && !exchange->owner_memory_before))
        return TERSE_NO_MEMORY;
    memcpy(exchange->memory_before + bucket->first, room->memory + bucket->first,
           (size_t)bucket->count * sizeof(float));
    copy_owned(bucket, room->owner_memory, exchange->owner_memory_before);
    return TERSE_OK;
}

static terse_status check_bucket(const terse_exchange *exchange, uint32_t first, uint32_t count,
                                 terse_fault *fault)
{
    const uint32_t tensors = terse_layout_tensors(exchange->room.layout);
    if (count == 0 || first > tensors || count > tensors - first)
        return tsi_fail(fault, TERSE_BAD_ARGUMENT, 0, "tensors %u to %u of %u", first,
                        first + count, tensors);
    for (uint32_t i = 0; i < exchange->posted_count && exchange->opened; i++) {
        const struct tsi_bucket *const other = exchange->posted[i];
        if (first < other->first_tensor + other->tensor_count &&
            other->first_tensor < first + count)
            return tsi_fail(fault, TERSE_BAD_ARGUMENT, 0, "a tensor is posted twice");
    }
    return TERSE_OK;
}

terse_status terse_exchange_post(terse_exchange *exchange, const float *gradient, uint32_t first,
                                 uint32_t count, terse_fault *fault)
{
    const struct tsk_table *kernel = NULL;
    struct tsi_bucket *bucket = NULL;
    int32_t skipped_by = -1;
    terse_status status = begin_call(exchange, gradient, &kernel, fault);
    if (status == TERSE_OK)
        status = check_bucket(exchange, first, count, fault);
    if (status != TERSE_OK)
        return status;
    status = bucket_of(exchange, first, count, &bucket, fault);
    if (status == TERSE_OK && keep_copies(exchange, bucket) != TERSE_OK)
        status = tsi_fail(fault, TERSE_NO_MEMORY, 0, "out of memory");
    if (status != TERSE_OK)
        return break_down(exchange, status, fault);
    if (!exchange->opened) {
        status = open_step(exchange, 1, &skipped_by, fault);
        if (status != TERSE_OK)
            return break_down(exchange, status, fault);
    }
    uint64_t from = tsi_now();
    exchange->room.gradient = gradient;
    const int fit = exchange->trusted || is_finite(kernel, gradient + bucket->first, bucket->count);
    tsi_clock(&exchange->room, TERSE_STATION_MEMORY, &from);
    exchange->skip |= !fit;
    if (fit)
        add_to_memory(exchange, kernel, bucket, gradient);
    status = post_bucket(exchange, bucket);
    if (!is_death(status))
        return TERSE_OK;
    if (fault)
        *fault = bucket->cause;
    return break_down(exchange, status, &bucket->cause);
}

terse_status terse_exchange_finish(terse_exchange *exchange, float *gradient,
                                   terse_exchange_report *report, terse_fault *fault)
{
    const struct tsk_table *kernel = NULL;
    const terse_status status = begin_call(exchange, gradient, &kernel, fault);
    if (status != TERSE_OK)
        return status;
    uint32_t posted = 0;
    for (uint32_t i = 0; i < exchange->posted_count && exchange->opened; i++)
        posted += exchange->posted[i]->tensor_count;
    if (!exchange->opened || posted != terse_layout_tensors(exchange->room.layout))
        return tsi_fail(fault, TERSE_BAD_ARGUMENT, 0, "%u of %u tensors were posted", posted,
                        terse_layout_tensors(exchange->room.layout));
    return end_step(exchange, move_buckets(exchange), gradient, report, fault);
}
