#include "data/order.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "data/draw.h"
#include "data/shard.h"

struct trn_order {
    struct trn_order_options options;
    uint32_t worker;
    uint32_t examples; /* size of the training set */
    uint32_t steps;
    uint32_t count;     /* examples of this worker */
    uint32_t *own;      /* fixed shard, NULL for iid */
    uint32_t *shuffled; /* the epoch's order: all examples for iid, else this worker's */
    uint64_t epoch;     /* the epoch of `shuffled` */
    int is_shuffled;
};

terse_status trn_shard_parse(const char *text, enum trn_shard *shard, double *alpha,
                             terse_fault *fault)
{
    static const char prefix[] = "class:alpha=";
    double value = 1.0;
    enum trn_shard kind = TRN_SHARD_CLASS;
    if (strcmp(text, "iid") == 0) {
        kind = TRN_SHARD_IID;
    } else if (strcmp(text, "range") == 0) {
        kind = TRN_SHARD_RANGE;
    } else if (strcmp(text, "unequal") == 0) {
        kind = TRN_SHARD_UNEQUAL;
    } else if (strncmp(text, prefix, sizeof prefix - 1) == 0) {
        char *end;
        value = strtod(text + sizeof prefix - 1, &end);
        if (*end != '\0' || end == text + sizeof prefix - 1 || !isfinite(value) || value < 1e-3)
            return com_fail(fault, TERSE_BAD_SPEC, "'%s': alpha must be a number >= 0.001", text);
    } else if (strcmp(text, "class") != 0) {
        return com_fail(
            fault, TERSE_BAD_SPEC,
            "no sharding named '%s'; there are iid, class, class:alpha=A, range and unequal", text);
    }
    *shard = kind;
    *alpha = value;
    return TERSE_OK;
}

/* The first example of a worker. Unequal parts are as 1 : 2 : ... : workers. */
static uint32_t part_start(enum trn_shard shard, uint32_t examples, uint32_t workers,
                           uint32_t worker)
{
    const uint64_t parts = (uint64_t)workers * (workers + 1) / 2;
    if (shard != TRN_SHARD_UNEQUAL)
        return trn_shard_start(examples, workers, worker);
    return (uint32_t)((uint64_t)worker * (worker + 1) / 2 * examples / parts);
}

static uint32_t count_steps(const struct trn_order_options *options, uint32_t examples)
{
    const uint32_t least = examples / options->workers;
    const uint32_t most = least + (examples % options->workers != 0);
    const uint32_t full = least / options->batch;
    if (options->drop_short && full > 0)
        return full;
    return most / options->batch + (most % options->batch != 0);
}

static terse_status check(const struct trn_data *data, const struct trn_order_options *options,
                          uint32_t worker, terse_fault *fault)
{
    const struct trn_about *about = trn_data_about(data);
    if (options->workers == 0 || options->batch == 0 || worker >= options->workers)
        return com_fail(fault, TERSE_BAD_ARGUMENT, "worker %u of %u, batch %u", worker,
                        options->workers, options->batch);
    if (options->workers > about->count[TRN_TRAIN])
        return com_fail(fault, TERSE_BAD_ARGUMENT, "%u workers, but only %u examples",
                        options->workers, about->count[TRN_TRAIN]);
    if (options->shard == TRN_SHARD_UNEQUAL &&
        (uint64_t)options->workers * (options->workers + 1) / 2 > about->count[TRN_TRAIN])
        return com_fail(fault, TERSE_BAD_ARGUMENT,
                        "%u unequal parts of %u examples: the smallest would be empty; use fewer "
                        "workers",
                        options->workers, about->count[TRN_TRAIN]);
    if (options->shard == TRN_SHARD_CLASS && about->classes == 0)
        return com_fail(fault, TERSE_BAD_ARGUMENT, "%s has no classes to shard by", about->name);
    if (options->shard == TRN_SHARD_CLASS && !(options->alpha >= 1e-3 && isfinite(options->alpha)))
        return com_fail(fault, TERSE_BAD_ARGUMENT, "alpha must be a number >= 0.001");
    return TERSE_OK;
}

