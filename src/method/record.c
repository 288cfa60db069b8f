/* Records between ranks: small all-gathers of checked numbers, and the two that open and close a
 * step. Nothing of a peer is used before its check, its range and its meaning are known to be
 * right.
 */
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "base/fault.h"
#include "base/hash.h"
#include "group/group.h"
#include "method/method.h"

terse_status tsi_agreement_create(struct tsi_agreement *agreement, terse_group *group)
{
    agreement->group = group;
    agreement->rank = terse_group_rank(group);
    agreement->workers = terse_group_workers(group);
    const size_t workers = agreement->workers;
    agreement->theirs = calloc(workers * TSI_MAX_RECORD, sizeof *agreement->theirs);
    agreement->at = calloc(workers, sizeof *agreement->at);
    agreement->len = calloc(workers, sizeof *agreement->len);
    tsi_group_reserve(group, workers * TSI_MAX_RECORD * sizeof *agreement->theirs);
    return agreement->theirs && agreement->at && agreement->len ? TERSE_OK : TERSE_NO_MEMORY;
}

void tsi_agreement_destroy(struct tsi_agreement *agreement)
{
    free(agreement->theirs);
    free(agreement->at);
    free(agreement->len);
}

terse_status tsi_agreement_post(struct tsi_agreement *agreement, enum tsi_record_kind kind,
                                uint64_t run, uint64_t step, const uint64_t *numbers, size_t count,
                                terse_fault *fault)
{
    const uint64_t key[4] = {kind, run, step, agreement->rank};
    const size_t len = count * sizeof *numbers;
    memcpy(agreement->key, key, sizeof key);
    memcpy(agreement->mine, numbers, len);
    agreement->count = count;
    agreement->mine[count] = tsi_hash_keyed(key, sizeof key, numbers, len);
    for (uint32_t r = 0; r < agreement->workers; r++) {
        agreement->at[r] = agreement->theirs + (size_t)r * TSI_MAX_RECORD;
        agreement->len[r] = len + sizeof *numbers;
    }
    return terse_group_post_allgatherv(agreement->group, agreement->mine, len + sizeof *numbers,
                                       agreement->at, agreement->len, &agreement->request, fault);
}

terse_status tsi_agreement_wait(struct tsi_agreement *agreement, terse_fault *fault)
{
    const size_t len = agreement->count * sizeof *agreement->theirs;
    const terse_status status = terse_group_wait(agreement->group, agreement->request, fault);
    for (uint32_t r = 0; r < agreement->workers && status == TERSE_OK; r++) {
        const uint64_t *const record = agreement->at[r];
        agreement->key[3] = r;
        if (record[agreement->count] !=
            tsi_hash_keyed(agreement->key, sizeof agreement->key, record, len))
            agreement->at[r] = NULL;
    }
    return status;
}

enum { OPENING_RUN, OPENING_STEP, OPENING_BOUND, OPENING_LEN };
enum { CLOSING_STATUS, CLOSING_RANK, CLOSING_AGREED, CLOSING_HASH, CLOSING_LEN };
/* The word of the step, from its lowest bit: flags, the number of the step modulo 2^30, the
 * learning rate as a float. */
enum { FLAG_FINITE = 1, FLAG_FAILED = 2, FLAG_BITS = 2, LR_SHIFT = 32 };
enum { STATUS_BITS = 32 }; /* above them: bits of the largest magnitude of this rank's sums */

union number {
    double value;
    uint64_t bits;
};

/* ---- opening ---- */

static uint64_t step_word(const terse_method *method, uint64_t flags)
{
    const float lr = method->step.lr;
    uint32_t lr_bits = 0;
    memcpy(&lr_bits, &lr, sizeof lr_bits);
    return (uint64_t)lr_bits << LR_SHIFT | (uint32_t)(method->progress.rounds << FLAG_BITS) | flags;
}

/* What is wrong with an opening beside another one; NULL if nothing is. */
static const char *opening_differs(const uint64_t *opening, const uint64_t *other)
{
    const uint64_t apart = (opening[OPENING_STEP] ^ other[OPENING_STEP]) >> FLAG_BITS << FLAG_BITS;
    return opening[OPENING_RUN] != other[OPENING_RUN] ? "runs another method"
           : (uint32_t)apart                          ? "is in another step"
           : apart                                    ? "has another learning rate"
                                                      : NULL;
}

static uint32_t ranks_alike(const terse_method *method, const uint64_t *opening)
{
    uint32_t alike = 0;
    for (uint32_t r = 0; r < method->workers; r++) {
        const uint64_t *const other = method->agreement.at[r];
        alike += other && !opening_differs(other, opening);
    }
    return alike;
}

