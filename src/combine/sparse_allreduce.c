/* sparse-allreduce: the exact form of shard, for codecs that select. Every rank owns a slice of
 * every tensor; what anybody chose there comes back, summed in rank order, with nothing left out:
 * the same bits as allgather. A worker sends its choice once and receives every slice's union once,
 * which is less than an all-gather as soon as workers choose alike.
 *
 * How many elements fall into a slice is known to their sender alone: lengths travel before lists.
 */
#include <stdlib.h>
#include <string.h>

#include "base/bytes.h"
#include "base/fault.h"
#include "codec/index_stream.h"
#include "combine/combine.h"

#define COUNT_LEN sizeof(uint32_t)

struct sparse {
    struct tsi_piece *slice;  /* in the order of their owners */
    struct tsi_pieces *owned; /* by rank */
    uint32_t *index; /* entries of a list that is written or read: as many as the longest */
    float *value;    /* slice has elements, and what collect_f32 needs beyond */
    uint8_t *own;    /* this worker's payload */
};

static const char *refuses(const terse_codec_about *codec)
{
    const int selects = codec->traits & TERSE_CODEC_SELECTING && codec->passes == 1;
    return selects ? NULL : "only codecs that select elements are sparse";
}

/* ---- a slice as a list: u32 count, index stream, count floats ---- */

/* The length in bytes of a list of `count` elements of a slice of n; largest for count = n. */
static size_t list_len(size_t n, size_t count)
{
    return COUNT_LEN + (count > 0 ? tsi_index_shape(n, count).len + count * sizeof(float) : 0);
}

/* Writes the nonzero elements of a slice of the dense buffer; returns the length of the list. */
static size_t write_list(const struct tsi_bucket *bucket, const struct tsi_piece *slice,
                         uint8_t *out)
{
    const struct sparse *const sparse = bucket->private;
    const size_t count = bucket->in->kernel->collect_f32(
        bucket->in->dense + slice->offset, slice->count, 1, 0, sparse->index, sparse->value);
    tsi_store_u32(out, (uint32_t)count);
    if (count == 0)
        return COUNT_LEN;
    const struct tsi_index_shape shape = tsi_index_shape(slice->count, count);
    tsi_index_write(&shape, sparse->index, out + COUNT_LEN);
    memcpy(out + COUNT_LEN + shape.len, sparse->value, count * sizeof(float));
    return list_len(slice->count, count);
}

/* Adds a list to its slice of the dense buffer; *used is its length. The bytes are untrusted. */
static terse_status add_list(const struct tsi_bucket *bucket, const struct tsi_piece *slice,
                             const uint8_t *bytes, size_t len, size_t *used, terse_fault *fault)
{
    const struct sparse *const sparse = bucket->private;
    const size_t count = len < COUNT_LEN ? 0 : tsi_load_u32(bytes);
    if (count > slice->count)
        return tsi_fail(fault, TERSE_BAD_FRAME, 0, "list: %zu of %zu elements", count,
                        slice->count);
    *used = list_len(slice->count, count);
    if (len < *used)
        return tsi_fail(fault, TERSE_BAD_FRAME, len, "list: needs %zu bytes, %zu are left", *used,
                        len);
    if (count == 0)
        return TERSE_OK;
    const struct tsi_index_shape shape = tsi_index_shape(slice->count, count);
    struct tsi_index_reader reader;
    float *const out = bucket->in->dense + slice->offset;
    memset(sparse->value, 0, count * sizeof(float));
    if (bucket->in->kernel->add_f32(sparse->value, bytes + COUNT_LEN + shape.len, count))
        return tsi_fail(fault, TERSE_BAD_FRAME, COUNT_LEN + shape.len, "a value is not finite");
    terse_status status = tsi_index_open(&shape, bytes + COUNT_LEN, &reader, fault);
    if (status == TERSE_OK)
        status = tsi_index_next(&reader, count, out, sparse->index, fault);
    for (size_t i = 0; i < count && status == TERSE_OK; i++)
        out[sparse->index[i]] += sparse->value[i];
    return status;
}

