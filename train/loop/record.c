/* The output folder: run.json, metrics.jsonl, TensorBoard events, weights. Rank 0 writes it. */
#include <errno.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>

#include "common/lock.h"
#include "files/events.h"
#include "files/lines.h"
#include "files/safetensors.h"
#include "loop/auto.h"
#include "loop/options.h"
#include "loop/worker.h"

#define LINES 2000u /* lines of kind step in a run, about */

struct trn_record {
    struct com_lock *lock; /* of the folder; NULL without one */
    struct trn_lines *lines;
    struct trn_events *events;
    uint64_t evaluated; /* step of the last evaluation in the file, or UINT64_MAX */
    uint64_t every;     /* steps per line */
    uint64_t since;     /* steps of the next line; their sums follow */
    double loss;
    double lr;
    double compute;
    double bits;
    uint64_t capped;
    double residual_norm;
    double compression_error;
    double stage[TERSE_STAGES];
    double sent;
    double dense;
    uint64_t *tensor_bytes; /* by tensor: payload of the whole run, then of the last exchange; NULL:
                             * it is not known */
    uint32_t tensors;
};

static const char *const stage_names[TERSE_STAGES] = {"direction", "encode", "wire",  "group",
                                                      "combine",   "decode", "update"};

/* ---- settings ---- */

/* The command of this run alone: `terse compare` starts many. */
static void put_train(com_json *json, const struct trn_settings *settings)
{
    struct com_text text = {0};
    trn_options_command(settings, &text);
    if (!text.failed)
        com_json_put_text(json, "train", text.bytes);
    free(text.bytes);
}

static com_json *settings_of(const struct trn_worker *worker)
{
    struct trn_settings settings = *worker->run->settings;
    com_json *const json = com_json_object();
    settings.workers = worker->run->workers; /* that of the group if there is one */
    settings.steps = worker->steps;          /* also if --epochs was given */
    settings.method = worker->spec;          /* also if auto chose it */
    com_json_put_u64(json, "format", 1);
    com_json_put_text(json, "terse", terse_version());
    com_json_put_text(json, "command", settings.command ? settings.command : "");
    put_train(json, &settings);
    trn_options_write(&settings, json);
    if (worker->run->init_hash)
        com_json_put_hex(json, "init_hash", worker->run->init_hash);
    if (worker->node.group)
        com_json_put_u64(json, "nodes", terse_group_workers(worker->node.group));
    com_json_put_u64(json, "parameters", worker->count);
    com_json_put_real(json, "seconds", worker->result.seconds);
    com_json_put_u64(json, "bytes_sent", worker->result.bytes_sent);
    com_json_put_u64(json, "dense_bytes", worker->result.dense_bytes);
    com_json_put_u64(json, "capped", worker->result.capped);
    trn_auto_describe(worker, json);
    return json;
}

static void put_tensor_bytes(com_json *json, const struct trn_record *record)
{
    com_json *const list = com_json_array();
    for (uint32_t t = 0; t < record->tensors; t++)
        com_json_append_u64(list, record->tensor_bytes[t]);
    com_json_put(json, "tensor_bytes", list);
}

com_json *trn_record_settings(const struct trn_worker *worker)
{
    com_json *const json = settings_of(worker);
    if (worker->record && worker->record->tensor_bytes)
        put_tensor_bytes(json, worker->record);
    return json;
}

/* The contents of run.json; its kind is for readers of the live page. */
static com_json *describe_run(const struct trn_worker *worker)
{
    const terse_layout *const layout = trn_net_layout(worker->net);
    const char *kernels = "";
    char libraries[200];
    com_json *const json = settings_of(worker);
    com_json *const tensors = com_json_array();
    terse_tensor tensor;
    for (uint32_t t = 0; terse_layout_tensor(layout, t, &tensor) == TERSE_OK; t++) {
        com_json *const item = com_json_object();
        com_json_put_text(item, "name", tensor.name);
        com_json_put_u64(item, "count", tensor.count);
        com_json_append(tensors, item);
    }
    (void)!terse_kernel_set_name(&kernels, NULL);
    com_json_put_text(json, "kernels", kernels);
    trn_net_libraries(libraries, sizeof libraries);
    com_json_put_text(json, "libraries", libraries);
    com_json_put_text(json, "spec", terse_method_spec(worker->method));
    com_json_put_text(json, "exchange", terse_method_settings(worker->method));
    com_json_put_text(json, "data_notes", trn_data_about(worker->run->data)->notes);
    com_json_put(json, "tensors", tensors);
    com_json_put_text(json, "kind", "run");
    return json;
}

