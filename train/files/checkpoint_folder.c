/* The checkpoints of a folder: which is the newest valid one, which are too old to keep. */
#include <dirent.h>
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "files/checkpoint.h"

struct list {
    uint64_t *steps;
    size_t count;
    size_t cap;
};

/* checkpoint-STEP.terse, the step written as this program writes it. */
static int parse_name(const char *name, uint64_t *step)
{
    static const char start[] = "checkpoint-";
    char again[64];
    if (strncmp(name, start, sizeof start - 1) != 0)
        return 0;
    const unsigned long long value = strtoull(name + sizeof start - 1, NULL, 10);
    (void)snprintf(again, sizeof again, "checkpoint-%llu.terse", value);
    *step = value;
    return strcmp(name, again) == 0;
}

static int add(struct list *list, uint64_t step)
{
    if (list->count == list->cap) {
        const size_t cap = list->cap ? list->cap * 2 : 16;
        uint64_t *steps = realloc(list->steps, cap * sizeof *steps);
        if (!steps)
            return 0;
        list->steps = steps;
        list->cap = cap;
    }
    list->steps[list->count++] = step;
    return 1;
}

static int compare_down(const void *a, const void *b)
{
    const uint64_t x = *(const uint64_t *)a;
    const uint64_t y = *(const uint64_t *)b;
    return (x < y) - (x > y);
}

/* Steps in the folder, the largest first; the caller frees list->steps. */
static terse_status list_steps(const char *folder, struct list *list, terse_fault *fault)
{
    DIR *entries = opendir(folder);
    struct dirent *entry;
    int is_complete = 1;
    *list = (struct list){0};
    if (!entries)
        return com_fail_errno(fault, "open the folder", folder, errno);
    while (is_complete && (entry = readdir(entries))) {
        uint64_t step;
        if (parse_name(entry->d_name, &step))
            is_complete = add(list, step);
    }
    (void)closedir(entries);
    if (!is_complete) {
        free(list->steps);
        return com_fail(fault, TERSE_NO_MEMORY, "no memory to list '%s'", folder);
    }
    if (list->count > 0)
        qsort(list->steps, list->count, sizeof *list->steps, compare_down);
    return TERSE_OK;
}

static char *path_of(const char *folder, uint64_t step)
{
    char name[64];
    (void)snprintf(name, sizeof name, "checkpoint-%llu.terse", (unsigned long long)step);
    return com_path_join(folder, name);
}

static int add_note(char **notes, const char *text)
{
    const size_t old = *notes ? strlen(*notes) : 0;
    const size_t cap = old + strlen(text) + sizeof "skipped \n";
    char *longer = realloc(*notes, cap);
    if (!longer)
        return 0;
    (void)snprintf(longer + old, cap - old, "skipped %s\n", text);
    *notes = longer;
    return 1;
}

/* Tries the steps one by one. On failure *notes is freed and the first fault kept. */
static terse_status try_all(const char *folder, const struct list *list,
                            struct trn_checkpoint **out, char **path, char **notes,
                            terse_fault *fault)
{
    terse_fault first = {0};
    for (size_t i = 0; i < list->count; i++) {
        terse_fault now = {0};
        char *candidate = path_of(folder, list->steps[i]);
        if (!candidate)
            return com_fail(fault, TERSE_NO_MEMORY, "no memory to read '%s'", folder);
        const terse_status status = trn_checkpoint_read(candidate, out, &now);
        if (status == TERSE_OK) {
            *path = candidate;
            return TERSE_OK;
        }
        free(candidate);
        if (status == TERSE_NO_MEMORY || !add_note(notes, now.text))
            return com_fail(fault, TERSE_NO_MEMORY, "no memory to read '%s'", folder);
        if (i == 0)
            first = now;
    }
    if (list->count == 0)
        return com_fail(fault, COM_NO_FILE,
                        "no checkpoint in '%s'; a run that ended before its first one begins anew "
                        "when its command is repeated",
                        folder);
    if (fault)
        *fault = first;
    return COM_NO_FILE;
}

