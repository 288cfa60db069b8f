/* One step of one worker, from top to bottom:
 *
 *   begin     learning rate, clipping, the finite check where state is written in place; the
 *             opening record is posted
 *   send      slice by slice, while it is in the cache: finite check, direction, residual, prescan;
 *             then phase 0 of the combine encodes and posts
 *   progress  every bucket one phase further, until all have their aggregate
 *   close     the closing record: how it went here, and how it went elsewhere
 *   commit    posterior, update, new state in place of the old, next point
 *
 * record.c has the opening and closing records, commit.c the commit. A whole gradient is one
 * bucket; posted buckets (buckets.c) call `send` several times. Each call of progress begins with a
 * wait and ends with a post, so one thread can take all workers of a process through a step side by
 * side.
 *
 * Nothing is taken back: new residuals and moments are written beside the old ones and swapped in
 * by the commit. Methods that keep both write them in place as long as rates.c rules out that the
 * step is skipped late, since a second set of buffers costs them a tenth of a step. If such a step
 * fails, their state is of no use. */
#include <math.h>
#include <string.h>

#include "base/fault.h"
#include "base/parallel.h"
#include "method/method.h"

#define MAX_UNDER_WAY 6u /* buckets: an all-reduce takes up to 32 requests for each */

/* Nothing more can be done with this method. What was written beside its state is dropped; what was
 * written over it belongs to no step, and nobody gets to see it. */
static terse_status fail(terse_method *method, terse_status status, const terse_fault *why,
                         terse_fault *fault)
{
    struct tsi_step *const step = &method->step;
    method->failed = status;
    method->cause = *why;
    if (step->state == TSI_STEP_SENDING || step->state == TSI_STEP_CLOSING) {
        step->torn = step->in_place;
        tsi_step_skip(method);
    }
    step->state = TSI_STEP_NONE;
    if (fault)
        *fault = *why;
    return status;
}

/* ---- begin ---- */

static uint32_t largest_gradient(const terse_method *method)
{
    const struct tsi_step *const step = &method->step;
    const struct tsk_table *const kernel = step->in->kernel;
    uint32_t most = 0;
    if (!step->tensors)
        return kernel->magnitude_max_f32(step->gradient, method->count);
    for (uint32_t t = 0; t < terse_layout_tensors(method->layout); t++) {
        const size_t count = tsi_layout_piece(method->layout, t).count;
        const uint32_t here = kernel->magnitude_max_f32(step->tensors[t], count);
        most = here > most ? here : most;
    }
    return most;
}

/* A method that has failed opens one more step, so that the other ranks learn of it. */
static terse_status refuse(terse_method *method, terse_fault *fault)
{
    if (!method->told && !tsi_is_group_failure(method->failed) &&
        tsi_opening_post(method, 0, INFINITY, NULL) == TERSE_OK)
        (void)!tsi_agreement_wait(&method->agreement, NULL);
    method->told = 1;
    if (fault)
        *fault = method->cause;
    return TERSE_PEER_LOST;
}

terse_status tsi_step_begin(terse_method *method, const float *gradient,
                            const float *const *tensors, int posting, terse_fault *fault)
{
    struct tsi_step *const step = &method->step;
    const uint64_t done = method->progress.step;
    const int warm = done < (uint64_t)tsi_value(method, TSI_WARMUP);
    const uint32_t measure = method->options.measure_every;
    /* Where blocks are sent that are known before the gradient, all other elements are what they
     * will be at the end of the step, and their point can be moved while they are in the cache. */
    const uint32_t block = TERSE_CODEC_SELECTING | TERSE_CODEC_ADDITIVE;
    const int detached = method->stages.point == TSI_POINT_DETACHED && !method->stages.local;
    double bound = INFINITY;
    int finite = 1;
    if (method->failed != TERSE_OK)
        return refuse(method, fault);
    if (step->state != TSI_STEP_NONE)
        return tsi_fail(fault, TERSE_BAD_ARGUMENT, 0, "a step is under way: finish it first");
    struct tsi_collective *const in = method->collective[warm ? TSI_WARM_UP : TSI_MAIN];
    uint64_t from = tsi_now();
    memset(in->nanoseconds, 0, sizeof in->nanoseconds);
    in->key.step = method->progress.rounds;
    *step = (struct tsi_step){
        .in = in,
        .gradient = gradient,
        .tensors = tensors,
        .posting = posting,
        .scores = method->settings.row->posterior && !warm,
        .moves_point = detached && (in->about.traits & block) == block,
        .measuring = measure > 0 && done % measure == 0,
        .posted = step->posted,
    };
    if (!posting && !tensors)
        step->gradient =
            tsi_clip_gradient(method, gradient, 0, terse_layout_tensors(method->layout));
    tsi_choose_rates(method);
    if (method->buffers.m.now && method->buffers.residual.now && !posting &&
        !method->stages.local) { /* state may be written in place: see rates.c */
        const union {
            uint32_t bits;
            float value;
        } most = {largest_gradient(method)};
        step->checked = 1;
        finite = most.bits < step->limit || method->options.skip_finite_check;
        bound = finite ? tsi_bound_step(method, (double)most.value) : INFINITY;
    }
    tsi_clock(in, TERSE_STAGE_DIRECTION, &from);
    terse_group_traffic(method->group, &step->sent_before, &step->received_before);
    terse_fault why = {.rank = -1};
    const terse_status status = tsi_opening_post(method, finite, bound, &why);
    tsi_clock(in, TERSE_STAGE_GROUP, &from);
    if (status != TERSE_OK)
        return fail(method, status, &why, fault);
    step->state = TSI_STEP_OPENING;
    return TERSE_OK;
}

