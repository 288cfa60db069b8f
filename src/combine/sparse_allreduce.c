/* union: the exact form of shard, for codecs that select. Every rank is the server of a slice of
 * every tensor; what anybody chose there comes back, summed in rank order, with nothing left out:
 * the same bits as gather. A worker says its choice once and hears every slice's union once, which
 * is less than gather as soon as workers choose alike.
 *
 * How many elements fall into a slice is known to their sender alone: lengths travel before lists.
 */
#include <stdlib.h>
#include <string.h>

#include "base/fault.h"
#include "combine/combine.h"
#include "combine/list.h"
#include "kernels/bind.h"

/* Messages to or from every rank, and their lengths, which are swapped first. */
struct leg {
    void **send_at;
    void **recv_at;
    size_t *send_len;
    size_t *recv_len;
    void **send_len_at; /* where the single lengths lie, */
    void **recv_len_at;
    size_t *len_len; /* and how long a length is */
};

struct tsi_union {
    struct tsi_piece *slice;  /* in the order of their owners */
    struct tsi_pieces *owned; /* by rank */
    struct tsi_list list;
    uint8_t *own; /* this worker's payload */
    size_t own_len;
    int said; /* in this step */
    uint8_t *messages;
    struct leg there;
    struct leg back;
};

static const char *refuses(const terse_codec_about *codec)
{
    const int selects = codec->traits & TERSE_CODEC_SELECTING && codec->passes == 1;
    return selects ? NULL : "only what is selected has a union";
}

/* ---- room ---- */

/* No message about the pieces of `owner` is longer. */
static size_t message_bound(const struct tsi_union *unions, uint32_t owner)
{
    const struct tsi_pieces pieces = unions->owned[owner];
    size_t bound = TSI_PART_EXTRA;
    for (uint32_t i = pieces.first; i < pieces.first + pieces.count; i++)
        bound += tsi_list_len(unions->slice[i].count, unions->slice[i].count);
    return bound;
}

static terse_status create_leg(struct leg *leg, uint32_t workers)
{
    leg->send_at = calloc(workers, sizeof *leg->send_at);
    leg->recv_at = calloc(workers, sizeof *leg->recv_at);
    leg->send_len = calloc(workers, sizeof *leg->send_len);
    leg->recv_len = calloc(workers, sizeof *leg->recv_len);
    leg->send_len_at = calloc(workers, sizeof *leg->send_len_at);
    leg->recv_len_at = calloc(workers, sizeof *leg->recv_len_at);
    leg->len_len = calloc(workers, sizeof *leg->len_len);
    if (!leg->send_at || !leg->recv_at || !leg->send_len || !leg->recv_len || !leg->send_len_at ||
        !leg->recv_len_at || !leg->len_len)
        return TERSE_NO_MEMORY;
    for (uint32_t r = 0; r < workers; r++) {
        leg->send_len_at[r] = &leg->send_len[r];
        leg->recv_len_at[r] = &leg->recv_len[r];
        leg->len_len[r] = sizeof leg->send_len[r];
    }
    return TERSE_OK;
}

static void destroy_leg(struct leg *leg)
{
    free(leg->send_at);
    free(leg->recv_at);
    free(leg->send_len);
    free(leg->recv_len);
    free(leg->send_len_at);
    free(leg->recv_len_at);
    free(leg->len_len);
}

/* One allocation for all messages: what is said to every rank and heard from it, and the answers.
 */
static terse_status lay_out_messages(struct tsi_union *unions, uint32_t rank, uint32_t workers)
{
    const size_t mine = message_bound(unions, rank);
    size_t len = mine;
    for (uint32_t r = 0; r < workers; r++)
        len += mine + 2 * message_bound(unions, r);
    unions->messages = malloc(len);
    if (!unions->messages)
        return TERSE_NO_MEMORY;
    uint8_t *at = unions->messages + mine; /* this rank's own answer comes first */
    for (uint32_t r = 0; r < workers; r++) {
        unions->there.send_at[r] = at;
        at += message_bound(unions, r);
        unions->back.recv_at[r] = at;
        at += message_bound(unions, r);
        unions->there.recv_at[r] = at;
        at += mine;
        unions->back.send_at[r] = unions->messages;
    }
    return TERSE_OK;
}

