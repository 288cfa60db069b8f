/* What several ranks sent of a few elements, added up element by element in rank order, without a
 * buffer of all elements: for codecs that select single elements. */
#ifndef TSI_MERGE_H
#define TSI_MERGE_H

#include "codec/object.h"
#include "combine/aggregate.h"

/* The payload of one of the ranks, in a part that was opened. */
struct tsi_source {
    const uint8_t *payload;
    size_t len;
};

/* The elements that anybody sent, ascending, and the sums there. */
struct tsi_merge {
    uint32_t *index; /* in its piece */
    float *sum;
    size_t *end;               /* by piece of the codec: its last entry is before this one */
    struct tsi_source *source; /* by rank: what is to be merged next */
    struct tsi_merge_scratch *scratch;
};

/* Room for what `workers` ranks may send with this codec; 0 without memory. For a codec
 * that does not select there is room for the sources alone. */
int tsi_merge_create(struct tsi_merge *merge, const terse_codec *codec, uint32_t workers);
void tsi_merge_destroy(struct tsi_merge *merge);

/* Adds up the payloads of merge->source; entries do not depend on whose key it is. On failure
 * *blamed is the rank whose payload is not sound, or -1: TERSE_OUT_OF_RANGE, finite values have a
 * sum that is not. */
TERSE_CHECK terse_status tsi_merge_lists(struct tsi_merge *merge, terse_codec *codec,
                                         const terse_rng_key *key, uint32_t workers,
                                         int32_t *blamed, terse_fault *fault);

/* The merged lists as spans, one for each piece. */
void tsi_merge_spans(const struct tsi_merge *merge, const terse_codec *codec,
                     struct tsi_aggregate *out);

#endif
