/* Options that were not typed: from the run that is resumed, or the defaults. */
#include <stdlib.h>
#include <string.h>

#include "common/file.h"
#include "message.h"
#include "plugin.h"
#include "train/data/data.h"
#include "train/loop/auto.h"
#include "train/loop/options.h"
#include "train/loop/share.h"
#include "train_request.h"

/* The length: epochs or steps, whichever was typed, else whichever the resumed run had. */
static void complete_length(struct trn_settings *settings, const struct trn_settings *typed,
                            const com_json *kept)
{
    uint64_t epochs = 1;
    if (typed->epochs || typed->steps) {
        settings->epochs = typed->epochs;
        settings->steps = typed->steps;
    } else if (kept && com_json_get_u64(kept, "epochs", &epochs) && epochs == 0) {
        settings->epochs = 0; /* the run was started with --steps */
    } else if (settings->epochs) {
        settings->steps = 0; /* those of the run are computed from its epochs */
    }
}

/* Each value: the one typed, else that of the resumed run, else the default. */
static void complete(struct train_request *request, const com_json *kept, unsigned command)
{
    struct trn_settings *const settings = &request->settings;
    const struct trn_settings typed = *settings;
    for (int i = 0; trn_options[i].name; i++) {
        const struct com_option *const option = &trn_options[i];
        const int is_method = option->offset == offsetof(struct trn_settings, method);
        if (request->given >> i & 1 || !(option->flags & command))
            continue;
        const int is_usual = option->flags & TRN_TYPED ||
                             (is_method && settings->lr >= 0); /* --lr alone: the default method */
        if (is_usual || !kept || !com_option_read(option, kept, settings))
            com_option_set_usual(option, settings);
    }
    complete_length(settings, &typed, kept);
    if (kept && !typed.method && typed.lr < 0) /* auto goes on with the choice in the checkpoint */
        (void)com_json_get_text(com_json_get(kept, "auto"), "spec", &settings->method);
    if (!settings->model)
        settings->model = trn_data_model(settings->data);
}

/* ---- from a folder ---- */

/* Rank 0 reads run.json and broadcasts it; `folder` is NULL where nothing is resumed, and ranks of
 * which some resume and some do not are told apart later. A folder without run.json is no error:
 * the checkpoint in it is compared with the settings later. */
static terse_status read_run(terse_group *group, const char *folder, com_json **out,
                             terse_fault *fault)
{
    char *const path = folder ? com_path_join(folder, "run.json") : NULL;
    char *text = NULL;
    terse_status status = TERSE_OK;
    if (path && (!group || terse_group_rank(group) == 0) &&
        com_json_read(path, out, NULL) == TERSE_OK && group &&
        com_json_print(*out, 0, &text, NULL) != TERSE_OK)
        text = NULL;
    free(path);
    void *bytes = text;
    uint64_t len = text ? strlen(text) : 0;
    if (group)
        status = trn_share_bytes(group, "its run.json", &bytes, &len, fault);
    if (status == TERSE_OK && len > 0 && !*out)
        status = com_json_parse("run.json", bytes, (size_t)len, out, fault);
    free(bytes);
    return status;
}

/* Nothing that a file names is executed: whoever resumes a run with a plugin types it. */
static int check_plugin(const struct trn_settings *settings, const com_json *kept)
{
    const char *file = PLUGIN_NONE;
    if (kept)
        (void)com_json_get_text(kept, "plugin", &file);
    if (strcmp(settings->plugin, PLUGIN_NONE) != 0 || strcmp(file, PLUGIN_NONE) == 0)
        return CLI_OK;
    return msg_error(CLI_USAGE,
                     "--resume: the run was made with --plugin %s; add it to the command: a plugin "
                     "is code, which is not loaded because a file names it",
                     file);
}

/* auto, typed again: only for a run that it has started. */
static int check_auto(const struct train_request *request)
{
    const char *const typed = request->settings.method;
    const char *spec = NULL;
    const char *method = "";
    char now[TERSE_MAX_METHOD_SPEC];
    terse_fault fault = {.rank = -1};
    if (!request->kept || !trn_is_auto(typed))
        return CLI_OK;
    (void)com_json_get_text(request->kept, "method", &method);
    if (!com_json_get_text(com_json_get(request->kept, "auto"), "spec", &spec))
        return msg_error(CLI_REFUSED,
                         "--resume: the run has the method %s, which auto did not choose; leave "
                         "out --method %s",
                         method, typed);
    if (train_complete_auto(request, typed, now, &fault) != TERSE_OK)
        return msg_error(CLI_USAGE, "%s", fault.text);
    if (strcmp(now, spec) == 0)
        return CLI_OK;
    return msg_error(CLI_REFUSED,
                     "--resume: the run was started with other candidates or options, %s, and has "
                     "the method %s; leave out --method %s",
                     spec, method, typed);
}

int train_request_complete(struct train_request *request)
{
    struct trn_settings *const settings = &request->settings;
    terse_fault fault = {.rank = -1};
    if (settings->resume || settings->group) {
        const terse_status status =
            read_run(settings->group, settings->resume, &request->kept, &fault);
        if (status != TERSE_OK)
            return msg_error(CLI_MACHINE, "%s: %s", settings->resume ? "--resume" : "train",
                             fault.text[0] ? fault.text : terse_status_text(status));
        if (!settings->out)
            settings->out = settings->resume;
    }
    complete(request, settings->resume ? request->kept : NULL,
             request->methods ? TRN_OF_COMPARE : TRN_OF_TRAIN);
    if (settings->group)
        settings->workers = terse_group_workers(settings->group);
    const int code = check_plugin(settings, settings->resume ? request->kept : NULL);
    return code == CLI_OK && settings->resume && !request->methods ? check_auto(request) : code;
}

void train_request_free(struct train_request *request)
{
    com_json_free(request->kept);
    request->kept = NULL;
}