/* ---- creation ---- */

/* The longest parts are those in which every element has been chosen. */
static terse_status create_messages(struct tsi_bucket *bucket)
{
    const struct sparse *const sparse = bucket->private;
    const uint32_t workers = bucket->in->workers;
    struct tsi_messages *const both[2] = {&bucket->there, &bucket->back};
    terse_status status = TERSE_OK;
    for (int i = 0; i < 2 && status == TERSE_OK; i++) {
        size_t *const cap = calloc(workers, sizeof *cap);
        *both[i] = (struct tsi_messages){.codec = bucket->codec,
                                         .piece = sparse->slice,
                                         .owned = sparse->owned,
                                         .from_owners = i,
                                         .to_all = i,
                                         .varies = 1,
                                         .cap = cap};
        for (uint32_t r = 0; r < workers && cap; r++) {
            const struct tsi_pieces pieces = sparse->owned[r];
            cap[r] = TSI_PART_EXTRA;
            for (uint32_t p = pieces.first; p < pieces.first + pieces.count; p++)
                cap[r] += list_len(sparse->slice[p].count, sparse->slice[p].count);
        }
        status = cap ? tsi_messages_create(bucket, both[i]) : TERSE_NO_MEMORY;
    }
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
    sparse->index = malloc((longest + TSK_COLLECT_ROOM) * sizeof *sparse->index);
    sparse->value = malloc((longest + TSK_COLLECT_ROOM) * sizeof *sparse->value);
    return sparse->index && sparse->value ? create_messages(bucket) : TERSE_NO_MEMORY;
}

static void destroy(struct tsi_bucket *bucket)
{
    struct sparse *const sparse = bucket->private;
    free(sparse->slice);
    free(sparse->owned);
    free(sparse->index);
    free(sparse->value);
    free(sparse->own);
}

/* ---- parts ---- */

/* What the dense buffer holds of an owner's slices, as the part for `receiver`. */
static void seal_lists(struct tsi_bucket *bucket, struct tsi_messages *messages, uint32_t receiver)
{
    const struct sparse *const sparse = bucket->private;
    const struct tsi_pieces pieces = sparse->owned[receiver];
    uint8_t *const payload = (uint8_t *)messages->send_at[receiver] + TSI_PART_PAYLOAD_AT;
    size_t len = 0;
    uint64_t from = tsi_now();
    for (uint32_t i = 0; i < pieces.count && bucket->status == TERSE_OK; i++)
        len += write_list(bucket, &sparse->slice[pieces.first + i], payload + len);
    tsi_clock(bucket->in, TERSE_STAGE_ENCODE, &from);
    (void)tsi_seal_part(bucket, messages, receiver, len);
}

/* Adds what was received about an owner's slices to the dense buffer. */
static void add_lists(struct tsi_bucket *bucket, const struct tsi_messages *messages,
                      uint32_t sender)
{
    const struct sparse *const sparse = bucket->private;
    terse_fault fault = {.rank = -1};
    terse_status status = TERSE_OK;
    struct tsi_opened part;
    size_t at = 0;
    if (!tsi_open_part(bucket, messages, sender, &part))
        return;
    uint64_t from = tsi_now();
    for (uint32_t i = 0; i < part.pieces.count && status == TERSE_OK; i++) {
        size_t used = 0;
        status = add_list(bucket, &sparse->slice[part.pieces.first + i], part.payload + at,
                          part.len - at, &used, &fault);
        at += used;
    }
    if (status == TERSE_OK && at != part.len)
        status = tsi_fail(&fault, TERSE_BAD_FRAME, at, "list: bytes after the last");
    tsi_clock(bucket->in, TERSE_STAGE_COMBINE, &from);
    (void)tsi_bucket_fail(bucket, status, (int32_t)sender, &fault);
}

/* ---- the phases ---- */

