/* What was not said: from the run that goes on, or what suits most. */
#include <stdlib.h>
#include <string.h>

#include "common/file.h"
#include "say.h"
#include "train/data/data.h"
#include "train_request.h"

/* ---- one value: said, kept, usual ---- */

static void text(const com_json *kept, const char *key, const char *usual, const char **value)
{
    if (!*value && !(kept && com_json_get_text(kept, key, value)))
        *value = usual;
}

static void whole(const com_json *kept, const char *key, uint64_t unsaid, uint64_t usual,
                  uint64_t *value)
{
    if (*value == unsaid && !(kept && com_json_get_u64(kept, key, value)))
        *value = usual;
}

static void small(const com_json *kept, const char *key, uint32_t usual, uint32_t *value)
{
    uint64_t wide = *value;
    whole(kept, key, 0, usual, &wide);
    *value = (uint32_t)wide;
}

static void real(const com_json *kept, const char *key, double usual, double *value)
{
    if (*value < 0 && !(kept && com_json_get_real(kept, key, value)))
        *value = usual;
}

/* How long: epochs or steps, whichever was said, or whichever the run was told. */
static void complete_length(const com_json *kept, struct trn_settings *settings)
{
    if (settings->epochs || settings->steps)
        return;
    whole(kept, "epochs", 0, 0, &settings->epochs);
    if (!settings->epochs)
        whole(kept, "steps", 0, 0, &settings->steps);
    if (!settings->epochs && !settings->steps)
        settings->epochs = 3;
}

static void complete(struct train_request *request, const com_json *kept)
{
    struct trn_settings *const settings = &request->settings;
    text(kept, "data", "fashion", &settings->data);
    text(kept, "model", trn_data_model(settings->data), &settings->model);
    text(kept, "shard", "iid", &settings->shard);
    /* --lr alone speaks of the usual method */
    text(request->lr < 0 ? kept : NULL, "method", "dense", &request->method);
    small(kept, "workers", 4, &settings->workers);
    small(kept, "batch", 32, &settings->batch);
    small(kept, "accumulate", 1, &settings->accumulate);
    small(kept, "threads", 1, &settings->threads);
    small(kept, "codec_threads", 1, &settings->codec_threads);
    whole(kept, "seed", TRAIN_UNSAID, 1, &settings->seed);
    whole(kept, "checkpoint_every", 0, 0, &settings->checkpoint_every);
    whole(kept, "evaluate_every", 0, 0, &settings->evaluate_every);
    real(kept, "target", 0, &settings->target);
    real(kept, "deadline", 60, &settings->deadline);
    complete_length(kept, settings);
    if (!settings->augment && kept)
        (void)com_json_get_flag(kept, "augment", &settings->augment);
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
    complete(request, request->kept);
    if (settings->group)
        settings->workers = terse_group_workers(settings->group);
    return CLI_OK;
}

void train_request_free(struct train_request *request)
{
    com_json_free(request->kept);
    request->kept = NULL;
}
