/* One step of one worker, from top to bottom:
 *
 *   begin     learning rate, clipping, the finite check where state is written in place; the
 *             opening record is posted
 *   send      slice by slice, while it is in the cache: finite check, direction, residual, prescan;
 *             then phase 0 of the combine encodes and posts
 *   progress  turn by turn: the next bucket is sent, and each before it makes one phase, until all
 *             have their aggregate
 *   close     the closing record: how it went here, and how it went elsewhere
 *   commit    posterior, update, new state in place of the old, next point
 *
 * record.c has the opening and closing records, commit.c the commit. A whole gradient is one
 * bucket; buckets.c has the calls of several. Turns are a fixed order of all messages, so ranks
 * agree on it whatever arrives when, and no more buckets are under way than a combine has phases.
 * Each call of progress begins with a wait and ends with a post, so one thread can take all workers
 * of a process through a step side by side; advance does the same, but returns where it would wait.
 *
 * Nothing is taken back: new residuals and moments are written beside the old ones and swapped in
 * by the commit. Methods that keep both write them in place as long as rates.c rules out that the
 * step is skipped late, since a second set of buffers costs them a tenth of a step. If such a step
 * fails, their state is of no use. */
#include <math.h>
#include <string.h>

#include "base/fault.h"
#include "base/parallel.h"
#include "group/group.h"
#include "method/method.h"

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

/* Where this step reads and writes its state: over it, or beside it. What is encoded lies in the
 * residual, in `change`, in the momentum, or is the gradient itself. */
static terse_status choose_buffers(terse_method *method, terse_fault *fault)
{
    const struct tsi_buffers *const buffers = &method->buffers;
    struct tsi_collective *const in = method->step.in;
    struct tsi_direct *const direct = &method->step.direct;
    const int in_place = method->step.in_place;
    if (!in_place && buffers->residual.now && !buffers->residual.next &&
        !tsi_buffers_complete(method))
        return tsi_fail(fault, TERSE_NO_MEMORY, 0, "out of memory");
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
    return TERSE_OK;
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
        .flat = step->flat,
        .tensor_bytes = step->tensor_bytes,
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
    terse_status status = tsi_opening_post(method, finite, bound, &why);
    tsi_clock(in, TERSE_STAGE_GROUP, &from);
    if (status == TERSE_OK && posting) /* never in place, whatever the others say */
        status = choose_buffers(method, &why);
    if (status != TERSE_OK)
        return fail(method, status, &why, fault);
    step->state = TSI_STEP_OPENING;
    return TERSE_OK;
}

/* ---- progress ---- */

void tsi_step_add(terse_method *method, struct tsi_bucket *bucket, const float *gradient)
{
    bucket->pass = bucket->phase = 0;
    if (bucket->codec->states_len > 0)
        tsi_codec_save(bucket->codec);
    method->step.flat[method->step.posted_count] = gradient;
    method->step.posted[method->step.posted_count++] = bucket;
}

/* The bucket's next phase. The first of all also produces what it encodes. */
static terse_status make_phase(terse_method *method, uint32_t number)
{
    struct tsi_collective *const in = method->step.in;
    struct tsi_bucket *const bucket = method->step.posted[number];
    method->step.gradient = method->step.flat[number];
    if (tsi_encodes_gradient(method))
        in->source = method->step.gradient;
    const terse_status status = bucket->phase == 0 && bucket->pass == 0
                                    ? tsi_step_send(method, bucket)
                                    : in->combine->phase[bucket->phase++](bucket);
    if (!in->combine->phase[bucket->phase] && bucket->pass + 1 < in->about.passes) {
        bucket->pass++;
        bucket->phase = 0;
    }
    return status;
}

/* Has all arrived that the bucket's next phase waits for? */
static terse_status has_arrived(struct tsi_bucket *bucket, int *arrived, terse_fault *fault)
{
    const struct tsi_combine_ops *const combine = bucket->in->combine;
    *arrived = 1;
    if (bucket->phase == 0)
        return TERSE_OK;
    return combine->arrived ? combine->arrived(bucket, arrived, fault)
                            : tsi_group_arrived(bucket->in->group, bucket->request, arrived, fault);
}

/* The rest of a turn, or the next one: every bucket that has been sent makes one phase, and so does
 * one more. The youngest comes first: it has nothing to wait for. *complete: not where `waits` is 0
 * and something has not arrived yet. */
