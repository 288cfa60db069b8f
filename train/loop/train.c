/* A training from its settings: data and checkpoint are opened once, then every worker runs. */
#include "loop/train.h"

#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "files/safetensors.h"
#include "files/writer.h"
#include "loop/agree.h"
#include "loop/auto.h"
#include "loop/options.h"
#include "loop/share.h"
#include "loop/start.h"
#include "loop/worker.h"

#define MAX_TOKENS 64u                /* tokens of a text that is read word by word */
#define MAX_NGRAMS 128u               /* tokens of a bag */
#define MOST_STEP (UINT64_C(1) << 53) /* integers up to it are exact in JSON */
#define BUCKETS 20000u                /* ids of hashed words and pairs */

/* What the net needs to know about the data. */
static void describe_input(struct trn_run *run)
{
    const struct trn_about *const about = trn_data_about(run->data);
    const int words = trn_model_reads_words(run->settings->model);
    run->text = (struct trn_text){.tokens = words ? TRN_WORDS : TRN_NGRAMS,
                                  .buckets = BUCKETS,
                                  .max_len = words ? MAX_TOKENS : MAX_NGRAMS};
    run->input = (struct trn_input){
        .kind = about->kind == TRN_DATA_TEXT    ? TRN_TEXT
                : about->kind == TRN_DATA_IMAGE ? TRN_IMAGE
                                                : TRN_VECTOR,
        .target = about->classes ? TRN_LABELS : TRN_NUMBERS,
        .channels = about->channels,
        .height = about->height,
        .width = about->width,
        .length = about->kind == TRN_DATA_TEXT ? run->text.max_len : about->features,
        .vocabulary = BUCKETS,
        .outputs = about->classes ? about->classes : 1,
    };
}

/* ---- resuming ---- */

/* The settings of the checkpoint must be those of the resumed run; its number of workers and steps
 * may be any that a run can have. */
static terse_status check_settings(const struct trn_run *run, terse_fault *fault)
{
    const com_json *const kept = trn_checkpoint_settings(run->checkpoint);
    const uint64_t step = trn_checkpoint_step(run->checkpoint);
    uint64_t workers = 0;
    char how[200];
    if (!com_json_get_u64(kept, "workers", &workers) || workers < 1 || workers > TERSE_MAX_WORKERS)
        return com_fail(fault, TERSE_MISMATCH,
                        "the checkpoint has no number of workers from 1 to %u", TERSE_MAX_WORKERS);
    if (step > MOST_STEP)
        return com_fail(fault, COM_BAD_FILE,
                        "the checkpoint is of step %llu; at most %llu is possible",
                        (unsigned long long)step, (unsigned long long)MOST_STEP);
    const struct trn_settings settings = trn_auto_settings(run->settings, kept);
    if (!trn_options_differ(&settings, kept, TRN_RESUMED, how, sizeof how))
        return TERSE_OK;
    return com_fail(fault, TERSE_MISMATCH, "the checkpoint %s", how);
}

/* Rank 0 of a group of processes reads the checkpoint and broadcasts it: no shared file system is
 * needed. `found` is rank 0's status so far; its reason stays in the fault. */
static terse_status broadcast_checkpoint(struct trn_run *run, const char *path, terse_status found,
                                         terse_fault *fault)
{
    void *bytes = NULL;
    uint64_t len = 0;
    terse_status status = trn_share_file(run->settings->group, path, found,
                                         "a checkpoint to resume from", &bytes, &len, fault);
    const struct trn_bytes all = {"checkpoint", bytes, (size_t)len};
    if (status == TERSE_OK)
        status = trn_checkpoint_parse(&all, &run->checkpoint, fault);
    free(bytes);
    return status;
}

