/* One worker of a training: gradient, statistics of the step, step; evaluation and checkpoint when
 * they are due. */
#include "loop/worker.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include "files/hash.h"
#include "files/writer.h"
#include "loop/auto.h"
#include "loop/start.h"

#define MAX_SKIPS 10u /* consecutive skipped steps after which a training ends */

double trn_now(void)
{
    struct timespec now;
    (void)clock_gettime(CLOCK_MONOTONIC, &now);
    return (double)now.tv_sec + 1e-9 * (double)now.tv_nsec;
}

/* ---- creation ---- */

static terse_status create_buffers(struct trn_worker *worker)
{
    const struct trn_run *const run = worker->run;
    const struct trn_about *const about = trn_data_about(run->data);
    const size_t batch = run->settings->batch;
    uint64_t statistics = 0;
    (void)trn_net_statistics(worker->net, &statistics);
    const size_t most = worker->count > statistics ? worker->count : statistics;
    const size_t floats = (size_t)worker->count + 1;
    const int text = run->input.kind == TRN_TEXT;
    worker->weights = malloc(floats * sizeof(float));
    worker->gradient = calloc(floats, sizeof(float)); /* a resumed run may end without a step */
    worker->partial = malloc(floats * sizeof(float));
    worker->eval_weights = malloc(floats * sizeof(float));
    worker->scratch =
        malloc((terse_group_allreduce_scratch(worker->group, most) + 1) * sizeof(float));
    worker->statistics = malloc((statistics + 1) * sizeof(float));
    worker->examples = malloc(batch * sizeof(uint32_t));
    worker->values = malloc((batch * about->features + 1) * sizeof(float));
    worker->tokens = malloc((text ? batch * run->text.max_len : 1) * sizeof(int32_t));
    worker->lengths = malloc(batch * sizeof(uint32_t));
    worker->labels = malloc(batch * sizeof(uint32_t));
    worker->targets = malloc(batch * sizeof(float));
    worker->stats = calloc(run->workers, sizeof *worker->stats);
    return worker->weights && worker->gradient && worker->partial && worker->eval_weights &&
                   worker->scratch && worker->statistics && worker->examples && worker->values &&
                   worker->tokens && worker->lengths && worker->labels && worker->targets &&
                   worker->stats
               ? TERSE_OK
               : com_fail(&worker->fault, TERSE_NO_MEMORY, "out of memory");
}

terse_status trn_worker_make_method(struct trn_worker *worker)
{
    const struct trn_settings *const settings = worker->run->settings;
    const terse_method_options options = {
        .size = sizeof options,
        .seed = settings->seed,
        .steps = worker->steps,
        .threads = settings->codec_threads,
        .compare_every = 100,
        .measure_every = 50,
        .skip_finite_check = 0,
        .worker_weight = trn_weighs_shards(settings) ? (double)trn_order_count(worker->order) : 0,
    };
    return terse_method_create(worker->spec, trn_method_group(worker), trn_net_layout(worker->net),
                               worker->weights, &options, &worker->method, &worker->fault);
}

static terse_status create_method(struct trn_worker *worker)
{
    const struct trn_settings *const settings = worker->run->settings;
    char given[TERSE_MAX_METHOD_SPEC];
    trn_net_init(worker->net, settings->seed, worker->weights);
    (void)snprintf(worker->spec, sizeof worker->spec, "%s", settings->method);
    terse_status status = trn_start_weights(worker);
    if (status == TERSE_OK)
        status = trn_auto_start(worker);
    memcpy(given, worker->spec, sizeof given);
    if (status == TERSE_OK && settings->choose && settings->group)
        status = settings->choose(settings->choose_context, trn_method_group(worker),
                                  trn_net_layout(worker->net), worker->spec, &worker->fault);
    if (status == TERSE_OK)
        status = trn_worker_make_method(worker);
    memcpy(worker->spec, given, sizeof given); /* a combine of the same bits is not recorded */
    return status;
}