static terse_status make_turn(terse_method *method, int waits, int *complete, terse_fault *fault)
{
    struct tsi_step *const step = &method->step;
    struct tsi_turns *const turns = &step->turns;
    const struct tsi_combine_ops *const combine = step->in->combine;
    *complete = 1;
    if (turns->left <= turns->first) {
        turns->begun++;
        turns->left = turns->begun < step->posted_count ? turns->begun : step->posted_count;
    }
    for (; turns->left > turns->first; turns->left--) {
        struct tsi_bucket *const bucket = step->posted[turns->left - 1];
        terse_fault why = {.rank = -1};
        terse_status status = TERSE_OK;
        if (!combine->phase[bucket->phase])
            continue;
        if (!waits)
            status = has_arrived(bucket, complete, &why);
        if (status == TERSE_OK && !*complete)
            return TERSE_OK;
        if (status == TERSE_OK) {
            status = make_phase(method, turns->left - 1);
            why = bucket->fault;
        }
        if (status != TERSE_OK)
            return fail(method, status, &why, fault);
    }
    while (turns->first < step->posted_count && !combine->phase[step->posted[turns->first]->phase])
        turns->first++;
    return TERSE_OK;
}

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
    step->in_place = !step->posting && bound < INFINITY && tsi_bound_is_safe(method, bound) &&
                     tsi_weights_stay_finite(method, bound * method->workers);
    if (!step->posting)
        status = choose_buffers(method, &why);
    if (status == TERSE_OK && !step->posting)
        status = tsi_bucket_of(step->in, 0, terse_layout_tensors(method->layout), &bucket, &why);
    if (status != TERSE_OK)
        return fail(method, status, &why, fault);
    step->state = TSI_STEP_SENDING;
    if (step->posting)
        return TERSE_OK;
    tsi_step_add(method, bucket, step->gradient);
    return make_turn(method, 1, &(int){0}, fault);
}

/* All buckets have their aggregate. */
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
    case TSI_STEP_SENDING: {
        const terse_status status = make_turn(method, 1, &(int){0}, fault);
        const int all = method->step.turns.first == method->step.posted_count;
        return status == TERSE_OK && all ? close_step(method, fault) : status;
    }
    case TSI_STEP_CLOSING: return closed(method, report, fault);
    case TSI_STEP_GATHERING:
    case TSI_STEP_NONE: break;
    }
    return tsi_fail(fault, TERSE_BAD_ARGUMENT, 0, "no step is under way");
}

terse_status tsi_step_advance(terse_method *method, terse_fault *fault)
{
    struct tsi_step *const step = &method->step;
    terse_fault why = {.rank = -1};
    terse_status status = TERSE_OK;
    int arrived = 1;
    int done = 0;
    if (step->state == TSI_STEP_OPENING) {
        status = tsi_group_arrived(method->group, method->agreement.request, &arrived, &why);
        if (status != TERSE_OK)
            return fail(method, status, &why, fault);
        if (arrived)
            status = opened(method, &done, NULL, fault);
    }
    while (status == TERSE_OK && arrived && step->state == TSI_STEP_SENDING &&
           (step->turns.left > step->turns.first || step->turns.begun < step->posted_count))
        status = make_turn(method, 0, &arrived, fault);
    return status;
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
    (void)!choose_buffers(method, NULL); /* in place: it cannot fail */
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

terse_status tsi_check_tensors(const terse_method *method, const float *const *gradient,
                               uint32_t first, uint32_t count, terse_fault *fault)
{
    for (uint32_t i = 0; i < count; i++)
        if (!gradient[i] && tsi_layout_piece(method->layout, first + i).count > 0)
            return tsi_fail(fault, TERSE_BAD_ARGUMENT, 0, "the gradient of tensor %u is NULL",
                            first + i);
    return TERSE_OK;
}

terse_status tsi_flatten(terse_method *method, const float *const *gradient, uint32_t first,
                         uint32_t count, terse_fault *fault)
{
    struct tsi_buffers *const buffers = &method->buffers;
    if (!tsi_buffer_make(&buffers->flat, 1, method->count))
        return tsi_fail(fault, TERSE_NO_MEMORY, 0, "out of memory");
    for (uint32_t i = 0; i < count; i++) {
        const struct tsi_piece tensor = tsi_layout_piece(method->layout, first + i);
        if (gradient[i]) /* NULL: it has no elements */
            memcpy(buffers->flat + tensor.offset, gradient[i], tensor.count * sizeof(float));
    }
    return TERSE_OK;
}

terse_status terse_method_step_tensors(terse_method *method, const float *const *gradient,
                                       terse_method_report *report, terse_fault *fault)
{
    terse_status status = tsi_check_one(method, gradient, fault);
    if (status != TERSE_OK)
        return status;
    const uint32_t tensors = terse_layout_tensors(method->layout);
    status = tsi_check_tensors(method, gradient, 0, tensors, fault);
    if (status != TERSE_OK)
        return status;
    if (!tsi_needs_flat(method))
        return step_workers(&method, &(const float *){NULL}, gradient, 1, report, fault);
    status = tsi_flatten(method, gradient, 0, tensors, fault);
    const float *const flat = method->buffers.flat;
    return status == TERSE_OK ? step_workers(&method, &flat, NULL, 1, report, fault) : status;
}