/* The opening that most ranks share: so all ranks name the same one as different. That of this rank
 * as long as no other is shared by more: of two ranks each names the other. */
static const uint64_t *common_opening(const terse_method *method)
{
    const uint64_t *common = method->agreement.mine;
    uint32_t most = ranks_alike(method, common);
    for (uint32_t r = 0; r < method->workers && most < method->workers - r; r++) {
        const uint64_t *const opening = method->agreement.at[r];
        const uint32_t alike = opening ? ranks_alike(method, opening) : 0;
        if (alike > most) {
            most = alike;
            common = opening;
        }
    }
    return common;
}

terse_status tsi_opening_post(terse_method *method, int finite, double bound, terse_fault *fault)
{
    const union number most = {bound};
    const uint64_t flags = method->failed != TERSE_OK ? FLAG_FAILED : finite ? FLAG_FINITE : 0;
    const uint64_t opening[OPENING_LEN] = {method->step.in->run, step_word(method, flags),
                                           most.bits};
    return tsi_agreement_post(&method->agreement, TSI_RECORD_OPENING, 0, 0, opening, OPENING_LEN,
                              fault);
}

/* A record that is damaged or of another step fails the step, but only at its close: the other
 * ranks may not have seen it, and wait for this one's messages. */
terse_status tsi_openings_read(terse_method *method, int32_t *nonfinite, double *bound,
                               terse_fault *fault)
{
    struct tsi_step *const step = &method->step;
    const terse_status status = tsi_agreement_wait(&method->agreement, fault);
    const uint64_t *const common = status == TERSE_OK ? common_opening(method) : NULL;
    for (uint32_t r = 0; r < method->workers && status == TERSE_OK; r++) {
        const uint64_t *const opening = method->agreement.at[r];
        const char *const what = !opening ? "its opening record arrived damaged"
                                 : opening[OPENING_STEP] & FLAG_FAILED
                                     ? "failed in an earlier step"
                                     : opening_differs(opening, common);
        if (opening && opening[OPENING_STEP] & FLAG_FAILED) {
            (void)tsi_fail(fault, TERSE_PEER_LOST, 0, "rank %u %s", r, what);
            fault->rank = (int32_t)r;
            return TERSE_PEER_LOST;
        }
        if (what && step->status == TERSE_OK) {
            step->status = opening ? TERSE_MISMATCH : TERSE_BAD_CHECKSUM;
            (void)tsi_fail(&step->fault, step->status, 0, "rank %u: %s", r, what);
            step->fault.rank = (int32_t)r;
        }
        if (what)
            continue;
        const union number most = {.bits = opening[OPENING_BOUND]};
        *bound = fmax(*bound, most.value);
        if (!(opening[OPENING_STEP] & FLAG_FINITE) && *nonfinite < 0)
            *nonfinite = (int32_t)r;
    }
    const char *const mine = common ? opening_differs(method->agreement.mine, common) : NULL;
    if (mine && step->status == TERSE_OK) { /* its record did not travel: see terse_group_nodes */
        step->status = tsi_fail(&step->fault, TERSE_MISMATCH, 0, "rank %u: one of its node %s",
                                method->rank, mine);
        step->fault.rank = (int32_t)method->rank;
    }
    if (step->status != TERSE_OK)
        *bound = INFINITY;
    return status;
}

/* ---- closing ---- */

terse_status tsi_closing_post(terse_method *method, terse_fault *fault)
{
    struct tsi_step *const step = &method->step;
    const uint32_t every = method->options.compare_every;
    const int compares = every > 0 && method->progress.rounds % every == 0;
    uint64_t closing[CLOSING_LEN] = {0};
    uint64_t largest = 0;
    for (uint32_t i = 0; i < step->posted_count && step->status == TERSE_OK; i++) {
        const struct tsi_bucket *const bucket = step->posted[i];
        step->status = bucket->status;
        step->fault = bucket->fault;
        closing[CLOSING_AGREED] = tsi_fold(closing[CLOSING_AGREED], bucket->agreed);
        largest = bucket->aggregate.largest > largest ? bucket->aggregate.largest : largest;
        if (compares && bucket->status == TERSE_OK)
            closing[CLOSING_HASH] =
                tsi_fold(closing[CLOSING_HASH], tsi_aggregate_hash(&bucket->aggregate));
    }
    closing[CLOSING_STATUS] = (uint64_t) - (int64_t)step->status | largest << STATUS_BITS;
    closing[CLOSING_RANK] = (uint64_t)(step->status == TERSE_OK ? 0 : step->fault.rank + 1);
    return tsi_agreement_post(&method->agreement, TSI_RECORD_CLOSING, step->in->run,
                              method->progress.rounds, closing, CLOSING_LEN, fault);
}

