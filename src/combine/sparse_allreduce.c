/* sparse-allreduce: the exact form of shard, for codecs that select. Every rank owns a slice of
 * every tensor; what anybody chose there comes back, summed in rank order, with nothing left out:
 * the same bits as allgather. A worker sends its choice once and receives every slice's union once,
 * which is less than an all-gather as soon as workers choose alike.
 *
 * How many elements fall into a slice is known to their sender alone: lengths travel before lists.
 */
#include <stdlib.h>
#include <string.h>

#include "base/fault.h"
#include "combine/combine.h"
#include "combine/list.h"

struct sparse {
    struct tsi_piece *slice;  /* in the order of their owners */
    struct tsi_pieces *owned; /* by rank */
    struct tsi_list list;
    uint8_t *own; /* this worker's payload */
    struct tsi_messages there;
    struct tsi_messages back;
};

static const char *refuses(const terse_codec_about *codec)
{
    const int selects = codec->traits & TERSE_CODEC_SELECTING && codec->passes == 1;
    return selects ? NULL : "only codecs that select elements are sparse";
}

/* ---- creation ---- */

/* No message about the slices of `owner` is longer. */
static size_t message_cap(const struct sparse *sparse, uint32_t owner)
{
    const struct tsi_pieces pieces = sparse->owned[owner];
    size_t cap = TSI_PART_EXTRA;
    for (uint32_t i = pieces.first; i < pieces.first + pieces.count; i++)
        cap += tsi_list_len(sparse->slice[i].count, sparse->slice[i].count);
    return cap;
}

static terse_status create_messages(const struct tsi_bucket *bucket, struct sparse *sparse)
{
    const uint32_t workers = bucket->in->workers;
    const uint32_t rank = bucket->in->rank;
    size_t *const cap = calloc(2 * (size_t)workers, sizeof *cap);
    if (!cap)
        return TERSE_NO_MEMORY;
    for (uint32_t r = 0; r < workers; r++) {
        cap[r] = message_cap(sparse, r);
        cap[workers + r] = message_cap(sparse, rank);
    }
    sparse->there = (struct tsi_messages){.phase = 0, .varies = 1};
    sparse->back = (struct tsi_messages){.phase = 1, .varies = 1, .to_all = 1};
    terse_status status = tsi_messages_create(&sparse->there, rank, workers, cap, cap + workers);
    if (status == TERSE_OK)
        status = tsi_messages_create(&sparse->back, rank, workers, cap + workers, cap);
    free(cap);
    return status;
}

static terse_status create(struct tsi_bucket *bucket)
{
    const uint32_t workers = bucket->in->workers;
    struct sparse *const sparse = calloc(1, sizeof *sparse);
    size_t longest = 0;
    bucket->private = sparse;
    if (!sparse)
        return TERSE_NO_MEMORY;
    sparse->slice = calloc((size_t)bucket->tensor_count * workers + 1, sizeof *sparse->slice);
    sparse->owned = calloc(workers, sizeof *sparse->owned);
    sparse->own = malloc(terse_codec_payload_bound(bucket->codec, 0) + 1);
    if (!sparse->slice || !sparse->owned || !sparse->own ||
        !tsi_aggregate_create(&bucket->aggregate, 1))
        return TERSE_NO_MEMORY;
    const uint32_t slices = tsi_cut(bucket->in->layout, TSI_CUT_SLICES, bucket->first_tensor,
                                    bucket->tensor_count, workers, sparse->slice, sparse->owned);
    for (uint32_t i = 0; i < slices; i++)
        longest = sparse->slice[i].count > longest ? sparse->slice[i].count : longest;
    sparse->list.index = malloc((longest + TSK_COLLECT_ROOM) * sizeof *sparse->list.index);
    sparse->list.value = malloc((longest + TSK_COLLECT_ROOM) * sizeof *sparse->list.value);
    if (!sparse->list.index || !sparse->list.value)
        return TERSE_NO_MEMORY;
    return create_messages(bucket, sparse);
}

static void destroy(struct tsi_bucket *bucket)
{
    struct sparse *const sparse = bucket->private;
    free(sparse->slice);
    free(sparse->owned);
    free(sparse->list.index);
    free(sparse->list.value);
    free(sparse->own);
    tsi_messages_destroy(&sparse->there);
    tsi_messages_destroy(&sparse->back);
}

