#include "train_result.h"

#include <math.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "common/json.h"
#include "common/number.h"
#include "message.h"
#include "table.h"
#include "train/files/checkpoint.h"

static const char *const ends[] = {"finished", "target reached", "stopped by a signal"};

static double per_step(uint64_t bytes, uint64_t steps)
{
    return steps ? (double)bytes / (double)steps : 0;
}

struct costs {
    char text[160];
};

/* "12, 1 skipped; the training waited 3.1 ms for each, writing took 85 ms" */
static struct costs checkpoint_costs(const struct trn_result *result)
{
    struct costs costs;
    const double count = result->checkpoints ? (double)result->checkpoints : 1;
    char skipped[40] = "";
    if (result->checkpoints_skipped)
        (void)snprintf(skipped, sizeof skipped, ", %llu skipped",
                       (unsigned long long)result->checkpoints_skipped);
    (void)snprintf(costs.text, sizeof costs.text,
                   "%llu%s; the training waited %.3g ms for each, writing took %.3g ms",
                   (unsigned long long)result->checkpoints, skipped,
                   1e3 * result->checkpoint_seconds / count,
                   1e3 * result->checkpoint_write_seconds / count);
    return costs;
}

int train_result_print(const struct train_request *request, const struct trn_result *result)
{
    struct table *const table = table_create("lr");
    if (!table)
        return msg_error(CLI_MACHINE, "out of memory");
    table_cell(table, "%s on %s", request->settings.model, request->settings.data);
    table_cell(table, "%s", ends[result->end]);
    table_cell(table, "method");
    table_cell(table, "%s", result->given);
    table_cell(table, "workers");
    table_cell(table, "%u", result->workers);
    if (strcmp(request->settings.adversaries, "none") != 0) {
        table_cell(table, "adversaries");
        table_cell(table, "%s", request->settings.adversaries);
    }
    table_cell(table, "steps");
    table_cell(table, "%s", com_show_count(result->steps).text);
    if (result->rejected) {
        table_cell(table, "steps rejected");
        table_cell(table, "%s", com_show_count(result->rejected).text);
    }
    const char *const judged = request->settings.validation > 0 ? "validation" : "test";
    table_cell(table, "%s loss", judged);
    table_cell(table, "%.4f", result->loss);
    if (result->classifies) {
        table_cell(table, "%s accuracy", judged);
        table_cell(table, "%.2f %%", 100 * result->accuracy);
    }
    table_cell(table, "bytes per worker per step");
    table_cell(table, "%s", com_show_bytes(per_step(result->bytes_sent, result->steps)).text);
    if (result->bytes_sent) {
        table_cell(table, "compression ratio");
        table_cell(table, "%.1f", (double)result->dense_bytes / (double)result->bytes_sent);
    }
    table_cell(table, "seconds");
    table_cell(table, "%.1f", result->seconds);
    table_cell(table, "examples/s");
    table_cell(table, "%.0f", result->examples_per_second);
    table_cell(table, "weights hash");
    table_cell(table, "0x%016llx", (unsigned long long)result->weights_hash);
    if (result->checkpoint[0] != '\0') {
        table_cell(table, "checkpoint");
        table_cell(table, "%s", result->checkpoint);
        table_cell(table, "checkpoints");
        table_cell(table, "%s", checkpoint_costs(result).text);
    }
    return table_print(table, 0);
}

com_json *train_result_object(const struct train_request *request, const struct trn_result *result)
{
    static const char *const words[] = {"finished", "target", "stopped"};
    com_json *const object = com_json_object();
    com_json_put_text(object, "method", result->given);
    com_json_put_text(object, "spec", result->method);
    com_json_put_text(object, "exchange", result->exchange);
    com_json_put_text(object, "model", request->settings.model);
    com_json_put_text(object, "data", request->settings.data);
    com_json_put_u64(object, "workers", result->workers);
    com_json_put_text(object, "adversaries", request->settings.adversaries);
    com_json_put_u64(object, "seed", request->settings.seed);
    com_json_put_u64(object, "parameters", result->parameters);
    com_json_put_u64(object, "steps", result->steps);
    com_json_put_u64(object, "resumed_from", result->resumed_from);
    com_json_put_u64(object, "epochs", result->epochs);
    com_json_put_text(object, "status", words[result->end]);
    com_json_put_real(object, "loss", result->loss);
    com_json_put_real(object, "train_loss", result->train_loss);
    com_json_put_real(object, "accuracy", result->classifies ? result->accuracy : NAN); /* null */
    com_json_put_u64(object, "bytes_sent", result->bytes_sent);
    com_json_put_u64(object, "dense_bytes", result->dense_bytes);
    com_json_put_u64(object, "bytes_other", result->bytes_other);
    com_json_put_u64(object, "skipped", result->skipped);
    com_json_put_u64(object, "capped", result->capped);
    com_json_put_u64(object, "rejected", result->rejected);
    com_json_put_hex(object, "weights_hash", result->weights_hash);
    com_json_put_real(object, "seconds", result->seconds);
    com_json_put_real(object, "examples_per_second", result->examples_per_second);
    com_json_put_u64(object, "checkpoints", result->checkpoints);
    com_json_put_u64(object, "checkpoints_skipped", result->checkpoints_skipped);
    com_json_put_real(object, "checkpoint_seconds", result->checkpoint_seconds);
    com_json_put_real(object, "checkpoint_write_seconds", result->checkpoint_write_seconds);
    if (result->checkpoint[0] != '\0')
        com_json_put_text(object, "checkpoint", result->checkpoint);
    return object;
}

int train_result_json(const struct train_request *request, const struct trn_result *result)
{
    return msg_json(train_result_object(request, result));
}

int train_result_code(const struct trn_result *result)
{
    if (result->end != TRN_END_STOPPED)
        return CLI_OK;
    return result->signal == SIGINT ? CLI_INTERRUPTED : CLI_REQUEUE;
}

/* ---- failures ---- */

static int code_of(terse_status status)
{
    switch (status) {
    case TERSE_BAD_SPEC: return CLI_USAGE;
    case TERSE_NO_MEMORY:
    case TERSE_TIMEOUT:
    case TERSE_BAD_CHECKSUM:
    case TERSE_PEER_LOST: return CLI_MACHINE; /* a full disk too */
    default: return CLI_REFUSED;
    }
}

static void print_how_to_resume(const char *folder)
{
    struct trn_checkpoint *checkpoint = NULL;
    char *path = NULL;
    char *notes = NULL;
    if (trn_checkpoint_latest(folder, &checkpoint, &path, &notes, NULL) == TERSE_OK)
        msg_note("The last checkpoint is %s: --resume %s continues from it.", path, folder);
    trn_checkpoint_free(checkpoint);
    free(path);
    free(notes);
}

int train_result_failure(const struct train_request *request, const char *subject,
                         terse_status status, const terse_fault *fault)
{
    const struct trn_settings *const settings = &request->settings;
    const char *const text = fault->text[0] != '\0' ? fault->text : terse_status_text(status);
    const int code = code_of(status);
    const uint32_t rank = settings->group ? terse_group_rank(settings->group) : 0;
    if (settings->group)
        (void)msg_error(code, "rank %u: %s: %s", rank, subject, text);
    else
        (void)msg_error(code, "%s: %s", subject, text);
    if (settings->out && rank == 0 && (status == TERSE_NOT_FINITE || code == CLI_MACHINE))
        print_how_to_resume(settings->out);
    return code;
}
