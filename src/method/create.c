/* Making a method: its buffers, its collectives, and the first point. In two halves per collective,
 * so that one thread can make those of all workers. */
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "base/fault.h"
#include "method/method.h"

enum { ALIGNMENT = 64 };

/* ---- buffers ---- */

/* Is what is encoded the gradient itself, untouched? */
static int encodes_gradient(const terse_method *method)
{
    return method->stages.direction == TSI_DIRECTION_GRADIENT &&
           method->stages.unit == TSI_UNIT_GRADIENT && tsi_value(method, TSI_CLIP) == 0;
}

/* Is what is encoded the momentum itself? */
static int encodes_momentum(const terse_method *method)
{
    return (method->stages.direction == TSI_DIRECTION_AVERAGE ||
            method->stages.direction == TSI_DIRECTION_MOMENTUM) &&
           method->stages.unit == TSI_UNIT_GRADIENT;
}

static int updates_with_momentum(const terse_method *method)
{
    if (method->options.aggregate_out)
        return 0;
    switch (method->stages.update) {
    case TSI_UPDATE_SGD: return tsi_value(method, TSI_MOMENTUM) > 0;
    case TSI_UPDATE_SUBTRACT:
        return method->stages.local && tsi_value(method, TSI_OUTER_MOMENTUM) > 0;
    case TSI_UPDATE_ADAM: return 1;
    default: return 0;
    }
}

/* Written here, so that no step has page faults: pages of calloc are there from their first write
 * on, which with random blocks is many steps later. (Of malloc and memset gcc would make a calloc.)
 */
int tsi_buffer_make(float **out, int needed, size_t count)
{
    const size_t len = (count * sizeof **out / ALIGNMENT + 1) * ALIGNMENT;
    if (!needed || *out)
        return 1;
    *out = aligned_alloc(ALIGNMENT, len);
    if (*out)
        memset(*out, 0, len);
    return *out != NULL;
}

int tsi_buffers_complete(terse_method *method)
{
    struct tsi_buffers *const buffers = &method->buffers;
    return tsi_buffer_make(&buffers->residual.next, buffers->residual.now != NULL, method->count) &&
           tsi_buffer_make(&buffers->m.next, buffers->m.now != NULL, method->count) &&
           tsi_buffer_make(&buffers->v.next, buffers->v.now != NULL, method->count);
}

static terse_status create_buffers(terse_method *method)
{
    const struct tsi_stages *const stages = &method->stages;
    struct tsi_buffers *const buffers = &method->buffers;
    const size_t count = method->count;
    const int adam = stages->direction == TSI_DIRECTION_ADAM;
    const int change = !stages->residual && !encodes_gradient(method) && !encodes_momentum(method);
    const int point = stages->point == TSI_POINT_DETACHED || stages->local;
    if (!tsi_buffer_make(&buffers->residual.now, stages->residual, count) ||
        !tsi_buffer_make(&buffers->change.now, change && stages->local, count) ||
        !tsi_buffer_make(&buffers->change.next, change, count) ||
        !tsi_buffer_make(&buffers->m.now, stages->direction != TSI_DIRECTION_GRADIENT, count) ||
        !tsi_buffer_make(&buffers->v.now, adam, count) ||
        !tsi_buffer_make(&buffers->update_m, updates_with_momentum(method), count) ||
        !tsi_buffer_make(&buffers->update_v, stages->update == TSI_UPDATE_ADAM, count) ||
        !tsi_buffer_make(&buffers->update_v_most, tsi_value(method, TSI_AMSGRAD) != 0, count) ||
        !tsi_buffer_make(&buffers->flat, tsi_value(method, TSI_SIGMA) > 0, count) ||
        !tsi_buffer_make(&buffers->point, point, count))
        return TERSE_NO_MEMORY;
    const int may_be_in_place = buffers->m.now && buffers->residual.now && !stages->local;
    if (!may_be_in_place && !tsi_buffers_complete(method))
        return TERSE_NO_MEMORY;
    for (size_t i = 0; adam && i < count; i++)
        buffers->v.now[i] = (float)tsi_value(method, TSI_V0);
    buffers->gathered =
        calloc((size_t)terse_layout_tensors(method->layout) + 1, sizeof *buffers->gathered);
    if (!buffers->gathered)
        return TERSE_NO_MEMORY;
    method->slots = 2 * (size_t)terse_layout_tensors(method->layout) * method->workers;
    if (method->settings.row->dynamic)
        method->bits = calloc(method->slots + 1, sizeof *method->bits);
    if (method->options.private_output && !tsi_sparse_clear_create(&method->clear, count))
        return TERSE_NO_MEMORY;
    return method->settings.row->dynamic && !method->bits ? TERSE_NO_MEMORY : TERSE_OK;
}

