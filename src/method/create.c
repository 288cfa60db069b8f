/* Making a method: its buffers, its exchanges, and the first point. In two halves per exchange, so
 * that one thread can make those of all workers. */
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "base/fault.h"
#include "base/hash.h"
#include "method/method.h"

/* ---- buffers ---- */

static int want(float **out, int needed, size_t count)
{
    *out = needed ? calloc(count + 1, sizeof **out) : NULL;
    return !needed || *out;
}

static void fill(float *floats, size_t count, float value)
{
    for (size_t i = 0; floats && i < count; i++)
        floats[i] = value;
}

/* Is what is said the gradient itself, untouched? */
static int says_gradient(const terse_method *method)
{
    return method->stations.direction == TSI_DIRECTION_GRADIENT &&
           method->stations.unit == TSI_UNIT_GRADIENT && tsi_value(method, TSI_CLIP) == 0;
}

/* Is what is said the momentum, as it lies there? */
static int says_momentum(const terse_method *method)
{
    return (method->stations.direction == TSI_DIRECTION_AVERAGE ||
            method->stations.direction == TSI_DIRECTION_MOMENTUM) &&
           method->stations.unit == TSI_UNIT_GRADIENT;
}

static int has_momentum(const terse_method *method)
{
    const enum tsi_direction direction = method->stations.direction;
    return direction == TSI_DIRECTION_AVERAGE || direction == TSI_DIRECTION_ADAM ||
           (direction == TSI_DIRECTION_MOMENTUM && tsi_value(method, TSI_MOMENTUM) > 0);
}

static int updates_with_momentum(const terse_method *method)
{
    if (method->options.aggregate_out)
        return 0;
    switch (method->stations.update) {
    case TSI_UPDATE_SGD: return tsi_value(method, TSI_MOMENTUM) > 0;
    case TSI_UPDATE_SUBTRACT:
        return method->stations.local && tsi_value(method, TSI_OUTER_MOMENTUM) > 0;
    case TSI_UPDATE_ADAM: return 1;
    default: return 0;
    }
}

/* Does an element that nobody spoke of stay as it is? */
static int steps_alone(const terse_method *method)
{
    const enum tsi_update_kind update = method->stations.update;
    return (update == TSI_UPDATE_SGD && tsi_value(method, TSI_WD) == 0 &&
            !updates_with_momentum(method)) ||
           (update == TSI_UPDATE_SUBTRACT && !updates_with_momentum(method));
}

static terse_status create_buffers(terse_method *method)
{
    const struct tsi_stations *const stations = &method->stations;
    const size_t count = method->count;
    const int adam = stations->direction == TSI_DIRECTION_ADAM;
    const int owns = stations->update == TSI_UPDATE_REPLACE;
    const int detached = stations->point == TSI_POINT_DETACHED || stations->local;
    if (stations->direction == TSI_DIRECTION_MOMENTUM && !has_momentum(method))
        method->stations.direction = TSI_DIRECTION_GRADIENT;
    const int said = !stations->residual && !says_gradient(method) && !says_momentum(method);
    if (!want(&method->memory, stations->residual, count) || !want(&method->said, said, count) ||
        !want(&method->m, has_momentum(method), count) || !want(&method->v, adam, count) ||
        !want(&method->update_m, updates_with_momentum(method), count) ||
        !want(&method->update_v, stations->update == TSI_UPDATE_ADAM, count) ||
        !want(&method->owner_x, owns, count) || !want(&method->owner_next, owns, count) ||
        !want(&method->point, detached, count))
        return TERSE_NO_MEMORY;
    fill(method->v, count, (float)tsi_value(method, TSI_V0));
    method->slots = 2 * (size_t)terse_layout_tensors(method->layout) * method->workers;
    if (method->settings.row->dynamic)
        method->bits = calloc(method->slots + 1, sizeof *method->bits);
    if (method->options.aggregate_out && method->options.private_output &&
        !tsi_blank_create(&method->blank, count))
        return TERSE_NO_MEMORY;
    return method->settings.row->dynamic && !method->bits ? TERSE_NO_MEMORY : TERSE_OK;
}

/* ---- exchanges ---- */

static uint64_t hash_settings(const terse_method *method)
{
    const uint64_t spec = tsi_hash64(method->spec, strlen(method->spec));
    return (spec ^ method->options.steps * UINT64_C(0x9E3779B97F4A7C15)) +
           method->options.aggregate_out;
}

