/* Messages of a combine: parts that travel to and from every rank, and the lengths that travel
 * before them where they vary. */
#include <stdlib.h>
#include <string.h>

#include "base/bytes.h"
#include "base/fault.h"
#include "combine/combine.h"
#include "group/group.h"
#include "wire/fields.h"

/* A number that travels with a check of its own. */
struct tsi_record {
    uint64_t value;
    uint64_t check;
};

enum posting { PARTS, LENGTHS, CONFIRMATIONS };

/* ---- creation ---- */

terse_status tsi_messages_create(const struct tsi_bucket *bucket, struct tsi_messages *messages)
{
    const uint32_t workers = bucket->in->workers;
    const uint32_t rank = bucket->in->rank;
    const int to_all = messages->to_all;
    size_t bytes = 0;
    const int has_cap = messages->cap != NULL;
    if (!has_cap)
        messages->cap = calloc(workers, sizeof *messages->cap);
    messages->len = calloc(2 * (size_t)workers, sizeof *messages->len);
    messages->send_at = calloc(workers, sizeof *messages->send_at);
    messages->recv_at = calloc(workers, sizeof *messages->recv_at);
    messages->record = calloc(2 * (size_t)workers, sizeof *messages->record);
    if (!messages->cap || !messages->len || !messages->send_at || !messages->recv_at ||
        !messages->record)
        return TERSE_NO_MEMORY;
    for (uint32_t r = 0; r < workers && !has_cap; r++)
        if (messages->owned[r].count > 0)
            messages->cap[r] =
                TSI_PART_EXTRA + tsi_codec_bound(messages->codec, 0, messages->owned[r]);
    const size_t *const cap = messages->cap;
    for (uint32_t r = 0; r < workers; r++)
        bytes += to_all ? cap[r] : cap[rank] + cap[r];
    messages->memory = calloc(bytes + 1, 1);
    if (!messages->memory)
        return TERSE_NO_MEMORY;
    uint8_t *at = messages->memory;
    for (uint32_t r = 0; r < workers; r++) {
        messages->recv_at[r] = at;
        at += to_all ? cap[r] : cap[rank];
    }
    for (uint32_t r = 0; r < workers; r++) {
        messages->send_at[r] = to_all || r == rank ? messages->recv_at[rank] : at;
        at += to_all || r == rank ? 0 : cap[r];
        messages->len[r] = r == rank ? 0 : cap[to_all ? rank : r];
        messages->len[workers + r] = r == rank ? 0 : cap[to_all ? r : rank];
    }
    bytes = 0;
    for (uint32_t r = 0; r < workers; r++)
        bytes += r == rank ? 0 : cap[to_all ? r : rank];
    tsi_group_reserve(bucket->in->group, bytes);
    tsi_part_header(messages->codec, bucket->first, messages->header);
    return TERSE_OK;
}

void tsi_messages_destroy(struct tsi_messages *messages)
{
    free(messages->cap);
    free(messages->len);
    free(messages->send_at);
    free(messages->recv_at);
    free(messages->record);
    free(messages->memory);
}

/* ---- parts ---- */

/* What the part is that `sender` sends to `receiver`. */
static struct tsi_part part_of(const struct tsi_bucket *bucket, const struct tsi_messages *messages,
                               uint32_t sender, uint32_t receiver)
{
    const struct tsi_collective *const in = bucket->in;
    const struct tsi_pieces pieces = messages->owned[messages->to_all ? sender : receiver];
    struct tsi_part part = {.route = {.run = in->run,
                                      .step = in->key.step,
                                      .bucket = bucket->first_tensor,
                                      .pass = bucket->pass,
                                      .phase = (uint32_t)messages->from_owners,
                                      .sender = sender,
                                      .receiver = messages->to_all ? TSI_TO_ALL : receiver,
                                      .unchecked = (uint32_t)in->unchecked},
                            .key = in->key};
    uint64_t count = 0;
    for (uint32_t i = pieces.first; i < pieces.first + pieces.count; i++)
        count += messages->piece[i].count;
    part.key.worker = messages->from_owners ? in->workers + sender : sender;
    memcpy(part.header, messages->header, sizeof part.header);
    part.header[TSI_AT_PASS] = (uint8_t)bucket->pass;
    tsi_store_u64(part.header + TSI_AT_STEP, part.key.step);
    tsi_store_u64(part.header + TSI_AT_SEED, part.key.seed);
    tsi_store_u32(part.header + TSI_AT_WORKER, part.key.worker);
    tsi_store_u64(part.header + TSI_AT_COUNT, count);
    return part;
}