/* ---- once the collectives are agreed on ---- */

/* The owner keeps x in full; everybody starts from what the owners would send of it. */
static terse_status quantize_weights(terse_method *method, struct tsi_bucket *bucket)
{
    const struct tsi_pieces all = {0, bucket->codec->piece_count};
    const size_t cap = tsi_codec_bound(bucket->back_codec, 0, all);
    const struct tsi_pieces mine = bucket->owned[method->rank];
    float *const weights = method->buffers.weights;
    const terse_rng_key key = {0};
    size_t len = 0;
    uint8_t *const payload = malloc(cap + 1);
    if (!payload)
        return TERSE_NO_MEMORY;
    for (uint32_t i = mine.first; i < mine.first + mine.count; i++) {
        const struct tsi_piece *const piece = &bucket->codec->piece[i];
        memcpy(method->buffers.owner.now + piece->offset, weights + piece->offset,
               piece->count * sizeof(float));
    }
    terse_status status =
        tsi_codec_encode(bucket->back_codec, 0, &key, all, weights, NULL, payload, cap, &len);
    if (status == TERSE_OK) {
        memset(weights, 0, method->count * sizeof(float));
        status = tsi_codec_decode(bucket->back_codec, 0, &key, all, payload, len, 0, weights, NULL);
    }
    free(payload);
    return status;
}

/* How many elements a worker sends at most, without plain tensors. */
static size_t most_entries(const terse_codec *codec)
{
    size_t most = 0;
    for (uint32_t i = 0; i < codec->piece_count; i++)
        if (codec->piece[i].count > 0 && !codec->piece[i].plain)
            most += codec->ops->entries(codec->option, &codec->piece[i]);
    return most;
}

static terse_status start(terse_method *method, terse_fault *fault)
{
    struct tsi_bucket *bucket = NULL;
    terse_status status = tsi_bucket_of(method->collective[TSI_MAIN], 0,
                                        terse_layout_tensors(method->layout), &bucket, fault);
    if (status == TERSE_OK && method->stages.update == TSI_UPDATE_REPLACE)
        status = quantize_weights(method, bucket);
    if (status == TERSE_OK && method->settings.row->posterior &&
        !tsi_posterior_create(&method->posterior, most_entries(bucket->codec)))
        status = tsi_fail(fault, TERSE_NO_MEMORY, 0, "out of memory");
    if (status == TERSE_OK)
        tsi_method_point(method);
    return status;
}

/* Each collective of all methods: create for each, then agree for each. The first failure is
 * returned; the other ranks learn of it. */
terse_status tsi_method_connect(terse_method **methods, uint32_t count, terse_fault *fault)
{
    terse_status status = TERSE_OK;
    for (int which = 0; which < TSI_COLLECTIVES && status == TERSE_OK; which++) {
        if (which == TSI_WARM_UP && tsi_value(methods[0], TSI_WARMUP) == 0)
            continue;
        for (uint32_t i = 0; i < count && status == TERSE_OK; i++)
            status = tsi_collective_create(methods[i], which, fault);
        for (uint32_t i = 0; i < count && status == TERSE_OK; i++)
            status = tsi_collective_agree(methods[i], which, fault);
    }
    for (uint32_t i = 0; i < count && status == TERSE_OK; i++)
        status = start(methods[i], fault);
    return status;
}

