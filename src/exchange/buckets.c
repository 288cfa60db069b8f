/* The buckets of a step: made once, said one after the other while the caller still computes. */
#include <stdlib.h>
#include <string.h>

#include "base/fault.h"
#include "base/parallel.h"
#include "exchange/exchange.h"
#include "kernels/bind.h"

#define MAX_UNDER_WAY \
    6u /* buckets: reduce takes up to TERSE_ALLREDUCE_SEGMENTS requests for each */

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

terse_status tsi_step_bucket(terse_exchange *exchange, uint32_t first, uint32_t count,
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

/* ---- the moves ---- */

terse_status tsi_step_move(const terse_exchange *exchange, struct tsi_bucket *bucket)
{
    const terse_status status = exchange->combine->move[bucket->next_move++](bucket);
    return tsi_is_death(status) ? status : TERSE_OK;
}

/* Is what is to be said nothing but the memory and the gradient? */
static int adds(const struct tsi_room *room)
{
    const struct tsi_host *const host = room->host;
    return room->memory && (!host || !host->direct || (host->adds && host->adds(host->context)));
}

/* Copies of the memories, so that a gradient found unfit later than others were said can still be
 * skipped without a trace. */
static void keep(const terse_exchange *exchange, size_t first, size_t count)
{
    const struct tsi_room *const room = &exchange->room;
    if (room->memory)
        memcpy(exchange->memory_before + first, room->memory + first, count * sizeof(float));
    if (room->host && room->host->keep)
        room->host->keep(room->host->context, first, count);
}

/* What is to be said: in the memory, or where room->gradient points. */
static void direct(const terse_exchange *exchange, const struct tsk_table *kernel,
                   struct tsi_bucket *bucket, size_t first, size_t count)
{
    const struct tsi_room *const room = &exchange->room;
    if (room->host && room->host->direct)
        room->host->direct(room->host->context, bucket, first, count);
    else if (room->memory)
        (void)kernel->add_f32(room->memory + first, (const uint8_t *)(room->given + first), count);
}

struct bringing {
    terse_exchange *exchange;
    const struct tsk_table *kernel;
    struct tsi_bucket *bucket;
    int early;     /* posted before all gradients were seen */
    uint64_t from; /* on the clock */
};

/* The codec sees what it will have to say while that is in the cache. */
static void show(struct bringing *to, size_t first, size_t count)
{
    struct tsi_room *const room = to->bucket->room;
    tsi_clock(room, TERSE_STAGE_DIRECTION, &to->from);
    tsi_codec_prescan(to->bucket->codec, &room->draw, room->memory ? room->memory : room->gradient,
                      first, count);
    tsi_clock(room, TERSE_STAGE_ENCODE, &to->from);
}

/* A slice that comes before all gradients were seen is kept and checked on the way; from what is
 * unfit on, nothing is said, and all of it will be taken back. */
static void bring_early(struct bringing *to, size_t first, size_t count)
{
    const terse_exchange *const exchange = to->exchange;
    const struct tsi_room *const room = &exchange->room;
    const float *const given = room->given + first;
    uint32_t most;
    if (adds(room)) {
        most = to->kernel->snapshot_add_f32(room->memory + first, given, count,
                                            exchange->memory_before + first);
    } else {
        keep(exchange, first, count);
        most = exchange->skip_finite_check ? 0 : to->kernel->magnitude_max_f32(given, count);
    }
    to->bucket->unfit |= !exchange->skip_finite_check && most >= TSK_INFINITY_BITS;
    if (!to->bucket->unfit && !adds(room))
        direct(exchange, to->kernel, to->bucket, first, count);
}

/* Slice by slice, so that what is done to it meets in the cache. */
static void bring_run(void *context, uint64_t first, uint64_t run)
{
    struct bringing *const to = context;
    const terse_exchange *const exchange = to->exchange;
    const struct tsi_room *const room = &exchange->room;
    const unsigned threads = room->codec_options.threads ? room->codec_options.threads : 1;
    const size_t slice = TSI_CHUNK * threads;
    const size_t end = (size_t)(first + run);
    for (size_t at = (size_t)first; at < end; at += slice) {
        const size_t count = end - at < slice ? end - at : slice;
        if (to->early)
            bring_early(to, at, count);
        else
            direct(exchange, to->kernel, to->bucket, at, count);
        if (to->bucket->unfit)
            continue;
        if (room->host && room->host->directed)
            room->host->directed(room->host->context, to->bucket, at, count);
        show(to, at, count);
    }
}

/* What the first move speaks of, or the rest. */
static void bring(struct bringing *to, int rest)
{
    const struct tsi_runner runner = {to, bring_run};
    struct tsi_bucket *const bucket = to->bucket;
    to->from = tsi_now();
    if (bucket->ops->runs)
        bucket->ops->runs(bucket, rest, &runner);
    else if (!rest)
        bring_run(to, bucket->first, bucket->count);
    tsi_clock(bucket->room, TERSE_STAGE_DIRECTION, &to->from);
}

/* A group has requests for a few buckets under way; beyond, the oldest goes all its way first. How
 * many that is depends on counts that are the same everywhere. */
terse_status tsi_step_say(terse_exchange *exchange, const struct tsk_table *kernel,
                          struct tsi_bucket *bucket, int early)
{
    struct bringing to = {exchange, kernel, bucket, early, 0};
    terse_status status = TERSE_OK;
    if (exchange->posted_count >= MAX_UNDER_WAY) {
        struct tsi_bucket *const oldest = exchange->posted[exchange->posted_count - MAX_UNDER_WAY];
        while (exchange->combine->move[oldest->next_move] && status == TERSE_OK)
            status = tsi_step_move(exchange, oldest);
    }
    bucket->round = 0;
    bucket->next_move = 0;
    bucket->status = TERSE_OK;
    bucket->answered = 0;
    bucket->said_len = 0;
    bucket->unfit = 0;
    bucket->fault = (terse_fault){.rank = -1};
    bring(&to, 0);
    exchange->posted[exchange->posted_count++] = bucket;
    if (status == TERSE_OK)
        status = tsi_step_move(exchange, bucket);
    bring(&to, 1); /* while that travels */
    if (bucket->ops->say_rest)
        bucket->ops->say_rest(bucket);
    exchange->skip |= bucket->unfit;
    return status;
}

/* All buckets through the moves of a round that they have not made, MAX_UNDER_WAY at a time. */
static terse_status move_round(terse_exchange *exchange)
{
    terse_status status = TERSE_OK;
    for (uint32_t first = 0; first < exchange->posted_count; first += MAX_UNDER_WAY) {
        for (size_t move = 0; exchange->combine->move[move]; move++) {
            for (uint32_t i = first; i < first + MAX_UNDER_WAY && i < exchange->posted_count; i++)
                if (exchange->posted[i]->next_move == move && status == TERSE_OK)
                    status = tsi_step_move(exchange, exchange->posted[i]);
        }
    }
    return status;
}

static terse_status move_buckets(terse_exchange *exchange)
{
    terse_status status = move_round(exchange);
    for (uint32_t round = 1; round < exchange->room.about.passes && status == TERSE_OK; round++) {
        for (uint32_t i = 0; i < exchange->posted_count; i++) {
            exchange->posted[i]->round = round;
            exchange->posted[i]->next_move = 0;
        }
        status = move_round(exchange);
    }
    return status;
}

/* ---- bucket by bucket ---- */

/* This rank's own slices of a bucket, where there is an owner's memory. */
static void copy_owned(const struct tsi_bucket *bucket, const float *from, float *to)
{
    const struct tsi_pieces mine = bucket->owned[bucket->room->rank];
    for (uint32_t i = mine.first; from && i < mine.first + mine.count; i++) {
        const struct tsi_piece *const piece = &bucket->codec->piece[i];
        memcpy(to + piece->offset, from + piece->offset, piece->count * sizeof *to);
    }
}

/* Room for copies of the memories; those of an owner are made at once. */
static terse_status prepare_copies(terse_exchange *exchange, struct tsi_bucket *bucket)
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
    copy_owned(bucket, room->owner_memory, exchange->owner_memory_before);
    return TERSE_OK;
}