static terse_status write_run(const struct trn_worker *worker, const char *folder,
                              terse_fault *fault)
{
    com_json *const json = describe_run(worker);
    char *const path = com_path_join(folder, "run.json");
    const terse_status status = path ? com_json_write(path, json, fault)
                                     : com_fail(fault, TERSE_NO_MEMORY, "out of memory");
    free(path);
    com_json_free(json);
    return status;
}

/* ---- opening ---- */

/* Is the folder the one that the run was resumed from? Paths may be spelled differently. */
static int resumes_in(const struct trn_run *run, const char *folder)
{
    struct stat from;
    struct stat to;
    return run->checkpoint && stat(run->settings->resume, &from) == 0 && stat(folder, &to) == 0 &&
           from.st_dev == to.st_dev && from.st_ino == to.st_ino;
}

static int note_evaluation(void *context, const com_json *line)
{
    struct trn_record *const record = context;
    const char *kind = "";
    if (com_json_get_text(line, "kind", &kind) && strcmp(kind, "evaluation") == 0)
        (void)com_json_get_u64(line, "step", &record->evaluated);
    return 1;
}

static int note_end(void *context, const com_json *line)
{
    const char *kind = "";
    *(int *)context |= com_json_get_text(line, "kind", &kind) && strcmp(kind, "end") == 0;
    return 1;
}

/* 1: the folder's run has neither a checkpoint nor an end: it was killed, and nothing of it can be
 * continued. */
static int was_killed_early(const char *folder, const char *metrics)
{
    size_t good_len = 0;
    int has_end = 0;
    return !trn_checkpoint_exists(folder) &&
           trn_lines_read(metrics, note_end, &has_end, &good_len, NULL) == TERSE_OK && !has_end;
}

/* A folder that holds another run is refused. One that was killed before its first checkpoint
 * begins anew if it has the same settings: the command that started it can be repeated. */
static terse_status clear_folder(struct trn_worker *worker, const char *folder, const char *metrics)
{
    const struct trn_watch *const watch = worker->run->watch;
    char *const path = com_path_join(folder, "run.json");
    com_json *kept = NULL;
    char how[200] = "";
    char text[400];
    terse_status status = TERSE_OK;
    if (!was_killed_early(folder, metrics) || !path || com_json_read(path, &kept, NULL) != TERSE_OK)
        status = com_fail(&worker->fault, TERSE_BAD_ARGUMENT,
                          "%.150s already holds a run: continue it with --resume, or choose "
                          "another --out",
                          folder);
    const struct trn_settings settings = trn_auto_settings(worker->run->settings, kept);
    if (status == TERSE_OK &&
        trn_options_differ(&settings, kept, TRN_RESUMED | TRN_SHARED, how, sizeof how))
        status =
            com_fail(&worker->fault, TERSE_BAD_ARGUMENT,
                     "%.100s already holds a run, which %.100s; choose another --out", folder, how);
    (void)snprintf(text, sizeof text,
                   "%.300s holds a run that ended before its first checkpoint: it begins anew",
                   folder);
    if (status == TERSE_OK && watch->note)
        watch->note(watch->context, text);
    if (status == TERSE_OK && remove(metrics) != 0)
        status = com_fail_errno(&worker->fault, "remove", metrics, errno);
    if (status == TERSE_OK)
        status = trn_events_remove(folder, &worker->fault);
    com_json_free(kept);
    free(path);
    return status;
}

