#include "compare_member.h"

#include <ctype.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <time.h>

#include "common/file.h"
#include "message.h"
#include "report/run.h"
#include "train/files/checkpoint.h"
#include "train/loop/auto.h"
#include "train/loop/options.h"
#include "train/loop/share.h"
#include "train_result.h"

/* ---- the list ---- */

/* A folder's name from a spec: letters, digits and dots stay. */
static void name_folder(const struct train_request *request, struct member *member)
{
    const struct trn_settings *const settings = &request->settings;
    size_t used = (size_t)snprintf(member->folder, sizeof member->folder, "%s/", settings->out);
    for (const char *at = member->method; *at && used + 32 < sizeof member->folder; at++)
        member->folder[used++] = isalnum((unsigned char)*at) || *at == '.' ? *at : '-';
    (void)snprintf(member->folder + used, sizeof member->folder - used, "-seed%llu",
                   (unsigned long long)member->seed);
}

static int check_method(const struct train_request *request, const char *method)
{
    struct train_request copy = *request;
    char note[1200];
    terse_fault fault = {.rank = -1};
    if (trn_is_auto(method))
        return msg_error(CLI_USAGE,
                         "compare: %s is no method to compare: it takes the fastest one here; list "
                         "the methods themselves, or use terse train --method auto",
                         method);
    const terse_status status = train_request_method(&copy, method, note, sizeof note, &fault);
    return status == TERSE_OK ? CLI_OK : msg_status(method, status, &fault);
}

int members_make(const struct train_request *request, const struct sweep_spec *specs, size_t count,
                 uint64_t seeds, struct member **out)
{
    struct member *const members = calloc(count * seeds, sizeof *members);
    int code = CLI_OK;
    *out = members;
    if (!members)
        return msg_error(CLI_MACHINE, "out of memory");
    for (size_t i = 0; i < count * seeds; i++) {
        (void)snprintf(members[i].method, sizeof members->method, "%s", specs[i / seeds].spec);
        members[i].seed = request->settings.seed + i % seeds;
        name_folder(request, &members[i]);
    }
    for (size_t i = 0; i < count && code == CLI_OK; i++)
        code = check_method(request, specs[i].spec);
    return code;
}

/* ---- results ---- */

static void find_target(const struct rep_run *run, double target, struct outcome *out)
{
    out->seconds_to_target = out->bytes_to_target = NAN;
    if (target <= 0)
        return;
    for (size_t i = 0; i < run->evaluation_count; i++) {
        if (!(run->evaluations[i].accuracy >= target))
            continue;
        out->seconds_to_target = run->evaluations[i].seconds;
        out->bytes_to_target = run->evaluations[i].bytes_sent_total;
        return;
    }
}

/* 1: it has finished, and *out is its outcome. */
static int read_outcome(const char *folder, double target, struct outcome *out)
{
    struct rep_run *run = NULL;
    terse_fault fault;
    struct stat there;
    if (stat(folder, &there) != 0 || rep_run_read(folder, &run, &fault) != TERSE_OK)
        return 0;
    const int finished = run->has_end && strcmp(run->end.status, "stopped") != 0;
    const double bytes = rep_run_bytes_per_step(run);
    *out =
        (struct outcome){.accuracy = run->end.accuracy,
                         .loss = run->end.loss,
                         .bytes_per_step = bytes,
                         .compression_ratio = bytes > 0 ? rep_run_dense_per_step(run) / bytes : 0,
                         .seconds = run->end.seconds,
                         .diverged = strcmp(run->end.status, "diverged") == 0};
    if (out->diverged)
        out->accuracy = out->loss = NAN;
    find_target(run, target, out);
    rep_run_free(run);
    return finished;
}

/* ---- running ---- */

static int has_checkpoint(const char *folder)
{
    struct trn_checkpoint *checkpoint = NULL;
    char *path = NULL;
    char *notes = NULL;
    const int found = trn_checkpoint_latest(folder, &checkpoint, &path, &notes, NULL) == TERSE_OK;
    trn_checkpoint_free(checkpoint);
    free(path);
    free(notes);
    return found;
}

enum next { NEXT_NOTHING, NEXT_TRAIN, NEXT_RESUME, NEXT_REFUSE };