static terse_status fill_own(struct trn_order *order, const struct trn_data *data,
                             terse_fault *fault)
{
    const uint32_t first =
        part_start(order->options.shard, order->examples, order->options.workers, order->worker);
    if (order->options.shard == TRN_SHARD_CLASS)
        return trn_shard_by_class(&data->split[TRN_TRAIN], data->about.classes, &order->options,
                                  order->worker, order->own, fault);
    for (uint32_t i = 0; i < order->count; i++)
        order->own[i] = first + i;
    return TERSE_OK;
}

terse_status trn_order_create(const struct trn_data *data, const struct trn_order_options *options,
                              uint32_t worker, struct trn_order **out, terse_fault *fault)
{
    terse_status status = check(data, options, worker, fault);
    if (status != TERSE_OK)
        return status;
    struct trn_order *order = calloc(1, sizeof *order);
    if (!order)
        return com_fail(fault, TERSE_NO_MEMORY, "no memory for an order of examples");
    const int is_iid = options->shard == TRN_SHARD_IID;
    order->options = *options;
    order->worker = worker;
    order->examples = data->split[TRN_TRAIN].count;
    order->steps = count_steps(options, order->examples);
    order->count = trn_order_count_of(order, options->workers, worker);
    order->shuffled = calloc(is_iid ? order->examples : order->count, sizeof *order->shuffled);
    order->own = is_iid ? NULL : calloc(order->count, sizeof *order->own);
    if (!order->shuffled || (!is_iid && !order->own))
        status = com_fail(fault, TERSE_NO_MEMORY, "no memory for an order of examples");
    else if (!is_iid)
        status = fill_own(order, data, fault);
    if (status != TERSE_OK) {
        trn_order_destroy(order);
        return status;
    }
    *out = order;
    return TERSE_OK;
}

void trn_order_destroy(struct trn_order *order)
{
    if (!order)
        return;
    free(order->own);
    free(order->shuffled);
    free(order);
}

uint32_t trn_order_steps(const struct trn_order *order)
{
    return order->steps;
}

uint32_t trn_order_count(const struct trn_order *order)
{
    return order->count;
}

uint32_t trn_order_count_of(const struct trn_order *order, uint32_t workers, uint32_t worker)
{
    const enum trn_shard shard = order->options.shard;
    return part_start(shard, order->examples, workers, worker + 1) -
           part_start(shard, order->examples, workers, worker);
}

/* Always from the same start, so that an epoch's order does not depend on those before. */
static void shuffle(struct trn_order *order, uint64_t epoch)
{
    struct trn_stream stream;
    const uint32_t count = order->own ? order->count : order->examples;
    trn_stream_start(&stream, order->options.seed, TRN_DRAW_ORDER, epoch,
                     order->own ? 1 + order->worker : 0);
    for (uint32_t i = 0; i < count; i++)
        order->shuffled[i] = order->own ? order->own[i] : i;
    trn_draw_shuffle(&stream, order->shuffled, count);
    order->epoch = epoch;
    order->is_shuffled = 1;
}

uint32_t trn_order_batch(struct trn_order *order, uint64_t epoch, uint32_t step, uint32_t *examples)
{
    const uint32_t part =
        order->own ? 0 : trn_shard_start(order->examples, order->options.workers, order->worker);
    const uint64_t start = (uint64_t)step * order->options.batch;
    const uint32_t dealt = trn_shard_size(order->examples, order->options.workers, order->worker);
    if (step >= order->steps || start >= dealt)
        return 0;
    if (!order->is_shuffled || order->epoch != epoch)
        shuffle(order, epoch);
    const uint64_t left = dealt - start;
    const uint32_t count = left < order->options.batch ? (uint32_t)left : order->options.batch;
    for (uint32_t i = 0; i < count; i++)
        examples[i] = order->shuffled[part + (start + i) % order->count];
    return count;
}
