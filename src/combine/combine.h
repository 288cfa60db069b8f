/* How what workers said becomes one answer. A combine works on a bucket in a few moves: it says
 * something, and each further move waits for what was said before and goes on from there. All
 * buckets make a move before any makes the next, so that several are under way at a time. One file
 * per combine, one ops table each, listed in registry.c. */
#ifndef TSI_COMBINE_H
#define TSI_COMBINE_H

#include <terse/exchange.h>

#include "codec/object.h"
#include "combine/merge.h"
#include "wire/part.h"

struct tsi_bucket;

/* What a method does inside a step of its exchange. A slot that is NULL is the exchange's own
 * doing: adding the gradient to the memory, taking the mean, writing it over the gradient. */
struct tsi_host {
    void *context;
    /* Elements first .. first+count-1 of a bucket that is posted before others are known: what
     * `direct` changes there, beside the memory, can be needed again. */
    void (*keep)(void *context, size_t first, size_t count);
    /* The same elements: leaves what is to be said of them in room->memory, or where room->gradient
     * points. From the bucket's first to its last, unless the combine has `runs`. */
    void (*direct)(void *context, struct tsi_bucket *bucket, size_t first, size_t count);
    /* 1: `direct` does nothing but add the gradient to room->memory. NULL: it never does. */
    int (*adds)(void *context);
    /* The same elements, once directed and still in the cache. */
    void (*directed)(void *context, struct tsi_bucket *bucket, size_t first, size_t count);
    /* Takes that back, to rounding: the step is skipped after all. */
    void (*undirect)(void *context, struct tsi_bucket *bucket);
    /* As an owner: makes of the sum of what was said about a piece, in room->sum, what is said
     * back. Nothing is committed yet. Returns the flat buffer it lies in. */
    const float *(*own)(void *context, const struct tsi_bucket *bucket,
                        const struct tsi_piece *piece);
    /* While the agreement about the step travels: what does not depend on it. */
    void (*meanwhile)(void *context);
    /* All have agreed: uses the answer of this bucket, room->sum / parts. */
    void (*commit)(void *context, struct tsi_bucket *bucket, float parts);
    /* 1: commit looks only where a sparse answer is not 0, and leaves 0 there; or takes it as a
     * list (bucket->merged). */
    int sparse;
    /* 1: commit takes an answer of signs as bits. */
    int packed;
};

/* Is handed the answer's signs, run by run: one bit an element from element `first` on, set where
 * it is -1 and not where it is +1. */
struct tsi_signer {
    void *context;
    void (*take)(void *context, uint64_t first, uint64_t count, const uint8_t *negative);
};

/* What all buckets of an exchange share. */
struct tsi_room {
    terse_group *group;
    uint32_t rank;
    uint32_t workers;
    terse_layout *layout;
    const char *codec_spec;
    const char *back_spec; /* codec of the owners; NULL: the same */
    const uint8_t *plain;  /* by tensor: travels as f32 */
    const struct tsi_host *host;
    const struct tsi_bit_rule *rule; /* NULL, or lengths vary and travel first */
    terse_codec_about about;
    terse_codec_options codec_options;
    terse_rng_key draw;    /* of this worker, this step */
    float *memory;         /* error memory; NULL without */
    float *owner_memory;   /* of what this worker sends back as an owner; NULL without */
    float *sum;            /* the answer grows here; a flat buffer */
    const float *given;    /* this step's gradient */
    const float *gradient; /* what is said without memory: the same, or what a host made of it */
    int tie_coin;
    uint64_t nanoseconds[TERSE_STAGES];
};

/* Is handed elements of a bucket, run by run. */
struct tsi_runner {
    void *context;
    void (*run)(void *context, uint64_t first, uint64_t count);
};

struct tsi_combine_ops;
struct tsi_union;

struct tsi_run {
    uint64_t first;
    uint64_t count;
};

#define TSI_MAX_MOVES 5u

/* Frames that are swapped: one to (from) each worker. `cap` bytes travel, whatever the frame needs;
 * where lengths vary (room->rule), they travel first and then only as many bytes. */
struct tsi_mail {
    uint8_t *memory;
    void **send_at;
    void **recv_at;
    size_t *send_cap;
    size_t *recv_cap;
    size_t *send_len; /* where lengths vary, */
    size_t *recv_len;
    void **send_len_at; /* where each of them lies, */
    void **recv_len_at;
    size_t *len_len; /* and how long it is */
};

