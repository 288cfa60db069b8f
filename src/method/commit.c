/* The end of a step: the aggregate becomes weights and the new state takes the place of the old, or
 * nothing has happened. */
#include <math.h>
#include <string.h>

#include "method/method.h"
#include "point/point.h"

/* ---- the point ---- */

void tsi_move_point(const terse_method *method, const float *residual, size_t first, size_t count)
{
    const struct tsi_buffers *const buffers = &method->buffers;
    tsi_point_detach(method->step.in->kernel, tsi_threads(method), buffers->weights + first,
                     residual + first, (float)tsi_value(method, TSI_LAMBDA), count,
                     buffers->point + first);
}

void tsi_method_point(terse_method *method)
{
    struct tsi_buffers *const buffers = &method->buffers;
    method->step.in = method->collective[TSI_MAIN];
    if (method->stages.point == TSI_POINT_DETACHED)
        tsi_move_point(method, buffers->residual.now, 0, method->count);
    else if (buffers->point)
        memcpy(buffers->point, buffers->weights, method->count * sizeof(float));
}

/* ---- commit ---- */

static void swap(struct tsi_pair *pair)
{
    float *const before = pair->now;
    pair->now = pair->next;
    pair->next = before;
}

/* The new state takes the place of the old. */
static void swap_state(terse_method *method)
{
    struct tsi_buffers *const buffers = &method->buffers;
    if (!method->step.in_place) {
        swap(&buffers->residual);
        swap(&buffers->m);
        swap(&buffers->v);
    }
    if (method->step.in->owner.kind != TSI_OWNER_MEAN)
        swap(&buffers->owner);
    if (buffers->change.now) /* what local steps added up was sent */
        memset(buffers->change.now, 0, method->count * sizeof(float));
}

/* The point after a step: all of it, or what the slices could not know yet. */
static void next_point(terse_method *method)
{
    const struct tsi_step *const step = &method->step;
    if (!step->moves_point)
        tsi_method_point(method);
    for (uint32_t b = 0; b < step->posted_count && step->moves_point; b++) {
        const struct tsi_aggregate *const aggregate = &step->posted[b]->aggregate;
        for (uint32_t i = 0; i < aggregate->count; i++)
            tsi_move_point(method, method->buffers.residual.now, (size_t)aggregate->span[i].first,
                           aggregate->span[i].count);
    }
}

static void update_weights(terse_method *method)
{
    const struct tsi_step *const step = &method->step;
    struct tsi_update update = tsi_update_of(method);
    for (uint32_t i = 0; i < step->posted_count; i++) {
        struct tsi_bucket *const bucket = step->posted[i];
        const int partial = bucket->aggregate.partial;
        update.clear = method->options.private_output && partial ? &method->clear : NULL;
        if (method->options.private_output && !partial)
            method->clear.known = 0;
        if (partial && !tsi_update_is_local(&update))
            tsi_aggregate_expand(&bucket->aggregate, step->in->dense, bucket->first, bucket->count);
        else if (partial && update.kind == TSI_UPDATE_WRITE && !update.clear)
            memset(update.weights + bucket->first, 0, (size_t)bucket->count * sizeof(float));
        tsi_update(&update, &bucket->aggregate);
    }
}

static double norm_of(const terse_method *method, const float *floats)
{
    return sqrt(method->step.in->kernel->square_sum_f32(floats, method->count));
}

/* After the agreement the order over all buckets is: posterior, update, new state, next point. */
static void commit(terse_method *method, terse_method_report *report)
{
    struct tsi_step *const step = &method->step;
    size_t len = 0;
    uint64_t from = tsi_now();
    for (uint32_t i = 0; i < step->posted_count; i++)
        len += step->posted[i]->payload_len;
    if (step->scores)
        tsi_posterior_remember(&method->posterior, step->posted, step->posted_count,
                               tsi_value(method, TSI_VALUES) != 0 ? step->in->take : NULL);
    update_weights(method);
    swap_state(method);
    next_point(method);
    if (method->bits && step->in == method->collective[TSI_MAIN])
        report->capped = tsi_method_bits_commit(method);
    tsi_clock(step->in, TERSE_STAGE_UPDATE, &from);
    report->bits = method->count > 0 ? 8.0 * (double)len / (double)method->count : 0;
    if (step->measuring && method->buffers.residual.now) {
        report->residual_norm = norm_of(method, method->buffers.residual.now);
        report->compression_error =
            step->source_square > 0 ? report->residual_norm / sqrt(step->source_square) : 0;
    }
    method->progress.step++;
    method->progress.rounds++;
}

void tsi_step_skip(terse_method *method)
{
    for (uint32_t i = 0; i < method->step.posted_count; i++)
        tsi_codec_roll_back(method->step.posted[i]->codec);
    if (method->stages.point == TSI_POINT_DETACHED && !method->stages.local)
        tsi_method_point(method);
    if (method->bits)
        tsi_method_bits_forget(method);
}

void tsi_step_end(terse_method *method, terse_status skipped, int32_t skipped_by,
                  terse_method_report *report)
{
    struct tsi_step *const step = &method->step;
    const double dense =
        2.0 * (method->workers - 1) / method->workers * sizeof(float) * (double)method->count;
    terse_method_report all = {.exchange = {.step = method->progress.rounds,
                                            .dense_bytes = (uint64_t)dense,
                                            .skipped = skipped,
                                            .skipped_by = skipped_by},
                               .step = method->progress.step,
                               .lr = (double)step->lr,
                               .residual_norm = NAN,
                               .compression_error = NAN,
                               .exchanged = 1};
    struct tsi_collective *const in = step->in;
    if (skipped == TERSE_OK)
        commit(method, &all);
    else
        tsi_step_skip(method);
    terse_group_traffic(method->group, &all.exchange.bytes_sent, &all.exchange.bytes_received);
    all.exchange.bytes_sent -= step->sent_before;
    all.exchange.bytes_received -= step->received_before;
    memcpy(all.exchange.nanoseconds, in->nanoseconds, sizeof in->nanoseconds);
    step->state = TSI_STEP_NONE;
    if (report)
        *report = all;
}
