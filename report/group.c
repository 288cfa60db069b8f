#include "group.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <terse/method.h>

#include "common/text.h"

/* ---- who belongs to whom ---- */

static int same_settings(const struct rep_settings *a, const struct rep_settings *b)
{
    if (a->count != b->count)
        return 0;
    for (size_t i = 0; i < a->count; i++)
        if (strcmp(a->item[i].key, b->item[i].key) != 0 ||
            strcmp(a->item[i].value, b->item[i].value) != 0)
            return 0;
    return 1;
}

static int belongs(const struct rep_group *group, const struct rep_run *run)
{
    const struct rep_run *const first = group->runs[0];
    if (!first->method || !run->method || strcmp(first->method, run->method) != 0 ||
        !same_settings(&first->settings, &run->settings))
        return 0;
    for (size_t i = 0; i < group->count; i++)
        if (!(group->runs[i]->seed != run->seed)) /* a NaN has no seed to differ by */
            return 0;
    return !isnan(run->seed) && !isnan(first->seed);
}

/* ---- names ---- */

static const char *text_of(const struct rep_run *run)
{
    return run->method ? run->method : run->name;
}

enum { LONGEST_NAME = 80 };

enum naming {
    NO_SPEC, /* the text is no spec of this build */
    BY_METHOD,
    BY_CODEC, /* a composed one: "codec=mine" */
};

/* Writes the name of the method, or of its codec. */
static enum naming name_of(const struct rep_run *run, char out[LONGEST_NAME])
{
    terse_method_description about = {.size = sizeof about};
    terse_method_entry codec;
    if (!run->method || terse_method_describe(run->method, &about, NULL) != TERSE_OK)
        return NO_SPEC;
    (void)snprintf(out, LONGEST_NAME, "%s", about.name);
    if (strcmp(about.name, "composed") != 0 ||
        terse_method_entry_of(run->method, "codec", &codec, NULL) != TERSE_OK || !codec.is_given)
        return BY_METHOD;
    (void)snprintf(out, LONGEST_NAME, "codec=%.*s", (int)strcspn(codec.value, ":"), codec.value);
    return BY_CODEC;
}

/* Does a group of the same method have another value of this option? */
static int option_differs(const struct rep_group *groups, size_t count, const char *name,
                          const terse_method_entry *entry)
{
    for (size_t i = 0; i < count; i++) {
        const struct rep_run *const other = groups[i].runs[0];
        char other_name[LONGEST_NAME];
        terse_method_entry there;
        if (name_of(other, other_name) && strcmp(other_name, name) == 0 &&
            (terse_method_entry_of(other->method, entry->name, &there, NULL) != TERSE_OK ||
             strcmp(there.value, entry->value) != 0))
            return 1;
    }
    return 0;
}

static int setting_differs(const struct rep_group *groups, size_t count, const char *key)
{
    const char *seen = NULL;
    for (size_t i = 0; i < count; i++) {
        const struct rep_settings *const settings = &groups[i].runs[0]->settings;
        for (size_t s = 0; s < settings->count; s++) {
            if (strcmp(settings->item[s].key, key) != 0)
                continue;
            if (seen && strcmp(seen, settings->item[s].value) != 0)
                return 1;
            seen = settings->item[s].value;
        }
    }
    return 0;
}

static const char *setting_of(const struct rep_run *run, const char *key)
{
    for (size_t i = 0; i < run->settings.count; i++)
        if (strcmp(run->settings.item[i].key, key) == 0)
            return run->settings.item[i].value;
    return NULL;
}

/* The length of a run is its epochs, or its steps if it was not counted in epochs: the other one is
 * not in its name. */
static const char *unsaid(const struct rep_group *groups, size_t count, const struct rep_run *run)
{
    const char *const epochs = setting_of(run, "epochs");
    if (!epochs || strcmp(epochs, "0") == 0)
        return "epochs";
    return setting_differs(groups, count, "epochs") ? "steps" : "";
}