/* Weighs this worker's choice, in the dense buffer. */
static terse_status weigh(const struct tsi_bucket *bucket, terse_fault *fault)
{
    const struct tsi_collective *const in = bucket->in;
    float *const chosen = in->dense + bucket->first;
    for (size_t i = 0; i < bucket->count; i++)
        chosen[i] *= in->weighting.weight[in->rank];
    return in->kernel->magnitude_max_f32(chosen, (size_t)bucket->count) < TSK_INFINITY_BITS
               ? TERSE_OK
               : tsi_fail(fault, TERSE_OUT_OF_RANGE, 0, "a weighted value is not finite");
}

/* What this worker has chosen, to the owners. */
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
        fault = bucket->codec->fault;
        tsi_bucket_note_sections(bucket, all);
        if (status == TERSE_OK)
            status = tsi_codec_decode(bucket->codec, 0, &in->key, all, sparse->own,
                                      bucket->payload_len, 0, in->dense, &fault);
        if (status == TERSE_OK && in->weighting.weight)
            status = weigh(bucket, &fault);
        (void)tsi_bucket_fail(bucket, status, (int32_t)in->rank, &fault);
    }
    bucket->payload = sparse->own;
    tsi_clock(in, TERSE_STAGE_ENCODE, &from);
    for (uint32_t r = 0; r < in->workers; r++)
        seal_lists(bucket, &bucket->there, r);
    return tsi_messages_post(bucket, &bucket->there);
}

/* As an owner: the union of what all chose, to all. What was finite on every worker may overflow
 * when added: nobody's fault, and a skip. */
static terse_status reduce(struct tsi_bucket *bucket)
{
    const struct tsi_collective *const in = bucket->in;
    const struct sparse *const sparse = bucket->private;
    const struct tsi_piece *const slice = sparse->slice + sparse->owned[in->rank].first;
    const uint32_t slices = sparse->owned[in->rank].count;
    const terse_status status = tsi_messages_wait(bucket);
    uint32_t most = 0;
    terse_fault fault;
    if (status != TERSE_OK)
        return status;
    for (uint32_t i = 0; i < slices; i++)
        memset(in->dense + slice[i].offset, 0, slice[i].count * sizeof(float));
    for (uint32_t r = 0; r < in->workers; r++)
        add_lists(bucket, &bucket->there, r);
    for (uint32_t i = 0; i < slices; i++) {
        const uint32_t here =
            in->kernel->magnitude_max_f32(in->dense + slice[i].offset, slice[i].count);
        most = here > most ? here : most;
    }
    bucket->aggregate.largest = most;
    if (most >= TSK_INFINITY_BITS)
        (void)tsi_bucket_fail(
            bucket, tsi_fail(&fault, TERSE_OUT_OF_RANGE, 0, "the sum is not finite"), -1, &fault);
    seal_lists(bucket, &bucket->back, in->rank);
    return tsi_messages_post(bucket, &bucket->back);
}

static terse_status receive(struct tsi_bucket *bucket)
{
    const struct tsi_collective *const in = bucket->in;
    float *const sum = in->dense + bucket->first;
    const terse_status status = tsi_messages_wait(bucket);
    if (status != TERSE_OK)
        return status;
    memset(sum, 0, (size_t)bucket->count * sizeof *sum);
    for (uint32_t r = 0; r < in->workers; r++)
        add_lists(bucket, &bucket->back, r);
    tsi_aggregate_add(&bucket->aggregate, (struct tsi_span){TSI_SPAN_DENSE, bucket->first,
                                                            (size_t)bucket->count, .value = sum});
    return TERSE_OK;
}

const struct tsi_combine_ops tsi_combine_sparse_allreduce = {
    .name = "sparse-allreduce",
    .summary = "what anybody chose, exactly: a payload up, every slice's union down",
    .cut = TSI_CUT_WHOLE,
    .mean = 1,
    .refuses = refuses,
    .create = create,
    .destroy = destroy,
    .phase = {send, tsi_confirm_lengths, tsi_send_parts, reduce, tsi_confirm_lengths,
              tsi_send_parts, receive},
};