static terse_status create(struct tsi_bucket *bucket)
{
    const uint32_t workers = bucket->room->workers;
    struct tsi_union *const unions = calloc(1, sizeof *unions);
    bucket->unions = unions;
    if (!unions)
        return TERSE_NO_MEMORY;
    unions->slice = calloc((size_t)bucket->tensor_count * workers + 1, sizeof *unions->slice);
    unions->owned = calloc(workers, sizeof *unions->owned);
    unions->own = malloc(terse_codec_payload_bound(bucket->codec, 0) + 1);
    if (!unions->slice || !unions->owned || !unions->own)
        return TERSE_NO_MEMORY;
    const uint32_t slices = tsi_cut(bucket->room->layout, TSI_CUT_SLICES, bucket->first_tensor,
                                    bucket->tensor_count, workers, unions->slice, unions->owned);
    size_t longest = 0;
    for (uint32_t i = 0; i < slices; i++)
        longest = unions->slice[i].count > longest ? unions->slice[i].count : longest;
    unions->list.index = malloc((longest + TSK_COLLECT_ROOM) * sizeof *unions->list.index);
    unions->list.value = malloc((longest + TSK_COLLECT_ROOM) * sizeof *unions->list.value);
    if (!unions->list.index || !unions->list.value ||
        create_leg(&unions->there, workers) != TERSE_OK ||
        create_leg(&unions->back, workers) != TERSE_OK)
        return TERSE_NO_MEMORY;
    return lay_out_messages(unions, bucket->room->rank, workers);
}

static void destroy(struct tsi_bucket *bucket)
{
    struct tsi_union *const unions = bucket->unions;
    if (!unions)
        return;
    free(unions->slice);
    free(unions->owned);
    free(unions->list.index);
    free(unions->list.value);
    free(unions->own);
    free(unions->messages);
    destroy_leg(&unions->there);
    destroy_leg(&unions->back);
    free(unions);
}

/* ---- messages ---- */

static struct tsi_part part_of(const struct tsi_bucket *bucket, uint32_t owner, terse_rng_key draw)
{
    const struct tsi_pieces pieces = bucket->unions->owned[owner];
    struct tsi_part part = {.key = draw, .first = bucket->first};
    for (uint32_t i = pieces.first; i < pieces.first + pieces.count; i++)
        part.count += bucket->unions->slice[i].count;
    return part;
}

/* What the sum holds of an owner's slices, as a frame; nothing if this bucket has failed. Returns
 * its length. */
static size_t write_message(struct tsi_bucket *bucket, const struct tsk_table *kernel,
                            uint32_t owner, terse_rng_key draw, uint8_t *frame)
{
    const struct tsi_union *const unions = bucket->unions;
    const struct tsi_pieces pieces = unions->owned[owner];
    const struct tsi_part part = part_of(bucket, owner, draw);
    size_t len = 0;
    uint64_t from = tsi_now();
    if (bucket->status != TERSE_OK) {
        tsi_part_void(frame);
        return TSI_PART_EXTRA;
    }
    for (uint32_t i = pieces.first; i < pieces.first + pieces.count; i++)
        len += tsi_list_write(&unions->list, kernel, &unions->slice[i], bucket->room->sum,
                              frame + TERSE_FRAME_HEADER_LEN + len);
    tsi_clock(bucket->room, TERSE_STAGE_ENCODE, &from);
    tsi_part_seal(bucket->codec, &part, len, frame);
    tsi_clock(bucket->room, TERSE_STAGE_WIRE, &from);
    return TSI_PART_EXTRA + len;
}