size_t tsi_seal_part(struct tsi_bucket *bucket, struct tsi_messages *messages, uint32_t receiver,
                     size_t len)
{
    const uint32_t rank = bucket->in->rank;
    const struct tsi_part part = part_of(bucket, messages, rank, receiver);
    uint64_t from = tsi_now();
    if (bucket->status != TERSE_OK)
        len = 0;
    if (bucket->status == TERSE_OK)
        tsi_part_seal(&part, len, messages->send_at[receiver]);
    else
        tsi_part_void(&part, messages->send_at[receiver]);
    for (uint32_t r = 0; r < bucket->in->workers && messages->varies; r++)
        if (r != rank && (r == receiver || messages->to_all))
            messages->len[r] = TSI_PART_EXTRA + len;
    tsi_clock(bucket->in, TERSE_STAGE_WIRE, &from);
    return len;
}

size_t tsi_encode_part(struct tsi_bucket *bucket, struct tsi_messages *messages, uint32_t receiver,
                       const float *in, float *take)
{
    const uint32_t rank = bucket->in->rank;
    const struct tsi_pieces pieces = messages->owned[messages->to_all ? rank : receiver];
    uint8_t *const frame = messages->send_at[receiver];
    const terse_rng_key key = part_of(bucket, messages, rank, receiver).key;
    uint64_t from = tsi_now();
    size_t len = 0;
    if (pieces.count == 0)
        return 0;
    if (bucket->status == TERSE_OK)
        (void)tsi_bucket_fail(bucket,
                              tsi_codec_encode(messages->codec, bucket->pass, &key, pieces, in,
                                               take, frame + TSI_PART_PAYLOAD_AT, SIZE_MAX, &len),
                              (int32_t)rank, &messages->codec->fault);
    if (!messages->from_owners)
        tsi_bucket_note_sections(bucket, pieces);
    tsi_clock(bucket->in, TERSE_STAGE_ENCODE, &from);
    return tsi_seal_part(bucket, messages, receiver, len);
}

int tsi_open_part(struct tsi_bucket *bucket, const struct tsi_messages *messages, uint32_t sender,
                  struct tsi_opened *out)
{
    const uint32_t rank = bucket->in->rank;
    const uint32_t owner = messages->to_all ? sender : rank;
    const struct tsi_part part = part_of(bucket, messages, sender, rank);
    /* This rank's own part lies there, and may have been encoded after the lengths were sent. */
    const size_t arrived =
        sender == rank ? messages->cap[owner] : messages->len[bucket->in->workers + sender];
    terse_fault fault = {.rank = -1};
    int is_void = 0;
    if (bucket->status != TERSE_OK || messages->cap[owner] == 0)
        return 0;
    *out = (struct tsi_opened){.key = part.key, .pieces = messages->owned[owner]};
    uint64_t from = tsi_now();
    const terse_status status = tsi_part_open(&part, messages->recv_at[sender], arrived,
                                              &out->payload, &out->len, &is_void, &fault);
    tsi_clock(bucket->in, TERSE_STAGE_WIRE, &from);
    if (status == TERSE_OK && messages->to_all) /* the frame's checksum follows its payload */
        bucket->agreed = tsi_fold(bucket->agreed, tsi_load_u64(out->payload + out->len));
    /* Who sent none knows why, and its own closing record tells. */
    (void)tsi_bucket_fail(bucket, status, is_void ? -1 : (int32_t)sender, &fault);
    return status == TERSE_OK;
}

/* ---- posting and waiting ---- */

static uint64_t record_check(const struct tsi_bucket *bucket, enum posting what, uint32_t sender,
                             uint32_t receiver, uint64_t value)
{
    struct tsi_part part = part_of(bucket, bucket->posted, sender, receiver);
    part.route.phase |= (uint32_t)what << 16;
    return tsi_route_check(&part.route, &value, sizeof value);
}

