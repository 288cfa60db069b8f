/* Small all-gathers of records, around and between steps. A record is a few numbers and a check of
 * them, keyed by what the record is for and who sends it: nothing of a peer is used unchecked. */
#ifndef TSI_RECORD_H
#define TSI_RECORD_H

#include <terse/group.h>

#define TSI_MAX_RECORD 16u /* numbers, the check included */

enum tsi_record_kind { TSI_RECORD_SETTINGS = 1, TSI_RECORD_OPENING, TSI_RECORD_CLOSING };

struct tsi_agreement {
    terse_group *group;
    terse_request request;
    uint64_t mine[TSI_MAX_RECORD];
    uint64_t *theirs; /* TSI_MAX_RECORD numbers for each rank */
    void **at;
    size_t *len;
    uint64_t key[3]; /* kind, run, step */
    size_t count;    /* numbers of a record, without the check */
};

TERSE_CHECK terse_status tsi_agreement_create(struct tsi_agreement *agreement, terse_group *group);
void tsi_agreement_destroy(struct tsi_agreement *agreement);

/* Sends `count` numbers to every rank. */
TERSE_CHECK terse_status tsi_agreement_post(struct tsi_agreement *agreement,
                                            enum tsi_record_kind kind, uint64_t run, uint64_t step,
                                            const uint64_t *numbers, size_t count,
                                            terse_fault *fault);
TERSE_CHECK terse_status tsi_agreement_wait(struct tsi_agreement *agreement, terse_fault *fault);

/* The numbers of a rank; NULL where they arrived damaged. */
const uint64_t *tsi_agreement_of(const struct tsi_agreement *agreement, uint32_t rank);

#endif
