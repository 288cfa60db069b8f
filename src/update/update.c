#include "update/update.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "base/divide.h"
#include "base/parallel.h"
#include "kernels/kernels.h"

#define AHEAD ((size_t)16)  /* entries whose weights are prefetched: about a memory latency */
#define FLOATS_PER_PLACE 8u /* with more places than that, clearing the whole buffer is as fast */

/* One span for the loops below. `sum` and the buffers of `update` are those of its first element.
 */
struct job {
    struct tsi_update update;
    const float *restrict sum;
    const struct tsi_span *span;
    struct tsi_divisor divisor;
};

static float sign_of(float x)
{
    return (float)((x > 0) - (x < 0));
}

/* Lets the buffers begin with an element. */
static void move_to(struct tsi_update *update, size_t element)
{
    update->weights += element;
    update->m = update->m ? update->m + element : NULL;
    update->v = update->v ? update->v + element : NULL;
    update->v_most = update->v_most ? update->v_most + element : NULL;
}

/* ---- dense spans, chunk by chunk ---- */

static void sgd(void *context, size_t chunk, size_t first, size_t count)
{
    const struct job *const job = context;
    const float *restrict const sum = job->sum + first;
    float *restrict const weights = job->update.weights + first;
    const struct tsi_divisor divisor = job->divisor;
    const float lr = job->update.lr;
    const float decay = job->update.decay;
    (void)chunk;
    for (size_t i = 0; i < count; i++)
        weights[i] -= lr * (tsi_divide(sum[i], divisor) + decay * weights[i]);
}

static void sgd_momentum(void *context, size_t chunk, size_t first, size_t count)
{
    const struct job *const job = context;
    const float *restrict const sum = job->sum + first;
    float *restrict const weights = job->update.weights + first;
    float *restrict const m = job->update.m + first;
    const struct tsi_divisor divisor = job->divisor;
    const float lr = job->update.lr;
    const float decay = job->update.decay;
    const float momentum = job->update.momentum;
    (void)chunk;
    for (size_t i = 0; i < count; i++) {
        m[i] = momentum * m[i] + (tsi_divide(sum[i], divisor) + decay * weights[i]);
        weights[i] -= lr * m[i];
    }
}

static void subtract(void *context, size_t chunk, size_t first, size_t count)
{
    const struct job *const job = context;
    const float *restrict const sum = job->sum + first;
    float *restrict const weights = job->update.weights + first;
    const struct tsi_divisor divisor = job->divisor;
    const float lr = job->update.lr;
    (void)chunk;
    for (size_t i = 0; i < count; i++)
        weights[i] -= lr * tsi_divide(sum[i], divisor);
}

static void subtract_momentum(void *context, size_t chunk, size_t first, size_t count)
{
    const struct job *const job = context;
    const float *restrict const sum = job->sum + first;
    float *restrict const weights = job->update.weights + first;
    float *restrict const m = job->update.m + first;
    const struct tsi_divisor divisor = job->divisor;
    const float lr = job->update.lr;
    const float momentum = job->update.momentum;
    const int nesterov = job->update.nesterov;
    (void)chunk;
    for (size_t i = 0; i < count; i++) {
        const float mean = tsi_divide(sum[i], divisor);
        m[i] = momentum * m[i] + mean;
        weights[i] -= lr * (nesterov ? momentum * m[i] + mean : m[i]);
    }
}