/* Where this step reads and writes its state: over it, or beside it. What is encoded lies in the
 * residual, in `change`, in the momentum, or is the gradient itself. */
static void choose_buffers(terse_method *method)
{
    const struct tsi_buffers *const buffers = &method->buffers;
    struct tsi_collective *const in = method->step.in;
    struct tsi_direct *const direct = &method->step.direct;
    const int in_place = method->step.in_place;
    const struct tsi_pair *const pair =
        buffers->residual.now ? &buffers->residual : &buffers->change;
    direct->at = buffers->point ? buffers->point : buffers->weights;
    direct->m = buffers->m.now;
    direct->m_out = in_place ? buffers->m.now : buffers->m.next;
    direct->v = buffers->v.now;
    direct->v_out = in_place ? buffers->v.now : buffers->v.next;
    direct->in = pair->now;
    direct->out = in_place && pair->now ? pair->now : pair->next;
    in->take = buffers->residual.now ? direct->out : NULL;
    const float *const made = direct->out ? direct->out : direct->m_out;
    in->source = tsi_encodes_gradient(method) ? method->step.gradient : made;
    in->owner.now = buffers->owner.now;
    in->owner.next = buffers->owner.next;
}

/* ---- send ---- */

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
            step->tensors ? gradient_at(method, at, &count) : step->gradient + at;
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
 * A group has requests for a few buckets under way; beyond, the oldest makes all its phases first.
 * How many that is depends on counts that are the same everywhere. */
terse_status tsi_step_send(terse_method *method, struct tsi_bucket *bucket, terse_fault *fault)
{
    struct tsi_step *const step = &method->step;
    const struct tsi_combine_ops *const combine = step->in->combine;
    terse_status status = TERSE_OK;
    if (step->posted_count >= MAX_UNDER_WAY) {
        struct tsi_bucket *const oldest = step->posted[step->posted_count - MAX_UNDER_WAY];
        while (status == TERSE_OK && combine->phase[oldest->phase])
            status = combine->phase[oldest->phase++](oldest);
        if (status != TERSE_OK)
            return fail(method, status, &oldest->fault, fault);
    }
    bucket->pass = bucket->phase = 0;
    bucket->payload = NULL;
    bucket->payload_len = 0;
    bucket->agreed = 0;
    bucket->aggregate.count = 0;
    bucket->aggregate.partial = 0;
    bucket->aggregate.largest = 0;
    bucket->status = step->status;
    bucket->fault = step->fault;
    if (bucket->codec->states_len > 0)
        tsi_codec_save(bucket->codec);
    step->posted[step->posted_count++] = bucket;
    if (combine->plan)
        combine->plan(bucket);
    for (uint32_t i = 0; i < bucket->early && bucket->status == TERSE_OK; i++)
        produce(method, bucket, &bucket->run[i]);
    status = combine->phase[bucket->phase++](bucket);
    for (uint32_t i = bucket->early; i < bucket->run_count && bucket->status == TERSE_OK; i++)
        produce(method, bucket, &bucket->run[i]);
    if (combine->rest && status == TERSE_OK)
        combine->rest(bucket);
    return status == TERSE_OK ? TERSE_OK : fail(method, status, &bucket->fault, fault);
}

/* ---- progress ---- */

/* The opening records are there: everybody sends, or somebody's gradient is not finite and nothing
 * has happened. */
