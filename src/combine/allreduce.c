/* allreduce: payloads are floats that add up, so they are summed on the way, in rank order:
 * 2(K-1)/K payloads per worker. The aggregate is the summed payload itself wherever a codec's
 * sections are runs of elements; low-rank factors are decoded. */
#include <stdlib.h>
#include <string.h>

#include "base/fault.h"
#include "combine/combine.h"
#include "group/group.h"

struct allreduce {
    int is_identity; /* f32 without a residual: the payload is the gradient itself */
    float *own;      /* a buffer for the payload, */
    float *payload;  /* which lies there or, if it is the gradient, in the dense buffer */
    size_t len;      /* bytes of it, in this pass */
    float *scratch;
    terse_allreduce reduction;
};

static const char *refuses(const terse_codec_about *codec)
{
    return codec->traits & TERSE_CODEC_ADDITIVE ? NULL : "its payloads do not add up";
}

static terse_status create(struct tsi_bucket *bucket)
{
    struct allreduce *const all = calloc(1, sizeof *all);
    size_t cap = 0;
    bucket->private = all;
    if (!all)
        return TERSE_NO_MEMORY;
    for (uint32_t pass = 0; pass < bucket->in->about.passes; pass++) {
        const size_t bound = terse_codec_payload_bound(bucket->codec, pass);
        cap = bound > cap ? bound : cap;
    }
    all->is_identity = bucket->codec->ops == &tsi_codec_f32 && !bucket->in->take;
    all->own = all->is_identity ? NULL : malloc(cap + 1);
    all->payload = all->is_identity ? bucket->in->dense + bucket->first : all->own;
    for (uint32_t i = 0; i < bucket->codec->piece_count && all->is_identity; i++)
        bucket->codec->section_len[i] = bucket->codec->piece[i].count * sizeof(float);
    all->scratch =
        malloc((terse_group_allreduce_scratch(bucket->in->group, cap / sizeof(float)) + 1) *
               sizeof(float));
    tsi_allreduce_reserve(bucket->in->group, cap / sizeof(float));
    return all->payload && all->scratch &&
                   tsi_aggregate_create(&bucket->aggregate, 2 * (size_t)bucket->tensor_count + 1)
               ? TERSE_OK
               : TERSE_NO_MEMORY;
}

static void destroy(struct tsi_bucket *bucket)
{
    struct allreduce *const all = bucket->private;
    free(all->own);
    free(all->scratch);
}

/* What travels, where a codec knows that before it has seen a gradient: those elements first,
 * ascending, then all others. */
static void plan(struct tsi_bucket *bucket)
{
    terse_codec *const codec = bucket->codec;
    struct tsi_run *const run = bucket->run;
    uint64_t at = bucket->first;
    uint32_t runs = 0;
    if (!codec->ops->support) /* all of it */
        return;
    for (uint32_t i = 0; i < codec->piece_count; i++) {
        const struct tsi_call call = tsi_codec_call(codec, &bucket->in->key, 0, i);
        runs += call.ops ? call.ops->support(&call, run + runs) : 0;
    }
    for (uint32_t i = 1; i < runs; i++) { /* but for two of a tensor they ascend */
        for (uint32_t j = i; j > 0 && run[j - 1].first > run[j].first; j--) {
            const struct tsi_run other = run[j];
            run[j] = run[j - 1];
            run[j - 1] = other;
        }
    }
    bucket->early = runs;
    for (uint32_t i = 0; i < bucket->early; i++) {
        if (run[i].first > at)
            run[runs++] = (struct tsi_run){at, run[i].first - at};
        at = run[i].first + run[i].count;
    }
    if (bucket->first + bucket->count > at)
        run[runs++] = (struct tsi_run){at, bucket->first + bucket->count - at};
    bucket->run_count = runs;
}

/* ---- the phases ---- */

