/* The sparse sum of the payloads of several ranks, element by element in rank order, without a
 * dense buffer: for codecs that select single elements. */
#ifndef TSI_MERGE_H
#define TSI_MERGE_H

#include "codec/object.h"
#include "combine/aggregate.h"

/* The payload of one rank, in an opened frame. */
struct tsi_source {
    const uint8_t *payload;
    size_t len;
    float weight; /* of its values in the sum */
};

/* The elements that at least one rank sent, ascending, and their sums. */
struct tsi_merge {
    terse_codec *codec;
    uint32_t workers;
    uint32_t *index; /* element within its piece */
    float *sum;
    struct tsi_source *source; /* by rank: the payloads to merge */
    struct tsi_merge_scratch *scratch;
};

/* Allocates for the most that `workers` ranks can send with this codec; 0 if out of memory. For a
 * codec that does not select elements only `source` is allocated. */
int tsi_merge_create(struct tsi_merge *merge, terse_codec *codec, uint32_t workers);
void tsi_merge_destroy(struct tsi_merge *merge);

/* Adds the payloads of merge->source, and to `out` a span for each piece. Entries do not depend on
 * the rank in the key. On failure *blamed is the rank whose payload is malformed, or -1 with
 * TERSE_OUT_OF_RANGE: finite values have a sum that is not finite. */
TERSE_CHECK terse_status tsi_merge_lists(struct tsi_merge *merge, const terse_rng_key *key,
                                         struct tsi_aggregate *out, int32_t *blamed,
                                         terse_fault *fault);

#endif