static terse_status find_checkpoint(struct trn_run *run, terse_fault *fault)
{
    const struct trn_settings *const settings = run->settings;
    const int reads = !settings->group || terse_group_rank(settings->group) == 0;
    struct trn_checkpoint *latest = NULL;
    char *path = NULL;
    char *notes = NULL;
    terse_status status = TERSE_OK;
    if (reads)
        status = trn_checkpoint_latest(settings->resume, &latest, &path, &notes, fault);
    if (notes && run->watch->note)
        run->watch->note(run->watch->context, notes);
    if (settings->group) {
        trn_checkpoint_free(latest);
        status = broadcast_checkpoint(run, path, status, fault);
    } else {
        run->checkpoint = latest;
    }
    free(path);
    free(notes);
    if (status == TERSE_OK) /* what the run began with is still in its files */
        (void)com_json_get_u64(trn_checkpoint_settings(run->checkpoint), "init_hash",
                               &run->init_hash);
    return status == TERSE_OK ? check_settings(run, fault) : status;
}

/* ---- workers ---- */

static void leave_groups(struct trn_worker *worker)
{
    terse_group_destroy(worker->group);
    worker->group = NULL;
    trn_node_leave(&worker->node);
}

static void *run_thread(void *opaque)
{
    struct trn_worker *const worker = opaque;
    worker->status = trn_worker_run(worker);
    if (worker->status != TERSE_OK) /* leave the groups, so that the others do not wait */
        leave_groups(worker);
    return NULL;
}

/* The failure that caused the others: not the loss of a peer, if there is another; and of equal
 * failures that of the rank at fault, which alone knows why. */
static const struct trn_worker *first_cause(const struct trn_worker *workers, uint32_t count)
{
    const struct trn_worker *cause = NULL;
    for (uint32_t r = 0; r < count; r++) {
        const terse_status status = workers[r].status;
        const int followed = status == TERSE_PEER_LOST || status == TERSE_TIMEOUT;
        if (status != TERSE_OK && (!cause || (cause->status == TERSE_PEER_LOST && !followed)))
            cause = &workers[r];
    }
    const int32_t rank = cause ? cause->fault.rank : -1;
    const int knows = rank >= 0 && (uint32_t)rank < count && workers[rank].status == cause->status;
    return knows ? &workers[rank] : cause;
}

static terse_status run_threads(struct trn_run *run, struct trn_result *result, terse_fault *fault)
{
    terse_group *handles[TERSE_MAX_LOCAL_WORKERS];
    struct trn_node *nodes[TERSE_MAX_LOCAL_WORKERS];
    pthread_t threads[TERSE_MAX_LOCAL_WORKERS];
    struct trn_worker *const workers = calloc(run->workers, sizeof *workers);
    uint32_t started = 0;
    terse_status status = workers ? terse_group_local(run->workers, handles) : TERSE_NO_MEMORY;
    if (status != TERSE_OK) {
        free(workers);
        return com_fail(fault, status, "cannot create a group of %u workers", run->workers);
    }
    for (uint32_t r = 0; r < run->workers; r++)
        workers[r] = (struct trn_worker){.run = run, .group = handles[r]};
    for (uint32_t r = 0; r < run->workers; r++)
        nodes[r] = &workers[r].node;
    status = trn_nodes_of_threads(run->settings, run->workers, nodes, fault);
    for (uint32_t r = 0; r < run->workers && status != TERSE_OK; r++)
        leave_groups(&workers[r]);
    if (status != TERSE_OK) {
        free(workers);
        return status;
    }
    for (; started < run->workers; started++)
        if (pthread_create(&threads[started], NULL, run_thread, &workers[started]) != 0)
            break;
    for (uint32_t r = started; r < run->workers; r++) {
        leave_groups(&workers[r]);
        workers[r].status = com_fail(&workers[r].fault, TERSE_NO_MEMORY, "cannot start a thread");
    }
    for (uint32_t r = 0; r < started; r++)
        (void)pthread_join(threads[r], NULL);
    const struct trn_worker *const cause = first_cause(workers, run->workers);
    *result = workers[0].result;
    if (cause) {
        status = cause->status;
        *fault = cause->fault;
    }
    for (uint32_t r = 0; r < run->workers; r++)
        leave_groups(&workers[r]);
    for (uint32_t r = 0; r < run->workers; r++)
        trn_worker_destroy(&workers[r]);
    free(workers);
    return status;
}

