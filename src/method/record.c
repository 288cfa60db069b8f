/* Records between ranks: small all-gathers of checked numbers, and the two that open and close a
 * step. Nothing of a peer is used before its check, its range and its meaning are known to be
 * right.
 */
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "base/fault.h"
#include "base/hash.h"
#include "method/method.h"

terse_status tsi_agreement_create(struct tsi_agreement *agreement, terse_group *group)
{
    const uint32_t workers = terse_group_workers(group);
    agreement->group = group;
    agreement->theirs = calloc((size_t)workers * TSI_MAX_RECORD, sizeof *agreement->theirs);
    agreement->at = calloc(workers, sizeof *agreement->at);
    agreement->len = calloc(workers, sizeof *agreement->len);
    return agreement->theirs && agreement->at && agreement->len ? TERSE_OK : TERSE_NO_MEMORY;
}

void tsi_agreement_destroy(struct tsi_agreement *agreement)
{
    free(agreement->theirs);
    free(agreement->at);
    free(agreement->len);
}

static uint64_t check_of(const struct tsi_agreement *agreement, uint32_t rank,
                         const uint64_t *numbers)
{
    const uint64_t key[4] = {agreement->key[0], agreement->key[1], agreement->key[2], rank};
    return tsi_hash_keyed(key, sizeof key, numbers, agreement->count * sizeof *numbers);
}

terse_status tsi_agreement_post(struct tsi_agreement *agreement, enum tsi_record_kind kind,
                                uint64_t run, uint64_t step, const uint64_t *numbers, size_t count,
                                terse_fault *fault)
{
    const uint32_t workers = terse_group_workers(agreement->group);
    const size_t len = (count + 1) * sizeof *numbers;
    agreement->count = count;
    agreement->key[0] = kind;
    agreement->key[1] = run;
    agreement->key[2] = step;
    memcpy(agreement->mine, numbers, count * sizeof *numbers);
    agreement->mine[count] = check_of(agreement, terse_group_rank(agreement->group), numbers);
    for (uint32_t r = 0; r < workers; r++) {
        agreement->at[r] = agreement->theirs + (size_t)r * TSI_MAX_RECORD;
        agreement->len[r] = len;
    }
    return terse_group_post_allgatherv(agreement->group, agreement->mine, len, agreement->at,
                                       agreement->len, &agreement->request, fault);
}

terse_status tsi_agreement_wait(struct tsi_agreement *agreement, terse_fault *fault)
{
    return terse_group_wait(agreement->group, agreement->request, fault);
}

const uint64_t *tsi_agreement_of(const struct tsi_agreement *agreement, uint32_t rank)
{
    const uint64_t *const record = agreement->theirs + (size_t)rank * TSI_MAX_RECORD;
    return record[agreement->count] == check_of(agreement, rank, record) ? record : NULL;
}

enum { OPENING_RUN, OPENING_STEP, OPENING_BOUND, OPENING_LEN };
enum { CLOSING_STATUS, CLOSING_RANK, CLOSING_AGREED, CLOSING_HASH, CLOSING_LEN };
enum { FLAG_FINITE = 1, FLAG_FAILED = 2, FLAG_BITS = 2 };

static uint64_t bits_of(double number)
{
    uint64_t bits;
    memcpy(&bits, &number, sizeof bits);
    return bits;
}

static double number_of(uint64_t bits)
{
    double number;
    memcpy(&number, &bits, sizeof number);
    return number;
}

/* ---- opening ---- */

terse_status tsi_opening_post(terse_method *method, int finite, double bound, terse_fault *fault)
{
    const uint64_t flags = finite ? FLAG_FINITE : 0;
    const uint64_t opening[OPENING_LEN] = {
        method->step.in->run, method->progress.rounds << FLAG_BITS | flags, bits_of(bound)};
    return tsi_agreement_post(&method->agreement, TSI_RECORD_OPENING, 0, 0, opening, OPENING_LEN,
                              fault);
}

/* A failed method still opens one more step, so that the other ranks learn of it. */
void tsi_opening_refuse(terse_method *method)
{
    const uint64_t opening[OPENING_LEN] = {0, method->progress.rounds << FLAG_BITS | FLAG_FAILED,
                                           bits_of(INFINITY)};
    if (!method->told && !tsi_is_group_failure(method->failed) &&
        tsi_agreement_post(&method->agreement, TSI_RECORD_OPENING, 0, 0, opening, OPENING_LEN,
                           NULL) == TERSE_OK)
        (void)!tsi_agreement_wait(&method->agreement, NULL);
    method->told = 1;
}

/* Everybody's opening record. A record that is damaged or of another step fails the step, but only
 * at its close: the other ranks may not have seen it, and wait for this one's messages. */
terse_status tsi_openings_read(terse_method *method, int32_t *nonfinite, double *bound,
                               terse_fault *fault)
{
    struct tsi_step *const step = &method->step;
    const terse_status status = tsi_agreement_wait(&method->agreement, fault);
    for (uint32_t r = 0; r < method->workers && status == TERSE_OK; r++) {
        const uint64_t *const opening = tsi_agreement_of(&method->agreement, r);
        const char *const what = !opening ? "its opening record arrived damaged"
                                 : opening[OPENING_STEP] & FLAG_FAILED ? "failed in an earlier step"
                                 : opening[OPENING_RUN] != step->in->run ? "runs another method"
                                 : opening[OPENING_STEP] >> FLAG_BITS != method->progress.rounds
                                     ? "is in another step"
                                     : NULL;
        if (opening && opening[OPENING_STEP] & FLAG_FAILED) {
            (void)tsi_fail(fault, TERSE_PEER_LOST, 0, "rank %u %s", r, what);
            fault->rank = (int32_t)r;
            return TERSE_PEER_LOST;
        }
        if (what && step->status == TERSE_OK) {
            terse_fault why;
            step->status = opening ? TERSE_MISMATCH : TERSE_BAD_CHECKSUM;
            (void)tsi_fail(&why, step->status, 0, "rank %u: %s", r, what);
            why.rank = (int32_t)r;
            step->fault = why;
        }
        if (what)
            continue;
        if (!(opening[OPENING_STEP] & FLAG_FINITE) && *nonfinite < 0)
            *nonfinite = (int32_t)r;
        *bound = fmax(*bound, number_of(opening[OPENING_BOUND]));
    }
    if (step->status != TERSE_OK)
        *bound = INFINITY;
    return status;
}