/* Does the folder hold a run with other settings? Prints which one differs. */
static int is_another(const struct train_request *request, const struct member *member)
{
    struct train_request one = *request;
    char note[1200];
    char how[200];
    com_json *kept = NULL;
    char *const path = com_path_join(member->folder, "run.json");
    const struct com_option *differs = NULL;
    const terse_status status = train_request_method(&one, member->method, note, sizeof note, NULL);
    one.settings.seed = member->seed;
    if (status == TERSE_OK && path && com_json_read(path, &kept, NULL) == TERSE_OK)
        differs = trn_options_differ(&one.settings, kept, TRN_SHARED, how, sizeof how);
    if (differs)
        (void)msg_error(CLI_REFUSED,
                        "compare: %s holds a run with another %s: it %s; choose another "
                        "--out",
                        member->folder, differs->name, how);
    com_json_free(kept);
    free(path);
    return differs != NULL;
}

/* A folder with neither checkpoint nor end is from a run that was killed early: training begins it
 * anew. */
static enum next decide(const struct train_request *request, struct member *member)
{
    if (is_another(request, member))
        return NEXT_REFUSE;
    if (read_outcome(member->folder, request->settings.target, &member->outcome))
        return NEXT_NOTHING;
    if (has_checkpoint(member->folder))
        return NEXT_RESUME;
    return NEXT_TRAIN;
}

/* "7 of 36, about 12 min left, seed 2, signum: " */
static void write_title(const struct comparison *comparison, const struct member *member, char *out,
                        size_t cap)
{
    char left[64] = "";
    const size_t count = comparison->total - comparison->done;
    if (comparison->trained > 0)
        (void)snprintf(
            left, sizeof left, ", about %.0f min left",
            ceil(comparison->seconds / (double)comparison->trained * (double)count / 60));
    (void)snprintf(out, cap, "%zu of %zu%s, seed %llu, %s: ", comparison->done + 1,
                   comparison->total, left, (unsigned long long)member->seed, member->method);
}

static int train(const struct train_request *request, struct member *member, int resume,
                 const struct comparison *comparison)
{
    struct train_request one = *request;
    struct trn_result result;
    terse_fault fault = {.rank = -1};
    char note[1200];
    char title[SWEEP_SPEC + 160];
    terse_status status = train_request_method(&one, member->method, note, sizeof note, &fault);
    one.settings.seed = member->seed;
    one.settings.out = member->folder;
    one.settings.target = 0; /* the target is a column of the table and ends nothing */
    one.settings.resume = resume ? member->folder : NULL;
    write_title(comparison, member, title, sizeof title);
    progress_title(comparison->progress, title);
    if (status == TERSE_OK)
        status = trn_train(&one.settings, progress_watch(comparison->progress), &result, &fault);
    progress_title(comparison->progress, "");
    if (status == TERSE_NOT_FINITE) { /* a result too; the others continue */
        (void)train_result_failure(&one, member->method, status, &fault);
        return CLI_OK;
    }
    if (status != TERSE_OK)
        return train_result_failure(&one, member->method, status, &fault);
    if (result.end == TRN_END_STOPPED)
        return msg_error(train_result_code(&result),
                         "compare: stopped; the same command continues from here");
    return CLI_OK;
}

static double now(void)
{
    struct timespec at;
    (void)clock_gettime(CLOCK_MONOTONIC, &at);
    return (double)at.tv_sec + 1e-9 * (double)at.tv_nsec;
}

int member_run(const struct train_request *request, struct member *member,
               struct comparison *comparison)
{
    terse_group *const group = request->settings.group;
    terse_fault fault;
    const double start = now();
    uint8_t decided = comparison->is_root ? (uint8_t)decide(request, member) : NEXT_NOTHING;
    void *bytes = &decided;
    uint64_t len = sizeof decided;
    int code = CLI_OK;
    if (group && trn_share_bytes(group, "its next member", &bytes, &len, &fault) != TERSE_OK)
        return msg_error(CLI_MACHINE, "compare: %s", fault.text);
    const uint8_t next = *(const uint8_t *)bytes;
    if (bytes != &decided)
        free(bytes);
    if (next == NEXT_REFUSE)
        return CLI_REFUSED;
    if (next != NEXT_NOTHING) {
        code = train(request, member, next == NEXT_RESUME, comparison);
        comparison->trained++;
        comparison->seconds += now() - start;
        if (code == CLI_OK && comparison->is_root &&
            !read_outcome(member->folder, request->settings.target, &member->outcome))
            return msg_error(CLI_MACHINE, "compare: cannot read %s", member->folder);
    }
    comparison->done++;
    return code;
}