/* ---- the object ---- */

terse_status tsi_options_read(const void *given, size_t size, void *out, terse_fault *fault)
{
    size_t len = 0;
    if (given)
        memcpy(&len, given, sizeof len);
    if (given && (len < sizeof len || len > size))
        return tsi_fail(fault, TERSE_BAD_ARGUMENT, 0, "options.size is not sizeof(options)");
    memset(out, 0, size);
    if (given)
        memcpy(out, given, len);
    memcpy(out, &size, sizeof size);
    return TERSE_OK;
}

static terse_status read_spec(terse_method *method, const char *spec,
                              const terse_method_options *options, terse_fault *fault)
{
    terse_method_options *const all = &method->options;
    terse_status status = tsi_options_read(options, sizeof *all, all, fault);
    if (status == TERSE_OK)
        status = tsi_stages_read(spec, &method->settings, &method->stages, fault);
    if (status != TERSE_OK)
        return status;
    const char *const what = tsi_settings_need_steps(&method->settings);
    if (what && all->steps == 0)
        return tsi_fail(fault, TERSE_BAD_SPEC, 0,
                        "%s needs the number of steps: options.steps is 0", what);
    if (all->worker_weight != 0 && !(all->worker_weight > 0 && isfinite(all->worker_weight)))
        return tsi_fail(fault, TERSE_BAD_ARGUMENT, 0,
                        "options.worker_weight is %g: a finite number above 0, for example the "
                        "number of examples of the worker, 12500; 0: all are equal",
                        all->worker_weight);
    all->private_output = all->private_output && all->aggregate_out;
    (void)tsi_settings_write(&method->settings, UINT64_MAX, method->spec, sizeof method->spec);
    return all->aggregate_out ? tsi_stages_gradient(&method->settings, &method->stages, fault)
                              : TERSE_OK;
}

terse_status tsi_method_prepare(terse_method *method, terse_group *group,
                                const terse_layout *layout, float *weights, terse_fault *fault)
{
    method->group = group;
    method->rank = terse_group_rank(group);
    method->workers = terse_group_workers(group);
    method->count = (size_t)terse_layout_count(layout);
    method->buffers.weights = weights;
    method->progress.lr_given = -1;
    tsi_rejection_check(&method->bounds.rejection);
    method->rule = (struct tsi_bit_rule){method, tsi_method_bits};
    if (method->options.threads == 0)
        method->options.threads = 1;
    method->step.posted =
        calloc((size_t)terse_layout_tensors(layout) + 1, sizeof *method->step.posted);
    if (method->stages.model && terse_layout_count(layout) > TERSE_MAX_TENSOR_COUNT)
        return tsi_fail(fault, TERSE_BAD_SPEC, 0,
                        "scope=model: %llu parameters, at most %u can be one piece: use "
                        "scope=tensor",
                        (unsigned long long)terse_layout_count(layout), TERSE_MAX_TENSOR_COUNT);
    method->step.flat = calloc((size_t)terse_layout_tensors(layout) + 1, sizeof *method->step.flat);
    method->step.tensor_bytes =
        calloc(2 * (size_t)terse_layout_tensors(layout) + 1, sizeof *method->step.tensor_bytes);
    if (!method->step.posted || !method->step.flat || !method->step.tensor_bytes ||
        tsi_layout_copy(layout, &method->layout) != TERSE_OK ||
        tsi_agreement_create(&method->agreement, group) != TERSE_OK ||
        create_buffers(method) != TERSE_OK)
        return tsi_fail(fault, TERSE_NO_MEMORY, 0, "out of memory");
    return tsi_method_bits_check(method, fault);
}

/* One method per group handle. The other ranks learn of a failure, unless it is all of them that
 * are made here. */
