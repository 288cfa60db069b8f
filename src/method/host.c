/* What a method does inside a step of its exchange: direct, own, commit. Reads from top to bottom
 * as data flows. */
#include <math.h>
#include <string.h>

#include "base/parallel.h"
#include "direction/direction.h"
#include "kernels/bind.h"
#include "method/method.h"
#include "point/point.h"

/* ---- direction ---- */

/* beta2 of this step: constant, or the theory's 1 - theta / (t + shift), t from 1. */
static double second_decay(const terse_method *method)
{
    const double t = (double)method->progress.step + 1 + tsi_value(method, TSI_SHIFT);
    if ((int)tsi_value(method, TSI_RATES) == TSI_RATES_THEORY)
        return 1 - tsi_value(method, TSI_THETA) / t;
    return tsi_value(method, TSI_BETA2);
}

/* Adam's correction of both moments as one factor of the rate; QAdam (with v0 > 0) has none. */
static double correction(const terse_method *method)
{
    const double t = (double)method->progress.step + 1;
    if (tsi_value(method, TSI_EPS) == 0)
        return 1;
    return sqrt(1 - pow(tsi_value(method, TSI_BETA2), t)) /
           (1 - pow(tsi_value(method, TSI_BETA1), t));
}

/* Decay is part of the direction where lr is inside it; elsewhere the update does it. */
static struct tsi_direct direction_of(const terse_method *method, const float *gradient,
                                      size_t first, size_t count)
{
    const struct tsi_stations *const stations = &method->stations;
    const int inside = stations->unit == TSI_UNIT_WEIGHT;
    float *const out = method->memory ? method->memory : method->said;
    return (struct tsi_direct){
        .gradient = gradient,
        .at = terse_method_point(method) + first,
        .scale = method->scale,
        .decay = inside ? (float)tsi_value(method, TSI_WD) : 0,
        .rate = inside ? method->lr : 1,
        .m = method->m ? method->m + first : NULL,
        .v = method->v ? method->v + first : NULL,
        .out = out ? out + first : NULL,
        .local = stations->local ? method->point + first : NULL,
        .count = count,
        .threads = method->options.threads ? method->options.threads : 1,
    };
}

typedef void direction_fn(const struct tsi_direct *direct);

/* There and back. */
static const struct {
    direction_fn *go;
    direction_fn *back;
} directions[] = {
    [TSI_DIRECTION_GRADIENT] = {tsi_direct_gradient, tsi_undirect_gradient},
    [TSI_DIRECTION_MOMENTUM] = {tsi_direct_momentum, tsi_undirect_momentum},
    [TSI_DIRECTION_AVERAGE] = {tsi_direct_momentum, tsi_undirect_momentum},
    [TSI_DIRECTION_ADAM] = {tsi_direct_adam, tsi_undirect_adam},
};

/* `gradient` is that of the element `first`. */
static void direct_run(const terse_method *method, const float *gradient, size_t first,
                       size_t count, int back)
{
    struct tsi_direct direct = direction_of(method, gradient, first, count);
    const enum tsi_direction direction = method->stations.direction;
    switch (direction) {
    case TSI_DIRECTION_GRADIENT:
        if (!direct.out)
            return; /* the gradient itself is said */
        break;
    case TSI_DIRECTION_MOMENTUM:
        direct.keep = (float)tsi_value(method, TSI_MOMENTUM);
        direct.add = 1;
        break;
    case TSI_DIRECTION_AVERAGE:
        direct.keep = (float)tsi_value(method, TSI_BETA);
        direct.add = 1 - direct.keep;
        break;
    case TSI_DIRECTION_ADAM:
        direct.keep = (float)tsi_value(method, TSI_BETA1);
        direct.add = 1 - direct.keep;
        direct.keep_v = (float)second_decay(method);
        direct.eps = (float)tsi_value(method, TSI_EPS);
        direct.rate = (float)(method->lr * correction(method));
        break;
    }
    if (back)
        directions[direction].back(&direct);
    else
        directions[direction].go(&direct);
}

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

static void direct_elements(const terse_method *method, size_t first, size_t count, int back)
{
    const size_t end = first + count;
    if (!method->tensors) {
        direct_run(method, method->gradient + first, first, count, back);
        return;
    }
    for (uint32_t t = tensor_at(method->layout, first); first < end; t++) {
        const struct tsi_piece tensor = tsi_layout_piece(method->layout, t);
        const size_t behind = tensor.offset + tensor.count;
        const size_t here = (behind < end ? behind : end) - first;
        direct_run(method, method->tensors[t] + (first - tensor.offset), first, here, back);
        first += here;
    }
}