int tsi_is_skip(terse_status status)
{
    return status == TERSE_NOT_FINITE || status == TERSE_OUT_OF_RANGE;
}

/* The rank whose numbers differ from those of most others; -1 where there is no majority. */
static int32_t odd_one_out(const terse_method *method)
{
    uint32_t fewest = method->workers;
    uint32_t most = 0;
    int32_t odd = -1;
    for (uint32_t r = 0; r < method->workers; r++) {
        const uint64_t *const mine = method->agreement.at[r];
        uint32_t alike = 0;
        for (uint32_t other = 0; other < method->workers; other++) {
            const uint64_t *const theirs = method->agreement.at[other];
            alike += memcmp(mine + CLOSING_AGREED, theirs + CLOSING_AGREED, 2 * sizeof *mine) == 0;
        }
        most = alike > most ? alike : most;
        if (alike < fewest) {
            fewest = alike;
            odd = (int32_t)r;
        }
    }
    return fewest == method->workers || 2 * most <= method->workers ? -1 : odd;
}

/* Of two ranks each names the other. The one that is blamed knows what differs: it holds for both.
 */
static const char *reason(const terse_method *method, terse_status worst, int32_t blamed)
{
    const struct tsi_step *const mine = &method->step;
    const char *const what = strstr(mine->fault.text, ": ");
    const int both =
        worst == TERSE_MISMATCH && mine->status == worst && blamed == (int32_t)method->rank;
    return both && what ? what + 2 : terse_status_text(worst);
}

/* How the step went everywhere: TERSE_OK only if all ranks say so and hold the same aggregate. */
terse_status tsi_closings_read(terse_method *method, double *largest, terse_fault *why)
{
    const struct tsi_step *const mine = &method->step;
    terse_status worst = tsi_agreement_wait(&method->agreement, why);
    uint32_t most = 0; /* bits of a float */
    int differ = 0;
    if (worst != TERSE_OK)
        return worst;
    why->rank = -1;
    for (uint32_t r = 0; r < method->workers; r++) {
        const uint64_t *const closing = method->agreement.at[r];
        const uint32_t code = closing ? (uint32_t)closing[CLOSING_STATUS] : 0;
        /* Closing records are keyed by the step: that of a rank in another step cannot be read. */
        if (!closing && mine->status == TERSE_MISMATCH) {
            *why = mine->fault;
            return TERSE_MISMATCH;
        }
        if (!closing || code > (uint32_t)-TERSE_UNSUPPORTED ||
            closing[CLOSING_RANK] > method->workers) {
            (void)tsi_fail(why, TERSE_BAD_CHECKSUM, 0,
                           "rank %u: its closing record arrived damaged", r);
            why->rank = (int32_t)r;
            return TERSE_BAD_CHECKSUM;
        }
        const terse_status theirs = (terse_status) - (int64_t)code;
        const uint64_t *const first = method->agreement.at[0];
        differ |=
            memcmp(closing + CLOSING_AGREED, first + CLOSING_AGREED, 2 * sizeof *closing) != 0;
        const uint32_t largest_sum = (uint32_t)(closing[CLOSING_STATUS] >> STATUS_BITS);
        most = largest_sum > most ? largest_sum : most;
        const int32_t blamed = (int32_t)closing[CLOSING_RANK] - 1;
        /* A cause with a rank is preferred to one without, and an overflow to the void or damaged
         * messages that follow from it. */
        const int better =
            worst == TERSE_OK ||
            (why->rank < 0 && (blamed >= 0 || (tsi_is_skip(theirs) && !tsi_is_skip(worst))));
        if (theirs == TERSE_OK || !better)
            continue;
        worst = theirs;
        why->rank = blamed;
    }
    *largest = tsi_magnitude(most);
    const int32_t blamed = worst == TERSE_OK && differ ? odd_one_out(method) : why->rank;
    if (worst == TERSE_OK && differ)
        worst = tsi_fail(why, TERSE_MISMATCH, 0, "ranks hold different aggregates%s",
                         blamed < 0 ? ", and no majority agrees" : "");
    else if (worst != TERSE_OK && blamed >= 0)
        (void)tsi_fail(why, worst, 0, "rank %d: %s", blamed, reason(method, worst, blamed));
    else if (worst != TERSE_OK)
        (void)tsi_fail(why, worst, 0, "%s", terse_status_text(worst));
    why->rank = blamed;
    return worst;
}
