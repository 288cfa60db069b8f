/* reduce: payloads are floats that add up, so they are summed on the way, in rank order, and heard
 * once. 2(K-1)/K payloads per worker. The sum is the group's; it travels without frames. */
#include <stdlib.h>
#include <string.h>

#include "base/fault.h"
#include "combine/combine.h"
#include "kernels/bind.h"

static const char *refuses(const terse_codec_about *codec)
{
    return codec->traits & TERSE_CODEC_ADDITIVE ? NULL : "its payloads do not add up";
}

static size_t payload_cap(const struct tsi_bucket *bucket)
{
    size_t cap = 0;
    for (uint32_t round = 0; round < bucket->room->about.passes; round++) {
        const size_t bound = terse_codec_payload_bound(bucket->codec, round);
        cap = bound > cap ? bound : cap;
    }
    return cap;
}

/* there.memory holds this worker's own payload, back.memory the sum. */
static terse_status create(struct tsi_bucket *bucket)
{
    const size_t cap = payload_cap(bucket);
    bucket->there.memory = malloc(cap + 1);
    bucket->back.memory = malloc(cap + 1);
    bucket->sum_scratch =
        malloc((terse_group_allreduce_scratch(bucket->room->group, cap / sizeof(float)) + 1) *
               sizeof(float));
    if (bucket->codec->ops->touch) /* a block may wrap around: two runs of a tensor */
        bucket->run = malloc((2 * (size_t)bucket->tensor_count + 1) * sizeof *bucket->run);
    if (!bucket->there.memory || !bucket->back.memory || !bucket->sum_scratch)
        return TERSE_NO_MEMORY;
    return bucket->codec->ops->touch && !bucket->run ? TERSE_NO_MEMORY : TERSE_OK;
}

/* ---- what the payload speaks of, where a codec knows that before it has seen a gradient ---- */

static void note_run(void *context, uint64_t base, const uint32_t *index, size_t count)
{
    struct tsi_bucket *const bucket = context;
    uint32_t at = bucket->run_count;
    if (index || count == 0)
        return;
    for (; at > 0 && bucket->run[at - 1].first > base; at--) /* but for two of a tensor ascending */
        bucket->run[at] = bucket->run[at - 1];
    bucket->run[at] = (struct tsi_run){base, count};
    bucket->run_count++;
}

static void runs(struct tsi_bucket *bucket, int rest, const struct tsi_runner *runner)
{
    const struct tsi_toucher toucher = {bucket, note_run, NULL};
    uint64_t at = bucket->first;
    const uint64_t end = bucket->first + bucket->count;
    if (!bucket->run) {
        if (!rest)
            runner->run(runner->context, at, bucket->count);
        return;
    }
    if (!rest) {
        bucket->run_count = 0;
        tsi_codec_touch(bucket->codec, &bucket->room->draw, bucket->there.memory, &toucher);
    }
    for (uint32_t i = 0; i < bucket->run_count; i++) {
        const struct tsi_run *const run = &bucket->run[i];
        if (!rest)
            runner->run(runner->context, run->first, run->count);
        else if (run->first > at)
            runner->run(runner->context, at, run->first - at);
        at = run->first + run->count;
    }
    if (rest && end > at)
        runner->run(runner->context, at, end - at);
}

static struct tsi_pieces all_of(const struct tsi_bucket *bucket)
{
    return bucket->owned[bucket->room->rank];
}

/* f32 without memory says the gradient itself: its payload is the sum's own buffer, and nothing is
 * copied twice. */
static int is_itself(const struct tsi_bucket *bucket)
{
    return bucket->codec->ops == &tsi_codec_f32 && !bucket->room->memory;
}

static float *payload_of(const struct tsi_bucket *bucket)
{
    return is_itself(bucket) ? bucket->room->sum + bucket->first
                             : (float *)(void *)bucket->back.memory;
}

