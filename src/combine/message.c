/* Messages of a combine: parts that travel to and from every rank, and the lengths that travel
 * before them where they vary. */
#include <stdlib.h>
#include <string.h>

#include "base/fault.h"
#include "combine/combine.h"

/* A number that travels with a check of its own. */
struct record {
    uint64_t value;
    uint64_t check;
};

enum record_kind { RECORD_LENGTH = 1, RECORD_CONFIRM = 2 };

/* Records to and from every rank. */
struct lengths {
    struct record *out;
    struct record *in;
    void **out_at;
    void **in_at;
    size_t *len; /* of a record, by rank */
};

/* ---- creation ---- */

static int create_lengths(struct tsi_messages *messages, uint32_t workers)
{
    struct lengths *const lengths = calloc(1, sizeof *lengths);
    messages->lengths = lengths;
    if (!lengths)
        return 0;
    lengths->out = calloc(workers, sizeof *lengths->out);
    lengths->in = calloc(workers, sizeof *lengths->in);
    lengths->out_at = calloc(workers, sizeof *lengths->out_at);
    lengths->in_at = calloc(workers, sizeof *lengths->in_at);
    lengths->len = calloc(workers, sizeof *lengths->len);
    if (!lengths->out || !lengths->in || !lengths->out_at || !lengths->in_at || !lengths->len)
        return 0;
    for (uint32_t r = 0; r < workers; r++) {
        lengths->out_at[r] = &lengths->out[r];
        lengths->in_at[r] = &lengths->in[r];
        lengths->len[r] = sizeof(struct record);
    }
    return 1;
}

terse_status tsi_messages_create(struct tsi_messages *messages, uint32_t rank, uint32_t workers,
                                 const size_t *send_cap, const size_t *recv_cap)
{
    size_t bytes = messages->to_all ? send_cap[0] : 0;
    messages->send_at = calloc(workers, sizeof *messages->send_at);
    messages->recv_at = calloc(workers, sizeof *messages->recv_at);
    messages->cap = calloc(2 * (size_t)workers, sizeof *messages->cap);
    messages->len = calloc(2 * (size_t)workers, sizeof *messages->len);
    if (!messages->send_at || !messages->recv_at || !messages->cap || !messages->len ||
        (messages->varies && !create_lengths(messages, workers)))
        return TERSE_NO_MEMORY;
    for (uint32_t r = 0; r < workers; r++) {
        messages->cap[r] = send_cap[r];
        messages->cap[workers + r] = recv_cap[r];
        bytes += recv_cap[r] + (messages->to_all ? 0 : send_cap[r]);
    }
    messages->memory = calloc(bytes + 1, 1);
    if (!messages->memory)
        return TERSE_NO_MEMORY;
    uint8_t *at = messages->memory + (messages->to_all ? send_cap[0] : 0);
    for (uint32_t r = 0; r < workers; r++) {
        messages->send_at[r] = messages->to_all ? messages->memory : at;
        at += messages->to_all ? 0 : send_cap[r];
        messages->recv_at[r] = at;
        at += recv_cap[r];
    }
    /* What a rank sends to itself lies where it is received. */
    if (messages->to_all)
        messages->recv_at[rank] = messages->memory;
    else
        messages->send_at[rank] = messages->recv_at[rank];
    return TERSE_OK;
}

void tsi_messages_destroy(struct tsi_messages *messages)
{
    struct lengths *const lengths = messages->lengths;
    if (lengths) {
        free(lengths->out);
        free(lengths->in);
        free(lengths->out_at);
        free(lengths->in_at);
        free(lengths->len);
    }
    free(lengths);
    free(messages->memory);
    free(messages->send_at);
    free(messages->recv_at);
    free(messages->cap);
    free(messages->len);
}

/* ---- posting and waiting ---- */