static terse_status create(struct trn_worker *worker)
{
    const struct trn_run *const run = worker->run;
    const struct trn_settings *const settings = run->settings;
    worker->rank = terse_group_rank(worker->group);
    terse_status status = terse_group_set_timeout(worker->group, settings->timeout);
    if (status == TERSE_OK)
        status = trn_net_create(settings->model, &run->input, settings->batch, settings->threads,
                                &worker->net, &worker->fault);
    if (status == TERSE_OK)
        status =
            trn_order_create(run->data, &run->order, worker->rank, &worker->order, &worker->fault);
    if (status != TERSE_OK)
        return status;
    worker->count = terse_layout_count(trn_net_layout(worker->net));
    worker->steps_per_epoch = trn_order_steps(worker->order) / trn_batches_per_step(settings);
    if (worker->steps_per_epoch == 0)
        return com_fail(&worker->fault, TERSE_BAD_ARGUMENT,
                        "--batches %u --accumulate %u: an epoch has only %u batches of %u examples "
                        "per worker; lower one of them, or --batch",
                        settings->batches, settings->accumulate, trn_order_steps(worker->order),
                        settings->batch);
    worker->steps = settings->epochs ? settings->epochs * worker->steps_per_epoch : settings->steps;
    worker->result.parameters = worker->count;
    worker->result.workers = run->workers;
    worker->result.classifies = run->input.target == TRN_LABELS;
    status = create_buffers(worker);
    if (status == TERSE_OK)
        status = trn_node_start(&worker->node, settings->timeout, &worker->fault);
    if (status == TERSE_OK)
        status = create_method(worker);
    if (status == TERSE_OK)
        status = trn_overlap_start(worker);
    if (status == TERSE_OK && run->checkpoint)
        status = trn_worker_restore(worker);
    if (status == TERSE_OK && settings->out)
        status = trn_worker_make_room(worker);
    if (status == TERSE_OK && worker->rank == 0)
        status = trn_record_open(worker, &worker->record);
    return status;
}

void trn_worker_destroy(struct trn_worker *worker)
{
    void *const buffers[] = {worker->weights,      worker->gradient, worker->partial,
                             worker->eval_weights, worker->scratch,  worker->statistics,
                             worker->examples,     worker->values,   worker->tokens,
                             worker->lengths,      worker->labels,   worker->targets,
                             worker->stats};
    trn_node_leave(&worker->node);
    trn_writer_destroy(worker->writer); /* before the record, which has the folder's lock */
    trn_worker_drop_room(worker);
    terse_method_destroy(worker->method);
    terse_method_destroy(worker->tried);
    trn_auto_free(worker->automatic);
    trn_net_destroy(worker->net);
    trn_order_destroy(worker->order);
    trn_record_close(worker->record);
    for (size_t i = 0; i < sizeof buffers / sizeof buffers[0]; i++)
        free(buffers[i]);
}

/* ---- what is not finite ---- */

/* The first tensor with an element that is not finite, or -1. */
static int64_t broken_tensor(const struct trn_worker *worker, const float *v)
{
    const terse_layout *const layout = trn_net_layout(worker->net);
    terse_tensor tensor;
    for (uint32_t t = 0; terse_layout_tensor(layout, t, &tensor) == TERSE_OK; t++)
        for (uint64_t i = 0; i < tensor.count; i++)
            if (!isfinite(v[tensor.offset + i]))
                return t;
    return -1;
}

int trn_worker_is_broken(struct trn_worker *worker)
{
    const int64_t t = broken_tensor(worker, worker->weights);
    terse_tensor tensor = {.name = ""};
    if (t < 0)
        return 0;
    (void)!terse_layout_tensor(trn_net_layout(worker->net), (uint32_t)t, &tensor);
    com_note(&worker->fault,
             "rank %u: step %llu: the weights are not finite, first in %s; lower the learning rate",
             worker->rank, (unsigned long long)worker->step, tensor.name);
    return 1;
}

/* ---- statistics of a step ---- */