/* What is said lies in the memory, in `said`, in the momentum, or is the gradient itself. */
static const float *source(const terse_method *method)
{
    return method->memory ? method->memory
           : method->said ? method->said
           : method->m    ? method->m
                          : method->gradient;
}

/* RegTop-k, and not its warm-up. */
static int scores(const terse_method *method)
{
    return method->settings.row->posterior &&
           method->under_way == method->exchange[TSI_EXCHANGE_MAIN];
}

/* RegTop-k: elements that the others cancelled last round count less. They are scored run by run,
 * while the memory that they lie in is still in the cache. */
static void score(terse_method *method, struct tsi_bucket *bucket, size_t first, size_t count)
{
    struct tsi_posterior *const posterior = &method->posterior;
    const enum tsi_posterior_form form = (enum tsi_posterior_form)tsi_value(method, TSI_FORM);
    struct tsi_patch *const patch = &bucket->codec->patch;
    if (first == bucket->first) {
        const size_t from = tsi_posterior_before(posterior, first);
        *patch = (struct tsi_patch){posterior->index + from, posterior->score + from, 0};
    }
    const size_t from = (size_t)(patch->index - posterior->index) + patch->count;
    const size_t to = tsi_posterior_before(posterior, first + count);
    tsi_posterior_score(posterior, form, (float)tsi_value(method, TSI_MU), method->memory, from,
                        to);
    patch->count += to - from;
}

static void keep(void *context, size_t first, size_t count)
{
    const terse_method *const method = context;
    if (method->m)
        memcpy(method->m_before + first, method->m + first, count * sizeof(float));
    if (method->v)
        memcpy(method->v_before + first, method->v + first, count * sizeof(float));
}

/* Is the answer 0 but in places? */
static int is_sparse(const struct tsi_bucket *bucket)
{
    return bucket->sparse || bucket->merged;
}

/* The next point of elements, as if nothing were said of them. */
static void detach(const terse_method *method, size_t first, size_t count)
{
    const struct tsk_table *kernel = NULL;
    if (tsk_bound(&kernel, NULL) == TERSE_OK)
        tsi_point_detach(kernel, method->options.threads ? method->options.threads : 1,
                         method->weights + first, method->memory + first,
                         (float)tsi_value(method, TSI_LAMBDA), count, method->point + first);
}

/* Where a block is said, weights and memory of all other elements are what they will be at the end
 * of the step, and still in the cache. With decay, the old point is needed to take a step back. */
static int detaches_early(const terse_method *method, const struct tsi_bucket *bucket)
{
    return method->stations.point == TSI_POINT_DETACHED && !method->stations.local &&
           bucket->sparse && tsi_value(method, TSI_WD) == 0;
}

static void direct(void *context, struct tsi_bucket *bucket, size_t first, size_t count)
{
    terse_method *const method = context;
    (void)bucket;
    if (method->said && !method->stations.local)
        memset(method->said + first, 0, count * sizeof(float));
    direct_elements(method, first, count, 0);
}

static int adds(void *context)
{
    const terse_method *const method = context;
    const struct tsi_direct direct = direction_of(method, method->gradient, 0, 0);
    return method->stations.direction == TSI_DIRECTION_GRADIENT && method->memory &&
           !method->tensors && !direct.local && direct.rate == 1 && direct.scale == 1 &&
           direct.decay == 0;
}

static void directed(void *context, struct tsi_bucket *bucket, size_t first, size_t count)
{
    terse_method *const method = context;
    const struct tsk_table *kernel = NULL;
    if (detaches_early(method, bucket))
        detach(method, first, count);
    if (scores(method))
        score(method, bucket, first, count);
    bucket->room->gradient = source(method);
    if (method->measuring && tsk_bound(&kernel, NULL) == TERSE_OK)
        method->said_square += kernel->square_sum_f32(source(method) + first, count);
}

/* A step that nobody could take after all. */
static void undirect(void *context, struct tsi_bucket *bucket)
{
    direct_elements(context, (size_t)bucket->first, (size_t)bucket->count, 1);
}

void tsi_method_local(terse_method *method)
{
    direct_elements(method, 0, method->count, 0);
}

/* ---- owner ---- */