static terse_status prepare(terse_method *method, int which, terse_fault *fault)
{
    const struct tsi_stations *const stations = &method->stations;
    const int warm = which == TSI_EXCHANGE_WARM;
    const char *const plain = method->settings.word[TSI_WORD_PLAIN];
    const int owners = stations->update == TSI_UPDATE_REPLACE;
    const terse_exchange_options options = {
        .size = sizeof options,
        .codec = warm ? "f32" : stations->codec,
        .combine = warm ? (owners ? "shard" : "allreduce") : stations->combine,
        .feedback = stations->residual ? "residual" : "none",
        .tie = tsi_value(method, TSI_TIE) == 0 ? "coin" : "plus",
        .seed = method->options.seed,
        .threads = method->options.threads,
        .compare_every = method->options.compare_every,
        .skip_finite_check = method->options.skip_finite_check,
        .min = warm ? 0 : (uint64_t)tsi_value(method, TSI_MIN),
        .plain = warm || plain[0] == '\0' ? NULL : plain,
    };
    const struct tsi_exchange_plan plan = {
        .options = &options,
        .host = &method->host,
        .rule = method->settings.row->dynamic && !warm ? &method->rule : NULL,
        .back = !owners ? NULL
                : warm  ? "f32"
                        : stations->back,
        .memory = method->memory,
        .answer = method->options.aggregate_out ? method->weights : NULL,
        .method_hash = hash_settings(method),
        .weights_hash = tsi_hash64(method->weights, method->count * sizeof(float)),
    };
    return tsi_exchange_prepare(method->group, method->layout, &plan, &method->exchange[which],
                                fault);
}

/* ---- once the exchanges stand ---- */

/* The owner keeps x in full; everybody starts from what the owners would say of it. */
static terse_status quantize_weights(terse_method *method, struct tsi_bucket *bucket)
{
    const struct tsi_pieces all = {0, bucket->codec->piece_count};
    const size_t cap = tsi_codec_bound(bucket->back_codec, 0, all);
    const struct tsi_pieces mine = bucket->owned[method->rank];
    const terse_rng_key draw = {0};
    size_t len = 0;
    uint8_t *const payload = malloc(cap + 1);
    if (!payload)
        return TERSE_NO_MEMORY;
    for (uint32_t i = mine.first; i < mine.first + mine.count; i++) {
        const struct tsi_piece *const piece = &bucket->codec->piece[i];
        memcpy(method->owner_x + piece->offset, method->weights + piece->offset,
               piece->count * sizeof(float));
    }
    terse_status status = tsi_codec_encode(bucket->back_codec, 0, &draw, all, method->weights, NULL,
                                           payload, cap, &len);
    if (status == TERSE_OK) {
        memset(method->weights, 0, method->count * sizeof(float));
        status = tsi_codec_decode_add(bucket->back_codec, 0, &draw, all, payload, len,
                                      method->weights, NULL);
    }
    free(payload);
    return status;
}

/* How many elements a worker speaks of at most, without plain tensors. */
static size_t said_most(const terse_codec *codec)
{
    size_t most = 0;
    for (uint32_t i = 0; i < codec->piece_count; i++)
        most += codec->piece[i].plain ? 0 : tsi_codec_entries(codec, i);
    return most;
}

static terse_status begin(terse_method *method, terse_fault *fault)
{
    struct tsi_bucket *bucket = NULL;
    terse_status status = tsi_step_bucket(method->exchange[TSI_EXCHANGE_MAIN], 0,
                                          terse_layout_tensors(method->layout), &bucket, fault);
    if (status == TERSE_OK && method->owner_x)
        status = quantize_weights(method, bucket);
    if (status == TERSE_OK && method->settings.row->posterior &&
        !tsi_posterior_create(&method->posterior, said_most(bucket->codec)))
        status = tsi_fail(fault, TERSE_NO_MEMORY, 0, "out of memory");
    if (status == TERSE_OK)
        tsi_method_point(method);
    return status;
}

/* ---- the object ---- */

static terse_status check_steps(const terse_method *method, terse_fault *fault)
{
    const int schedule = (int)tsi_value(method, TSI_SCHEDULE);
    const int bits = (int)tsi_value(method, TSI_BITS);
    const int budget = method->settings.row->dynamic &&
                       (bits == TSI_BITS_AVERAGE || bits == TSI_BITS_ERROR ||
                        (bits == TSI_BITS_KAPPA && tsi_value(method, TSI_ALPHA) < 1));
    if (method->options.steps > 0)
        return TERSE_OK;
    if (schedule == TSI_SCHEDULE_STEP || schedule == TSI_SCHEDULE_COSINE)
        return tsi_fail(fault, TERSE_BAD_SPEC, 0, "this schedule needs the number of steps");
    if (budget)
        return tsi_fail(fault, TERSE_BAD_SPEC, 0, "this rule of bits needs the number of steps");
    return TERSE_OK;
}

/* An answer is a gradient: methods that keep weights of their own have none. */
static terse_status check_answer(const terse_method *method, terse_fault *fault)
{
    const struct tsi_stations *const stations = &method->stations;
    const char *const name = method->settings.row->name;
    if (!method->options.aggregate_out)
        return TERSE_OK;
    if (stations->point == TSI_POINT_DETACHED || stations->update == TSI_UPDATE_REPLACE ||
        stations->update == TSI_UPDATE_ADAM || stations->direction == TSI_DIRECTION_ADAM)
        return tsi_fail(fault, TERSE_BAD_SPEC, 0,
                        "%s is an optimizer of its own: it has no gradient to hand back", name);
    if (stations->local)
        return tsi_fail(fault, TERSE_BAD_SPEC, 0, "every: a gradient is agreed on in every step");
    if (tsi_value(method, TSI_WD) > 0)
        return tsi_fail(fault, TERSE_BAD_SPEC, 0, "wd: decay belongs to the optimizer");
    return TERSE_OK;
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
    return TERSE_OK;
}