static terse_status opened(terse_method *method, int *done, terse_method_report *report,
                           terse_fault *fault)
{
    struct tsi_step *const step = &method->step;
    struct tsi_bucket *bucket = NULL;
    terse_fault why = {.rank = -1};
    int32_t nonfinite = -1;
    double bound = 0;
    uint64_t from = tsi_now();
    terse_status status = tsi_openings_read(method, &nonfinite, &bound, &why);
    tsi_clock(step->in, TERSE_STAGE_GROUP, &from);
    if (status != TERSE_OK)
        return fail(method, status, &why, fault);
    if (nonfinite >= 0 && step->status == TERSE_OK) {
        tsi_step_end(method, TERSE_NOT_FINITE, nonfinite, report);
        *done = 1;
        return TERSE_OK;
    }
    step->in_place = bound < INFINITY && tsi_bound_is_safe(method, bound) &&
                     tsi_weights_stay_finite(method, bound * method->workers);
    if (!step->in_place && method->buffers.residual.now && !method->buffers.residual.next &&
        !tsi_buffers_complete(method))
        status = tsi_fail(&why, TERSE_NO_MEMORY, 0, "out of memory");
    if (status == TERSE_OK && !step->posting)
        status = tsi_bucket_of(step->in, 0, terse_layout_tensors(method->layout), &bucket, &why);
    if (status != TERSE_OK)
        return fail(method, status, &why, fault);
    choose_buffers(method);
    step->state = TSI_STEP_SENDING;
    return step->posting ? TERSE_OK : tsi_step_send(method, bucket, fault);
}

/* One phase of every bucket of the window; then the next window, the next pass, and where none is
 * left, the closing record. */
static terse_status make_phases(terse_method *method, terse_fault *fault)
{
    struct tsi_step *const step = &method->step;
    const struct tsi_combine_ops *const combine = step->in->combine;
    const uint32_t left = step->posted_count - step->window;
    const uint32_t end = step->window + (left < MAX_UNDER_WAY ? left : MAX_UNDER_WAY);
    terse_fault why = {.rank = -1};
    int more = 0;
    for (uint32_t i = step->window; i < end; i++) {
        struct tsi_bucket *const bucket = step->posted[i];
        if (!combine->phase[bucket->phase])
            continue;
        const terse_status status = combine->phase[bucket->phase++](bucket);
        if (status != TERSE_OK)
            return fail(method, status, &bucket->fault, fault);
        more |= combine->phase[bucket->phase] != NULL;
    }
    if (more)
        return TERSE_OK;
    step->window = end < step->posted_count ? end : 0;
    if (step->window > 0)
        return TERSE_OK;
    if (step->posted[0]->pass + 1 < step->in->about.passes) {
        for (uint32_t i = 0; i < step->posted_count; i++) {
            step->posted[i]->pass++;
            step->posted[i]->phase = 0;
        }
        return TERSE_OK;
    }
    uint64_t from = tsi_now();
    const terse_status status = tsi_closing_post(method, &why);
    tsi_clock(step->in, TERSE_STAGE_GROUP, &from);
    if (status != TERSE_OK)
        return fail(method, status, &why, fault);
    step->state = TSI_STEP_CLOSING;
    if (method->options.private_output && step->posted[0]->aggregate.partial)
        tsi_sparse_clear_clear(&method->clear, method->buffers.weights, method->count);
    tsi_clock(step->in, TERSE_STAGE_UPDATE, &from); /* while the record travels */
    return TERSE_OK;
}

/* The closing records are there. */
static terse_status closed(terse_method *method, terse_method_report *report, terse_fault *fault)
{
    const struct tsi_step *const step = &method->step;
    terse_fault why = {.rank = -1};
    double largest = INFINITY;
    uint64_t from = tsi_now();
    terse_status status = tsi_closings_read(method, &largest, &why);
    tsi_clock(step->in, TERSE_STAGE_GROUP, &from);
    if (status == TERSE_OK && !step->in_place && !tsi_weights_stay_finite(method, largest))
        status = TERSE_OUT_OF_RANGE;
    if (status == TERSE_OK || (tsi_is_skip(status) && !step->in_place)) {
        tsi_step_end(method, status, why.rank, report);
        return TERSE_OK;
    }
    if (status == step->status && why.rank == step->fault.rank && step->fault.text[0] != '\0')
        why = step->fault; /* this worker has seen it itself: offset and rule */
    return fail(method, status, &why, fault);
}

terse_status tsi_step_progress(terse_method *method, int *done, terse_method_report *report,
                               terse_fault *fault)
{
    *done = method->step.state == TSI_STEP_NONE || method->step.state == TSI_STEP_CLOSING;
    switch (method->step.state) {
    case TSI_STEP_OPENING: return opened(method, done, report, fault);
    case TSI_STEP_SENDING: return make_phases(method, fault);
    case TSI_STEP_CLOSING: return closed(method, report, fault);
    case TSI_STEP_GATHERING:
    case TSI_STEP_NONE: break;
    }
    return tsi_fail(fault, TERSE_BAD_ARGUMENT, 0, "no step is under way");
}

/* ---- a step between exchanges ---- */

