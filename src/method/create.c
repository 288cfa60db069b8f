/* Making a method: its buffers, its collectives, and the first point. In two halves per collective,
 * so that one thread can make those of all workers. */
#include <stdlib.h>
#include <string.h>

#include "base/fault.h"
#include "method/method.h"

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

static int want(float **out, int needed, size_t count)
{
    if (needed && !*out)
        *out = calloc(count + 1, sizeof **out);
    return !needed || *out;
}

int tsi_buffers_complete(terse_method *method)
{
    struct tsi_buffers *const buffers = &method->buffers;
    return want(&buffers->residual.next, buffers->residual.now != NULL, method->count) &&
           want(&buffers->m.next, buffers->m.now != NULL, method->count) &&
           want(&buffers->v.next, buffers->v.now != NULL, method->count);
}

static terse_status create_buffers(terse_method *method)
{
    const struct tsi_stages *const stages = &method->stages;
    struct tsi_buffers *const buffers = &method->buffers;
    const size_t count = method->count;
    const int adam = stages->direction == TSI_DIRECTION_ADAM;
    const int change = !stages->residual && !encodes_gradient(method) && !encodes_momentum(method);
    const int point = stages->point == TSI_POINT_DETACHED || stages->local;
    if (!want(&buffers->residual.now, stages->residual, count) ||
        !want(&buffers->change.now, change && stages->local, count) ||
        !want(&buffers->change.next, change, count) ||
        !want(&buffers->m.now, stages->direction != TSI_DIRECTION_GRADIENT, count) ||
        !want(&buffers->v.now, adam, count) ||
        !want(&buffers->update_m, updates_with_momentum(method), count) ||
        !want(&buffers->update_v, stages->update == TSI_UPDATE_ADAM, count) ||
        !want(&buffers->point, point, count))
        return TERSE_NO_MEMORY;
    const int may_be_in_place = buffers->m.now && buffers->residual.now && !stages->local;
    if (!may_be_in_place && !tsi_buffers_complete(method))
        return TERSE_NO_MEMORY;
    for (size_t i = 0; adam && i < count; i++)
        buffers->v.now[i] = (float)tsi_value(method, TSI_V0);
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
        status =
            tsi_codec_decode_add(bucket->back_codec, 0, &key, all, payload, len, weights, NULL);
    }
    free(payload);
    return status;
}

/* How many elements a worker sends at most, without plain tensors. */
static size_t most_entries(const terse_codec *codec)
{
    size_t most = 0;
    for (uint32_t i = 0; i < codec->piece_count; i++)
        most += codec->piece[i].plain ? 0 : tsi_codec_entries(codec, i);
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
            status = tsi_collective_agree(methods[i], fault);
    }
    for (uint32_t i = 0; i < count && status == TERSE_OK; i++)
        status = start(methods[i], fault);
    return status;
}

/* ---- the object ---- */

static terse_status check_steps(const terse_method *method, terse_fault *fault)
{
    const char *const what = tsi_settings_need_steps(&method->settings);
    if (!what || method->options.steps > 0)
        return TERSE_OK;
    return tsi_fail(fault, TERSE_BAD_SPEC, 0, "%s needs the number of steps: options.steps is 0",
                    what);
}

static terse_status read_options(const terse_method_options *given, terse_method_options *out,
                                 terse_fault *fault)
{
    *out = (terse_method_options){.size = sizeof *out};
    if (!given)
        return TERSE_OK;
    if (given->size < sizeof given->size || given->size > sizeof *given)
        return tsi_fail(fault, TERSE_BAD_ARGUMENT, 0, "options.size is not sizeof(options)");
    memcpy(out, given, given->size);
    out->private_output = out->private_output && out->aggregate_out;
    return TERSE_OK;
}

static terse_status read_spec(terse_method *method, const char *spec,
                              const terse_method_options *options, terse_fault *fault)
{
    terse_status status = read_options(options, &method->options, fault);
    if (status == TERSE_OK)
        status = tsi_settings_read(spec, &method->settings, fault);
    if (status == TERSE_OK)
        status = tsi_stages_of(&method->settings, &method->stages, fault);
    if (status == TERSE_OK)
        status = tsi_stages_codec(&method->settings, &method->stages, fault);
    if (status == TERSE_OK)
        status = check_steps(method, fault);
    if (status == TERSE_OK && method->options.aggregate_out)
        status = tsi_stages_gradient(&method->settings, &method->stages, fault);
    if (status == TERSE_OK)
        tsi_settings_write(&method->settings, method->spec, sizeof method->spec);
    return status;
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
    method->rule = (struct tsi_bit_rule){method, tsi_method_bits};
    if (tsi_layout_copy(layout, &method->layout) != TERSE_OK ||
        tsi_agreement_create(&method->agreement, group) != TERSE_OK ||
        create_buffers(method) != TERSE_OK)
        return tsi_fail(fault, TERSE_NO_MEMORY, 0, "out of memory");
    return tsi_method_bits_check(method, fault);
}

