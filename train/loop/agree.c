#include "loop/agree.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "files/hash.h"
#include "loop/options.h"
#include "loop/share.h"

/* The text of a rank's settings, and its data. */
struct told {
    uint64_t len;
    uint64_t hash;
    uint64_t data;
    trn_check check;
};

/* What a rank finds different from rank 0: "has batch 8, not 4", or "". */
struct verdict {
    char how[248];
    trn_check check;
};

/* ---- the text ---- */

/* A row with a key of its own: some settings are not in files and have none. */
static struct com_option keyed(const struct com_option *option)
{
    struct com_option row = *option;
    if (!row.key)
        row.key = row.name;
    return row;
}

static terse_status write_text(const struct trn_settings *settings, char **out, terse_fault *fault)
{
    com_json *const json = com_json_object();
    for (const struct com_option *option = trn_options; option->name; option++) {
        const struct com_option row = keyed(option);
        if (row.flags & TRN_OF_RANKS)
            com_option_write(&row, settings, json);
    }
    const terse_status status = com_json_print(json, 0, out, fault);
    com_json_free(json);
    return status;
}

static void compare(const struct trn_settings *settings, const com_json *theirs, char *how,
                    size_t cap)
{
    for (const struct com_option *option = trn_options; option->name; option++) {
        const struct com_option row = keyed(option);
        if (row.flags & TRN_OF_RANKS && com_option_differs(&row, settings, theirs, how, cap))
            return;
    }
}

/* ---- among ranks ---- */

/* Rank 0's text, which the others receive into a new buffer. */
static terse_status broadcast(terse_group *group, const struct told *root, char **text,
                              terse_fault *fault)
{
    if (terse_group_rank(group) != 0) {
        free(*text);
        *text = malloc((size_t)root->len + 1);
    }
    if (!*text)
        return com_fail(fault, TERSE_NO_MEMORY, "out of memory");
    const terse_status status = terse_group_broadcast(group, 0, *text, (size_t)root->len, fault);
    return status == TERSE_OK ? trn_share_compare(*text, (size_t)root->len, root->hash, 0,
                                                  "the text of its settings", fault)
                              : status;
}

/* The first rank that differs. */
static terse_status pronounce(const struct verdict *all, uint32_t workers, terse_fault *fault)
{
    for (uint32_t r = 0; r < workers; r++) {
        if (all[r].how[0] == '\0')
            continue;
        com_note(fault,
                 "rank %u differs: rank 0 %.*s; start all ranks with the same options and data", r,
                 (int)sizeof all[r].how - 1, all[r].how);
        if (fault)
            fault->rank = (int32_t)r;
        return TERSE_MISMATCH;
    }
    return TERSE_OK;
}

static terse_status judge(terse_group *group, const struct trn_settings *settings,
                          const struct told *told, char **text, terse_fault *fault)
{
    struct verdict mine = {.how = ""};
    com_json *theirs = NULL;
    const uint32_t workers = terse_group_workers(group);
    const uint64_t len = told[0].len;
    struct verdict *const all = calloc(workers, sizeof *all);
    terse_status status = all ? broadcast(group, &told[0], text, fault)
                              : com_fail(fault, TERSE_NO_MEMORY, "out of memory");
    if (status == TERSE_OK)
        status = com_json_parse("settings of rank 0", *text, (size_t)len, &theirs, fault);
    if (status == TERSE_OK)
        compare(settings, theirs, mine.how, sizeof mine.how);
    if (status == TERSE_OK && mine.how[0] == '\0' &&
        told[terse_group_rank(group)].data != told[0].data)
        (void)snprintf(mine.how, sizeof mine.how, "has other contents of the data '%.80s'",
                       settings->data);
    if (status == TERSE_OK)
        status = trn_share(group, TRN_SHARE_VERDICT, 0, &mine, sizeof mine, all, fault);
    if (status == TERSE_OK)
        status = pronounce(all, workers, fault);
    com_json_free(theirs);
    free(all);
    return status;
}

terse_status trn_agree(terse_group *group, const struct trn_settings *settings, uint64_t data_hash,
                       terse_fault *fault)
{
    char *text = NULL;
    struct told *const told = calloc(terse_group_workers(group), sizeof *told);
    terse_status status = told ? write_text(settings, &text, fault)
                               : com_fail(fault, TERSE_NO_MEMORY, "out of memory");
    if (status == TERSE_OK) {
        struct told mine = {.len = strlen(text), .data = data_hash};
        mine.hash = trn_hash64(text, (size_t)mine.len, 0);
        status = trn_share(group, TRN_SHARE_SETTINGS, 0, &mine, sizeof mine, told, fault);
    }
    if (status == TERSE_OK)
        status = judge(group, settings, told, &text, fault);
    free(text);
    free(told);
    return status;
}