/* With `most` AMSGrad, as torch.optim.Adam(amsgrad=True): the largest of the uncorrected v. */
static inline void adam_steps(const struct job *job, float *restrict most, size_t first,
                              size_t count)
{
    const struct tsi_update *const update = &job->update;
    const float *restrict const sum = job->sum + first;
    float *restrict const weights = update->weights + first;
    float *restrict const m = update->m + first;
    float *restrict const v = update->v + first;
    const struct tsi_divisor divisor = job->divisor;
    const float lr = update->lr;
    const float decay = update->decay;
    const float beta1 = update->momentum;
    const float beta2 = update->beta2;
    /* (m / cm) / (sqrt(v / cv) + eps) = m * (root / cm) / (sqrt(v) + eps * root), root = sqrt(cv)
     */
    const float root = sqrtf(update->correct_v);
    const float factor = root / update->correct_m;
    const float eps = update->eps * root;
    for (size_t i = 0; i < count; i++) {
        const float mean = tsi_divide(sum[i], divisor);
        m[i] = beta1 * m[i] + (1.0f - beta1) * mean;
        v[i] = beta2 * v[i] + (1.0f - beta2) * (mean * mean);
        const float second = most && most[i] > v[i] ? most[i] : v[i];
        if (most)
            most[i] = second;
        const float ratio = factor * m[i] / (sqrtf(second) + eps);
        weights[i] -= lr * (ratio + decay * weights[i]);
    }
}

static void adam(void *context, size_t chunk, size_t first, size_t count)
{
    (void)chunk;
    adam_steps(context, NULL, first, count);
}

static void amsgrad(void *context, size_t chunk, size_t first, size_t count)
{
    const struct job *const job = context;
    (void)chunk;
    adam_steps(job, job->update.v_most + first, first, count);
}

static void signed_step(void *context, size_t chunk, size_t first, size_t count)
{
    const struct job *const job = context;
    const float *restrict const sum = job->sum + first;
    float *restrict const weights = job->update.weights + first;
    const float lr = job->update.lr;
    const float decay = job->update.decay;
    (void)chunk;
    for (size_t i = 0; i < count && decay == 0; i++)
        weights[i] -= lr * sign_of(sum[i]);
    for (size_t i = 0; i < count && decay != 0; i++)
        weights[i] -= lr * (sign_of(sum[i]) + decay * weights[i]);
}

static void replace(void *context, size_t chunk, size_t first, size_t count)
{
    const struct job *const job = context;
    (void)chunk;
    memcpy(job->update.weights + first, job->sum + first, count * sizeof(float));
}

/* The aggregate may have grown in the very buffer that it is written to. */
static void write_mean(void *context, size_t chunk, size_t first, size_t count)
{
    const struct job *const job = context;
    const float *const sum = job->sum + first;
    float *const out = job->update.weights + first;
    const struct tsi_divisor divisor = job->divisor;
    (void)chunk;
    if (out == sum && divisor.by == 1)
        return;
    for (size_t i = 0; i < count; i++)
        out[i] = tsi_divide(sum[i], divisor);
}

static void write_sign(void *context, size_t chunk, size_t first, size_t count)
{
    const struct job *const job = context;
    const float *const sum = job->sum + first;
    float *const out = job->update.weights + first;
    (void)chunk;
    for (size_t i = 0; i < count; i++)
        out[i] = sign_of(sum[i]);
}

static tsi_chunk_fn *dense_of(const struct tsi_update *update)
{
    switch (update->kind) {
    case TSI_UPDATE_SGD: return update->m ? sgd_momentum : sgd;
    case TSI_UPDATE_SIGNED: return signed_step;
    case TSI_UPDATE_SUBTRACT: return update->m ? subtract_momentum : subtract;
    case TSI_UPDATE_ADAM: return update->v_most ? amsgrad : adam;
    case TSI_UPDATE_REPLACE: return replace;
    case TSI_UPDATE_WRITE: return write_mean;
    case TSI_UPDATE_WRITE_SIGN: return write_sign;
    }
    return replace;
}

/* ---- spans of codes ---- */

/* Decoded values exist for a tile at a time, in the cache, or where they are to be written. */
static void from_codes(void *context, size_t chunk, size_t first, size_t count)
{
    const struct job *const job = context;
    const struct tsi_update *const update = &job->update;
    const int writes = update->kind == TSI_UPDATE_REPLACE ||
                       (update->kind == TSI_UPDATE_WRITE && job->divisor.by == 1);
    (void)chunk;
    for (size_t at = first; at < first + count; at += TSI_TILE) {
        const size_t here = first + count - at < TSI_TILE ? first + count - at : TSI_TILE;
        float tile[TSI_TILE];
        tsi_span_decode(job->span, at, here, writes ? update->weights + at : tile);
        struct job part = *job;
        part.sum = tile;
        move_to(&part.update, at);
        if (!writes)
            dense_of(update)(&part, 0, 0, here);
    }
}