/* ---- lists ---- */

/* What the dense buffer holds of an owner's slices, as a part; void if this bucket has failed. */
static void write_lists(struct tsi_bucket *bucket, const struct tsi_part *part,
                        struct tsi_pieces pieces, uint8_t *frame)
{
    const struct sparse *const sparse = bucket->private;
    size_t len = 0;
    uint64_t from = tsi_now();
    if (bucket->status != TERSE_OK) {
        tsi_part_void(part, frame);
        return;
    }
    for (uint32_t i = pieces.first; i < pieces.first + pieces.count; i++)
        len += tsi_list_write(&sparse->list, bucket->in->kernel, &sparse->slice[i],
                              bucket->in->dense, frame + TSI_PART_PAYLOAD_AT + len);
    tsi_clock(bucket->in, TERSE_STAGE_ENCODE, &from);
    tsi_part_seal(bucket->codec, part, len, frame);
    tsi_clock(bucket->in, TERSE_STAGE_WIRE, &from);
}

/* Adds what was received about an owner's slices to the dense buffer. */
static void read_lists(struct tsi_bucket *bucket, const struct tsi_part *part,
                       const struct tsi_messages *messages, struct tsi_pieces pieces)
{
    const struct sparse *const sparse = bucket->private;
    const uint8_t *payload = NULL;
    terse_fault fault = {.rank = -1};
    terse_status status = TERSE_OK;
    size_t len = 0;
    size_t at = 0;
    if (bucket->status != TERSE_OK ||
        !tsi_open_part(bucket, bucket->codec, part, messages, &payload, &len))
        return;
    uint64_t from = tsi_now();
    for (uint32_t i = pieces.first; i < pieces.first + pieces.count && status == TERSE_OK; i++) {
        size_t used = 0;
        status = tsi_list_add(&sparse->list, bucket->in->kernel, &sparse->slice[i], payload + at,
                              len - at, &used, bucket->in->dense, &fault);
        at += used;
    }
    if (status == TERSE_OK && at != len)
        status = tsi_fail(&fault, TERSE_BAD_FRAME, at, "list: bytes after the last");
    tsi_clock(bucket->in, TERSE_STAGE_COMBINE, &from);
    (void)tsi_bucket_fail(bucket, status, (int32_t)part->route.sender, &fault);
}

static void zero_slices(const struct tsi_bucket *bucket, struct tsi_pieces pieces)
{
    const struct sparse *const sparse = bucket->private;
    for (uint32_t i = pieces.first; i < pieces.first + pieces.count; i++)
        memset(bucket->in->dense + sparse->slice[i].offset, 0,
               sparse->slice[i].count * sizeof(float));
}

/* ---- the phases ---- */

static terse_status send(struct tsi_bucket *bucket)
{
    struct tsi_collective *const in = bucket->in;
    struct sparse *const sparse = bucket->private;
    const struct tsi_pieces all = bucket->owned[in->rank];
    terse_fault fault = {.rank = -1};
    uint64_t from = tsi_now();
    memset(in->dense + bucket->first, 0, (size_t)bucket->count * sizeof *in->dense);
    if (bucket->status == TERSE_OK) {
        terse_status status =
            tsi_codec_encode(bucket->codec, 0, &in->key, all, in->source, in->take, sparse->own,
                             SIZE_MAX, &bucket->payload_len);
        if (status == TERSE_OK)
            status = tsi_codec_decode(bucket->codec, 0, &in->key, all, sparse->own,
                                      bucket->payload_len, 0, in->dense, &fault);
        (void)tsi_bucket_fail(bucket, status, (int32_t)in->rank, &fault);
    }
    bucket->payload = sparse->own;
    tsi_clock(in, TERSE_STAGE_ENCODE, &from);
    for (uint32_t r = 0; r < in->workers; r++) {
        const struct tsi_part part = tsi_part_of(bucket, &sparse->there, in->rank, r, in->key,
                                                 sparse->slice, sparse->owned[r]);
        write_lists(bucket, &part, sparse->owned[r], sparse->there.send_at[r]);
    }
    return tsi_messages_post(bucket, &sparse->there);
}