/* "topk keep=0.01 workers=8". */
static char *make_label(const struct rep_group *groups, size_t count, const struct rep_run *run)
{
    struct com_text label = {0};
    char name[LONGEST_NAME];
    const enum naming named = name_of(run, name);
    const char *const other = unsaid(groups, count, run);
    terse_method_entry entry;
    /* "codec=mine", or "codec=mine:p=2" where another group has other options of it. */
    const int whole = named == BY_CODEC &&
                      terse_method_entry_of(run->method, "codec", &entry, NULL) == TERSE_OK &&
                      option_differs(groups, count, name, &entry);
    if (whole)
        com_text_format(&label, "codec=%s", entry.value);
    else
        com_text_put(&label, named ? name : text_of(run));
    for (uint32_t i = 0; named && terse_method_entry_at(run->method, i, &entry, NULL) == TERSE_OK;
         i++)
        if (entry.is_given && !(whole && strcmp(entry.name, "codec") == 0) &&
            option_differs(groups, count, name, &entry))
            com_text_format(&label, " %s=%s", entry.name, entry.value);
    for (size_t i = 0; i < run->settings.count; i++) {
        const struct rep_setting *const setting = &run->settings.item[i];
        if (strcmp(setting->key, other) != 0 && setting_differs(groups, count, setting->key))
            com_text_format(&label, " %s=%s", setting->key, setting->value);
    }
    return label.failed ? NULL : label.bytes;
}

/* A label that two groups have gets the folder. */
static int make_unique(struct rep_group *groups, size_t count, size_t index)
{
    struct rep_group *const group = &groups[index];
    int times = 0;
    for (size_t i = 0; i < count; i++)
        times += i != index && strcmp(groups[i].label, group->label) == 0;
    if (times == 0)
        return 1;
    struct com_text label = {0};
    com_text_format(&label, "%s (%s)", group->label, group->runs[0]->name);
    if (label.failed)
        return 0;
    free(group->label);
    group->label = label.bytes;
    return 1;
}

static int name_groups(struct rep_group *groups, size_t count)
{
    for (size_t i = 0; i < count; i++) {
        groups[i].label = make_label(groups, count, groups[i].runs[0]);
        if (!groups[i].label)
            return 0;
    }
    for (size_t i = 0; i < count; i++)
        if (!make_unique(groups, count, i))
            return 0;
    return 1;
}

terse_status rep_groups_make(struct rep_run *const *runs, size_t count, struct rep_group **out,
                             size_t *out_count)
{
    struct rep_group *const groups = calloc(count + 1, sizeof *groups);
    size_t made = 0;
    int failed = !groups;
    for (size_t i = 0; i < count && !failed; i++) {
        size_t at = 0;
        while (at < made && !belongs(&groups[at], runs[i]))
            at++;
        struct rep_group *const group = &groups[at];
        const struct rep_run **const larger =
            realloc(group->runs, (group->count + 1) * sizeof *group->runs);
        failed = !larger;
        if (failed)
            break;
        made += at == made;
        group->runs = larger;
        group->runs[group->count++] = runs[i];
    }
    if (failed || !name_groups(groups, made)) {
        rep_groups_free(groups, made);
        return TERSE_NO_MEMORY;
    }
    *out = groups;
    *out_count = made;
    return TERSE_OK;
}

void rep_groups_free(struct rep_group *groups, size_t count)
{
    for (size_t i = 0; groups && i < count; i++) {
        free(groups[i].runs);
        free(groups[i].label);
    }
    free(groups);
}

/* ---- results ---- */

static int diverged(const struct rep_run *run)
{
    return run->has_end && strcmp(run->end.status, "diverged") == 0;
}

double rep_run_accuracy(const struct rep_run *run)
{
    if (diverged(run))
        return NAN;
    if (run->has_end && !isnan(run->end.accuracy))
        return run->end.accuracy;
    return run->evaluation_count > 0 ? run->evaluations[run->evaluation_count - 1].accuracy : NAN;
}

double rep_run_loss(const struct rep_run *run)
{
    if (diverged(run))
        return NAN;
    if (run->has_end && !isnan(run->end.loss))
        return run->end.loss;
    return run->evaluation_count > 0 ? run->evaluations[run->evaluation_count - 1].loss : NAN;
}

static int is_whole(const struct rep_run *run)
{
    return run->has_end && strcmp(run->end.status, "stopped") != 0;
}

struct rep_mean rep_group_mean(const struct rep_group *group,
                               double (*value)(const struct rep_run *run))
{
    struct rep_mean of = {0};
    double squares = 0;
    int any_whole = 0;
    for (size_t i = 0; i < group->count; i++)
        any_whole |= is_whole(group->runs[i]);
    for (size_t i = 0; i < group->count; i++) { /* Welford's: no second pass */
        if (any_whole && !is_whole(group->runs[i]))
            continue;
        const double one = value(group->runs[i]);
        const double before = one - of.mean;
        of.count++;
        of.mean += before / (double)of.count;
        squares += before * (one - of.mean);
    }
    of.deviation = of.count > 1 ? sqrt(squares / (double)(of.count - 1)) : 0;
    return of;
}

int rep_group_diverged(const struct rep_group *group)
{
    int any = 0;
    for (size_t i = 0; i < group->count; i++)
        any |= diverged(group->runs[i]);
    return any;
}
