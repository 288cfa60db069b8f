/* A combine makes one aggregate of all workers' payloads. It is a list of phases: the first encodes
 * and posts messages, each further one waits for what the one before it posted, works and posts the
 * next, the last leaves the bucket's aggregate. Between two phases other buckets make theirs, and
 * one thread can take several ranks through them side by side.
 *
 * A phase fails (TERSE_TIMEOUT, TERSE_PEER_LOST) only if the group does. What goes wrong with a
 * bucket itself (a payload that cannot be encoded, a message that is damaged) is noted in the
 * bucket, its messages go all the same, void, so that nobody waits, and the closing record tells
 * all ranks. One file per combine, one ops table each, listed in registry.c. */
#ifndef TSI_COMBINE_H
#define TSI_COMBINE_H

#include <terse/exchange.h>

#include "codec/object.h"
#include "combine/aggregate.h"
#include "wire/part.h"

#define TSI_MAX_PHASES 7u

struct tsi_bucket;

enum tsi_cut {
    TSI_CUT_WHOLE,  /* whole tensors, nobody owns them */
    TSI_CUT_SLICES, /* every rank owns a slice of every tensor */
    TSI_CUT_SERVER, /* rank 0 owns all */
    TSI_CUT_MODEL,  /* all tensors as one piece, nobody owns it */
};

struct tsi_combine_ops {
    const char *name;
    const char *summary;
    enum tsi_cut cut;
    int mean; /* 1: aggregates are sums, to be divided by the number of workers */

    /* NULL if payloads of this codec can be combined so, else why not. */
    const char *(*refuses)(const terse_codec_about *codec);

    /* Allocates bucket->private and bucket->aggregate; destroy frees the former, and is called
     * after a create that failed, too. */
    terse_status (*create)(struct tsi_bucket *bucket);
    void (*destroy)(struct tsi_bucket *bucket);

    /* Writes bucket->run for this step: the elements that phase 0 encodes first (bucket->early
     * runs), then the rest. NULL: create has written them once and for all. */
    void (*plan)(struct tsi_bucket *bucket);

    terse_status (*phase[TSI_MAX_PHASES + 1])(struct tsi_bucket *bucket); /* NULL after the last */

    /* Has all arrived that the next phase, which is not the first, waits for? NULL: that is
     * bucket->request. */
    terse_status (*arrived)(struct tsi_bucket *bucket, int *arrived, terse_fault *fault);

    /* Encodes the rest, which travels to nobody, while the messages of phase 0 are under way; NULL
     * for none. */
    void (*rest)(struct tsi_bucket *bucket);
};

extern const struct tsi_combine_ops tsi_combine_allreduce;
extern const struct tsi_combine_ops tsi_combine_allgather;
extern const struct tsi_combine_ops tsi_combine_shard;
extern const struct tsi_combine_ops tsi_combine_vote;
extern const struct tsi_combine_ops tsi_combine_median;
extern const struct tsi_combine_ops tsi_combine_parameter_server;
extern const struct tsi_combine_ops tsi_combine_sparse_allreduce;
extern const struct tsi_combine_ops *const tsi_combines[];
extern const size_t tsi_combine_count;

enum tsi_owner_kind {
    TSI_OWNER_MEAN,     /* the mean itself, in place of the sum */
    TSI_OWNER_RESIDUAL, /* the mean and what earlier steps left: next = now + mean */
    TSI_OWNER_WEIGHTS,  /* its full-precision weights: next = now - mean */
};

/* What an owner makes of the sum over its slices before it encodes it for all. State lies in flat
 * buffers, of which its slices are used. A step writes `next`; a commit swaps the two. */
struct tsi_owner {
    enum tsi_owner_kind kind;
    int tie_coin; /* a vote: the sign of a tie is random */
    float *now;
    float *next;
};

/* Weights of the workers: a sum is that of weight[r] times what rank r has sent. */
struct tsi_weighting {
    const float *weight; /* by rank, they add up to their number; NULL: all are 1 */
    float *one;          /* a flat buffer for what one rank has sent; NULL without weights */
};

/* Every bucket that was ever asked for. */
struct tsi_buckets {
    enum tsi_cut cut; /* of their tensors: the combine's, or TSI_CUT_MODEL */
    struct tsi_bucket **list;
    uint32_t count;
    uint32_t cap;
    uint64_t *tensor_bytes; /* by tensor: what this worker has encoded of it in this step */
};