static void say(struct tsi_bucket *bucket)
{
    struct tsi_room *const room = bucket->room;
    const float *const in = room->memory ? room->memory : room->gradient;
    if (is_itself(bucket)) {
        bucket->said_len = (size_t)bucket->count * sizeof(float);
        if (bucket->unfit)
            memset(payload_of(bucket), 0, bucket->said_len);
        else
            memcpy(payload_of(bucket), room->gradient + bucket->first, bucket->said_len);
        return;
    }
    const terse_status status =
        tsi_codec_encode(bucket->codec, bucket->round, &room->draw, all_of(bucket), in,
                         room->memory, bucket->there.memory, SIZE_MAX, &bucket->said_len);
    if (status != TERSE_OK) { /* say nothing, so that nobody waits; the agreement tells */
        (void)tsi_bucket_fail(bucket, status, (int32_t)room->rank);
        bucket->said_len = tsi_codec_bound(bucket->codec, bucket->round, all_of(bucket));
        memset(bucket->there.memory, 0, bucket->said_len);
    }
    memcpy(bucket->back.memory, bucket->there.memory, bucket->said_len);
}

static terse_status post(struct tsi_bucket *bucket)
{
    struct tsi_room *const room = bucket->room;
    uint64_t from = tsi_now();
    say(bucket);
    tsi_clock(room, TERSE_STAGE_ENCODE, &from);
    const terse_status status = terse_group_allreduce_post(
        room->group, payload_of(bucket), bucket->said_len / sizeof(float), bucket->sum_scratch,
        &bucket->sum, &bucket->fault);
    tsi_clock(room, TERSE_STAGE_GROUP, &from);
    return tsi_bucket_fail(bucket, status, bucket->fault.rank);
}

static terse_status turn(struct tsi_bucket *bucket)
{
    uint64_t from = tsi_now();
    const terse_status status =
        terse_group_allreduce_advance(bucket->room->group, &bucket->sum, &bucket->fault);
    tsi_clock(bucket->room, TERSE_STAGE_GROUP, &from);
    return tsi_bucket_fail(bucket, status, bucket->fault.rank);
}

/* What was finite on every worker may overflow when added: nobody's fault, and a skip. */
static terse_status check_payload(struct tsi_bucket *bucket)
{
    const struct tsk_table *kernel = NULL;
    terse_status status = tsk_bound(&kernel, &bucket->fault);
    if (status == TERSE_OK &&
        kernel->magnitude_max_f32(payload_of(bucket), bucket->said_len / sizeof(float)) >=
            TSK_INFINITY_BITS)
        status = tsi_fail(&bucket->fault, TERSE_OUT_OF_RANGE, 0, "the sum is not finite");
    return tsi_bucket_fail(bucket, status, -1);
}

static terse_status finish(struct tsi_bucket *bucket)
{
    struct tsi_room *const room = bucket->room;
    uint64_t from = tsi_now();
    terse_status status = terse_group_allreduce_wait(room->group, &bucket->sum, &bucket->fault);
    tsi_clock(room, TERSE_STAGE_GROUP, &from);
    if (status != TERSE_OK)
        return tsi_bucket_fail(bucket, status, bucket->fault.rank);
    status = check_payload(bucket);
    tsi_clock(room, TERSE_STAGE_DECODE, &from);
    if (status != TERSE_OK || is_itself(bucket))
        return status;
    if (bucket->round == 0)
        tsi_clear_sum(bucket);
    status = tsi_codec_decode_add(bucket->codec, bucket->round, &room->draw, all_of(bucket),
                                  bucket->back.memory, bucket->said_len, room->sum, &bucket->fault);
    tsi_clock(room, TERSE_STAGE_DECODE, &from);
    return tsi_bucket_fail(bucket, status, -1);
}

/* All speak of the same elements. */
static void touch(struct tsi_bucket *bucket, const struct tsi_toucher *toucher)
{
    tsi_codec_touch(bucket->codec, &bucket->room->draw, bucket->back.memory, toucher);
}

static void undo(struct tsi_bucket *bucket)
{
    struct tsi_room *const room = bucket->room;
    if (room->memory && bucket->round + 1 == room->about.passes)
        (void)!tsi_codec_decode_add(bucket->codec, bucket->round, &room->draw, all_of(bucket),
                                    bucket->there.memory, bucket->said_len, room->memory, NULL);
}

const struct tsi_combine_ops tsi_combine_allreduce = {
    .name = "allreduce",
    .summary = "payloads add up on the way: 2(K-1)/K payloads per worker",
    .cut = TSI_CUT_WHOLE,
    .mean = 1,
    .refuses = refuses,
    .create = create,
    .move = {post, turn, finish},
    .runs = runs,
    .undo = undo,
    .touch = touch,
};
