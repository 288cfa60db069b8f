/* The exchange object: made by all workers together, and what it can be asked. */
#include "exchange/exchange.h"

#include <stdlib.h>
#include <string.h>

#include "base/fault.h"

/* ---- creation ---- */

static terse_status create_seat(terse_exchange *exchange, terse_group *group)
{
    const uint32_t workers = terse_group_workers(group);
    exchange->room.group = group;
    exchange->room.rank = terse_group_rank(group);
    exchange->room.workers = workers;
    exchange->room.draw.worker = exchange->room.rank;
    exchange->heard = calloc((size_t)workers * TSI_AGREE_FIELDS, sizeof *exchange->heard);
    exchange->heard_at = calloc(workers, sizeof *exchange->heard_at);
    exchange->heard_len = calloc(workers, sizeof *exchange->heard_len);
    return exchange->heard && exchange->heard_at && exchange->heard_len ? TERSE_OK
                                                                        : TERSE_NO_MEMORY;
}

terse_status tsi_exchange_prepare(terse_group *group, const terse_layout *layout,
                                  const struct tsi_exchange_plan *plan, terse_exchange **out,
                                  terse_fault *fault)
{
    terse_exchange *const exchange = calloc(1, sizeof *exchange);
    if (!exchange)
        return tsi_fail(fault, TERSE_NO_MEMORY, 0, "out of memory");
    terse_status status = create_seat(exchange, group);
    if (status == TERSE_OK) {
        exchange->broken = tsi_exchange_settle(exchange, layout, plan, &exchange->cause);
        status = tsi_say_settings(exchange, exchange->broken, fault);
    }
    if (status != TERSE_OK) {
        terse_exchange_destroy(exchange);
        return status;
    }
    *out = exchange;
    return TERSE_OK;
}

terse_status tsi_exchange_settled(terse_exchange *exchange, terse_fault *fault)
{
    terse_fault theirs = {.rank = -1};
    const terse_status mine = exchange->broken;
    const terse_status status = tsi_agree_settings(exchange, &theirs);
    if (fault && (mine != TERSE_OK || status != TERSE_OK))
        *fault = mine != TERSE_OK ? exchange->cause : theirs;
    return mine != TERSE_OK ? mine : status;
}

void tsi_exchange_refuse(terse_group *group, terse_status why)
{
    terse_exchange *const exchange = calloc(1, sizeof *exchange);
    if (exchange && create_seat(exchange, group) == TERSE_OK &&
        tsi_say_settings(exchange, why, NULL) == TERSE_OK)
        (void)!tsi_agree_settings(exchange, NULL);
    terse_exchange_destroy(exchange);
}

/* Options of this library's size; callers built with an earlier one give fewer. */
static terse_status read_options(const terse_exchange_options *given, terse_exchange_options *out,
                                 terse_fault *fault)
{
    *out = (terse_exchange_options){.size = sizeof *out};
    if (!given)
        return TERSE_OK;
    if (given->size < sizeof given->size || given->size > sizeof *given)
        return tsi_fail(fault, TERSE_BAD_ARGUMENT, 0, "options.size is not sizeof(options)");
    memcpy(out, given, given->size);
    return TERSE_OK;
}

terse_status terse_exchange_create(terse_group *group, const terse_layout *layout,
                                   const terse_exchange_options *options, terse_exchange **out,
                                   terse_fault *fault)
{
    terse_exchange_options all;
    const struct tsi_exchange_plan plan = {.options = &all};
    terse_exchange *exchange = NULL;
    if (!group || !layout || !out)
        return tsi_fail(fault, TERSE_BAD_ARGUMENT, 0, "group, layout or out is NULL");
    terse_status status = read_options(options, &all, fault);
    if (status == TERSE_OK)
        status = tsi_exchange_prepare(group, layout, &plan, &exchange, fault);
    if (status != TERSE_OK)
        return status;
    status = tsi_exchange_settled(exchange, fault);
    if (status == TERSE_OK)
        *out = exchange;
    else
        terse_exchange_destroy(exchange);
    return status;
}

void terse_exchange_destroy(terse_exchange *exchange)
{
    if (!exchange)
        return;
    for (uint32_t i = 0; i < exchange->bucket_count; i++)
        tsi_bucket_destroy(exchange->bucket[i]);
    free(exchange->bucket);
    free(exchange->posted);
    free(exchange->memory_before);
    free(exchange->owner_memory_before);
    free(exchange->own_memory);
    free(exchange->plain);
    free((void *)(uintptr_t)exchange->room.back_spec);
    free(exchange->room.owner_memory);
    free(exchange->own_sum);
    free((void *)(uintptr_t)exchange->room.codec_spec);
    terse_layout_destroy(exchange->room.layout);
    free(exchange->heard);
    free(exchange->heard_at);
    free(exchange->heard_len);
    free(exchange);
}

/* ---- asking ---- */

const char *terse_exchange_settings(const terse_exchange *exchange)
{
    return exchange->settings;
}

float *terse_exchange_residual(terse_exchange *exchange)
{
    return exchange->room.memory;
}

float *terse_exchange_owner_residual(terse_exchange *exchange)
{
    return exchange->room.owner_memory;
}

uint64_t terse_exchange_step(const terse_exchange *exchange)
{
    return exchange->step;
}

void terse_exchange_set_step(terse_exchange *exchange, uint64_t step)
{
    exchange->step = step;
}