/* Nothing is sent to this rank itself. */
static terse_status post(struct tsi_bucket *bucket, enum posting what)
{
    const uint32_t rank = bucket->in->rank;
    const uint32_t workers = bucket->in->workers;
    const struct tsi_messages *const messages = bucket->posted;
    terse_group *const group = bucket->in->group;
    terse_fault fault = {.rank = -1};
    uint64_t from = tsi_now();
    for (uint32_t r = 0; r < workers; r++) {
        struct tsi_record *const record = &messages->record[r];
        if (what != PARTS)
            record->check = record_check(bucket, what, rank, r, record->value);
        group->send_at[r] = what == PARTS ? messages->send_at[r] : record;
        group->recv_at[r] = what == PARTS ? messages->recv_at[r] : record + workers;
        group->send_len[r] = what == PARTS ? messages->len[r] : sizeof *record * (r != rank);
        group->recv_len[r] =
            what == PARTS ? messages->len[workers + r] : sizeof *record * (r != rank);
    }
    const terse_status status = tsi_group_post(group, &bucket->request, &fault);
    tsi_clock(bucket->in, TERSE_STAGE_GROUP, &from);
    return tsi_bucket_fail(bucket, status, fault.rank, &fault);
}

terse_status tsi_messages_wait(struct tsi_bucket *bucket)
{
    terse_fault fault = {.rank = -1};
    uint64_t from = tsi_now();
    const terse_status status = terse_group_wait(bucket->in->group, bucket->request, &fault);
    tsi_clock(bucket->in, TERSE_STAGE_GROUP, &from);
    return tsi_bucket_fail(bucket, status, fault.rank, &fault);
}

terse_status tsi_messages_post(struct tsi_bucket *bucket, struct tsi_messages *messages)
{
    bucket->posted = messages;
    if (!messages->varies) {
        bucket->phase += 2;
        return post(bucket, PARTS);
    }
    for (uint32_t r = 0; r < bucket->in->workers; r++)
        messages->record[r].value = messages->len[r];
    return post(bucket, LENGTHS);
}

/* The number that rank r sent, if it is sound and at most `most`; else the bucket fails by it. */
static int read_record(struct tsi_bucket *bucket, enum posting what, uint32_t r, uint64_t most,
                       uint64_t *value)
{
    const struct tsi_record record = bucket->posted->record[bucket->in->workers + r];
    terse_fault fault;
    *value = record.value;
    if (record.value <= most &&
        record.check == record_check(bucket, what, r, bucket->in->rank, record.value))
        return 1;
    (void)tsi_bucket_fail(bucket,
                          tsi_fail(&fault, TERSE_BAD_CHECKSUM, 0,
                                   "rank %u: the length of its message arrived damaged", r),
                          (int32_t)r, &fault);
    return 0;
}

terse_status tsi_confirm_lengths(struct tsi_bucket *bucket)
{
    struct tsi_messages *const messages = bucket->posted;
    const uint32_t workers = bucket->in->workers;
    uint64_t damaged = 0;
    const terse_status status = tsi_messages_wait(bucket);
    if (status != TERSE_OK)
        return status;
    for (uint32_t r = 0; r < workers; r++) {
        const size_t most = messages->cap[messages->to_all ? r : bucket->in->rank];
        uint64_t len = 0;
        if (r == bucket->in->rank)
            continue;
        damaged |= !read_record(bucket, LENGTHS, r, most, &len);
        messages->len[workers + r] = (size_t)len;
    }
    for (uint32_t r = 0; r < workers; r++)
        messages->record[r].value = damaged;
    return post(bucket, CONFIRMATIONS);
}

/* A rank that cannot know how much to receive stops this bucket on all ranks: its phases end here,
 * and the closing records tell whom to blame. */
terse_status tsi_send_parts(struct tsi_bucket *bucket)
{
    const uint32_t rank = bucket->in->rank;
    const terse_status status = tsi_messages_wait(bucket);
    if (status != TERSE_OK)
        return status;
    uint64_t stop = bucket->posted->record[rank].value;
    for (uint32_t r = 0; r < bucket->in->workers; r++) {
        uint64_t damaged = 0;
        if (r != rank && read_record(bucket, CONFIRMATIONS, r, 1, &damaged))
            stop |= damaged;
    }
    if (!stop)
        return post(bucket, PARTS);
    terse_fault fault;
    bucket->phase = TSI_MAX_PHASES;
    return tsi_bucket_fail(bucket, tsi_fail(&fault, TERSE_MISMATCH, 0, "a length arrived damaged"),
                           -1, &fault);
}