/* A gradient that is not finite is left out of a local step: the other ranks cannot know of it. */
static void step_local(terse_method *method, const float *gradient, terse_method_report *report)
{
    struct tsi_step *const step = &method->step;
    step->in = method->collective[TSI_MAIN];
    step->gradient = tsi_clip_gradient(method, gradient, 0, terse_layout_tensors(method->layout));
    step->tensors = NULL;
    step->in_place = 1;
    tsi_choose_rates(method);
    choose_buffers(method);
    step->direct.local = method->buffers.point;
    const int finite = method->options.skip_finite_check || largest_gradient(method) < step->limit;
    if (finite)
        tsi_direct(method->stages.direction, &step->direct, step->gradient, 0, method->count);
    if (report)
        *report = (terse_method_report){
            .exchange = {.step = method->progress.rounds,
                         .skipped = finite ? TERSE_OK : TERSE_NOT_FINITE,
                         .skipped_by = finite ? -1 : (int32_t)method->rank},
            .step = method->progress.step,
            .lr = (double)step->lr,
            .residual_norm = NAN,
            .compression_error = NAN,
        };
    method->progress.step++;
}

/* ---- the calls of a whole gradient ---- */

/* Workers side by side: each progresses before any progresses again. A gradient is flat, or that of
 * one worker comes by tensor. */
static terse_status step_workers(terse_method *const *method, const float *const *flat,
                                 const float *const *tensors, uint32_t count,
                                 terse_method_report *report, terse_fault *fault)
{
    const uint64_t every = (uint64_t)tsi_value(method[0], TSI_EVERY);
    const int local = every > 1 && (method[0]->progress.step + 1) % every != 0;
    terse_status status = TERSE_OK;
    int done = local;
    for (uint32_t i = 0; i < count && local; i++)
        step_local(method[i], flat[i], report ? &report[i] : NULL);
    for (uint32_t i = 0; i < count && status == TERSE_OK && !local; i++)
        status = tsi_step_begin(method[i], flat[i], tensors, 0, fault);
    while (status == TERSE_OK && !done)
        for (uint32_t i = 0; i < count && status == TERSE_OK; i++)
            status = tsi_step_progress(method[i], &done, report ? &report[i] : NULL, fault);
    return status;
}

terse_status terse_method_step_all(terse_method *const *method, const float *const *gradient,
                                   terse_method_report *report, terse_fault *fault)
{
    if (!method || !method[0] || !gradient)
        return tsi_fail(fault, TERSE_BAD_ARGUMENT, 0, "method or gradient is NULL");
    const uint32_t count = method[0]->owns_group ? method[0]->workers : 1;
    for (uint32_t i = 0; i < count; i++) /* before any worker has opened the step */
        if (!method[i] || !gradient[i])
            return tsi_fail(fault, TERSE_BAD_ARGUMENT, 0, "method or gradient is NULL");
    return step_workers(method, gradient, NULL, count, report, fault);
}

terse_status tsi_check_one(const terse_method *method, const void *gradient, terse_fault *fault)
{
    if (!method || !gradient)
        return tsi_fail(fault, TERSE_BAD_ARGUMENT, 0, "method or gradient is NULL");
    if (method->owns_group && method->workers > 1)
        return tsi_fail(fault, TERSE_BAD_ARGUMENT, 0,
                        "this is one of several workers of a thread: use terse_method_step_all");
    return TERSE_OK;
}

terse_status terse_method_step(terse_method *method, const float *gradient,
                               terse_method_report *report, terse_fault *fault)
{
    const terse_status status = tsi_check_one(method, gradient, fault);
    return status == TERSE_OK ? step_workers(&method, &gradient, NULL, 1, report, fault) : status;
}

/* Made flat where it is needed in one piece. */
terse_status terse_method_step_tensors(terse_method *method, const float *const *gradient,
                                       terse_method_report *report, terse_fault *fault)
{
    const terse_status status = tsi_check_one(method, gradient, fault);
    if (status != TERSE_OK)
        return status;
    const uint32_t tensors = terse_layout_tensors(method->layout);
    for (uint32_t t = 0; t < tensors; t++)
        if (!gradient[t] && tsi_layout_piece(method->layout, t).count > 0)
            return tsi_fail(fault, TERSE_BAD_ARGUMENT, 0, "the gradient of tensor %u is NULL", t);
    struct tsi_buffers *const buffers = &method->buffers;
    if (!tsi_needs_flat(method))
        return step_workers(&method, &(const float *){NULL}, gradient, 1, report, fault);
    if (!tsi_buffer_make(&buffers->flat, 1, method->count))
        return tsi_fail(fault, TERSE_NO_MEMORY, 0, "out of memory");
    for (uint32_t t = 0; t < tensors; t++) {
        const struct tsi_piece tensor = tsi_layout_piece(method->layout, t);
        if (gradient[t]) /* NULL: it has no elements */
            memcpy(buffers->flat + tensor.offset, gradient[t], tensor.count * sizeof(float));
    }
    const float *const flat = buffers->flat;
    return step_workers(&method, &flat, NULL, 1, report, fault);
}