/* Adds what `rank` says about an owner's slices to the sum, which starts at zero. */
static terse_status read_message(struct tsi_bucket *bucket, const struct tsk_table *kernel,
                                 uint32_t owner, terse_rng_key draw, uint32_t rank,
                                 const uint8_t *frame, size_t cap)
{
    const struct tsi_union *const unions = bucket->unions;
    const struct tsi_pieces pieces = unions->owned[owner];
    const struct tsi_part part = part_of(bucket, owner, draw);
    const uint8_t *payload = NULL;
    size_t len = 0;
    size_t at = 0;
    uint64_t from = tsi_now();
    terse_status status =
        tsi_part_open(bucket->codec, &part, frame, cap, &payload, &len, &bucket->fault);
    tsi_clock(bucket->room, TERSE_STAGE_WIRE, &from);
    for (uint32_t i = pieces.first; i < pieces.first + pieces.count && status == TERSE_OK; i++) {
        size_t used = 0;
        status = tsi_list_add(&unions->list, kernel, &unions->slice[i], payload + at, len - at,
                              &used, bucket->room->sum, &bucket->fault);
        at += used;
    }
    if (status == TERSE_OK && at != len)
        status = tsi_fail(&bucket->fault, TERSE_BAD_FRAME, at, "list: bytes after the last");
    tsi_clock(bucket->room, TERSE_STAGE_COMBINE, &from);
    return tsi_bucket_fail(bucket, status, tsi_part_is_void(frame) ? -1 : (int32_t)rank);
}

static void zero_slices(const struct tsi_bucket *bucket, uint32_t owner)
{
    const struct tsi_union *const unions = bucket->unions;
    const struct tsi_pieces pieces = unions->owned[owner];
    for (uint32_t i = pieces.first; i < pieces.first + pieces.count; i++)
        memset(bucket->room->sum + unions->slice[i].offset, 0,
               unions->slice[i].count * sizeof(float));
}

/* What was finite on every worker may overflow when added: nobody's fault, and a skip. */
static terse_status check_slices(struct tsi_bucket *bucket, const struct tsk_table *kernel)
{
    const struct tsi_union *const unions = bucket->unions;
    const struct tsi_pieces mine = unions->owned[bucket->room->rank];
    for (uint32_t i = mine.first; i < mine.first + mine.count; i++)
        if (kernel->magnitude_max_f32(bucket->room->sum + unions->slice[i].offset,
                                      unions->slice[i].count) >= TSK_INFINITY_BITS)
            return tsi_bucket_fail(bucket, TERSE_OUT_OF_RANGE, -1);
    return TERSE_OK;
}

static terse_status post_lens(struct tsi_bucket *bucket, struct leg *leg)
{
    struct tsi_mail mail = {.send_at = leg->send_len_at,
                            .recv_at = leg->recv_len_at,
                            .send_cap = leg->len_len,
                            .recv_cap = leg->len_len};
    return tsi_mail_post(bucket, &mail);
}

/* Waits for the lengths and posts the messages. A length beyond `bound` breaks the group: whoever
 * named it will send what nobody has room for. */
static terse_status post_messages(struct tsi_bucket *bucket, struct leg *leg, int to_owners)
{
    const struct tsi_room *const room = bucket->room;
    const terse_status status = tsi_mail_wait(bucket);
    if (status != TERSE_OK)
        return status;
    for (uint32_t r = 0; r < room->workers; r++) {
        if (leg->recv_len[r] <= message_bound(bucket->unions, to_owners ? room->rank : r))
            continue;
        (void)tsi_fail(&bucket->fault, TERSE_PEER_LOST, 0, "list: %zu bytes are announced",
                       leg->recv_len[r]);
        return tsi_bucket_fail(bucket, TERSE_PEER_LOST, (int32_t)r);
    }
    struct tsi_mail mail = {.send_at = leg->send_at,
                            .recv_at = leg->recv_at,
                            .send_cap = leg->send_len,
                            .recv_cap = leg->recv_len};
    return tsi_mail_post(bucket, &mail);
}

/* ---- the moves ---- */