/* Zeros stand for a payload that there is none of; the closing record tells why. */
static terse_status send(struct tsi_bucket *bucket)
{
    struct tsi_collective *const in = bucket->in;
    struct allreduce *const all = bucket->private;
    const struct tsi_pieces pieces = bucket->owned[in->rank];
    const struct tsi_route route = {.run = in->run,
                                    .step = in->key.step,
                                    .bucket = bucket->first_tensor,
                                    .pass = bucket->pass,
                                    .unchecked = (uint32_t)in->unchecked};
    terse_fault fault = {.rank = -1};
    uint64_t from = tsi_now();
    size_t len = all->is_identity ? (size_t)bucket->count * sizeof(float)
                                  : tsi_codec_bound(bucket->codec, bucket->pass, pieces);
    if (bucket->status == TERSE_OK && all->is_identity)
        memcpy(all->payload, in->source + bucket->first, len);
    else if (bucket->status == TERSE_OK)
        (void)tsi_bucket_fail(bucket,
                              tsi_codec_encode(bucket->codec, bucket->pass, &in->key, pieces,
                                               in->source, in->take, all->payload, SIZE_MAX, &len),
                              (int32_t)in->rank, &bucket->codec->fault);
    if (bucket->status != TERSE_OK)
        memset(all->payload, 0, len);
    for (size_t i = 0; in->weighting.weight && i < len / sizeof(float); i++)
        all->payload[i] *= in->weighting.weight[in->rank];
    all->len = len;
    bucket->payload_len += len;
    tsi_bucket_note_sections(bucket, pieces);
    tsi_clock(in, TERSE_STAGE_ENCODE, &from);
    const terse_status status =
        tsi_allreduce_post(in->group, all->payload, len / sizeof(float), all->scratch,
                           tsi_route_check(&route, "", 0), &all->reduction, &fault);
    tsi_clock(in, TERSE_STAGE_GROUP, &from);
    return tsi_bucket_fail(bucket, status, fault.rank, &fault);
}

static terse_status arrived(struct tsi_bucket *bucket, int *arrived, terse_fault *fault)
{
    const struct allreduce *const all = bucket->private;
    return tsi_allreduce_arrived(bucket->in->group, &all->reduction, arrived, fault);
}

static terse_status reduce(struct tsi_bucket *bucket)
{
    struct allreduce *const all = bucket->private;
    terse_fault fault = {.rank = -1};
    uint64_t from = tsi_now();
    terse_status status = terse_group_allreduce_advance(bucket->in->group, &all->reduction, &fault);
    tsi_clock(bucket->in, TERSE_STAGE_GROUP, &from);
    if (bucket->in->workers > 1) /* what one encodes alone was looked at when it was made */
        bucket->aggregate.largest = all->reduction.largest;
    if (status == TERSE_OK && all->reduction.largest >= TSK_INFINITY_BITS)
        status = tsi_fail(&fault, TERSE_OUT_OF_RANGE, 0, "the sum is not finite");
    return tsi_bucket_fail(bucket, status, fault.rank, &fault);
}

/* Spans into the payload where it holds elements; else one of what it is decoded to. The first of
 * two passes goes to the codec alone. */
static terse_status receive(struct tsi_bucket *bucket)
{
    struct tsi_collective *const in = bucket->in;
    struct allreduce *const all = bucket->private;
    terse_codec *const codec = bucket->codec;
    const int last = bucket->pass + 1 == in->about.passes;
    const float *at = all->payload;
    struct tsi_run run[2];
    terse_fault fault = {.rank = -1};
    uint64_t from = tsi_now();
    terse_status status = terse_group_allreduce_wait(in->group, &all->reduction, &fault);
    tsi_clock(in, TERSE_STAGE_GROUP, &from);
    if (tsi_bucket_fail(bucket, status, fault.rank, &fault) != TERSE_OK)
        return status;
    bucket->agreed = tsi_fold(bucket->agreed, all->reduction.agreed);
    if (bucket->status != TERSE_OK)
        return TERSE_OK;
    bucket->aggregate.partial = codec->ops->support != NULL;
    for (uint32_t i = 0; bucket->aggregate.partial && i < codec->piece_count; i++) {
        const struct tsi_call call = tsi_codec_call(codec, &in->key, 0, i);
        const uint32_t runs = call.ops ? call.ops->support(&call, run) : 0;
        for (uint32_t j = 0; j < runs; at += run[j++].count)
            tsi_aggregate_add(
                &bucket->aggregate,
                (struct tsi_span){TSI_SPAN_DENSE, run[j].first, (size_t)run[j].count, .value = at});
    }
    if (!bucket->aggregate.partial && codec->ops != &tsi_codec_f32) {
        status = tsi_codec_decode(codec, bucket->pass, &in->key, bucket->owned[in->rank],
                                  all->payload, all->len, last, in->dense, &fault);
        (void)tsi_bucket_fail(bucket, status, -1, &fault);
        at = in->dense + bucket->first;
    }
    if (last && !bucket->aggregate.partial)
        tsi_aggregate_add(
            &bucket->aggregate,
            (struct tsi_span){TSI_SPAN_DENSE, bucket->first, (size_t)bucket->count, .value = at});
    tsi_clock(in, TERSE_STAGE_DECODE, &from);
    return TERSE_OK;
}

const struct tsi_combine_ops tsi_combine_allreduce = {
    .name = "allreduce",
    .summary = "payloads add up on the way, in rank order: 2(K-1)/K payloads per worker",
    .cut = TSI_CUT_WHOLE,
    .mean = 1,
    .refuses = refuses,
    .create = create,
    .destroy = destroy,
    .plan = plan,
    .phase = {send, reduce, receive},
    .arrived = arrived,
};