terse_status trn_checkpoint_latest(const char *folder, struct trn_checkpoint **out, char **path,
                                   char **notes, terse_fault *fault)
{
    enum { TRIES = 20 };
    terse_status status = COM_NO_FILE;
    uint64_t newest = UINT64_MAX;
    /* A run that writes here may have removed all of the list meanwhile: then there are others. */
    for (int i = 0; i < TRIES && status == COM_NO_FILE; i++) {
        struct list list;
        char *skipped = NULL;
        status = list_steps(folder, &list, fault);
        if (status != TERSE_OK)
            return status;
        const uint64_t first = list.count > 0 ? list.steps[0] : 0;
        if (i > 0 && first == newest)
            i = TRIES; /* the last time */
        newest = first;
        status = try_all(folder, &list, out, path, &skipped, fault);
        free(list.steps);
        if (status == TERSE_OK)
            *notes = skipped;
        else
            free(skipped);
    }
    return status;
}

int trn_checkpoint_exists(const char *folder)
{
    struct list list;
    if (list_steps(folder, &list, NULL) != TERSE_OK)
        return 0;
    free(list.steps);
    return list.count > 0;
}

/* ".NAME.XXXXXX" of a file that a run writes (common/output.h): its writer was killed. */
static int is_leftover(const char *entry)
{
    static const char *const names[] = {"run.json", "weights.safetensors"};
    enum { SUFFIX_LEN = 6 };
    char name[64];
    uint64_t step;
    const char *const dot = strrchr(entry, '.');
    if (entry[0] != '.' || dot == entry || strlen(dot + 1) != SUFFIX_LEN ||
        (size_t)(dot - entry) > sizeof name)
        return 0;
    (void)snprintf(name, sizeof name, "%.*s", (int)(dot - entry - 1), entry + 1);
    for (size_t i = 0; i < sizeof names / sizeof names[0]; i++)
        if (strcmp(name, names[i]) == 0)
            return 1;
    return parse_name(name, &step);
}

terse_status trn_checkpoint_clean(const char *folder, terse_fault *fault)
{
    DIR *entries = opendir(folder);
    struct dirent *entry;
    terse_status status = TERSE_OK;
    if (!entries)
        return com_fail_errno(fault, "open the folder", folder, errno);
    while ((entry = readdir(entries)))
        if (is_leftover(entry->d_name) && unlinkat(dirfd(entries), entry->d_name, 0) != 0 &&
            errno != ENOENT)
            status = com_fail_errno(fault, "remove", entry->d_name, errno);
    (void)closedir(entries);
    return status;
}

static terse_status remove_step(const char *folder, uint64_t step, terse_fault *fault)
{
    char *path = path_of(folder, step);
    terse_status status = TERSE_OK;
    if (!path)
        status = com_fail(fault, TERSE_NO_MEMORY, "no memory to prune '%s'", folder);
    else if (unlink(path) != 0 && errno != ENOENT)
        status = com_fail_errno(fault, "remove", path, errno);
    free(path);
    return status;
}

static int is_sound(const char *folder, uint64_t step, const uint64_t *known, uint32_t count)
{
    for (uint32_t i = 0; i < count; i++)
        if (known[i] == step)
            return 1;
    char *path = path_of(folder, step);
    const int sound = path && trn_checkpoint_check(path, NULL) == TERSE_OK;
    free(path);
    return sound;
}

terse_status trn_checkpoint_prune(const char *folder, const uint64_t *sound, uint32_t count,
                                  uint32_t keep, terse_fault *fault)
{
    struct list list;
    size_t i = 0;
    if (keep == 0)
        return com_fail(fault, TERSE_BAD_ARGUMENT, "at least one checkpoint is kept");
    terse_status status = list_steps(folder, &list, fault);
    if (status != TERSE_OK)
        return status;
    for (uint32_t kept = 0; i < list.count && kept < keep; i++)
        kept += (uint32_t)is_sound(folder, list.steps[i], sound, count);
    for (; i < list.count && status == TERSE_OK; i++)
        status = remove_step(folder, list.steps[i], fault);
    free(list.steps);
    return status;
}