/* One codec and one combine over a group: what the buckets of a method share. */
struct tsi_collective {
    terse_group *group;
    uint32_t rank;
    uint32_t workers;
    const terse_layout *layout;
    const struct tsi_combine_ops *combine;
    char *codec_spec;
    const char *back_spec; /* codec of what owners send back; NULL: the same */
    terse_codec_about about;
    terse_codec_options codec_options;
    uint8_t *plain;                  /* by tensor: 1 where it travels as f32; NULL: nowhere */
    const struct tsi_bit_rule *rule; /* NULL, or payload lengths vary and travel first */
    struct tsi_weighting weighting;
    int unchecked;          /* 1: messages never leave this process */
    uint64_t run;           /* the settings' hash: keys every checksum */
    terse_rng_key key;      /* this worker's, this step's */
    const float *source;    /* the flat buffer that is encoded */
    float *take;            /* the same without const where a residual is left; else NULL */
    float *dense;           /* a flat buffer in which dense aggregates grow */
    struct tsi_owner owner; /* what owners make of a sum */
    const struct tsk_table *kernel;
    double codec_limit; /* the largest magnitude that the codec can encode */
    uint64_t nanoseconds[TERSE_STAGES];
    struct tsi_buckets buckets;
    char settings[512]; /* "codec=... combine=... feedback=..." */
};

/* One message to each rank and one from each: a part about some pieces of a bucket. */
struct tsi_messages {
    terse_codec *codec;
    const struct tsi_piece *piece;  /* what parts are about */
    const struct tsi_pieces *owned; /* by rank: the pieces it owns */
    int from_owners;                /* 1: owners send, with random keys of their own */
    int to_all;                     /* 1: all ranks get the same part, about what its sender owns;
                                     * 0: each gets one about what it owns itself */
    int varies;                     /* 1: lengths travel first, and then only as many bytes */
    size_t *cap;                    /* by owner: bytes of the longest part; 0: there is none */
    size_t *len;                    /* to each rank, then from each: bytes that travel */
    void **send_at;                 /* by rank; what a rank sends itself lies in recv_at */
    void **recv_at;
    uint8_t *memory;
    struct tsi_record *record;              /* to each rank, then from each, where lengths vary */
    uint8_t header[TERSE_FRAME_HEADER_LEN]; /* what the headers of all parts have in common */
};

/* Neighbouring tensors whose payload travels together. */
struct tsi_bucket {
    struct tsi_collective *in;
    uint32_t first_tensor;
    uint32_t tensor_count;
    uint64_t first; /* element where it starts */
    uint64_t count;
    terse_codec *codec;
    terse_codec *back_codec;  /* that of owners; often `codec` itself */
    struct tsi_pieces *owned; /* by rank: the pieces it owns */
    struct tsi_run *run;      /* its elements in the order in which they are produced */
    uint32_t run_count;
    uint32_t early; /* runs that phase 0 encodes */
    struct tsi_aggregate aggregate;
    struct tsi_messages there; /* those of workers, and those of owners, */
    struct tsi_messages back;  /* where the combine has created them */
    void *private;             /* the combine's */
    /* The step under way: */
    struct tsi_messages *posted; /* last */
    terse_request request;
    uint32_t pass;
    uint32_t phase;         /* the next */
    const uint8_t *payload; /* this worker's own, where it is one piece */
    size_t payload_len;     /* of all its payloads together */
    uint64_t agreed;        /* a fold of the checks of all messages that all ranks got alike */
    terse_status status;    /* the first failure, and its cause */
    terse_fault fault;
};

/* ---- bucket.c ---- */

/* The bucket of these tensors, made when it is first asked for. */
TERSE_CHECK terse_status tsi_bucket_of(struct tsi_collective *in, uint32_t first, uint32_t count,
                                       struct tsi_bucket **out, terse_fault *fault);
void tsi_bucket_destroy(struct tsi_bucket *bucket);

/* Notes the first failure of a step, `rank` is to blame (-1: nobody). Returns TERSE_OK, or the
 * status where the group has failed. */
terse_status tsi_bucket_fail(struct tsi_bucket *bucket, terse_status status, int32_t rank,
                             const terse_fault *fault);

/* For a worker that is alone: what it encodes is the sum of all. `most`: bits of the largest
 * magnitude of these elements of in->source, 0 if it is not known yet. */
void tsi_bucket_note_largest(struct tsi_bucket *bucket, uint32_t most, size_t first, size_t count);

/* Adds the sections of pieces that a worker has just encoded to the bytes of their tensors. */
void tsi_bucket_note_sections(const struct tsi_bucket *bucket, struct tsi_pieces pieces);

/* The weight of a rank's contribution. */
static inline float tsi_weight(const struct tsi_collective *in, uint32_t rank)
{
    return in->weighting.weight ? in->weighting.weight[rank] : 1.0f;
}

/* sum += weight * values. */
void tsi_add_weighted(float *sum, const float *values, float weight, size_t count);

/* Folds another check into `agreed`. */
static inline uint64_t tsi_fold(uint64_t agreed, uint64_t check)
{
    return (agreed ^ check) * UINT64_C(0x9E3779B97F4A7C15);
}

/* Nanoseconds since some start; tsi_clock adds those since *from to a stage and moves *from. */
uint64_t tsi_now(void);
void tsi_clock(struct tsi_collective *in, int stage, uint64_t *from);