static terse_status confirm_there(struct tsi_bucket *bucket)
{
    return tsi_messages_confirm(bucket, &((struct sparse *)bucket->private)->there);
}

static terse_status send_there(struct tsi_bucket *bucket)
{
    return tsi_messages_send(bucket, &((struct sparse *)bucket->private)->there);
}

/* What was finite on every worker may overflow when added: nobody's fault, and a skip. */
static void check_sum(struct tsi_bucket *bucket)
{
    const struct sparse *const sparse = bucket->private;
    const struct tsi_pieces mine = sparse->owned[bucket->in->rank];
    uint32_t most = 0;
    terse_fault fault;
    for (uint32_t i = mine.first; i < mine.first + mine.count; i++) {
        const uint32_t here = bucket->in->kernel->magnitude_max_f32(
            bucket->in->dense + sparse->slice[i].offset, sparse->slice[i].count);
        most = here > most ? here : most;
    }
    if (most >= TSK_INFINITY_BITS)
        (void)tsi_bucket_fail(
            bucket, tsi_fail(&fault, TERSE_OUT_OF_RANGE, 0, "the sum is not finite"), -1, &fault);
}

/* As an owner: the union of what all chose, to all. */
static terse_status reduce(struct tsi_bucket *bucket)
{
    struct tsi_collective *const in = bucket->in;
    struct sparse *const sparse = bucket->private;
    const struct tsi_pieces mine = sparse->owned[in->rank];
    const terse_status status = tsi_messages_wait(bucket);
    if (status != TERSE_OK)
        return status;
    zero_slices(bucket, mine);
    for (uint32_t r = 0; r < in->workers; r++) {
        const struct tsi_part part = tsi_part_of(bucket, &sparse->there, r, in->rank,
                                                 tsi_worker_key(bucket, r), sparse->slice, mine);
        read_lists(bucket, &part, &sparse->there, mine);
    }
    check_sum(bucket);
    const struct tsi_part part = tsi_part_of(bucket, &sparse->back, in->rank, TSI_TO_ALL,
                                             tsi_owner_key(bucket, in->rank), sparse->slice, mine);
    write_lists(bucket, &part, mine, sparse->back.memory);
    return tsi_messages_post(bucket, &sparse->back);
}

static terse_status confirm_back(struct tsi_bucket *bucket)
{
    return tsi_messages_confirm(bucket, &((struct sparse *)bucket->private)->back);
}

static terse_status send_back(struct tsi_bucket *bucket)
{
    return tsi_messages_send(bucket, &((struct sparse *)bucket->private)->back);
}

static terse_status receive(struct tsi_bucket *bucket)
{
    struct tsi_collective *const in = bucket->in;
    struct sparse *const sparse = bucket->private;
    const terse_status status = tsi_messages_wait(bucket);
    for (uint32_t r = 0; r < in->workers && status == TERSE_OK; r++) {
        const struct tsi_part part =
            tsi_part_of(bucket, &sparse->back, r, TSI_TO_ALL, tsi_owner_key(bucket, r),
                        sparse->slice, sparse->owned[r]);
        zero_slices(bucket, sparse->owned[r]);
        read_lists(bucket, &part, &sparse->back, sparse->owned[r]);
        if (bucket->status == TERSE_OK)
            bucket->agreed = tsi_fold(bucket->agreed, tsi_part_checksum(sparse->back.recv_at[r]));
    }
    tsi_aggregate_add(&bucket->aggregate, (struct tsi_span){.kind = TSI_SPAN_DENSE,
                                                            .first = bucket->first,
                                                            .count = (size_t)bucket->count,
                                                            .value = in->dense + bucket->first});
    return status;
}

const struct tsi_combine_ops tsi_combine_sparse_allreduce = {
    .name = "sparse-allreduce",
    .summary = "what anybody chose, exactly: a payload up, every slice's union down",
    .cut = TSI_CUT_WHOLE,
    .mean = 1,
    .refuses = refuses,
    .create = create,
    .destroy = destroy,
    .phase = {send, confirm_there, send_there, reduce, confirm_back, send_back, receive},
};