/* x <- x - mean, not yet committed. */
static const float *own(void *context, const struct tsi_bucket *bucket,
                        const struct tsi_piece *piece)
{
    const terse_method *const method = context;
    const float *const sum = bucket->room->sum + piece->offset;
    const float *const x = method->owner_x + piece->offset;
    float *const next = method->owner_next + piece->offset;
    const float workers = (float)method->workers;
    for (size_t i = 0; i < piece->count; i++)
        next[i] = x[i] - sum[i] / workers;
    return method->owner_next;
}

/* ---- update ---- */

static struct tsi_update update_of(const terse_method *method, size_t first, size_t count,
                                   float parts)
{
    const double t = (double)method->progress.rounds + 1;
    const int adam = method->stations.update == TSI_UPDATE_ADAM;
    return (struct tsi_update){
        .sum = method->under_way->room.sum + first,
        .parts = parts,
        .lr = method->lr,
        .decay = (float)tsi_value(method, TSI_WD),
        .keep = (float)tsi_value(method, adam ? TSI_BETA1 : TSI_MOMENTUM),
        .keep_v = (float)tsi_value(method, TSI_BETA2),
        .eps = (float)tsi_value(method, TSI_EPS),
        .correct_m = (float)(1 - pow(tsi_value(method, TSI_BETA1), t)),
        .correct_v = (float)(1 - pow(tsi_value(method, TSI_BETA2), t)),
        .m = method->update_m ? method->update_m + first : NULL,
        .v = method->update_v ? method->update_v + first : NULL,
        .weights = method->weights + first,
        .count = count,
        .threads = method->options.threads ? method->options.threads : 1,
    };
}

enum { AHEAD = 16 }; /* elements prefetched: about a memory latency */

/* x -= lr * G where something was said, and leaves 0 there: the same bits as a pass over all. */
struct sparse_step {
    terse_method *method;    /* whose posterior is written down on the way */
    size_t left;             /* elements of its own payload still to come: they come first */
    struct tsi_blank *blank; /* of an answer that is kept; else NULL */
    float *sum;
    float *weights;
    float lr;
    float parts;
};

static void step_touched(void *context, uint64_t base, const uint32_t *index, size_t count)
{
    struct sparse_step *const step = context;
    float *const sum = step->sum + base;
    float *const weights = step->weights + base;
    if (step->blank)
        tsi_blank_mark(step->blank, base, index, count);
    for (size_t i = 0; i < count; i++) {
        const size_t at = index ? index[i] : i;
        weights[at] -= step->lr * (sum[at] / step->parts);
        sum[at] = 0;
    }
}

/* The same from a list. */
static void step_listed(void *context, uint64_t base, const uint32_t *index, const float *sum,
                        size_t count)
{
    const struct sparse_step *const step = context;
    float *const weights = step->weights + base;
    if (step->blank)
        tsi_blank_mark(step->blank, base, index, count);
    for (size_t i = 0; i < count; i++) {
        __builtin_prefetch(&weights[index[i + AHEAD < count ? i + AHEAD : i]], 1);
        weights[index[i]] -= step->lr * (sum[i] / step->parts);
    }
}

/* The last answer, where it is kept, is nobody's any more: it is made 0 before the next is known.
 */
static void meanwhile(void *context)
{
    terse_method *const method = context;
    const terse_exchange *const exchange = method->under_way;
    if (method->options.aggregate_out && method->options.private_output &&
        exchange->posted_count > 0 && is_sparse(exchange->posted[0]))
        tsi_blank_clear(&method->blank, method->weights, method->count);
}

static void commit_sparse(terse_method *method, struct tsi_bucket *bucket, float parts)
{
    const int inside = method->stations.unit == TSI_UNIT_WEIGHT;
    const float outer = method->stations.local ? (float)tsi_value(method, TSI_OUTER_LR) : 1;
    struct sparse_step step = {.sum = bucket->room->sum,
                               .weights = method->weights,
                               .lr = inside ? outer : method->lr,
                               .parts = parts};
    const struct tsi_toucher toucher = {&step, step_touched, method->weights};
    const struct tsi_merged_taker taker = {&step, step_listed};
    if (method->options.aggregate_out) { /* 0 + G: what two have spoken of is visited twice */
        if (method->options.private_output)
            step.blank = &method->blank;
        else
            memset(method->weights + bucket->first, 0, (size_t)bucket->count * sizeof(float));
        step.lr = -1;
    }
    if (bucket->merged) {
        tsi_merged_each(bucket->merged, bucket->codec, &taker);
        return;
    }
    bucket->ops->touch(bucket, &toucher);
    bucket->clean = 1;
}