struct tsi_bucket {
    struct tsi_room *room;
    const struct tsi_combine_ops *ops;
    uint32_t first_tensor;
    uint32_t tensor_count;
    terse_codec *codec;
    terse_codec *back_codec;  /* of what owners say; often `codec` itself */
    struct tsi_pieces *owned; /* by rank: the pieces it answers for */
    uint64_t first;           /* element where the bucket starts */
    uint64_t count;
    struct tsi_mail there; /* worker to owner */
    struct tsi_mail back;  /* owner to worker */
    terse_request request;
    terse_allreduce sum; /* reduce */
    float *sum_scratch;
    uint8_t *tied;             /* vote: where there is no majority */
    const uint8_t **ballot;    /* vote: the payloads of all */
    struct tsi_union *unions;  /* union */
    struct tsi_merged *merged; /* gather: the answer, where the host takes it as a list; or NULL */
    struct tsi_run *run;       /* reduce: what is spoken of, ascending; NULL: everything */
    uint32_t run_count;
    uint32_t round;
    size_t next_move;
    size_t said_len;        /* of this worker's own payload, all owners together */
    const uint8_t *payload; /* that payload, where it is one: gather and union */
    int sparse;          /* the answer is 0 but where `touch` says; the host commits only there */
    int clean;           /* and room->sum is 0 everywhere here before the step */
    int packed;          /* the answer stays in bits, which `signs` hands out */
    int unfit;           /* its gradient is not finite: whatever is said, all will skip */
    int answered;        /* as an owner, in this step */
    int copied;          /* the exchange holds copies of the memories before this step */
    terse_fault fault;   /* of the call at hand */
    terse_status status; /* the first failure of this step, and its cause */
    terse_fault cause;
};

enum tsi_cut {
    TSI_CUT_WHOLE,  /* whole tensors, nobody owns them */
    TSI_CUT_SLICES, /* every rank owns a slice of every tensor */
    TSI_CUT_SERVER, /* rank 0 owns all */
};

struct tsi_combine_ops {
    const char *name;
    const char *summary;
    enum tsi_cut cut;
    int mean; /* finish leaves the sum, still to be divided by the workers */

    /* NULL if this codec can be combined so, else why not. */
    const char *(*refuses)(const terse_codec_about *codec);

    terse_status (*create)(struct tsi_bucket *bucket); /* buffers beyond the codec */
    void (*destroy)(struct tsi_bucket *bucket);        /* of those only it knows; may be NULL */
    /* The first says, the last leaves the answer in room->sum; NULL after the last. */
    terse_status (*move[TSI_MAX_MOVES + 1])(struct tsi_bucket *bucket);
    /* Hands out the elements that the first move speaks of, or the `rest`, which can be brought
     * while that travels; NULL: it speaks of all. */
    void (*runs)(struct tsi_bucket *bucket, int rest, const struct tsi_runner *runner);
    /* Says what of the rest needs saying, to this rank itself; NULL: nothing. */
    void (*say_rest)(struct tsi_bucket *bucket);
    /* Puts back into the memories what the moves took. */
    void (*undo)(struct tsi_bucket *bucket);
    /* Tells where the answer may not be 0, some elements more than once; NULL: anywhere. */
    void (*touch)(struct tsi_bucket *bucket, const struct tsi_toucher *toucher);
    /* Hands out an answer of signs, until the next step; NULL: answers are no signs. */
    void (*signs)(const struct tsi_bucket *bucket, const struct tsi_signer *signer);
};

extern const struct tsi_combine_ops tsi_combine_allreduce;
extern const struct tsi_combine_ops tsi_combine_allgather;
extern const struct tsi_combine_ops tsi_combine_shard;
extern const struct tsi_combine_ops tsi_combine_vote;
extern const struct tsi_combine_ops tsi_combine_parameter_server;
extern const struct tsi_combine_ops tsi_combine_sparse_allreduce;
extern const struct tsi_combine_ops *const tsi_combines[];
extern const size_t tsi_combine_count;

/* ---- buckets ---- */

TERSE_CHECK terse_status tsi_bucket_create(struct tsi_room *room, const struct tsi_combine_ops *ops,
                                           uint32_t first_tensor, uint32_t tensor_count,
                                           struct tsi_bucket **out, terse_fault *fault);
void tsi_bucket_destroy(struct tsi_bucket *bucket);