/* ---- closing ---- */

/* The first failure of this worker in the step, and whom it blames. */
terse_status tsi_step_failure(const terse_method *method, terse_fault *why)
{
    const struct tsi_step *const step = &method->step;
    *why = step->fault;
    terse_status status = step->status;
    for (uint32_t i = 0; i < step->posted_count && status == TERSE_OK; i++) {
        const struct tsi_bucket *const bucket = step->posted[i];
        status = bucket->status;
        *why = bucket->fault;
    }
    return status;
}

terse_status tsi_closing_post(terse_method *method, terse_fault *fault)
{
    const struct tsi_step *const step = &method->step;
    const uint32_t every = method->options.compare_every;
    const int compares = every > 0 && method->progress.rounds % every == 0;
    uint64_t closing[CLOSING_LEN] = {0};
    terse_fault why = {.rank = -1};
    const terse_status mine = tsi_step_failure(method, &why);
    closing[CLOSING_STATUS] = (uint64_t) - (int64_t)mine;
    closing[CLOSING_RANK] = (uint64_t)(mine == TERSE_OK ? 0 : why.rank + 1);
    for (uint32_t i = 0; i < step->posted_count && mine == TERSE_OK; i++) {
        const struct tsi_bucket *const bucket = step->posted[i];
        closing[CLOSING_AGREED] = tsi_fold(closing[CLOSING_AGREED], bucket->agreed);
        if (compares)
            closing[CLOSING_HASH] =
                tsi_fold(closing[CLOSING_HASH], tsi_aggregate_hash(&bucket->aggregate));
    }
    return tsi_agreement_post(&method->agreement, TSI_RECORD_CLOSING, step->in->run,
                              method->progress.rounds, closing, CLOSING_LEN, fault);
}

int tsi_is_skip(terse_status status)
{
    return status == TERSE_NOT_FINITE || status == TERSE_OUT_OF_RANGE;
}

/* Is it a status that a worker may report? */
static int is_reportable(uint64_t number)
{
    return number <= (uint64_t)-TERSE_UNSUPPORTED;
}

/* The rank whose numbers differ from those of most others; -1 where there is no majority. */
static int32_t odd_one_out(const terse_method *method)
{
    uint32_t fewest = method->workers;
    uint32_t most = 0;
    int32_t odd = -1;
    for (uint32_t r = 0; r < method->workers; r++) {
        const uint64_t *const mine = tsi_agreement_of(&method->agreement, r);
        uint32_t alike = 0;
        for (uint32_t other = 0; other < method->workers; other++)
            alike += memcmp(mine + CLOSING_AGREED,
                            tsi_agreement_of(&method->agreement, other) + CLOSING_AGREED,
                            2 * sizeof *mine) == 0;
        most = alike > most ? alike : most;
        if (alike < fewest) {
            fewest = alike;
            odd = (int32_t)r;
        }
    }
    return fewest == method->workers || 2 * most <= method->workers ? -1 : odd;
}

/* How the step went everywhere: TERSE_OK only if all ranks say so and hold the same aggregate. */
terse_status tsi_closings_read(terse_method *method, terse_fault *why)
{
    terse_status worst = tsi_agreement_wait(&method->agreement, why);
    int differ = 0;
    if (worst != TERSE_OK)
        return worst;
    why->rank = -1;
    for (uint32_t r = 0; r < method->workers; r++) {
        const uint64_t *const closing = tsi_agreement_of(&method->agreement, r);
        if (!closing || !is_reportable(closing[CLOSING_STATUS]) ||
            closing[CLOSING_RANK] > method->workers) {
            (void)tsi_fail(why, TERSE_BAD_CHECKSUM, 0,
                           "rank %u: its closing record arrived damaged", r);
            why->rank = (int32_t)r;
            return TERSE_BAD_CHECKSUM;
        }
        const terse_status theirs = (terse_status) - (int64_t)closing[CLOSING_STATUS];
        const uint64_t *const first = tsi_agreement_of(&method->agreement, 0);
        differ |=
            memcmp(closing + CLOSING_AGREED, first + CLOSING_AGREED, 2 * sizeof *closing) != 0;
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
    const int32_t blamed = worst == TERSE_OK && differ ? odd_one_out(method) : why->rank;
    if (worst == TERSE_OK && differ)
        worst = tsi_fail(why, TERSE_MISMATCH, 0, "ranks hold different aggregates%s",
                         blamed < 0 ? ", and no majority agrees" : "");
    else if (worst != TERSE_OK && blamed >= 0)
        (void)tsi_fail(why, worst, 0, "rank %d: %s", blamed, terse_status_text(worst));
    else if (worst != TERSE_OK)
        (void)tsi_fail(why, worst, 0, "%s", terse_status_text(worst));
    why->rank = blamed;
    return worst;
}