/* ---- spans of signs ---- */

/* Signs exist as floats for a tile at a time, in the cache. Writing: x + 1 of a zero. */
static void from_signs(void *context, size_t chunk, size_t first, size_t count)
{
    const struct job *const job = context;
    const struct tsi_update *const update = &job->update;
    float *const weights = update->weights;
    (void)chunk;
    if (update->kind == TSI_UPDATE_WRITE || update->kind == TSI_UPDATE_WRITE_SIGN) {
        memset(weights + first, 0, count * sizeof *weights);
        update->kernel->sign_add_f32(weights + first, job->span->negative + first / 8, count, 1.0f);
        return;
    }
    if (update->decay == 0) { /* x + -lr is x - lr */
        update->kernel->sign_add_f32(weights + first, job->span->negative + first / 8, count,
                                     -update->lr);
        return;
    }
    for (size_t at = first; at < first + count; at += TSI_TILE) {
        const size_t here = first + count - at < TSI_TILE ? first + count - at : TSI_TILE;
        float sign[TSI_TILE] = {0};
        update->kernel->sign_add_f32(sign, job->span->negative + at / 8, here, 1.0f);
        for (size_t i = 0; i < here; i++)
            weights[at + i] -= update->lr * (sign[i] + update->decay * weights[at + i]);
    }
}

/* ---- lists ---- */

/* x -= lr * G where there is an entry: the same bits as a pass over all. */
static void from_list(const struct tsi_update *update, const struct tsi_span *span, float divisor)
{
    float *const weights = update->weights + span->first;
    const uint32_t *const index = span->index;
    const float lr = update->kind == TSI_UPDATE_WRITE ? -1.0f : update->lr;
    for (size_t i = 0; i < span->count; i++) {
        __builtin_prefetch(&weights[index[i + AHEAD < span->count ? i + AHEAD : i]], 1);
        weights[index[i]] -= lr * (span->value[i] / divisor);
    }
}

/* ---- all ---- */

int tsi_update_is_local(const struct tsi_update *update)
{
    switch (update->kind) {
    case TSI_UPDATE_SGD: return update->decay == 0 && !update->m;
    case TSI_UPDATE_SUBTRACT: return !update->m;
    case TSI_UPDATE_WRITE: return 1;
    default: return 0;
    }
}

/* The update of one span, its buffers moved to where the span begins. */
static struct job job_of(const struct tsi_update *update, const struct tsi_aggregate *aggregate,
                         const struct tsi_span *span)
{
    struct job job = {*update, span->value, span, tsi_divisor_of(aggregate->divisor)};
    move_to(&job.update, (size_t)span->first);
    return job;
}

void tsi_update(const struct tsi_update *update, const struct tsi_aggregate *aggregate)
{
    for (uint32_t i = 0; i < aggregate->count; i++) {
        const struct tsi_span *const span = &aggregate->span[i];
        struct job job = job_of(update, aggregate, span);
        if (update->clear)
            tsi_sparse_clear_mark(update->clear, span->first, span->index, span->count);
        switch (span->kind) {
        case TSI_SPAN_DENSE:
            tsi_each_chunk(update->threads, span->count, dense_of(update), &job);
            break;
        case TSI_SPAN_CODED: tsi_each_chunk(update->threads, span->count, from_codes, &job); break;
        case TSI_SPAN_SIGNS: tsi_each_chunk(update->threads, span->count, from_signs, &job); break;
        case TSI_SPAN_LIST: from_list(update, span, aggregate->divisor); break;
        }
    }
}

/* ---- trying ---- */

/* |x_new - x_old|^2 in the order of the elements. Nothing is added where nothing moves: spans and
 * buckets may be cut in any way. */
static void add_square(double *square, const float *restrict after, const float *restrict before,
                       size_t count)
{
    for (size_t i = 0; i < count; i++) {
        const double moved = (double)after[i] - (double)before[i];
        *square += moved * moved;
    }
}