/* A loss that is not finite ends the training; the fault names rank, step and tensor. */
static terse_status check_stats(struct trn_worker *worker, double *loss, int *stop)
{
    const uint32_t workers = worker->run->workers;
    *loss = 0;
    *stop = 0;
    for (uint32_t r = 0; r < workers; r++) {
        const struct trn_step_stats *const theirs = &worker->stats[r];
        terse_tensor tensor = {.name = "the loss alone"};
        *stop = theirs->stop > *stop ? (int)theirs->stop : *stop;
        *loss += theirs->loss / workers;
        if (isfinite(theirs->loss))
            continue;
        if (theirs->broken >= 0)
            (void)!terse_layout_tensor(trn_net_layout(worker->net), (uint32_t)theirs->broken,
                                       &tensor);
        return com_fail(&worker->fault, TERSE_NOT_FINITE,
                        "rank %u: step %llu: the loss is not finite, first in %s; lower the "
                        "learning rate",
                        r, (unsigned long long)worker->step, tensor.name);
    }
    return TERSE_OK;
}

/* ---- the loop ---- */

static int is_due(uint64_t step, uint64_t every)
{
    return every > 0 && step % every == 0;
}

static uint64_t evaluate_every(const struct trn_worker *worker)
{
    const struct trn_settings *const settings = worker->run->settings;
    if (settings->evaluate_every)
        return settings->evaluate_every;
    if (settings->epochs)
        return worker->steps_per_epoch;
    return worker->steps / 10 ? worker->steps / 10 : 1;
}

static terse_status evaluate(struct trn_worker *worker)
{
    struct trn_evaluation evaluation;
    uint64_t before = 0;
    uint64_t after = 0;
    terse_group_traffic(worker->group, &before, &(uint64_t){0});
    terse_status status = trn_worker_evaluate(worker, &evaluation);
    terse_group_traffic(worker->group, &after, &(uint64_t){0});
    worker->result.bytes_other += after - before;
    if (status != TERSE_OK)
        return status;
    if (!isfinite(evaluation.loss)) /* the same on all workers */
        return trn_worker_is_broken(worker)
                   ? TERSE_NOT_FINITE
                   : com_fail(&worker->fault, TERSE_NOT_FINITE,
                              "rank %u: step %llu: the test loss is not finite, though the weights "
                              "are; lower the learning rate",
                              worker->rank, (unsigned long long)worker->step);
    worker->result.loss = evaluation.loss;
    worker->result.accuracy = evaluation.accuracy;
    return trn_record_evaluation(worker, &evaluation);
}

/* One skipped step does no harm; many in succession mean that the training makes no progress. */
static terse_status count_skips(struct trn_worker *worker, const terse_exchange_report *report)
{
    const unsigned long long step = worker->step;
    const char *const stages = terse_method_settings(worker->method);
    const char *const who = worker->node.group ? "node" : "rank";
    worker->result.skipped += report->skipped != TERSE_OK;
    worker->skips = report->skipped != TERSE_OK ? worker->skips + 1 : 0;
    if (worker->skips < MAX_SKIPS)
        return TERSE_OK;
    if (report->skipped_by < 0)
        return com_fail(&worker->fault, TERSE_NOT_FINITE,
                        "step %llu: the sum of the gradients, or the weights, overflowed in %u "
                        "consecutive steps (%.80s); lower the learning rate",
                        step, MAX_SKIPS, stages);
    if (report->skipped == TERSE_OUT_OF_RANGE)
        return com_fail(&worker->fault, TERSE_NOT_FINITE,
                        "%s %d: step %llu: the gradient overflowed the codec in %u consecutive "
                        "steps (%.80s); lower the learning rate or use bf16",
                        who, report->skipped_by, step, MAX_SKIPS, stages);
    return com_fail(&worker->fault, TERSE_NOT_FINITE,
                    "%s %d: step %llu: the gradient was not finite in %u consecutive steps; "
                    "lower the learning rate",
                    who, report->skipped_by, step, MAX_SKIPS);
}

/* Says once that a rule of bits asks for more than there are. */
static void count_capped(struct trn_worker *worker, uint32_t capped)
{
    const struct trn_watch *const watch = worker->run->watch;
    char text[200];
    if (capped > 0 && worker->result.capped == 0 && worker->rank == 0 && watch->note) {
        (void)snprintf(text, sizeof text,
                       "warning: step %llu: the rule of bits asks for more than 16 bits, the most "
                       "there are: the error is larger than was allowed; raise epsilon or lower "
                       "kappa",
                       (unsigned long long)worker->step);
        watch->note(watch->context, text);
    }
    worker->result.capped += capped;
}