static terse_status say(struct tsi_bucket *bucket)
{
    struct tsi_room *const room = bucket->room;
    struct tsi_union *const unions = bucket->unions;
    const struct tsi_pieces all = bucket->owned[room->rank];
    const struct tsk_table *kernel = NULL;
    uint64_t from = tsi_now();
    terse_status status = tsk_bound(&kernel, &bucket->fault);
    if (status == TERSE_OK)
        status = tsi_codec_encode(bucket->codec, 0, &room->draw, all,
                                  room->memory ? room->memory : room->gradient, room->memory,
                                  unions->own, SIZE_MAX, &unions->own_len);
    bucket->payload = unions->own;
    bucket->said_len = unions->own_len;
    unions->said = status == TERSE_OK;
    tsi_zero_pieces(bucket, all, room->sum);
    if (status == TERSE_OK)
        status = tsi_codec_decode_add(bucket->codec, 0, &room->draw, all, unions->own,
                                      unions->own_len, room->sum, &bucket->fault);
    (void)tsi_bucket_fail(bucket, status, (int32_t)room->rank);
    tsi_clock(room, TERSE_STAGE_ENCODE, &from);
    for (uint32_t r = 0; r < room->workers; r++)
        unions->there.send_len[r] =
            write_message(bucket, kernel, r, room->draw, unions->there.send_at[r]);
    return post_lens(bucket, &unions->there);
}

static terse_status send_there(struct tsi_bucket *bucket)
{
    return post_messages(bucket, &bucket->unions->there, 1);
}

static terse_status answer(struct tsi_bucket *bucket)
{
    struct tsi_room *const room = bucket->room;
    struct tsi_union *const unions = bucket->unions;
    const struct tsk_table *kernel = NULL;
    terse_status status = tsi_mail_wait(bucket);
    if (status == TERSE_OK)
        status = tsk_bound(&kernel, &bucket->fault);
    if (status != TERSE_OK)
        return tsi_bucket_fail(bucket, status, bucket->fault.rank);
    zero_slices(bucket, room->rank);
    for (uint32_t r = 0; r < room->workers && status == TERSE_OK; r++) {
        terse_rng_key draw = room->draw;
        draw.worker = r;
        status = read_message(bucket, kernel, room->rank, draw, r, unions->there.recv_at[r],
                              unions->there.recv_len[r]);
    }
    if (status == TERSE_OK)
        (void)!check_slices(bucket, kernel);
    const size_t len = write_message(bucket, kernel, room->rank, tsi_owner_draw(bucket, room->rank),
                                     unions->messages);
    for (uint32_t r = 0; r < room->workers; r++)
        unions->back.send_len[r] = len;
    return post_lens(bucket, &unions->back);
}

static terse_status send_back(struct tsi_bucket *bucket)
{
    return post_messages(bucket, &bucket->unions->back, 0);
}

static terse_status hear(struct tsi_bucket *bucket)
{
    struct tsi_union *const unions = bucket->unions;
    const struct tsk_table *kernel = NULL;
    terse_status status = tsi_mail_wait(bucket);
    if (status == TERSE_OK)
        status = tsk_bound(&kernel, &bucket->fault);
    if (status != TERSE_OK)
        return tsi_bucket_fail(bucket, status, bucket->fault.rank);
    for (uint32_t r = 0; r < bucket->room->workers && status == TERSE_OK; r++) {
        zero_slices(bucket, r);
        status = read_message(bucket, kernel, r, tsi_owner_draw(bucket, r), r,
                              unions->back.recv_at[r], unions->back.recv_len[r]);
    }
    return status;
}

static void undo(struct tsi_bucket *bucket)
{
    struct tsi_room *const room = bucket->room;
    if (room->memory && bucket->unions->said)
        (void)!tsi_codec_decode_add(bucket->codec, 0, &room->draw, bucket->owned[room->rank],
                                    bucket->unions->own, bucket->unions->own_len, room->memory,
                                    NULL);
}

const struct tsi_combine_ops tsi_combine_sparse_allreduce = {
    .name = "sparse-allreduce",
    .summary = "what anybody chose, exactly: a payload up, every slice's union down",
    .cut = TSI_CUT_WHOLE,
    .mean = 1,
    .refuses = refuses,
    .create = create,
    .destroy = destroy,
    .move = {say, send_there, answer, send_back, hear},
    .undo = undo,
};
