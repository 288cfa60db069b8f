/* What was not said: from the run that goes on, or what suits most. */
#include <stdlib.h>
#include <string.h>

#include "common/file.h"
#include "say.h"
#include "train/data/data.h"
#include "train/loop/options.h"
#include "train_request.h"

/* How long: epochs or steps, whichever was said, or whichever the run was told. */
static void complete_length(struct trn_settings *settings, const struct trn_settings *said)
{
    if (said->epochs || said->steps) {
        settings->epochs = said->epochs;
        settings->steps = said->steps;
    } else if (settings->epochs) {
        settings->steps = 0; /* those of the run followed from its epochs */
    }
}

/* Each value: what was said, what was kept, what is usual. */
static void complete(struct train_request *request, const com_json *kept, unsigned command)
{
    struct trn_settings *const settings = &request->settings;
    const struct trn_settings said = *settings;
    for (int i = 0; trn_options[i].name; i++) {
        const struct com_option *const option = &trn_options[i];
        const int is_method = option->offset == offsetof(struct trn_settings, method);
        if (request->given >> i & 1 || !(option->flags & command))
            continue;
        if (is_method && settings->lr >= 0) /* --lr alone speaks of the usual method */
            com_option_set_usual(option, settings);
        else if (!kept || !com_option_read(option, kept, settings))
            com_option_set_usual(option, settings);
    }
    complete_length(settings, &said);
    if (!settings->model)
        settings->model = trn_data_model(settings->data);
}

/* ---- from a folder ---- */

/* Rank 0 reads, the others hear. A folder without run.json has nothing to tell: the checkpoint in
 * it is compared with the settings anyhow. */
static terse_status hear(terse_group *group, const char *folder, com_json **out, terse_fault *fault)
{
    char *const path = com_path_join(folder, "run.json");
    char *said = NULL;
    uint64_t len = 0;
    terse_status status = TERSE_OK;
    if (path && (!group || terse_group_rank(group) == 0) &&
        com_json_read(path, out, NULL) == TERSE_OK && group &&
        com_json_print(*out, 0, &said, NULL) == TERSE_OK)
        len = strlen(said);
    free(path);
    if (group)
        status = terse_group_broadcast(group, 0, &len, sizeof len, fault);
    if (status == TERSE_OK && len > 0 && !said && !(said = malloc(len)))
        status = TERSE_NO_MEMORY;
    if (status == TERSE_OK && len > 0)
        status = terse_group_broadcast(group, 0, said, (size_t)len, fault);
    if (status == TERSE_OK && len > 0 && !*out)
        status = com_json_parse("run.json", said, (size_t)len, out, fault);
    free(said);
    return status;
}

int train_request_complete(struct train_request *request)
{
    struct trn_settings *const settings = &request->settings;
    terse_fault fault = {.rank = -1};
    if (settings->resume) {
        const terse_status status = hear(settings->group, settings->resume, &request->kept, &fault);
        if (status != TERSE_OK)
            return say_error(CLI_MACHINE, "--resume: %s",
                             fault.text[0] ? fault.text : terse_status_text(status));
        if (!settings->out)
            settings->out = settings->resume;
    }
    complete(request, request->kept, request->methods ? TRN_OF_COMPARE : TRN_OF_TRAIN);
    if (settings->group)
        settings->workers = terse_group_workers(settings->group);
    return CLI_OK;
}

void train_request_free(struct train_request *request)
{
    com_json_free(request->kept);
    request->kept = NULL;
}
