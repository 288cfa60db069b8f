/* The end of a step: the aggregate becomes weights and the new state takes the place of the old, or
 * nothing has happened. */
#include <math.h>
#include <string.h>

#include "base/parallel.h"
#include "method/method.h"

/* ---- the point: x, or x - lambda * e (DEF, Xu & Huang, ICML 2022) ---- */

struct detach {
    const terse_method *method;
    const float *residual;
    size_t first;
};

static void detach_chunk(void *context, size_t chunk, size_t first, size_t count)
{
    const struct detach *const detach = context;
    const terse_method *const method = detach->method;
    const size_t at = detach->first + first;
    (void)chunk;
    method->collective[TSI_MAIN]->kernel->sub_scaled_f32(
        method->buffers.weights + at, detach->residual + at, (float)tsi_value(method, TSI_LAMBDA),
        count, method->buffers.point + at);
}

void tsi_move_point(const terse_method *method, const float *residual, size_t first, size_t count)
{
    struct detach detach = {method, residual, first};
    tsi_each_chunk(method->options.threads, count, detach_chunk, &detach);
}

void tsi_method_point(terse_method *method)
{
    const struct tsi_buffers *const buffers = &method->buffers;
    if (method->stages.point == TSI_POINT_DETACHED)
        tsi_move_point(method, buffers->residual.now, 0, method->count);
    else if (buffers->point)
        memcpy(buffers->point, buffers->weights, method->count * sizeof(float));
}

/* ---- the update ---- */

static struct tsi_update update_of(const terse_method *method)
{
    const struct tsi_step *const step = &method->step;
    const struct tsi_stages *const stages = &method->stages;
    const int adam = stages->update == TSI_UPDATE_ADAM;
    const int decays = (int)tsi_value(method, TSI_DECAY) == TSI_DECAY_DECOUPLED;
    const double t = (double)method->progress.rounds + 1;
    struct tsi_update update = {
        .kind = stages->update,
        .lr = step->lr,
        .decay = decays ? (float)tsi_value(method, TSI_WD) : 0,
        .momentum = (float)tsi_value(method, adam ? TSI_BETA1 : TSI_MOMENTUM),
        .beta2 = (float)tsi_value(method, TSI_BETA2),
        .eps = (float)tsi_value(method, TSI_EPS),
        .correct_m = (float)(1 - pow(tsi_value(method, TSI_BETA1), t)),
        .correct_v = (float)(1 - pow(tsi_value(method, TSI_BETA2), t)),
        .m = method->buffers.update_m,
        .v = method->buffers.update_v,
        .v_most = method->buffers.update_v_most,
        .weights = method->buffers.weights,
        .threads = method->options.threads,
        .kernel = step->in->kernel,
    };
    if (method->options.aggregate_out)
        update.kind =
            stages->update == TSI_UPDATE_SIGNED ? TSI_UPDATE_WRITE_SIGN : TSI_UPDATE_WRITE;
    if (stages->update == TSI_UPDATE_SUBTRACT) { /* lr was inside; local steps have an outer one */
        update.lr = stages->local ? (float)tsi_value(method, TSI_OUTER_LR) : 1;
        update.momentum = (float)tsi_value(method, TSI_OUTER_MOMENTUM);
        update.nesterov =
            tsi_value(method, TSI_NESTEROV) != 0 || tsi_value(method, TSI_EITHER_NESTEROV) != 0;
    }
    return update;
}

int tsi_weights_stay_finite(terse_method *method, double largest)
{
    const struct tsi_step *const step = &method->step;
    const struct tsi_update update = update_of(method);
    int finite = step->posted_count > 0;
    if (method->options.aggregate_out || update.kind == TSI_UPDATE_REPLACE) /* owners have looked */
        return 1;
    if (tsi_reach_is_safe(method, &update, largest))
        return 1;
    for (uint32_t i = 0; i < step->posted_count && finite; i++) {
        struct tsi_bucket *const bucket = step->posted[i];
        if (bucket->aggregate.partial && !tsi_update_is_local(&update))
            tsi_aggregate_expand(&bucket->aggregate, step->in->dense, bucket->first, bucket->count);
        finite = tsi_update_stays_finite(&update, &bucket->aggregate, NULL);
    }
    return finite;
}