static terse_status check_bucket(const terse_exchange *exchange, uint32_t first, uint32_t count,
                                 terse_fault *fault)
{
    const uint32_t tensors = terse_layout_tensors(exchange->room.layout);
    if (exchange->phase != TSI_IDLE && exchange->phase != TSI_MOVING)
        return tsi_fail(fault, TERSE_BAD_ARGUMENT, 0, "another step is under way");
    if (count == 0 || first > tensors || count > tensors - first)
        return tsi_fail(fault, TERSE_BAD_ARGUMENT, 0, "tensors %u to %u of %u", first,
                        first + count, tensors);
    for (uint32_t i = 0; i < exchange->posted_count && exchange->phase == TSI_MOVING; i++) {
        const struct tsi_bucket *const other = exchange->posted[i];
        if (first < other->first_tensor + other->tensor_count &&
            other->first_tensor < first + count)
            return tsi_fail(fault, TERSE_BAD_ARGUMENT, 0, "a tensor is posted twice");
    }
    return TERSE_OK;
}

/* The first bucket opens the step; whether its gradients are fit comes out at the end. */
static terse_status open_first(terse_exchange *exchange, terse_fault *fault)
{
    int32_t skipped_by = -1;
    if (exchange->phase == TSI_MOVING)
        return TERSE_OK;
    terse_status status = tsi_step_open(exchange, 1, fault);
    if (status == TERSE_OK)
        status = tsi_agree_open(exchange, &skipped_by, fault);
    if (status == TERSE_OK)
        exchange->phase = TSI_MOVING;
    return status;
}