/* x -= lr * (sign + wd * x), or the sign itself, from the bits that came. */
static void step_signs(void *context, uint64_t first, uint64_t count, const uint8_t *negative)
{
    const terse_method *const method = context;
    const struct tsk_table *kernel = NULL;
    const struct tsi_update update = update_of(method, (size_t)first, (size_t)count, 1);
    if (tsk_bound(&kernel, NULL) != TERSE_OK)
        return; /* bound since the step began */
    const struct tsi_signs signs = {&update, kernel, negative};
    if (method->options.aggregate_out)
        tsi_update_answer_bits(&signs);
    else
        tsi_update_signed_bits(&signs);
}

static void commit(void *context, struct tsi_bucket *bucket, float parts)
{
    terse_method *const method = context;
    struct tsi_update update =
        update_of(method, (size_t)bucket->first, (size_t)bucket->count, parts);
    if (bucket->packed) {
        method->blank.known = 0;
        bucket->ops->signs(bucket, &(struct tsi_signer){method, step_signs});
        return;
    }
    if (scores(method) && !method->remembered) {
        tsi_method_remember(method);
        method->remembered = 1;
    }
    if (is_sparse(bucket)) {
        commit_sparse(method, bucket, parts);
        return;
    }
    method->blank.known = 0;
    if (method->options.aggregate_out) {
        const int sign = method->stations.update == TSI_UPDATE_SIGNED;
        if (update.sum != update.weights || parts != 1 || sign)
            tsi_update_answer(&update, sign);
        return;
    }
    switch (method->stations.update) {
    case TSI_UPDATE_SGD: tsi_update_sgd(&update); break;
    case TSI_UPDATE_SIGNED: tsi_update_signed(&update); break;
    case TSI_UPDATE_SUBTRACT: /* lr was inside; local steps have an outer one */
        update.lr = method->stations.local ? (float)tsi_value(method, TSI_OUTER_LR) : 1;
        update.keep = (float)tsi_value(method, TSI_OUTER_MOMENTUM);
        update.nesterov = tsi_value(method, TSI_NESTEROV) != 0;
        tsi_update_subtract(&update);
        break;
    case TSI_UPDATE_ADAM: tsi_update_adam(&update); break;
    case TSI_UPDATE_REPLACE: tsi_update_replace(&update); break;
    }
}

/* ---- afterwards ---- */

void tsi_method_point(terse_method *method)
{
    if (!method->point)
        return;
    if (method->stations.point == TSI_POINT_DETACHED)
        detach(method, 0, method->count);
    else
        memcpy(method->point, method->weights, method->count * sizeof(float));
}

/* Weights and memory are as before the step, and so is the point. */
void tsi_method_point_back(terse_method *method)
{
    if (method->stations.point == TSI_POINT_DETACHED && !method->stations.local)
        detach(method, 0, method->count);
}

static void detach_touched(void *context, uint64_t base, const uint32_t *index, size_t count)
{
    if (!index) /* a block */
        detach(context, (size_t)base, count);
}

/* The point after a step: all of it, or what `direct` could not know. */
static void point_again(terse_method *method)
{
    const terse_exchange *const exchange = method->under_way;
    const struct tsi_toucher toucher = {method, detach_touched, method->weights};
    int all = 0;
    for (uint32_t i = 0; i < exchange->posted_count; i++)
        all |= !detaches_early(method, exchange->posted[i]);
    if (all)
        tsi_method_point(method);
    for (uint32_t i = 0; i < exchange->posted_count && !all; i++)
        exchange->posted[i]->ops->touch(exchange->posted[i], &toucher);
}

void tsi_method_settle(terse_method *method)
{
    const terse_exchange *const exchange = method->under_way;
    if (scores(method))
        tsi_method_add_left(method);
    method->remembered = 0;
    if (method->bits && exchange == method->exchange[TSI_EXCHANGE_MAIN])
        tsi_method_bits_commit(method);
    if (method->stations.update == TSI_UPDATE_REPLACE) { /* of all slices of this owner */
        float *const before = method->owner_x;
        method->owner_x = method->owner_next;
        method->owner_next = before;
    }
    if (method->said && method->stations.local)
        memset(method->said, 0, method->count * sizeof(float));
    point_again(method);
}

const struct tsi_host tsi_method_host = {
    .keep = keep,
    .direct = direct,
    .adds = adds,
    .directed = directed,
    .undirect = undirect,
    .own = own,
    .meanwhile = meanwhile,
    .commit = commit,
};