/* A failure of the group itself, after which nothing can be told to anybody. */
static inline int tsi_is_group_failure(terse_status status)
{
    return status == TERSE_TIMEOUT || status == TERSE_PEER_LOST;
}

/* Cuts tensors first .. first+count-1 into pieces, owner by owner. `piece` has room for
 * tensors * workers, `owned` for workers. Returns the number of pieces. */
uint32_t tsi_cut(const terse_layout *layout, enum tsi_cut cut, uint32_t first, uint32_t count,
                 uint32_t workers, struct tsi_piece *piece, struct tsi_pieces *owned);

/* ---- message.c: parts that travel to and from every rank ---- */

/* Do the lengths of a codec's payloads vary so much that they travel first? */
static inline int tsi_lengths_vary(const struct tsi_bucket *bucket)
{
    return bucket->in->rule != NULL || bucket->codec->ops->varies;
}

/* Completes messages whose attributes (and `cap`, or NULL: what the codec needs) are set. */
TERSE_CHECK terse_status tsi_messages_create(const struct tsi_bucket *bucket,
                                             struct tsi_messages *messages);
void tsi_messages_destroy(struct tsi_messages *messages);

/* Encodes the part for `receiver`, from `in` (taking from `take` where that is not NULL), and seals
 * it. Returns the length of its payload. */
size_t tsi_encode_part(struct tsi_bucket *bucket, struct tsi_messages *messages, uint32_t receiver,
                       const float *in, float *take);

/* Seals the part whose payload of `len` bytes lies at TSI_PART_PAYLOAD_AT of send_at[receiver]; it
 * is void where the bucket has failed. Returns the length of its payload. */
size_t tsi_seal_part(struct tsi_bucket *bucket, struct tsi_messages *messages, uint32_t receiver,
                     size_t len);

/* Posts the messages, or their lengths where those vary. The next two phases of the combine are
 * tsi_confirm_lengths, by which all ranks tell whether the lengths that they got are sound, and
 * tsi_send_parts; where lengths do not vary, both are skipped. */
TERSE_CHECK terse_status tsi_messages_post(struct tsi_bucket *bucket,
                                           struct tsi_messages *messages);
TERSE_CHECK terse_status tsi_confirm_lengths(struct tsi_bucket *bucket);
TERSE_CHECK terse_status tsi_send_parts(struct tsi_bucket *bucket);

/* Waits for what was posted last. */
TERSE_CHECK terse_status tsi_messages_wait(struct tsi_bucket *bucket);

/* A part that was received: its payload lies in the message. */
struct tsi_opened {
    terse_rng_key key; /* that of its encoder */
    struct tsi_pieces pieces;
    const uint8_t *payload;
    size_t len;
};

/* Opens what rank `sender` sent, and folds the check of what all get alike into `agreed`. 0 where
 * it sent nothing, or the bucket has failed, perhaps by it. */
int tsi_open_part(struct tsi_bucket *bucket, const struct tsi_messages *messages, uint32_t sender,
                  struct tsi_opened *out);

/* ---- sharded.c: what combines with owners share ---- */

/* Creates `there` (worker to owner) and `back` (owner to all), and plans the runs. */
TERSE_CHECK terse_status tsi_create_for_owners(struct tsi_bucket *bucket);

/* Phase 0: encodes for the other owners and posts; then, while that travels, the rest is encoded,
 * which this rank owns itself. */
TERSE_CHECK terse_status tsi_send_to_owners(struct tsi_bucket *bucket);
void tsi_encode_own(struct tsi_bucket *bucket);

/* bucket->private of combines whose owners decode values. Sections are those of codecs that are
 * coded. */
struct tsi_sharded {
    struct tsi_coded *sent;     /* sections of this rank's pieces, worker by worker */
    struct tsi_coded *received; /* sections of all pieces: the aggregate */
    float *tile;                /* the median's: values of all workers, for each thread */
};

TERSE_CHECK terse_status tsi_sharded_create(struct tsi_bucket *bucket);
void tsi_sharded_destroy(struct tsi_bucket *bucket);

/* Opens the part of a sender. Its sections are opened into `sections`, where they wait to be
 * decoded, overwriting where `fresh`; where the codec is not coded, they are decoded to in->dense
 * at once. */
void tsi_open_codes(struct tsi_bucket *bucket, const struct tsi_messages *messages, uint32_t sender,
                    int fresh, struct tsi_coded *sections);

/* Checks the codes of opened sections: the bucket fails by their sender. */
void tsi_check_codes(struct tsi_bucket *bucket, uint32_t sender, const struct tsi_coded *sections,
                     uint32_t count);

/* The last phase: what the owners sent back is the aggregate. */
TERSE_CHECK terse_status tsi_receive_shards(struct tsi_bucket *bucket);

#endif