static terse_status create(const char *spec, terse_group *const *group, uint32_t count, int owns,
                           const terse_layout *layout, float *const *weights,
                           const terse_method_options *options, terse_method **out,
                           terse_fault *fault)
{
    terse_method *methods[TERSE_MAX_LOCAL_WORKERS] = {NULL};
    terse_status status = TERSE_OK;
    for (uint32_t i = 0; i < count; i++) {
        methods[i] = calloc(1, sizeof *methods[i]);
        if (!methods[i]) {
            if (owns)
                terse_group_destroy(group[i]);
            status = tsi_fail(fault, TERSE_NO_MEMORY, 0, "out of memory");
            continue;
        }
        methods[i]->group = group[i];
        methods[i]->owns_group = owns;
        if (status == TERSE_OK)
            status = read_spec(methods[i], spec, options, fault);
        if (status == TERSE_OK)
            status = tsi_method_prepare(methods[i], group[i], layout, weights[i], fault);
    }
    if (status == TERSE_OK)
        status = tsi_method_connect(methods, count, fault);
    else if (!owns)
        tsi_collective_refuse(group[0], status);
    for (uint32_t i = 0; i < count && status != TERSE_OK; i++)
        terse_method_destroy(methods[i]);
    if (status == TERSE_OK)
        memcpy(out, methods, count * sizeof *out);
    return status;
}

terse_status terse_method_create(const char *spec, terse_group *group, const terse_layout *layout,
                                 float *weights, const terse_method_options *options,
                                 terse_method **out, terse_fault *fault)
{
    if (!spec || !group || !layout || !weights || !out)
        return tsi_fail(fault, TERSE_BAD_ARGUMENT, 0,
                        "spec, group, layout, weights or out is NULL");
    return create(spec, &group, 1, 0, layout, &weights, options, out, fault);
}

terse_status terse_method_create_all(const char *spec, uint32_t workers, const terse_layout *layout,
                                     float *const *weights, const terse_method_options *options,
                                     terse_method **out, terse_fault *fault)
{
    terse_group *handles[TERSE_MAX_LOCAL_WORKERS] = {NULL};
    if (!spec || !layout || !weights || !out)
        return tsi_fail(fault, TERSE_BAD_ARGUMENT, 0, "spec, layout, weights or out is NULL");
    if (workers == 0)
        return tsi_fail(fault, TERSE_BAD_ARGUMENT, 0, "no workers");
    const terse_status status = terse_group_local(workers, handles);
    if (status != TERSE_OK)
        return tsi_fail(fault, status, 0, "%u local workers, 1 to %u", workers,
                        TERSE_MAX_LOCAL_WORKERS);
    return create(spec, handles, workers, 1, layout, weights, options, out, fault);
}

void terse_method_destroy(terse_method *method)
{
    if (!method)
        return;
    struct tsi_buffers *const b = &method->buffers;
    float *const floats[] = {b->point,       b->residual.now,  b->residual.next, b->change.now,
                             b->change.next, b->m.now,         b->m.next,        b->v.now,
                             b->v.next,      b->owner.now,     b->owner.next,    b->update_m,
                             b->update_v,    b->update_v_most, b->worker_weight, b->one,
                             b->dense,       b->flat,          b->eval_sum,      b->eval_scratch};
    if (method->owns_group)
        terse_group_destroy(method->group);
    for (int which = 0; which < TSI_COLLECTIVES; which++)
        tsi_collective_destroy(method->collective[which]);
    for (size_t i = 0; i < sizeof floats / sizeof floats[0]; i++)
        free(floats[i]);
    tsi_agreement_destroy(&method->agreement);
    tsi_posterior_destroy(&method->posterior);
    tsi_sparse_clear_destroy(&method->clear);
    free(b->gathered);
    free(method->step.posted);
    free(method->step.flat);
    free(method->bits);
    free(method->step.tensor_bytes);
    terse_layout_destroy(method->layout);
    free(method);
}
