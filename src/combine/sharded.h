/* What the combines with owners share: a part of every worker to each owner, and a part of each
 * owner to all. */
#ifndef TSI_SHARDED_H
#define TSI_SHARDED_H

#include "combine/combine.h"

struct tsi_sharded {
    struct tsi_messages there; /* worker to owner */
    struct tsi_messages back;  /* owner to all */
    /* For codecs that are coded: */
    struct tsi_coded *sent;     /* sections of this rank's pieces, worker by worker */
    struct tsi_coded *received; /* sections of all pieces: the aggregate */
};

TERSE_CHECK terse_status tsi_sharded_create(struct tsi_bucket *bucket, struct tsi_sharded *sharded);
void tsi_sharded_destroy(struct tsi_sharded *sharded);

/* Encodes for the other owners and posts; then, while that travels, for this rank itself. */
TERSE_CHECK terse_status tsi_sharded_send(struct tsi_bucket *bucket, struct tsi_sharded *sharded);
void tsi_sharded_rest(struct tsi_bucket *bucket, struct tsi_sharded *sharded);

#endif