static terse_status run_alone(struct trn_run *run, struct trn_result *result, terse_fault *fault)
{
    const struct trn_settings *const settings = run->settings;
    struct trn_worker worker = {.run = run, .group = settings->group};
    terse_status status = trn_node_of_process(settings, &worker.node, &worker.fault);
    if (status == TERSE_OK)
        status = trn_worker_run(&worker);
    *result = worker.result;
    if (status != TERSE_OK) {
        *fault = worker.fault;
        trn_writer_destroy(worker.writer);
        trn_record_close(worker.record);
        return status; /* the failed group may still use the worker's buffers */
    }
    trn_worker_destroy(&worker);
    return TERSE_OK;
}

terse_status trn_train(const struct trn_settings *settings, const struct trn_watch *watch,
                       struct trn_result *result, terse_fault *fault)
{
    const uint32_t workers =
        settings->group ? terse_group_workers(settings->group) : settings->workers;
    const uint32_t most = settings->group ? TERSE_MAX_WORKERS : TERSE_MAX_LOCAL_WORKERS;
    struct trn_run run = {.settings = settings, .watch = watch, .workers = workers};
    *result = (struct trn_result){.workers = workers};
    if (workers > most)
        return com_fail(fault, TERSE_BAD_ARGUMENT,
                        settings->group ? "%u workers: at most %u processes are possible"
                                        : "--workers %u: at most %u threads are possible; use "
                                          "fewer, or start processes with mpirun",
                        workers, most);
    terse_status status = trn_data_open(settings->data, settings->seed, &run.data, fault);
    if (status == TERSE_OK && settings->classes && settings->classes[0])
        status = trn_data_keep_classes(run.data, settings->classes, fault);
    if (status == TERSE_OK && settings->validation > 0)
        status = trn_data_hold_out(run.data, settings->validation, fault);
    run.order = (struct trn_order_options){
        .seed = settings->seed, .workers = workers, .batch = settings->batch, .drop_short = 1};
    if (status == TERSE_OK)
        status = trn_shard_parse(settings->shard, &run.order.shard, &run.order.alpha, fault);
    if (status == TERSE_OK && strcmp(settings->weighting, "equal") != 0 &&
        strcmp(settings->weighting, "shard") != 0)
        status = com_fail(fault, TERSE_BAD_SPEC,
                          "--worker-weights is equal or shard, not '%s'; for example "
                          "--shard unequal --worker-weights shard",
                          settings->weighting);
    if (status == TERSE_OK)
        status = trn_check_nodes(settings, workers, fault);
    if (status == TERSE_OK && settings->overlap && strcmp(settings->overlap, "on") != 0 &&
        strcmp(settings->overlap, "off") != 0)
        status =
            com_fail(fault, TERSE_BAD_SPEC, "--overlap is on or off, not '%s'", settings->overlap);
    if (status == TERSE_OK)
        status = trn_adversaries_parse(settings->adversaries, &run.adversaries, fault);
    if (status == TERSE_OK && run.adversaries.count > workers)
        status = com_fail(fault, TERSE_BAD_ARGUMENT,
                          "--adversaries %s: there are only %u workers; name at most as many, or "
                          "use more workers",
                          settings->adversaries, workers);
    if (status == TERSE_OK)
        describe_input(&run);
    if (status == TERSE_OK && settings->group)
        status = terse_group_set_timeout(settings->group, settings->timeout);
    if (status == TERSE_OK && settings->group)
        status = trn_agree(settings->group, settings, trn_data_hash(run.data), fault);
    if (status == TERSE_OK && settings->resume)
        status = find_checkpoint(&run, fault);
    if (status == TERSE_OK)
        status = trn_start_read(&run, fault);
    if (status == TERSE_OK)
        status =
            settings->group ? run_alone(&run, result, fault) : run_threads(&run, result, fault);
    trn_checkpoint_free(run.checkpoint);
    trn_safetensors_free(run.init);
    trn_data_close(run.data);
    return status;
}
