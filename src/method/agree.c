#include "method/agree.h"

#include <stdlib.h>
#include <string.h>

#include "base/hash.h"

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