static terse_status open_folder(struct trn_worker *worker, struct trn_record *record)
{
    const char *const folder = worker->run->settings->out;
    char *const path = com_path_join(folder, "metrics.jsonl");
    size_t good_len = 0;
    terse_status status = path ? com_folder_make(folder, &worker->fault)
                               : com_fail(&worker->fault, TERSE_NO_MEMORY, "out of memory");
    if (status == TERSE_OK)
        status = com_lock_take(folder, &record->lock, &worker->fault);
    if (status == TERSE_OK)
        status = trn_checkpoint_clean(folder, &worker->fault);
    if (status == TERSE_OK && com_file_exists(path) && !resumes_in(worker->run, folder))
        status = clear_folder(worker, folder, path);
    if (status == TERSE_OK)
        status = write_run(worker, folder, &worker->fault);
    if (status == TERSE_OK)
        status = trn_lines_open(path, &worker->step, &record->lines, &worker->fault);
    if (status == TERSE_OK)
        status = trn_lines_read(path, note_evaluation, record, &good_len, &worker->fault);
    if (status == TERSE_OK)
        status = trn_events_open(folder, worker->step, &record->events, &worker->fault);
    free(path);
    return status;
}

/* The bytes that a checkpoint has counted; 0 where it has not. */
static int read_tensor_bytes(const struct trn_checkpoint *checkpoint, struct trn_record *record)
{
    const com_json *const list = com_json_get(trn_checkpoint_settings(checkpoint), "tensor_bytes");
    const com_json *item = com_json_first(list);
    if (com_json_count(list) != record->tensors)
        return 0;
    for (uint32_t t = 0; t < record->tensors; t++, item = com_json_next(item))
        if (!com_json_u64(item, &record->tensor_bytes[t]))
            return 0;
    return 1;
}

/* Bytes are counted unless the method does not tell them, or those before a checkpoint are not
 * known. */
static terse_status count_tensors(struct trn_worker *worker, struct trn_record *record)
{
    const struct trn_checkpoint *const checkpoint = worker->run->checkpoint;
    record->tensors = terse_layout_tensors(trn_net_layout(worker->net));
    record->tensor_bytes = calloc(2 * (size_t)record->tensors + 1, sizeof *record->tensor_bytes);
    if (!record->tensor_bytes)
        return com_fail(&worker->fault, TERSE_NO_MEMORY, "out of memory");
    if (terse_method_tensor_bytes(worker->method, record->tensor_bytes) != TERSE_OK ||
        (checkpoint && !read_tensor_bytes(checkpoint, record))) {
        free(record->tensor_bytes);
        record->tensor_bytes = NULL;
    }
    return TERSE_OK;
}

terse_status trn_record_open(struct trn_worker *worker, struct trn_record **out)
{
    struct trn_record *const record = calloc(1, sizeof *record);
    *out = record;
    if (!record)
        return com_fail(&worker->fault, TERSE_NO_MEMORY, "out of memory");
    record->every = worker->steps / LINES + 1;
    record->evaluated = UINT64_MAX;
    if (worker->run->watch->line) {
        com_json *const about = describe_run(worker);
        worker->run->watch->line(worker->run->watch->context, about);
        com_json_free(about);
    }
    const terse_status status = count_tensors(worker, record);
    return status == TERSE_OK && worker->run->settings->out ? open_folder(worker, record) : status;
}

terse_status trn_record_again(struct trn_worker *worker)
{
    const char *const folder = worker->run->settings->out;
    return worker->record && folder ? write_run(worker, folder, &worker->fault) : TERSE_OK;
}

void trn_record_close(struct trn_record *record)
{
    if (!record)
        return;
    trn_lines_close(record->lines);
    trn_events_close(record->events);
    com_lock_release(record->lock);
    free(record->tensor_bytes);
    free(record);
}

/* ---- lines ---- */