terse_status terse_method_create(const char *spec, terse_group *group, const terse_layout *layout,
                                 float *weights, const terse_method_options *options,
                                 terse_method **out, terse_fault *fault)
{
    if (!spec || !group || !layout || !weights || !out)
        return tsi_fail(fault, TERSE_BAD_ARGUMENT, 0,
                        "spec, group, layout, weights or out is NULL");
    terse_method *method = calloc(1, sizeof *method);
    if (!method)
        return tsi_fail(fault, TERSE_NO_MEMORY, 0, "out of memory");
    terse_status status = read_spec(method, spec, options, fault);
    if (status == TERSE_OK)
        status = tsi_method_prepare(method, group, layout, weights, fault);
    if (status == TERSE_OK)
        status = tsi_method_connect(&method, 1, fault);
    else
        tsi_collective_refuse(group, status);
    if (status == TERSE_OK)
        *out = method;
    else
        terse_method_destroy(method);
    return status;
}

terse_status terse_method_create_all(const char *spec, uint32_t workers, const terse_layout *layout,
                                     float *const *weights, const terse_method_options *options,
                                     terse_method **out, terse_fault *fault)
{
    terse_group *handles[TERSE_MAX_LOCAL_WORKERS] = {NULL};
    terse_method *methods[TERSE_MAX_LOCAL_WORKERS] = {NULL};
    if (!spec || !layout || !weights || !out)
        return tsi_fail(fault, TERSE_BAD_ARGUMENT, 0, "spec, layout, weights or out is NULL");
    if (workers == 0)
        return tsi_fail(fault, TERSE_BAD_ARGUMENT, 0, "no workers");
    terse_status status = terse_group_local(workers, handles);
    if (status != TERSE_OK)
        return tsi_fail(fault, status, 0, "%u local workers, 1 to %u", workers,
                        TERSE_MAX_LOCAL_WORKERS);
    for (uint32_t i = 0; i < workers; i++) {
        methods[i] = calloc(1, sizeof *methods[i]);
        if (!methods[i]) {
            terse_group_destroy(handles[i]);
            status = tsi_fail(fault, TERSE_NO_MEMORY, 0, "out of memory");
            continue;
        }
        methods[i]->group = handles[i];
        methods[i]->owns_group = 1;
        if (status == TERSE_OK)
            status = read_spec(methods[i], spec, options, fault);
        if (status == TERSE_OK)
            status = tsi_method_prepare(methods[i], handles[i], layout, weights[i], fault);
    }
    if (status == TERSE_OK)
        status = tsi_method_connect(methods, workers, fault);
    for (uint32_t i = 0; i < workers && status != TERSE_OK; i++)
        terse_method_destroy(methods[i]);
    if (status == TERSE_OK)
        memcpy(out, methods, workers * sizeof *out);
    return status;
}

void terse_method_destroy(terse_method *method)
{
    if (!method)
        return;
    struct tsi_buffers *const b = &method->buffers;
    float *const floats[] = {
        b->point,    b->residual.now, b->residual.next, b->change.now, b->change.next, b->m.now,
        b->m.next,   b->v.now,        b->v.next,        b->owner.now,  b->owner.next,  b->update_m,
        b->update_v, b->dense,        b->flat,          b->eval_sum,   b->eval_scratch};
    if (method->owns_group)
        terse_group_destroy(method->group);
    for (int which = 0; which < TSI_COLLECTIVES; which++)
        tsi_collective_destroy(method->collective[which]);
    for (size_t i = 0; i < sizeof floats / sizeof floats[0]; i++)
        free(floats[i]);
    tsi_agreement_destroy(&method->agreement);
    tsi_posterior_destroy(&method->posterior);
    tsi_sparse_clear_destroy(&method->clear);
    free(method->step.posted);
    free(method->bits);
    terse_layout_destroy(method->layout);
    free(method);
}