/* Nanoseconds since some start; tsi_clock adds those since *from to a station and moves *from. */
uint64_t tsi_now(void);
void tsi_clock(struct tsi_room *room, int station, uint64_t *from);

/* ---- what the combines share ---- */

/* Cuts tensors first .. first+count-1 into pieces, owner by owner. `piece` has room for
 * tensors * workers, `owned` for workers. Returns the number of pieces. */
uint32_t tsi_cut(const terse_layout *layout, enum tsi_cut cut, uint32_t first, uint32_t count,
                 uint32_t workers, struct tsi_piece *piece, struct tsi_pieces *owned);

uint64_t tsi_pieces_elements(const struct tsi_bucket *bucket, struct tsi_pieces pieces);

/* Says `pieces` of the gradient (taking from memory where there is one) into a frame. */
TERSE_CHECK terse_status tsi_say(struct tsi_bucket *bucket, struct tsi_pieces pieces,
                                 uint8_t *frame);
/* Opens the frame that `rank` said with `draw` and adds what it says to `out`. */
TERSE_CHECK terse_status tsi_hear(struct tsi_bucket *bucket, struct tsi_pieces pieces,
                                  terse_rng_key draw, int32_t rank, const uint8_t *frame,
                                  size_t cap, float *out, int station);
/* The same where `out` counts as 0 before. */
TERSE_CHECK terse_status tsi_hear_fresh(struct tsi_bucket *bucket, struct tsi_pieces pieces,
                                        terse_rng_key draw, int32_t rank, const uint8_t *frame,
                                        size_t cap, float *out, int station);
/* Opens that frame: the payload lies in it. */
TERSE_CHECK terse_status tsi_open(struct tsi_bucket *bucket, struct tsi_pieces pieces,
                                  terse_rng_key draw, int32_t rank, const uint8_t *frame,
                                  size_t cap, const uint8_t **payload, size_t *len);
/* As an owner, says its pieces of `in` back, taking from `take` where that is not NULL. */
TERSE_CHECK terse_status tsi_say_back(struct tsi_bucket *bucket, const float *in, float *take,
                                      uint8_t *frame);
/* Draws of an owner differ from those of a worker. */
terse_rng_key tsi_owner_draw(const struct tsi_bucket *bucket, uint32_t owner);

TERSE_CHECK terse_status tsi_mail_create(struct tsi_bucket *bucket, struct tsi_mail *mail,
                                         int back);
void tsi_mail_destroy(struct tsi_mail *mail);
/* Posts the mail, or its lengths where they vary; tsi_mail_send, the move after it, then posts the
 * mail itself. */
TERSE_CHECK terse_status tsi_mail_post(struct tsi_bucket *bucket, struct tsi_mail *mail);
TERSE_CHECK terse_status tsi_mail_send(struct tsi_bucket *bucket, struct tsi_mail *mail);
TERSE_CHECK terse_status tsi_mail_wait(struct tsi_bucket *bucket);

/* What shard, server and vote share: mail both ways, the first move and the last. */
TERSE_CHECK terse_status tsi_mail_both(struct tsi_bucket *bucket);
terse_status tsi_say_to_owners(struct tsi_bucket *bucket);
void tsi_say_to_itself(struct tsi_bucket *bucket);
void tsi_owners_runs(struct tsi_bucket *bucket, int rest, const struct tsi_runner *runner);
terse_status tsi_send_to_owners(struct tsi_bucket *bucket);
terse_status tsi_send_back(struct tsi_bucket *bucket);
terse_status tsi_hear_owners(struct tsi_bucket *bucket);

/* TERSE_OUT_OF_RANGE, noted, if finite parts have a sum that is not: nobody's fault, and a skip. */
TERSE_CHECK terse_status tsi_check_sum(struct tsi_bucket *bucket, struct tsi_pieces pieces);

/* The same for an answer that is 0 but in places. */
TERSE_CHECK terse_status tsi_check_touched(struct tsi_bucket *bucket);
/* Makes room->sum 0 before an answer grows there, unless it is. */
void tsi_clear_sum(struct tsi_bucket *bucket);

void tsi_zero_pieces(const struct tsi_bucket *bucket, struct tsi_pieces pieces, float *floats);

/* Notes a failure of this bucket and hands it on. */
terse_status tsi_bucket_fail(struct tsi_bucket *bucket, terse_status status, int32_t rank);

#endif
