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
 * bucket; posted buckets call `send` several times. Each call of progress
 * begins with a wait and ends with a post, so one thread can take all workers of a process through
 * a step side by side.
 *
 * Nothing is taken back: new residuals and moments are written beside the old ones and swapped in
 * by the commit. Methods that keep both write them in place as long as bound.c rules out that the
 * step is skipped late, since a second set of buffers costs them a tenth of a step. */
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "base/fault.h"
#include "base/parallel.h"
#include "method/method.h"
#include "point/point.h"

#define MAX_UNDER_WAY 6u /* buckets: an all-reduce takes up to 32 requests for each */

/* Nothing more can be done with this method. */
static terse_status fail(terse_method *method, terse_status status, const terse_fault *why,
                         terse_fault *fault)
{
    method->failed = status;
    method->cause = *why;
    method->step.state = TSI_STEP_NONE;
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

/* What this worker may encode at most, where that decides whether state is written in place; and
 * whether its gradient is finite, which is found on the way. */
static double bound_of(terse_method *method, int *finite)
{
    const uint32_t most = largest_gradient(method);
    float largest;
    memcpy(&largest, &most, sizeof largest);
    method->step.checked = 1;
    if (most >= TSK_INFINITY_BITS && !method->options.skip_finite_check) {
        *finite = 0;
        return INFINITY;
    }
    return tsi_bound_step(method, (double)largest);
}

static float clip_scale(const terse_method *method)
{
    const struct tsi_step *const step = &method->step;
    const double clip = tsi_value(method, TSI_CLIP);
    if (clip == 0)
        return 1;
    const double norm = sqrt(step->in->kernel->square_sum_f32(step->gradient, method->count));
    return norm > clip ? (float)(clip / norm) : 1;
}

/* Where blocks are sent that are known before the gradient, all other elements are what they will
 * be at the end of the step, and their point can be moved while they are in the cache. */
static int encodes_blocks(const struct tsi_collective *in)
{
    const uint32_t block = TERSE_CODEC_SELECTING | TERSE_CODEC_ADDITIVE;
    return (in->about.traits & block) == block;
}

terse_status tsi_step_begin(terse_method *method, const float *gradient,
                            const float *const *tensors, int posting, terse_fault *fault)
{
    struct tsi_step *const step = &method->step;
    const uint32_t every = method->options.measure_every;
    const int warm = method->progress.step < (uint64_t)tsi_value(method, TSI_WARMUP);
    int finite = 1;
    if (method->failed != TERSE_OK) {
        if (!method->told && !tsi_is_group_failure(method->failed) &&
            tsi_opening_post(method, 0, INFINITY, NULL) == TERSE_OK) /* the other ranks learn it */
            (void)!tsi_agreement_wait(&method->agreement, NULL);
        method->told = 1;
        if (fault)
            *fault = method->cause;
        return TERSE_PEER_LOST;
    }
    if (step->state != TSI_STEP_NONE)
        return tsi_fail(fault, TERSE_BAD_ARGUMENT, 0, "a step is under way: finish it first");
    step->in = method->collective[warm ? TSI_WARM_UP : TSI_MAIN];
    memset(step->in->nanoseconds, 0, sizeof step->in->nanoseconds);
    uint64_t from = tsi_now();
    step->gradient = gradient;
    step->tensors = tensors;
    step->posting = posting;
    step->posted_count = step->window = 0;
    step->checked = step->in_place = 0;
    step->scores = method->settings.row->posterior && !warm;
    step->moves_point = method->stages.point == TSI_POINT_DETACHED && !method->stages.local &&
                        encodes_blocks(step->in);
    step->status = TERSE_OK;
    step->lr = (float)tsi_lr_now(method);
    step->scale = clip_scale(method);
    step->measuring = every > 0 && method->progress.step % every == 0;
    step->source_square = 0;
    step->in->key.step = method->progress.rounds;
    const int may_be_in_place =
        method->buffers.m.now && method->buffers.residual.now && !posting && !method->stages.local;
    const double bound = may_be_in_place ? bound_of(method, &finite) : INFINITY;
    tsi_clock(step->in, TERSE_STAGE_DIRECTION, &from);
    terse_group_traffic(method->group, &step->sent_before, &step->received_before);
    terse_fault why = {.rank = -1};
    const terse_status status = tsi_opening_post(method, finite, bound, &why);
    tsi_clock(step->in, TERSE_STAGE_GROUP, &from);
    if (status != TERSE_OK)
        return fail(method, status, &why, fault);
    step->state = TSI_STEP_OPENING;
    return TERSE_OK;
}

/* Where this step writes its state, and what is encoded of it. */
static void choose_buffers(const terse_method *method)
{
    const struct tsi_buffers *const buffers = &method->buffers;
    struct tsi_collective *const in = method->step.in;
    const int in_place = method->step.in_place;
    in->take = buffers->residual.now ? tsi_out(&buffers->residual, in_place) : NULL;
    in->source = in->take               ? in->take
                 : buffers->change.next ? buffers->change.next
                 : buffers->m.now       ? tsi_out(&buffers->m, in_place)
                                        : method->step.gradient;
    in->owner.now = buffers->owner.now;
    in->owner.next = buffers->owner.next;
}

/* ---- send ---- */

/* The last tensor that begins at or before an element. */
static uint32_t tensor_at(const terse_layout *layout, size_t element)
{
    uint32_t low = 0;
    uint32_t high = terse_layout_tensors(layout);
    while (high - low > 1) {
        const uint32_t middle = low + (high - low) / 2;
        if (tsi_layout_piece(layout, middle).offset <= element)
            low = middle;
        else
            high = middle;
    }
    return low;
}

/* The gradient of element `first`, and up to where those of the next elements follow it. */
static const float *gradient_at(const terse_method *method, size_t first, size_t *count)
{
    const struct tsi_step *const step = &method->step;
    if (!step->tensors)
        return step->gradient + first;
    const uint32_t t = tensor_at(method->layout, first);
    const struct tsi_piece tensor = tsi_layout_piece(method->layout, t);
    const size_t left = tensor.offset + tensor.count - first;
    *count = *count < left ? *count : left;
    return step->tensors[t] + (first - tensor.offset);
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

/* The direction of up to `count` elements, added to the residual. Returns the largest magnitude
 * bits of their gradients where those are not known to be finite, else 0. */
static uint32_t direct(terse_method *method, const float *gradient, size_t first, size_t count)
{
    const struct tsk_table *const kernel = method->step.in->kernel;
    const struct tsi_direct direct = tsi_direct_of(method, gradient, first, count);
    const int checks = !method->step.checked && !method->options.skip_finite_check;
    const int plain = direct.rate == 1 && direct.scale == 1 && direct.decay == 0;
    if (method->stages.direction == TSI_DIRECTION_GRADIENT && direct.in && plain)
        return kernel->sum_f32(direct.in, gradient, count, direct.out) * (uint32_t)checks;
    const uint32_t most = checks ? kernel->magnitude_max_f32(gradient, count) : 0;
    if (most < TSK_INFINITY_BITS && (direct.out || direct.m)) /* else the gradient is encoded */
        tsi_direct(method->stages.direction, &direct);
    return most;
}

/* Elements of a bucket, slice by slice, so that all that is done to a slice meets in the cache. */
static void produce(terse_method *method, struct tsi_bucket *bucket, const struct tsi_run *run)
{
    struct tsi_collective *const in = bucket->in;
    const size_t slice = TSI_CHUNK * tsi_threads(method);
    const size_t end = (size_t)(run->first + run->count);
    uint64_t from = tsi_now();
    for (size_t at = (size_t)run->first; at < end;) {
        size_t count = end - at < slice ? end - at : slice;
        const float *const gradient = gradient_at(method, at, &count);
        if (direct(method, gradient, at, count) >= TSK_INFINITY_BITS) {
            terse_fault fault;
            (void)tsi_bucket_fail(
                bucket, tsi_fail(&fault, TERSE_NOT_FINITE, 0, "the gradient is not finite"),
                (int32_t)in->rank, &fault);
            break;
        }
        if (method->step.moves_point)
            tsi_move_point(method, in->source, at, count);
        if (method->step.scores)
            score(method, bucket, at, count);
        if (method->step.measuring)
            method->step.source_square += in->kernel->square_sum_f32(in->source + at, count);
        tsi_clock(in, TERSE_STAGE_DIRECTION, &from);
        if (bucket->codec->prescan_state)
            tsi_codec_prescan(bucket->codec, &in->key, in->source, at, count);
        tsi_clock(in, TERSE_STAGE_ENCODE, &from);
        at += count;
    }
    tsi_clock(in, TERSE_STAGE_DIRECTION, &from);
}

static terse_status next_phase(struct tsi_bucket *bucket)
{
    return bucket->in->combine->phase[bucket->phase++](bucket);
}

static int has_phases(const struct tsi_bucket *bucket)
{
    return bucket->in->combine->phase[bucket->phase] != NULL;
}

static terse_status remember_posted(struct tsi_step *step, struct tsi_bucket *bucket)
{
    if (step->posted_count == step->posted_cap) {
        const uint32_t cap = step->posted_cap ? 2 * step->posted_cap : 16;
        struct tsi_bucket **const posted = realloc(step->posted, cap * sizeof *posted);
        if (!posted)
            return TERSE_NO_MEMORY;
        step->posted = posted;
        step->posted_cap = cap;
    }
    step->posted[step->posted_count++] = bucket;
    return TERSE_OK;
}

static void restart(struct tsi_bucket *bucket, const struct tsi_step *step)
{
    bucket->pass = bucket->phase = 0;
    bucket->payload = NULL;
    bucket->payload_len = 0;
    bucket->agreed = 0;
    bucket->aggregate.count = 0;
    bucket->aggregate.partial = 0;
    bucket->status = step->status;
    bucket->fault = step->fault;
    if (bucket->codec->states_len > 0)
        tsi_codec_save(bucket->codec);
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
        while (status == TERSE_OK && has_phases(oldest))
            status = next_phase(oldest);
        if (status != TERSE_OK)
            return fail(method, status, &oldest->fault, fault);
    }
    restart(bucket, step);
    if (remember_posted(step, bucket) != TERSE_OK)
        return tsi_fail(fault, TERSE_NO_MEMORY, 0, "out of memory");
    if (combine->plan)
        combine->plan(bucket);
    for (uint32_t i = 0; i < bucket->early && bucket->status == TERSE_OK; i++)
        produce(method, bucket, &bucket->run[i]);
    status = next_phase(bucket);
    for (uint32_t i = bucket->early; i < bucket->run_count && bucket->status == TERSE_OK; i++)
        produce(method, bucket, &bucket->run[i]);
    if (combine->rest && status == TERSE_OK)
        combine->rest(bucket);
    return status == TERSE_OK ? TERSE_OK : fail(method, status, &bucket->fault, fault);
}

/* ---- progress ---- */

/* One phase of every bucket of the window; then the next window, the next pass. *over: none is
 * left. */
static terse_status make_phases(struct tsi_step *step, int *over, const terse_fault **why)
{
    const uint32_t end = step->window + MAX_UNDER_WAY < step->posted_count
                             ? step->window + MAX_UNDER_WAY
                             : step->posted_count;
    int left = 0;
    for (uint32_t i = step->window; i < end; i++) {
        struct tsi_bucket *const bucket = step->posted[i];
        if (!has_phases(bucket))
            continue;
        const terse_status status = next_phase(bucket);
        *why = &bucket->fault;
        if (status != TERSE_OK)
            return status;
        left |= has_phases(bucket);
    }
    if (left)
        return TERSE_OK;
    step->window = end;
    if (end < step->posted_count)
        return TERSE_OK;
    step->window = 0;
    *over = step->posted[0]->pass + 1 == step->in->about.passes;
    for (uint32_t i = 0; i < step->posted_count && !*over; i++) {
        step->posted[i]->pass++;
        step->posted[i]->phase = 0;
    }
    return TERSE_OK;
}

/* ---- close ---- */

static terse_status close_step(terse_method *method, terse_fault *fault)
{
    struct tsi_step *const step = &method->step;
    terse_fault why = {.rank = -1};
    uint64_t from = tsi_now();
    const terse_status status = tsi_closing_post(method, &why);
    tsi_clock(step->in, TERSE_STAGE_GROUP, &from);
    if (status != TERSE_OK)
        return fail(method, status, &why, fault);
    step->state = TSI_STEP_CLOSING;
    if (method->options.private_output && step->posted_count > 0 &&
        step->posted[0]->aggregate.partial) /* while the record travels */
        tsi_sparse_clear_clear(&method->clear, method->buffers.weights, method->count);
    tsi_clock(step->in, TERSE_STAGE_UPDATE, &from);
    return TERSE_OK;
}

/* ---- one thing after the other ---- */

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
    step->in_place = bound < INFINITY && tsi_bound_is_safe(method, bound);
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

/* The closing records are there. */
static terse_status closed(terse_method *method, terse_method_report *report, terse_fault *fault)
{
    const struct tsi_step *const step = &method->step;
    terse_fault why = {.rank = -1};
    uint64_t from = tsi_now();
    const terse_status status = tsi_closings_read(method, &why);
    tsi_clock(step->in, TERSE_STAGE_GROUP, &from);
    if (status == TERSE_OK || tsi_is_skip(status)) {
        tsi_step_end(method, status, why.rank, report);
        return TERSE_OK;
    }
    if (status == step->status && why.rank == step->fault.rank && step->fault.text[0] != '\0')
        why = step->fault; /* this worker has seen it itself: offset and rule */
    tsi_step_skip(method);
    return fail(method, status, &why, fault);
}

terse_status tsi_step_progress(terse_method *method, int *done, terse_method_report *report,
                               terse_fault *fault)
{
    const terse_fault *why = NULL;
    int over = 0;
    *done = 0;
    switch (method->step.state) {
    case TSI_STEP_OPENING: return opened(method, done, report, fault);
    case TSI_STEP_SENDING: {
        const terse_status status = make_phases(&method->step, &over, &why);
        if (status != TERSE_OK)
            return fail(method, status, why, fault);
        return over ? close_step(method, fault) : TERSE_OK;
    }
    case TSI_STEP_CLOSING: *done = 1; return closed(method, report, fault);
    case TSI_STEP_NONE: break;
    }
    *done = 1;
    return tsi_fail(fault, TERSE_BAD_ARGUMENT, 0, "no step is under way");
}

/* ---- between exchanges ---- */

/* A gradient that is not finite is left out of a local step: the other ranks cannot know of it. */
void tsi_step_local(terse_method *method, const float *gradient, terse_method_report *report)
{
    struct tsi_step *const step = &method->step;
    step->in = method->collective[TSI_MAIN];
    step->gradient = gradient;
    step->tensors = NULL;
    step->in_place = 1;
    step->lr = (float)tsi_lr_now(method);
    step->scale = clip_scale(method);
    const int finite =
        method->options.skip_finite_check || largest_gradient(method) < TSK_INFINITY_BITS;
    if (finite) {
        struct tsi_direct direct = tsi_direct_of(method, gradient, 0, method->count);
        direct.local = method->buffers.point;
        tsi_direct(method->stages.direction, &direct);
    }
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