static int try_tile(const struct job *job, size_t at, size_t count, double *square)
{
    struct job part = *job;
    struct tsi_update *const update = &part.update;
    float **const buffer[] = {&update->weights, &update->m, &update->v, &update->v_most};
    float copy[sizeof buffer / sizeof buffer[0]][TSI_TILE];
    float sum[TSI_TILE] = {0};
    uint32_t most = 0;
    part.sum = sum;
    if (job->span->kind == TSI_SPAN_DENSE)
        part.sum = job->sum + at;
    else if (job->span->kind == TSI_SPAN_CODED)
        tsi_span_decode(job->span, at, count, sum);
    else
        update->kernel->sign_add_f32(sum, job->span->negative + at / 8, count, 1.0f);
    move_to(update, at);
    for (size_t b = 0; b < sizeof buffer / sizeof buffer[0]; b++)
        if (*buffer[b])
            *buffer[b] = memcpy(copy[b], *buffer[b], count * sizeof(float));
    dense_of(update)(&part, 0, 0, count);
    if (square)
        add_square(square, update->weights, job->update.weights + at, count);
    for (size_t b = 0; b < sizeof buffer / sizeof buffer[0]; b++) {
        const uint32_t here = *buffer[b] ? update->kernel->magnitude_max_f32(*buffer[b], count) : 0;
        most = here > most ? here : most;
    }
    return most < TSK_INFINITY_BITS;
}

static int try_list(const struct tsi_update *update, const struct tsi_span *span, float divisor,
                    double *square)
{
    int finite = 1;
    for (size_t i = 0; i < span->count; i++) {
        const float before = update->weights[span->first + span->index[i]];
        const float after = before - update->lr * (span->value[i] / divisor);
        finite &= isfinite(after) != 0;
        if (square)
            add_square(square, &after, &before, 1);
    }
    return finite;
}

int tsi_update_stays_finite(const struct tsi_update *update, const struct tsi_aggregate *aggregate,
                            double *square)
{
    int finite = 1;
    for (uint32_t i = 0; i < aggregate->count && finite; i++) {
        const struct tsi_span *const span = &aggregate->span[i];
        struct job job = job_of(update, aggregate, span);
        if (span->kind == TSI_SPAN_LIST)
            finite = try_list(update, span, aggregate->divisor, square);
        for (size_t at = 0; span->kind != TSI_SPAN_LIST && at < span->count && finite;
             at += TSI_TILE)
            finite = try_tile(&job, at, span->count - at < TSI_TILE ? span->count - at : TSI_TILE,
                              square);
    }
    return finite;
}

/* ---- clearing a private output ---- */

int tsi_sparse_clear_create(struct tsi_sparse_clear *clear, size_t floats)
{
    *clear = (struct tsi_sparse_clear){.cap = floats / FLOATS_PER_PLACE};
    clear->place = malloc((clear->cap + 1) * sizeof *clear->place);
    return clear->place != NULL;
}

void tsi_sparse_clear_destroy(struct tsi_sparse_clear *clear)
{
    free(clear->place);
}

void tsi_sparse_clear_clear(struct tsi_sparse_clear *clear, float *buffer, size_t floats)
{
    for (size_t i = 0; clear->known && i < clear->count; i++) {
        __builtin_prefetch(&buffer[clear->place[i + AHEAD < clear->count ? i + AHEAD : i]], 1);
        buffer[clear->place[i]] = 0;
    }
    if (!clear->known && floats > 0)
        memset(buffer, 0, floats * sizeof *buffer);
    clear->count = 0;
    clear->known = 1;
}

void tsi_sparse_clear_mark(struct tsi_sparse_clear *clear, uint64_t base, const uint32_t *index,
                           size_t count)
{
    if (count > clear->cap - clear->count)
        clear->known = 0;
    if (!clear->known)
        return;
    uint64_t *const place = clear->place + clear->count;
    for (size_t i = 0; i < count; i++)
        place[i] = base + (index ? index[i] : i);
    clear->count += count;
}