static void update_weights(terse_method *method)
{
    const struct tsi_step *const step = &method->step;
    struct tsi_update update = update_of(method);
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

/* ---- rejection: a step of the weights that is much longer than the last one is not taken (the
 * programs of RegTop-k's authors) ---- */

#define FIRST_REJECTED 1e5 /* |x_new - x_old|^2, */
#define LONGER 100         /* and what later ones are in units of the last one that was taken */

void tsi_rejection_check(struct tsi_rejection *rejection)
{
    if (!(rejection->least > 0 && isfinite(rejection->least)))
        rejection->least = FIRST_REJECTED;
}

/* |x_new - x_old|^2 if the update is done, added up in the order of the tensors, whatever the
 * buckets are and in whatever order they were posted: every worker has the same bits. */
static double square_of_step(terse_method *method)
{
    const struct tsi_step *const step = &method->step;
    const struct tsi_update update = update_of(method);
    double square = 0;
    for (uint32_t t = 0, next = 0; t < terse_layout_tensors(method->layout); t = next) {
        uint32_t i = 0;
        while (step->posted[i]->first_tensor != t)
            i++;
        struct tsi_bucket *const bucket = step->posted[i];
        if (bucket->aggregate.partial && !tsi_update_is_local(&update))
            tsi_aggregate_expand(&bucket->aggregate, step->in->dense, bucket->first, bucket->count);
        (void)tsi_update_stays_finite(&update, &bucket->aggregate, &square);
        next = t + bucket->tensor_count;
    }
    return square;
}

/* A step that moves nothing says nothing of the length of the next one. */
static int is_rejected(terse_method *method)
{
    struct tsi_rejection *const rejection = &method->bounds.rejection;
    if (tsi_value(method, TSI_REJECT) == 0)
        return 0;
    const double square = square_of_step(method);
    if (square >= rejection->least) {
        rejection->count++;
        return 1;
    }
    if (square > 0)
        rejection->least = LONGER * square;
    return 0;
}

/* ---- commit ---- */

/* After the agreement the order over all buckets is: posterior, update, new state, next point. */
static void commit(terse_method *method, terse_method_report *report)
{
    struct tsi_buffers *const buffers = &method->buffers;
    struct tsi_step *const step = &method->step;
    struct tsi_pair *const pairs[] = {&buffers->owner, &buffers->residual, &buffers->m,
                                      &buffers->v};
    const size_t first = step->in->owner.kind == TSI_OWNER_MEAN ? 1 : 0;
    const size_t end = step->in_place ? 1 : sizeof pairs / sizeof pairs[0];
    uint64_t from = tsi_now();
    size_t len = 0;
    for (uint32_t i = 0; i < step->posted_count; i++)
        len += step->posted[i]->payload_len;
    memcpy(step->tensor_bytes, step->in->buckets.tensor_bytes,
           terse_layout_tensors(method->layout) * sizeof *step->tensor_bytes);
    if (step->scores)
        tsi_posterior_remember(&method->posterior, step->posted, step->posted_count,
                               tsi_value(method, TSI_VALUES) != 0 ? step->in->take : NULL);
    if (!is_rejected(method))
        update_weights(method);
    for (size_t i = first; i < end; i++)
        *pairs[i] = (struct tsi_pair){pairs[i]->next, pairs[i]->now};
    if (buffers->change.now) /* what local steps added up was sent */
        memset(buffers->change.now, 0, method->count * sizeof(float));
    if (!step->moves_point && buffers->point)
        tsi_method_point(method);
    for (uint32_t b = 0; b < step->posted_count && step->moves_point; b++) { /* what was sent */
        const struct tsi_aggregate *const aggregate = &step->posted[b]->aggregate;
        for (uint32_t i = 0; i < aggregate->count; i++)
            tsi_move_point(method, buffers->residual.now, (size_t)aggregate->span[i].first,
                           aggregate->span[i].count);
    }
    if (method->bits && step->in == method->collective[TSI_MAIN])
        report->capped = tsi_method_bits_commit(method);
    tsi_clock(step->in, TERSE_STAGE_UPDATE, &from);
    report->bits = method->count > 0 ? 8.0 * (double)len / (double)method->count : 0;
    if (step->measuring && buffers->residual.now) {
        report->residual_norm =
            sqrt(step->in->kernel->square_sum_f32(buffers->residual.now, method->count));
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
    struct tsi_collective *const in = step->in;
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