static com_json *line_of(const struct trn_worker *worker, const char *kind)
{
    com_json *const line = com_json_object();
    com_json_put_text(line, "kind", kind);
    com_json_put_u64(line, "step", worker->step);
    com_json_put_u64(line, "epoch", worker->step / worker->steps_per_epoch);
    com_json_put_real(line, "seconds", worker->result.seconds);
    return line;
}

/* Shows the line to the watcher, appends it to the file and frees it. */
static terse_status finish_line(struct trn_worker *worker, com_json *line)
{
    const struct trn_watch *const watch = worker->run->watch;
    if (watch->line)
        watch->line(watch->context, line);
    if (worker->record->lines)
        return trn_lines_append(worker->record->lines, line, &worker->fault);
    com_json_free(line);
    return TERSE_OK;
}

static void put_known(com_json *line, const char *key, double value)
{
    if (isfinite(value))
        com_json_put_real(line, key, value);
}

static void add_tensor_bytes(struct trn_record *record, const terse_method *method)
{
    uint64_t *const last = record->tensor_bytes + record->tensors;
    (void)!terse_method_tensor_bytes(method, last); /* it did tell when the record was opened */
    for (uint32_t t = 0; t < record->tensors; t++)
        record->tensor_bytes[t] += last[t];
}

static void add_up(struct trn_record *record, const terse_method_report *report, double loss,
                   double compute)
{
    record->since++;
    record->loss += loss;
    record->lr = report->lr;
    record->compute += compute;
    record->bits += report->bits;
    record->capped += report->capped;
    record->sent += (double)report->exchange.bytes_sent;
    record->dense += (double)report->exchange.dense_bytes;
    if (isfinite(report->residual_norm)) {
        record->residual_norm = report->residual_norm;
        record->compression_error = report->compression_error;
    }
    for (int i = 0; i < TERSE_STAGES; i++)
        record->stage[i] += 1e-9 * (double)report->exchange.nanoseconds[i];
}

terse_status trn_record_step(struct trn_worker *worker, const terse_method_report *report,
                             double loss, double compute_seconds)
{
    struct trn_record *const record = worker->record;
    if (!record)
        return TERSE_OK;
    if (record->since == 0)
        record->residual_norm = record->compression_error = NAN;
    add_up(record, report, loss, compute_seconds);
    if (record->tensor_bytes && report->exchanged && report->exchange.skipped == TERSE_OK)
        add_tensor_bytes(record, worker->method);
    if (record->since < record->every && worker->step < worker->steps)
        return TERSE_OK;
    const double steps = (double)record->since;
    com_json *const line = line_of(worker, "step");
    com_json *const stages = com_json_object();
    com_json_put_real(line, "loss", record->loss / steps);
    com_json_put_real(line, "lr", record->lr);
    com_json_put_real(line, "bytes_sent", record->sent / steps);
    com_json_put_real(line, "dense_bytes", record->dense / steps);
    com_json_put_real(line, "bits", record->bits / steps);
    if (record->capped > 0)
        com_json_put_u64(line, "capped", record->capped);
    put_known(line, "residual_norm", record->residual_norm);
    put_known(line, "compression_error", record->compression_error);
    com_json_put_real(stages, "compute", record->compute / steps);
    for (int i = 0; i < TERSE_STAGES; i++)
        com_json_put_real(stages, stage_names[i], record->stage[i] / steps);
    com_json_put(line, "stages", stages);
    const struct trn_scalar scalars[] = {{"train/loss", (float)(record->loss / steps)},
                                         {"train/lr", (float)record->lr},
                                         {"bytes/sent", (float)(record->sent / steps)}};
    terse_status status = TERSE_OK;
    if (record->events)
        status = trn_events_scalars(record->events, worker->step, scalars, 3, &worker->fault);
    record->since = record->capped = 0;
    record->loss = record->compute = record->bits = record->sent = record->dense = 0;
    memset(record->stage, 0, sizeof record->stage);
    const terse_status appended = finish_line(worker, line);
    return status == TERSE_OK ? appended : status;
}

