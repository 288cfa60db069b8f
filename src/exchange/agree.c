/* Agreement: small gathers around a step, each in two halves: say, then hear. */
#include <string.h>

#include "base/fault.h"
#include "exchange/exchange.h"

static const char *const field_names[TSI_AGREE_FIELDS] = {
    [TSI_AGREE_STATUS] = "status",
    [TSI_AGREE_VERSION] = "version",
    [TSI_AGREE_LAYOUT] = "layout",
    [TSI_AGREE_METHOD] = "method",
    [TSI_AGREE_CODEC] = "codec",
    [TSI_AGREE_BACK] = "codec of the way back",
    [TSI_AGREE_COMBINE] = "combine",
    [TSI_AGREE_MEMORY] = "feedback",
    [TSI_AGREE_TIE] = "tie rule",
    [TSI_AGREE_POLICY] = "choice of plain tensors",
    [TSI_AGREE_SEED] = "seed",
    [TSI_AGREE_COMPARE] = "compare_every",
    [TSI_AGREE_WEIGHTS] = "set of first weights",
};

/* Says `count` numbers to every rank; those of all arrive in exchange->heard, rank by rank. */
static terse_status say(terse_exchange *exchange, const uint64_t *mine, size_t count,
                        terse_fault *fault)
{
    memcpy(exchange->mine, mine, count * sizeof *mine);
    for (uint32_t r = 0; r < exchange->room.workers; r++) {
        exchange->heard_at[r] = exchange->heard + r * count;
        exchange->heard_len[r] = count * sizeof *mine;
    }
    return terse_group_post_allgatherv(exchange->room.group, exchange->mine, count * sizeof *mine,
                                       exchange->heard_at, exchange->heard_len,
                                       &exchange->agreement, fault);
}

static terse_status hear(terse_exchange *exchange, terse_fault *fault)
{
    return terse_group_wait(exchange->room.group, exchange->agreement, fault);
}

static terse_status blame(terse_fault *fault, terse_status status, int32_t rank, const char *text)
{
    if (rank >= 0)
        (void)tsi_fail(fault, status, 0, "rank %d: %s", rank, text);
    else
        (void)tsi_fail(fault, status, 0, "%s", text);
    if (fault)
        fault->rank = rank;
    return status;
}

terse_status tsi_say_settings(terse_exchange *exchange, terse_status mine, terse_fault *fault)
{
    exchange->record[TSI_AGREE_STATUS] = (uint64_t) - (int64_t)mine;
    return say(exchange, exchange->record, TSI_AGREE_FIELDS, fault);
}

terse_status tsi_agree_settings(terse_exchange *exchange, terse_fault *fault)
{
    const terse_status status = hear(exchange, fault);
    if (status != TERSE_OK)
        return status;
    for (uint32_t r = 0; r < exchange->room.workers; r++) {
        const uint64_t *const record = exchange->heard + (size_t)r * TSI_AGREE_FIELDS;
        if (record[TSI_AGREE_STATUS] != 0)
            return blame(fault, TERSE_MISMATCH, (int32_t)r, "could not make its exchange");
        for (size_t i = 0; i < TSI_AGREE_FIELDS; i++) {
            if (record[i] == exchange->heard[i])
                continue;
            (void)tsi_fail(fault, TERSE_MISMATCH, 0, "rank %u has another %s than rank 0", r,
                           field_names[i]);
            if (fault)
                fault->rank = (int32_t)r;
            return TERSE_MISMATCH;
        }
    }
    return TERSE_OK;
}

/* Sixteen bytes: settings; step and whether the gradient is fit. */
terse_status tsi_say_open(terse_exchange *exchange, int ready, terse_fault *fault)
{
    const uint64_t mine[2] = {exchange->settings_hash, exchange->step << 1 | (ready ? 1 : 0)};
    return say(exchange, mine, 2, fault);
}

terse_status tsi_agree_open(terse_exchange *exchange, int32_t *skipped_by, terse_fault *fault)
{
    const terse_status status = hear(exchange, fault);
    *skipped_by = -1;
    if (status != TERSE_OK)
        return status;
    for (uint32_t r = 0; r < exchange->room.workers; r++) {
        const uint64_t *const header = exchange->heard + (size_t)r * 2;
        if (header[0] != exchange->settings_hash)
            return blame(fault, TERSE_MISMATCH, (int32_t)r, "another exchange");
        if (header[1] >> 1 != exchange->step)
            return blame(fault, TERSE_MISMATCH, (int32_t)r, "another step");
        if (!(header[1] & 1) && *skipped_by < 0)
            *skipped_by = (int32_t)r;
    }
    return TERSE_OK;
}

/* One number: status and the rank to blame. */
terse_status tsi_say_close(terse_exchange *exchange, terse_status mine, int32_t blamed,
                           terse_fault *fault)
{
    const uint64_t said = (uint64_t)(uint32_t) - (int32_t)mine << 32 | (uint32_t)blamed;
    return say(exchange, &said, 1, fault);
}

terse_status tsi_agree_close(terse_exchange *exchange, terse_fault *fault)
{
    const terse_status status = hear(exchange, fault);
    if (status != TERSE_OK)
        return status;
    terse_status worst = TERSE_OK;
    int32_t rank = -1;
    for (uint32_t r = 0; r < exchange->room.workers; r++) {
        const terse_status theirs = (terse_status) - (int32_t)(uint32_t)(exchange->heard[r] >> 32);
        if (theirs == TERSE_OK || (worst != TERSE_OK && rank >= 0))
            continue;
        worst = theirs;
        rank = (int32_t)(uint32_t)exchange->heard[r];
    }
    if (worst != TERSE_OK)
        (void)blame(fault, worst, rank, terse_status_text(worst));
    return worst;
}

terse_status tsi_say_hash(terse_exchange *exchange, uint64_t hash, terse_fault *fault)
{
    return say(exchange, &hash, 1, fault);
}

terse_status tsi_agree_hash(terse_exchange *exchange, terse_fault *fault)
{
    const terse_status status = hear(exchange, fault);
    const uint32_t workers = exchange->room.workers;
    if (status != TERSE_OK)
        return status;
    uint32_t fewest = workers;
    uint32_t most = 0;
    uint32_t odd = 0;
    for (uint32_t r = 0; r < workers; r++) {
        uint32_t alike = 0;
        for (uint32_t other = 0; other < workers; other++)
            alike += exchange->heard[r] == exchange->heard[other];
        most = alike > most ? alike : most;
        if (alike < fewest) {
            fewest = alike;
            odd = r;
        }
    }
    if (fewest == workers)
        return TERSE_OK;
    if (2 * most <= workers)
        return blame(fault, TERSE_MISMATCH, -1, "results differ, and no majority agrees");
    return blame(fault, TERSE_MISMATCH, (int32_t)odd, "its result differs from that of others");
}