terse_status terse_exchange_post(terse_exchange *exchange, const float *gradient, uint32_t first,
                                 uint32_t count, terse_fault *fault)
{
    const struct tsk_table *kernel = NULL;
    struct tsi_bucket *bucket = NULL;
    if (!exchange || !gradient)
        return tsi_fail(fault, TERSE_BAD_ARGUMENT, 0, "exchange or gradient is NULL");
    terse_status status = tsi_step_ready(exchange, fault);
    if (status == TERSE_OK)
        status = tsk_bound(&kernel, fault);
    if (status == TERSE_OK)
        status = check_bucket(exchange, first, count, fault);
    if (status != TERSE_OK)
        return status;
    status = tsi_step_bucket(exchange, first, count, &bucket, fault);
    if (status == TERSE_OK && prepare_copies(exchange, bucket) != TERSE_OK)
        status = tsi_fail(fault, TERSE_NO_MEMORY, 0, "out of memory");
    if (status == TERSE_OK)
        status = open_first(exchange, fault);
    if (status != TERSE_OK)
        return tsi_step_break(exchange, status, fault);
    exchange->room.given = gradient;
    exchange->room.gradient = gradient;
    status = tsi_step_say(exchange, kernel, bucket, 1);
    if (status == TERSE_OK)
        return TERSE_OK;
    if (fault)
        *fault = bucket->cause;
    return tsi_step_break(exchange, status, &bucket->cause);
}

terse_status tsi_exchange_finish(terse_exchange *exchange, const float *gradient,
                                 terse_exchange_report *report, terse_fault *fault)
{
    terse_status status = tsi_step_ready(exchange, fault);
    if (status != TERSE_OK)
        return status;
    const int posting = exchange->phase == TSI_MOVING;
    uint32_t posted = 0;
    for (uint32_t i = 0; i < exchange->posted_count && posting; i++)
        posted += exchange->posted[i]->tensor_count;
    if (!posting || posted != terse_layout_tensors(exchange->room.layout))
        return tsi_fail(fault, TERSE_BAD_ARGUMENT, 0, "%u of %u tensors were posted", posted,
                        terse_layout_tensors(exchange->room.layout));
    int done = 0;
    exchange->gradient = gradient;
    status = tsi_step_close(exchange, move_buckets(exchange), fault);
    while (status == TERSE_OK && !done)
        status = tsi_exchange_advance(exchange, &done, report, fault);
    return status;
}

terse_status terse_exchange_finish(terse_exchange *exchange, float *gradient,
                                   terse_exchange_report *report, terse_fault *fault)
{
    if (!exchange || !gradient)
        return tsi_fail(fault, TERSE_BAD_ARGUMENT, 0, "exchange or gradient is NULL");
    exchange->answer = gradient;
    return tsi_exchange_finish(exchange, gradient, report, fault);
}