terse_status trn_record_evaluation(struct trn_worker *worker,
                                   const struct trn_evaluation *evaluation)
{
    struct trn_record *const record = worker->record;
    if (!record || record->evaluated == worker->step) /* resumed at the end: it is in the file */
        return TERSE_OK;
    com_json *const line = line_of(worker, "evaluation");
    com_json_put_real(line, "loss", evaluation->loss);
    if (worker->result.classifies)
        com_json_put_real(line, "accuracy", evaluation->accuracy);
    com_json_put_u64(line, "bytes_sent_total", worker->result.bytes_sent);
    put_known(line, "phi_gradient", evaluation->phi_gradient);
    put_known(line, "phi_noise", evaluation->phi_noise);
    const struct trn_scalar scalars[] = {{"test/loss", (float)evaluation->loss},
                                         {"test/accuracy", (float)evaluation->accuracy}};
    terse_status status = TERSE_OK;
    if (record->events)
        status = trn_events_scalars(record->events, worker->step, scalars,
                                    worker->result.classifies ? 2 : 1, &worker->fault);
    const terse_status appended = finish_line(worker, line);
    return status == TERSE_OK ? appended : status;
}

/* ---- the end ---- */

static terse_status write_weights(struct trn_worker *worker)
{
    enum { MAX_STATISTICS = 256 };
    const terse_layout *const layout = trn_net_statistics_layout(worker->net);
    struct trn_stored more[MAX_STATISTICS];
    uint64_t count = 0;
    const float *const statistics = trn_net_statistics(worker->net, &count);
    terse_tensor tensor;
    uint32_t tensors = 0;
    while (count > 0 && tensors < MAX_STATISTICS &&
           terse_layout_tensor(layout, tensors, &tensor) == TERSE_OK) {
        more[tensors] = (struct trn_stored){.name = tensor.name,
                                            .dtype = TRN_F32,
                                            .ndim = tensor.ndim,
                                            .bytes = statistics + tensor.offset,
                                            .len = tensor.count * sizeof(float)};
        memcpy(more[tensors].dims, tensor.dims, tensor.ndim * sizeof *tensor.dims);
        tensors++;
    }
    char *const path = com_path_join(worker->run->settings->out, "weights.safetensors");
    const terse_status status =
        path ? trn_safetensors_write_layout(path, trn_net_layout(worker->net), worker->eval_weights,
                                            more, tensors, worker->run->settings->model,
                                            &worker->fault)
             : com_fail(&worker->fault, TERSE_NO_MEMORY, "out of memory");
    free(path);
    return status;
}

terse_status trn_record_end(struct trn_worker *worker)
{
    static const char *const ends[] = {"finished", "target", "stopped"};
    const struct trn_result *const result = &worker->result;
    if (!worker->record)
        return TERSE_OK;
    com_json *const line = line_of(worker, "end");
    com_json_put_text(line, "status", ends[result->end]);
    com_json_put_real(line, "loss", result->loss);
    if (result->classifies)
        com_json_put_real(line, "accuracy", result->accuracy);
    com_json_put_u64(line, "bytes_sent_total", worker->result.bytes_sent);
    if (result->capped > 0)
        com_json_put_u64(line, "capped", result->capped);
    if (result->rejected > 0)
        com_json_put_u64(line, "rejected", result->rejected);
    if (worker->record->tensor_bytes)
        put_tensor_bytes(line, worker->record);
    com_json_put_hex(line, "weights_hash", result->weights_hash);
    const terse_status status = finish_line(worker, line);
    return status == TERSE_OK && worker->run->settings->out ? write_weights(worker) : status;
}

terse_status trn_record_diverged(struct trn_worker *worker)
{
    if (!worker->record)
        return TERSE_OK;
    com_json *const line = line_of(worker, "end");
    com_json_put_text(line, "status", "diverged");
    com_json_put_real(line, "loss", NAN);
    com_json_put_u64(line, "bytes_sent_total", worker->result.bytes_sent);
    return finish_line(worker, line);
}
