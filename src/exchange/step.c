/* One step of many workers: open, say, turn, hear, agree, write. Every phase waits for what the
 * one before it said, so that one thread can take several seats through a step side by side. */
#include "base/fault.h"
#include "exchange/exchange.h"
#include "kernels/bind.h"

terse_status tsi_step_ready(const terse_exchange *exchange, terse_fault *fault)
{
    if (exchange->broken == TERSE_OK)
        return TERSE_OK;
    if (fault)
        *fault = exchange->cause;
    return TERSE_PEER_LOST;
}

terse_status tsi_step_open(terse_exchange *exchange, int ready, terse_fault *fault)
{
    struct tsi_room *const room = &exchange->room;
    uint64_t from = tsi_now();
    terse_group_traffic(room->group, &exchange->said_before, &exchange->heard_before);
    room->draw.step = exchange->step;
    exchange->skip = 0;
    exchange->posted_count = 0;
    const terse_status status = tsi_say_open(exchange, ready, fault);
    tsi_clock(room, TERSE_STAGE_GROUP, &from);
    return status;
}

terse_status tsi_exchange_begin(terse_exchange *exchange, const float *gradient, int fit,
                                terse_fault *fault)
{
    struct tsi_bucket *bucket = NULL;
    terse_status status = tsi_step_ready(exchange, fault);
    if (status != TERSE_OK)
        return status;
    if (exchange->phase != TSI_IDLE)
        return tsi_fail(fault, TERSE_BAD_ARGUMENT, 0, "a step is under way: finish it");
    status =
        tsi_step_bucket(exchange, 0, terse_layout_tensors(exchange->room.layout), &bucket, fault);
    if (status != TERSE_OK)
        return tsi_step_break(exchange, status, fault);
    status = tsi_step_open(exchange, fit, fault);
    if (status != TERSE_OK)
        return tsi_step_break(exchange, status, fault);
    bucket->copied = 0;
    exchange->gradient = gradient;
    exchange->room.given = gradient;
    exchange->room.gradient = gradient;
    exchange->phase = TSI_OPENING;
    return TERSE_OK;
}

/* Everybody is ready: says it. Somebody is not: nothing has happened. */
static terse_status opened(terse_exchange *exchange, int *done, terse_exchange_report *report,
                           terse_fault *fault)
{
    const struct tsk_table *kernel = NULL;
    struct tsi_bucket *bucket = NULL;
    int32_t skipped_by = -1;
    uint64_t from = tsi_now();
    terse_status status = tsi_agree_open(exchange, &skipped_by, fault);
    tsi_clock(&exchange->room, TERSE_STAGE_GROUP, &from);
    if (status == TERSE_OK)
        status = tsk_bound(&kernel, fault);
    if (status == TERSE_OK)
        status = tsi_step_bucket(exchange, 0, terse_layout_tensors(exchange->room.layout), &bucket,
                                 fault);
    if (status != TERSE_OK)
        return tsi_step_break(exchange, status, fault);
    if (skipped_by >= 0) {
        tsi_step_report(exchange, TERSE_NOT_FINITE, skipped_by, report);
        exchange->phase = TSI_IDLE;
        *done = 1;
        return TERSE_OK;
    }
    exchange->phase = TSI_MOVING;
    status = tsi_step_say(exchange, kernel, bucket, 0);
    return status == TERSE_OK ? TERSE_OK : tsi_step_close(exchange, status, fault);
}

/* One move; after the last of a round the first of the next, after the last of all the close. */
static terse_status move(terse_exchange *exchange, terse_fault *fault)
{
    struct tsi_bucket *const bucket = exchange->posted[0];
    terse_status status = tsi_step_move(exchange, bucket);
    if (exchange->combine->move[bucket->next_move] && status == TERSE_OK)
        return TERSE_OK;
    if (status == TERSE_OK && bucket->round + 1 < exchange->room.about.passes) {
        bucket->round++;
        bucket->next_move = 0;
        status = tsi_step_move(exchange, bucket);
        if (status == TERSE_OK)
            return TERSE_OK;
    }
    return tsi_step_close(exchange, status, fault);
}

terse_status tsi_exchange_advance(terse_exchange *exchange, int *done,
                                  terse_exchange_report *report, terse_fault *fault)
{
    *done = 0;
    switch (exchange->phase) {
    case TSI_OPENING: return opened(exchange, done, report, fault);
    case TSI_MOVING: return move(exchange, fault);
    case TSI_CLOSING: return tsi_step_closed(exchange, done, report, fault);
    case TSI_COMPARING: *done = 1; return tsi_step_compared(exchange, report, fault);
    case TSI_IDLE: break;
    }
    *done = 1;
    return tsi_fail(fault, TERSE_BAD_ARGUMENT, 0, "no step is under way");
}

terse_status terse_exchange_run(terse_exchange *exchange, float *gradient,
                                terse_exchange_report *report, terse_fault *fault)
{
    const struct tsk_table *kernel = NULL;
    int done = 0;
    if (!exchange || !gradient)
        return tsi_fail(fault, TERSE_BAD_ARGUMENT, 0, "exchange or gradient is NULL");
    terse_status status = tsk_bound(&kernel, fault);
    if (status != TERSE_OK)
        return status;
    uint64_t from = tsi_now();
    const size_t count = (size_t)terse_layout_count(exchange->room.layout);
    const int fit = exchange->skip_finite_check ||
                    kernel->magnitude_max_f32(gradient, count) < TSK_INFINITY_BITS;
    tsi_clock(&exchange->room, TERSE_STAGE_DIRECTION, &from);
    status = tsi_exchange_begin(exchange, gradient, fit, fault);
    if (status == TERSE_OK)
        exchange->answer = gradient;
    while (status == TERSE_OK && !done)
        status = tsi_exchange_advance(exchange, &done, report, fault);
    return status;
}
