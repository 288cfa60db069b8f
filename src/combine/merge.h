/* What several ranks said of a few elements, added up element by element in rank order, without a
 * buffer of all elements: for codecs that select single elements. */
#ifndef TSI_MERGE_H
#define TSI_MERGE_H

#include "codec/object.h"

/* What one of the ranks said, in a frame that was opened. */
struct tsi_voice {
    const uint8_t *payload;
    size_t len;
};

/* The elements that anybody spoke of, ascending, and the sums there. */
struct tsi_merged {
    uint32_t *index; /* in its piece */
    float *sum;
    size_t *end;             /* by piece of the bucket's codec: its last entry is before this one */
    struct tsi_voice *voice; /* by rank: what is to be merged next */
    struct tsi_merge_room *room;
};

/* Room for what `workers` ranks may say with this codec; 0 without memory. */
int tsi_merged_create(struct tsi_merged *merged, const terse_codec *codec, uint32_t workers);
void tsi_merged_destroy(struct tsi_merged *merged);

/* Adds up what merged->voice says; entries do not depend on whose draw it is. On failure *blamed is
 * the rank whose payload is not sound, or -1: TERSE_OUT_OF_RANGE, finite parts have a sum that is
 * not. */
TERSE_CHECK terse_status tsi_merge(struct tsi_merged *merged, terse_codec *codec,
                                   const terse_rng_key *draw, uint32_t workers, int32_t *blamed,
                                   terse_fault *fault);

/* Is handed the entries of a piece, which starts at element `base`. */
struct tsi_merged_taker {
    void *context;
    void (*take)(void *context, uint64_t base, const uint32_t *index, const float *sum,
                 size_t count);
};

void tsi_merged_each(const struct tsi_merged *merged, const terse_codec *codec,
                     const struct tsi_merged_taker *taker);

#endif