static terse_status post(struct tsi_bucket *bucket, void *const *send_at, const size_t *send_len,
                         void **recv_at, const size_t *recv_len)
{
    const terse_alltoallv all = {(const void *const *)send_at, send_len, recv_at, recv_len};
    terse_fault fault = {.rank = -1};
    uint64_t from = tsi_now();
    const terse_status status =
        terse_group_post_alltoallv(bucket->in->group, &all, &bucket->request, &fault);
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

static struct tsi_route route_of(const struct tsi_bucket *bucket,
                                 const struct tsi_messages *messages, uint32_t sender,
                                 uint32_t receiver)
{
    return (struct tsi_route){.run = bucket->in->run,
                              .step = bucket->in->key.step,
                              .bucket = bucket->first_tensor,
                              .pass = bucket->pass,
                              .phase = messages->phase,
                              .sender = sender,
                              .receiver = messages->to_all ? TSI_TO_ALL : receiver,
                              .unchecked = (uint32_t)bucket->in->unchecked};
}

static uint64_t record_check(const struct tsi_bucket *bucket, const struct tsi_messages *messages,
                             enum record_kind kind, uint32_t sender, uint32_t receiver,
                             uint64_t value)
{
    struct tsi_route route = route_of(bucket, messages, sender, receiver);
    route.phase |= (uint32_t)kind << 16;
    return tsi_route_check(&route, &value, sizeof value);
}

static terse_status post_records(struct tsi_bucket *bucket, const struct tsi_messages *messages,
                                 enum record_kind kind)
{
    struct lengths *const lengths = messages->lengths;
    for (uint32_t r = 0; r < bucket->in->workers; r++)
        lengths->out[r].check =
            record_check(bucket, messages, kind, bucket->in->rank, r, lengths->out[r].value);
    return post(bucket, lengths->out_at, lengths->len, lengths->in_at, lengths->len);
}

/* A record of rank r that is sound and at most `most`; else the bucket has failed by it. */
static int read_record(struct tsi_bucket *bucket, const struct tsi_messages *messages,
                       enum record_kind kind, uint32_t r, uint64_t most, uint64_t *value)
{
    const struct record record = ((const struct lengths *)messages->lengths)->in[r];
    terse_fault fault;
    *value = record.value;
    if (record.value <= most &&
        record.check == record_check(bucket, messages, kind, r, bucket->in->rank, record.value))
        return 1;
    (void)tsi_bucket_fail(bucket,
                          tsi_fail(&fault, TERSE_BAD_CHECKSUM, 0,
                                   "rank %u: the length of its message arrived damaged", r),
                          (int32_t)r, &fault);
    return 0;
}

terse_status tsi_messages_post(struct tsi_bucket *bucket, struct tsi_messages *messages)
{
    const uint32_t workers = bucket->in->workers;
    struct lengths *const lengths = messages->lengths;
    if (!messages->varies)
        return post(bucket, messages->send_at, messages->cap, messages->recv_at,
                    messages->cap + workers);
    for (uint32_t r = 0; r < workers; r++) {
        messages->len[r] = messages->cap[r] > 0 ? tsi_part_len(messages->send_at[r]) : 0;
        lengths->out[r].value = messages->len[r];
    }
    return post_records(bucket, messages, RECORD_LENGTH);
}

terse_status tsi_messages_confirm(struct tsi_bucket *bucket, struct tsi_messages *messages)
{
    const uint32_t workers = bucket->in->workers;
    struct lengths *const lengths = messages->lengths;
    uint64_t damaged = 0;
    if (!messages->varies)
        return TERSE_OK;
    const terse_status status = tsi_messages_wait(bucket);
    if (status != TERSE_OK)
        return status;
    for (uint32_t r = 0; r < workers; r++) {
        uint64_t len = 0;
        damaged |=
            !read_record(bucket, messages, RECORD_LENGTH, r, messages->cap[workers + r], &len);
        messages->len[workers + r] = (size_t)len;
    }
    for (uint32_t r = 0; r < workers; r++)
        lengths->out[r].value = damaged;
    return post_records(bucket, messages, RECORD_CONFIRM);
}

/* A rank that cannot know how much to receive stops this bucket on all ranks: its phases end here,
 * and the closing records tell whom to blame. */
terse_status tsi_messages_send(struct tsi_bucket *bucket, struct tsi_messages *messages)
{
    const uint32_t workers = bucket->in->workers;
    int stop = 0;
    if (!messages->varies)
        return TERSE_OK;
    const terse_status status = tsi_messages_wait(bucket);
    if (status != TERSE_OK)
        return status;
    for (uint32_t r = 0; r < workers; r++) {
        uint64_t damaged = 0;
        if (read_record(bucket, messages, RECORD_CONFIRM, r, 1, &damaged))
            stop |= damaged != 0;
    }
    if (!stop)
        return post(bucket, messages->send_at, messages->len, messages->recv_at,
                    messages->len + workers);
    terse_fault fault;
    bucket->phase = TSI_MAX_PHASES;
    return tsi_bucket_fail(bucket, tsi_fail(&fault, TERSE_MISMATCH, 0, "a length arrived damaged"),
                           -1, &fault);
}

/* ---- parts ---- */

terse_rng_key tsi_worker_key(const struct tsi_bucket *bucket, uint32_t rank)
{
    terse_rng_key key = bucket->in->key;
    key.worker = rank;
    return key;
}

terse_rng_key tsi_owner_key(const struct tsi_bucket *bucket, uint32_t rank)
{
    return tsi_worker_key(bucket, bucket->in->workers + rank);
}

struct tsi_part tsi_part_of(const struct tsi_bucket *bucket, const struct tsi_messages *messages,
                            uint32_t sender, uint32_t receiver, terse_rng_key key,
                            const struct tsi_piece *piece, struct tsi_pieces pieces)
{
    struct tsi_part part = {
        .route = route_of(bucket, messages, sender, receiver), .key = key, .first = bucket->first};
    for (uint32_t i = pieces.first; i < pieces.first + pieces.count; i++)
        part.count += piece[i].count;
    return part;
}

void tsi_encode_part(struct tsi_bucket *bucket, terse_codec *codec, const struct tsi_part *part,
                     struct tsi_pieces pieces, const float *in, float *take, uint8_t *frame)
{
    uint64_t from = tsi_now();
    size_t len = 0;
    terse_status status = bucket->status;
    if (pieces.count == 0)
        return;
    if (status == TERSE_OK) {
        terse_fault fault = {.rank = -1};
        status = tsi_codec_encode(codec, part->route.pass, &part->key, pieces, in, take,
                                  frame + TSI_PART_PAYLOAD_AT, SIZE_MAX, &len);
        (void)tsi_bucket_fail(bucket, status, (int32_t)bucket->in->rank, &fault);
        tsi_clock(bucket->in, TERSE_STAGE_ENCODE, &from);
    }
    if (status == TERSE_OK)
        tsi_part_seal(codec, part, len, frame);
    else
        tsi_part_void(part, frame);
    tsi_clock(bucket->in, TERSE_STAGE_WIRE, &from);
}

int tsi_open_part(struct tsi_bucket *bucket, const terse_codec *codec, const struct tsi_part *part,
                  const struct tsi_messages *messages, const uint8_t **payload, size_t *len)
{
    const uint32_t sender = part->route.sender;
    /* This rank's own part lies there, and may have been encoded after the lengths were sent. */
    const int varies = messages->varies && sender != bucket->in->rank;
    const size_t *const arrived = (varies ? messages->len : messages->cap) + bucket->in->workers;
    terse_fault fault = {.rank = -1};
    int is_void = 0;
    uint64_t from = tsi_now();
    const terse_status status = tsi_part_open(codec, part, messages->recv_at[sender],
                                              arrived[sender], payload, len, &is_void, &fault);
    tsi_clock(bucket->in, TERSE_STAGE_WIRE, &from);
    /* Who sent none knows why, and its own closing record tells. */
    (void)tsi_bucket_fail(bucket, status, is_void ? -1 : (int32_t)sender, &fault);
    return status == TERSE_OK;
}
