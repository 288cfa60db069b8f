/* Sending a bucket: its part of the gradient is produced slice by slice, encoded and posted. */
#include <string.h>

#include "base/fault.h"
#include "base/parallel.h"
#include "method/method.h"

/* The gradient of element `first` in one that came by tensor, and up to where those of the next
 * elements follow it. */
static const float *gradient_at(const terse_method *method, size_t first, size_t *count)
{
    uint32_t low = 0;
    uint32_t high = terse_layout_tensors(method->layout);
    while (high - low > 1) { /* the last tensor that begins at or before the element */
        const uint32_t middle = low + (high - low) / 2;
        if (tsi_layout_piece(method->layout, middle).offset <= first)
            low = middle;
        else
            high = middle;
    }
    const struct tsi_piece tensor = tsi_layout_piece(method->layout, low);
    const size_t left = tensor.offset + tensor.count - first;
    *count = *count < left ? *count : left;
    return method->step.tensors[low] + (first - tensor.offset);
}

/* RegTop-k: elements that the others cancelled last time count less. They are scored slice by
 * slice, while the residual that they lie in is still in the cache. */
static void score(terse_method *method, struct tsi_bucket *bucket, size_t first, size_t count)
{
    struct tsi_posterior *const posterior = &method->posterior;
    struct tsi_scores *const scores = &bucket->codec->scores;
    if (first == bucket->first) {
        const size_t from = tsi_posterior_before(posterior, first);
        *scores = (struct tsi_scores){posterior->index + from, posterior->score + from, 0};
    }
    const size_t from = (size_t)(scores->index - posterior->index) + scores->count;
    const size_t to = tsi_posterior_before(posterior, first + count);
    tsi_posterior_score(posterior, (enum tsi_posterior_form)tsi_value(method, TSI_FORM),
                        (float)tsi_value(method, TSI_MU), method->step.in->source, from, to);
    scores->count += to - from;
}

/* Elements of a bucket, slice by slice, so that all that is done to a slice meets in the cache:
 * finite check, direction, residual, point, scores, prescan. */
static void produce(terse_method *method, struct tsi_bucket *bucket, const struct tsi_run *run)
{
    struct tsi_step *const step = &method->step;
    struct tsi_collective *const in = step->in;
    const struct tsi_direct *const direct = &step->direct;
    const int checks = !step->checked && !method->options.skip_finite_check;
    const int adds = method->stages.direction == TSI_DIRECTION_GRADIENT && direct->in &&
                     direct->rate == 1 && direct->scale == 1 && direct->decay == 0;
    const size_t slice = TSI_CHUNK * method->options.threads;
    const size_t end = (size_t)(run->first + run->count);
    uint64_t from = tsi_now();
    for (size_t at = (size_t)run->first; at < end;) {
        size_t count = end - at < slice ? end - at : slice;
        const float *const gradient =
            step->gradient ? step->gradient + at : gradient_at(method, at, &count);
        uint32_t most = 0;
        if (adds) /* and finds the largest magnitude on the way */
            most = in->kernel->sum_f32(direct->in + at, gradient, count, direct->out + at);
        else if (checks)
            most = in->kernel->magnitude_max_f32(gradient, count);
        if (checks && most >= step->limit) {
            terse_fault fault;
            (void)tsi_bucket_fail(bucket,
                                  tsi_fail(&fault, TERSE_NOT_FINITE, 0,
                                           "the gradient%s is not finite",
                                           most < TSK_INFINITY_BITS ? ", squared," : ""),
                                  (int32_t)in->rank, &fault);
            break;
        }
        if (!adds && (direct->out || direct->m)) /* else the gradient itself is encoded */
            tsi_direct(method->stages.direction, direct, gradient, at, count);
        if (in->workers == 1 && !step->in_place)
            tsi_bucket_note_largest(bucket, in->source == step->gradient || adds ? most : 0, at,
                                    count);
        if (step->moves_point)
            tsi_move_point(method, in->source, at, count);
        if (step->scores)
            score(method, bucket, at, count);
        if (step->measuring)
            step->source_square += in->kernel->square_sum_f32(in->source + at, count);
        tsi_clock(in, TERSE_STAGE_DIRECTION, &from);
        if (bucket->codec->prescan_state)
            tsi_codec_prescan(bucket->codec, &in->key, in->source, at, count);
        tsi_clock(in, TERSE_STAGE_ENCODE, &from);
        at += count;
    }
    tsi_clock(in, TERSE_STAGE_DIRECTION, &from);
}

/* What other ranks wait for is encoded and posted first; the rest is produced while that travels.
 */
terse_status tsi_step_send(terse_method *method, struct tsi_bucket *bucket)
{
    struct tsi_step *const step = &method->step;
    const struct tsi_combine_ops *const combine = step->in->combine;
    bucket->payload = NULL;
    bucket->payload_len = 0;
    memset(step->in->buckets.tensor_bytes + bucket->first_tensor, 0,
           bucket->tensor_count * sizeof(uint64_t));
    bucket->agreed = 0;
    bucket->aggregate.count = 0;
    bucket->aggregate.partial = 0;
    bucket->aggregate.largest = 0;
    bucket->status = step->status;
    bucket->fault = step->fault;
    if (combine->plan)
        combine->plan(bucket);
    for (uint32_t i = 0; i < bucket->early && bucket->status == TERSE_OK; i++)
        produce(method, bucket, &bucket->run[i]);
    const terse_status status = combine->phase[bucket->phase++](bucket);
    for (uint32_t i = bucket->early; i < bucket->run_count && bucket->status == TERSE_OK; i++)
        produce(method, bucket, &bucket->run[i]);
    if (combine->rest && status == TERSE_OK)
        combine->rest(bucket);
    return status;
}