/* A step of all workers. Their statistics follow it, since a method's messages keep their order and
 * those of buckets may still be under way before it. A loss that is not finite ends the training
 * after all. */
static terse_status step(struct trn_worker *worker, int *stop)
{
    struct trn_result *const result = &worker->result;
    const volatile sig_atomic_t *const signalled = worker->run->watch->stop;
    struct trn_step_stats mine = {.broken = -1, .stop = signalled ? *signalled : 0};
    terse_method_report report = {0};
    double loss = 0;
    double computed = 0;
    const double start = trn_now();
    terse_status status = trn_worker_advance(worker, &mine, &report, &computed);
    if (status == TERSE_OK && !isfinite(mine.loss))
        mine.broken = broken_tensor(worker, worker->gradient);
    if (status == TERSE_OK)
        status = trn_share(worker->group, TRN_SHARE_STEP, worker->step, &mine, sizeof mine,
                           worker->stats, &worker->fault);
    if (status == TERSE_OK)
        status = check_stats(worker, &loss, stop);
    if (status != TERSE_OK)
        return status;
    worker->step++;
    result->steps = worker->step;
    result->epochs = worker->step / worker->steps_per_epoch;
    result->seconds += trn_now() - start;
    result->bytes_sent += report.exchange.bytes_sent;
    result->dense_bytes += report.exchange.dense_bytes;
    result->train_loss = loss;
    count_capped(worker, report.capped);
    status = count_skips(worker, &report.exchange);
    return status == TERSE_OK ? trn_record_step(worker, &report, loss, computed - start) : status;
}

static terse_status loop(struct trn_worker *worker)
{
    const struct trn_settings *const settings = worker->run->settings;
    const uint64_t first = worker->step;
    const double before = worker->result.seconds;
    uint64_t evaluated = UINT64_MAX;
    terse_status status = TERSE_OK;
    int stop = 0;
    worker->result.end = TRN_END_FINISHED;
    while (worker->step < worker->steps && status == TERSE_OK && !stop) {
        status = trn_auto_due(worker);
        if (status == TERSE_OK)
            status = step(worker, &stop);
        if (stop && worker->step < worker->steps) {
            worker->result.end = TRN_END_STOPPED;
            worker->result.signal = stop;
        }
        if (status == TERSE_OK && is_due(worker->step, evaluate_every(worker)) && !stop) {
            status = evaluate(worker);
            evaluated = worker->step;
            if (settings->target > 0 && worker->result.accuracy >= settings->target) {
                worker->result.end = TRN_END_TARGET;
                stop = 1;
            }
        }
        if (status == TERSE_OK && is_due(worker->step, settings->checkpoint_every))
            status = trn_save_due(worker);
    }
    if (status == TERSE_OK)
        status = trn_save_last(worker);
    if (status == TERSE_OK && evaluated != worker->step)
        status = evaluate(worker);
    const double examples = (double)(worker->step - first) * settings->batch *
                            (double)trn_batches_per_step(settings) * worker->run->workers;
    if (worker->result.seconds > before)
        worker->result.examples_per_second = examples / (worker->result.seconds - before);
    return status;
}

terse_status trn_worker_run(struct trn_worker *worker)
{
    struct trn_result *const result = &worker->result;
    terse_status status = create(worker);
    if (status == TERSE_OK)
        status = loop(worker);
    if (status == TERSE_NOT_FINITE)
        (void)!trn_record_diverged(worker); /* the divergence is reported, not this failure */
    if (status != TERSE_OK)
        return status;
    result->rejected = terse_method_steps_rejected(worker->method);
    result->weights_hash = trn_hash64(worker->weights, worker->count * sizeof(float), 0);
    (void)snprintf(result->given, sizeof result->given, "%s", worker->spec);
    (void)snprintf(result->method, sizeof result->method, "%s", terse_method_spec(worker->method));
    (void)snprintf(result->exchange, sizeof result->exchange, "%s",
                   terse_method_settings(worker->method));
    return trn_record_end(worker);
}
