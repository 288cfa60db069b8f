/* The exchange from inside: who agrees on what (agree.c), what the options mean (settings.c), and
 * the step itself (step.c). */
#ifndef TSI_EXCHANGE_H
#define TSI_EXCHANGE_H

#include "combine/combine.h"

#define TSI_MAX_SETTINGS 512u

/* What workers must have in common, in the order in which differences are named. */
enum {
    TSI_AGREE_STATUS, /* 0, or why a worker has no exchange */
    TSI_AGREE_VERSION,
    TSI_AGREE_LAYOUT,
    TSI_AGREE_CODEC,
    TSI_AGREE_COMBINE,
    TSI_AGREE_MEMORY,
    TSI_AGREE_TIE,
    TSI_AGREE_SEED,
    TSI_AGREE_COMPARE,
    TSI_AGREE_FIELDS
};

struct terse_exchange {
    struct tsi_room room;
    const struct tsi_combine_ops *combine;
    struct tsi_bucket **bucket; /* every bucket that was ever posted */
    uint32_t bucket_count;
    uint32_t bucket_cap;
    struct tsi_bucket **posted; /* those of this step, in order */
    uint32_t posted_count;
    float *memory_before; /* of this step, where buckets are posted one by one */
    float *owner_memory_before;
    uint64_t record[TSI_AGREE_FIELDS];
    uint64_t settings_hash;
    uint64_t step;
    uint32_t compare_every;
    int trusted;
    int opened;          /* the header of this step has been exchanged */
    int skip;            /* a gradient that was posted is not finite */
    terse_status broken; /* why it is of no use any more, or TERSE_OK */
    terse_fault cause;
    uint64_t said_before; /* the group's traffic when the step opened */
    uint64_t heard_before;
    uint64_t *heard; /* what agree.c gathers: TSI_AGREE_FIELDS numbers for each rank */
    void **heard_at;
    size_t *heard_len;
    char settings[TSI_MAX_SETTINGS];
};

/* settings.c: fills in room, combine and record. */
TERSE_CHECK terse_status tsi_exchange_settle(terse_exchange *exchange, const terse_layout *layout,
                                             const terse_exchange_options *options,
                                             terse_fault *fault);

/* agree.c; all of them are collective. */

/* Compares records; a difference is TERSE_MISMATCH on all. `mine` is this worker's own failure. */
TERSE_CHECK terse_status tsi_agree_settings(terse_exchange *exchange, terse_status mine,
                                            terse_fault *fault);
/* Opens a step: the same step and settings everywhere. *skipped_by = the lowest rank that is not
 * ready, or -1. */
TERSE_CHECK terse_status tsi_agree_open(terse_exchange *exchange, int ready, int32_t *skipped_by,
                                        terse_fault *fault);
/* Closes it: TERSE_OK when it was well everywhere. Else the failure of the lowest rank that knows
 * whom to blame; a skip (TERSE_NOT_FINITE) names its rank. */
TERSE_CHECK terse_status tsi_agree_close(terse_exchange *exchange, terse_status mine,
                                         int32_t blamed, terse_fault *fault);
/* Compares hashes of a result; TERSE_MISMATCH names the rank that differs from most. */
TERSE_CHECK terse_status tsi_agree_hash(terse_exchange *exchange, uint64_t hash,
                                        terse_fault *fault);

#endif