static terse_status create_alone(const char *spec, terse_group *group, const terse_layout *layout,
                                 float *weights, const terse_method_options *options,
                                 terse_method *method, terse_fault *fault)
{
    terse_status status = read_options(options, &method->options, fault);
    if (status == TERSE_OK)
        status = tsi_settings_read(spec, &method->settings, fault);
    if (status == TERSE_OK)
        status = tsi_stations_of(&method->settings, &method->stations, fault);
    if (status == TERSE_OK)
        status = tsi_stations_codec(&method->settings, &method->stations, fault);
    if (status == TERSE_OK)
        status = check_steps(method, fault);
    if (status == TERSE_OK)
        status = check_answer(method, fault);
    if (status != TERSE_OK)
        return status;
    tsi_settings_write(&method->settings, method->spec, sizeof method->spec);
    method->group = group;
    method->rank = terse_group_rank(group);
    method->workers = terse_group_workers(group);
    method->count = (size_t)terse_layout_count(layout);
    method->weights = weights;
    method->progress.lr_given = -1;
    method->host = tsi_method_host;
    method->host.context = method;
    if (method->stations.update != TSI_UPDATE_REPLACE)
        method->host.own = NULL;
    method->host.sparse = steps_alone(method);
    method->host.packed = method->stations.update == TSI_UPDATE_SIGNED;
    method->rule = (struct tsi_bit_rule){method, tsi_method_bits};
    if (tsi_layout_copy(layout, &method->layout) != TERSE_OK || create_buffers(method) != TERSE_OK)
        return tsi_fail(fault, TERSE_NO_MEMORY, 0, "out of memory");
    return TERSE_OK;
}

/* Each exchange of all methods: prepare for each, then settle for each. The first failure is told;
 * the others go on, so that nobody waits for them. */
static terse_status create_exchanges(terse_method **methods, uint32_t count, terse_fault *fault)
{
    terse_status status = TERSE_OK;
    for (int which = 0; which < TSI_EXCHANGES && status == TERSE_OK; which++) {
        if (which == TSI_EXCHANGE_WARM && tsi_value(methods[0], TSI_WARMUP) == 0)
            continue;
        for (uint32_t i = 0; i < count && status == TERSE_OK; i++)
            status = prepare(methods[i], which, fault);
        for (uint32_t i = 0; i < count && status == TERSE_OK; i++)
            status = tsi_exchange_settled(methods[i]->exchange[which], fault);
    }
    for (uint32_t i = 0; i < count && status == TERSE_OK; i++)
        status = begin(methods[i], fault);
    return status;
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
    terse_status status = create_alone(spec, group, layout, weights, options, method, fault);
    if (status == TERSE_OK)
        status = create_exchanges(&method, 1, fault);
    else
        tsi_exchange_refuse(group, status);
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
    terse_group *seats[TERSE_MAX_LOCAL_WORKERS] = {NULL};
    terse_method *methods[TERSE_MAX_LOCAL_WORKERS] = {NULL};
    if (!spec || !layout || !weights || !out)
        return tsi_fail(fault, TERSE_BAD_ARGUMENT, 0, "spec, layout, weights or out is NULL");
    if (workers == 0)
        return tsi_fail(fault, TERSE_BAD_ARGUMENT, 0, "no workers");
    terse_status status = terse_group_local(workers, seats);
    if (status != TERSE_OK)
        return tsi_fail(fault, status, 0, "%u local workers, 1 to %u", workers,
                        TERSE_MAX_LOCAL_WORKERS);
    for (uint32_t i = 0; i < workers; i++) {
        methods[i] = calloc(1, sizeof *methods[i]);
        if (!methods[i]) {
            terse_group_destroy(seats[i]);
            status = tsi_fail(fault, TERSE_NO_MEMORY, 0, "out of memory");
            continue;
        }
        methods[i]->group = seats[i];
        methods[i]->owns_group = 1;
        if (status == TERSE_OK)
            status = create_alone(spec, seats[i], layout, weights[i], options, methods[i], fault);
    }
    if (status == TERSE_OK)
        status = create_exchanges(methods, workers, fault);
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
    if (method->owns_group)
        terse_group_destroy(method->group);
    for (int which = 0; which < TSI_EXCHANGES; which++)
        terse_exchange_destroy(method->exchange[which]);
    float *const buffers[] = {
        method->point,      method->memory,        method->said,     method->m,
        method->v,          method->update_m,      method->update_v, method->owner_x,
        method->owner_next, method->m_before,      method->v_before, method->flat,
        method->deploy_sum, method->deploy_scratch};
    for (size_t i = 0; i < sizeof buffers / sizeof buffers[0]; i++)
        free(buffers[i]);
    tsi_posterior_destroy(&method->posterior);
    tsi_blank_destroy(&method->blank);
    free(method->bits);
    terse_layout_destroy(method->layout);
    free(method);
}
