#include "group.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

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

/* ---- names: the rule of page/groups.js, tests/report/names.json has its cases ---- */

/* A name is made of what was typed, also of specs that this build does not know, such as those of a
 * codec from a plugin: words are compared, not understood. */
static const char *text_of(const struct rep_group *group)
{
    const struct rep_run *const run = group->runs[0];
    return run->method && *run->method ? run->method : run->name;
}

/* A part of a text. */
struct word {
    const char *at;
    size_t len;
};

static int same_word(struct word a, struct word b)
{
    return a.len == b.len && memcmp(a.at, b.at, a.len) == 0;
}

/* "topk:keep=0.01,lr=0.02": the name and its options. What is composed has only options. */
struct words {
    int is_composed;
    struct word name;
    const char *options;
};

static struct words words_of(const struct rep_group *group)
{
    const char *const text = text_of(group);
    const size_t len = strcspn(text, ":=");
    const int is_composed = text[len] == '=';
    return (struct words){is_composed,
                          {text, is_composed ? 0 : len},
                          is_composed ? text : text + len + (text[len] == ':')};
}

/* The option after *rest, which moves on: "keep=0.01" has the key "keep". 0 after the last. */
static int next_option(const char **rest, struct word *option, struct word *key)
{
    *rest += strspn(*rest, ",");
    *option = (struct word){*rest, strcspn(*rest, ",")};
    *key = (struct word){*rest, strcspn(*rest, ",=")};
    if (option->len == key->len + 1) /* no value */
        option->len = key->len;
    *rest += strcspn(*rest, ",");
    return option->len > 0;
}

static int find_option(const char *rest, struct word wanted, struct word *option)
{
    struct word key;
    while (next_option(&rest, option, &key))
        if (same_word(key, wanted))
            return 1;
    return 0;
}

/* The method, or "codec=mine" of what is composed. */
static struct word name_of(const struct rep_group *group)
{
    const struct words words = words_of(group);
    struct word codec;
    if (!words.is_composed)
        return words.name;
    if (!find_option(words.options, (struct word){"codec", 5}, &codec))
        return (struct word){"composed", 8};
    const char *const end = memchr(codec.at, ':', codec.len);
    return (struct word){codec.at, end ? (size_t)(end - codec.at) : codec.len};
}

/* Does a group of the same name lack this option, or have another value of it? */
static int option_differs(const struct rep_group *groups, size_t count, struct word name,
                          struct word key, struct word option)
{
    struct word there;
    for (size_t i = 0; i < count; i++)
        if (same_word(name_of(&groups[i]), name) &&
            (!find_option(words_of(&groups[i]).options, key, &there) || !same_word(there, option)))
            return 1;
    return 0;
}

static const char *setting_of(const struct rep_group *group, const char *key)
{
    const struct rep_settings *const settings = &group->runs[0]->settings;
    for (size_t i = 0; i < settings->count; i++)
        if (strcmp(settings->item[i].key, key) == 0)
            return settings->item[i].value;
    return NULL;
}

static int setting_differs(const struct rep_group *groups, size_t count, const char *key)
{
    const char *seen = NULL;
    for (size_t i = 0; i < count; i++) {
        const char *const value = setting_of(&groups[i], key);
        if (seen && value && strcmp(seen, value) != 0)
            return 1;
        seen = value ? value : seen;
    }
    return 0;
}

/* The length of a run is its epochs, or its steps if it was not counted in epochs: the other one is
 * not in its name. */
static const char *unsaid(const struct rep_group *groups, size_t count,
                          const struct rep_group *group)
{
    const char *const epochs = setting_of(group, "epochs");
    if (!epochs || !(strtod(epochs, NULL) > 0))
        return "epochs";
    return setting_differs(groups, count, "epochs") ? "steps" : "";
}

/* In the order in which keys occur in the groups. */
static void put_settings(struct com_text *label, const struct rep_group *groups, size_t count,
                         const struct rep_group *group)
{
    const char *const other = unsaid(groups, count, group);
    for (size_t g = 0; g < count; g++) {
        const struct rep_settings *const settings = &groups[g].runs[0]->settings;
        for (size_t i = 0; i < settings->count; i++) {
            const char *const key = settings->item[i].key;
            const char *const value = setting_of(group, key);
            size_t before = 0;
            while (before < g && !setting_of(&groups[before], key))
                before++;
            if (before == g && value && strcmp(key, other) != 0 &&
                setting_differs(groups, count, key))
                com_text_format(label, " %s=%s", key, value);
        }
    }
}

/* "topk keep=0.01 workers=8": the method, the options in which groups of it differ, the settings in
 * which any groups differ. "codec=mine:p=2" where another group has other options of the codec. */
static char *make_label(const struct rep_group *groups, size_t count, const struct rep_group *group)
{
    const struct word name = name_of(group);
    struct com_text label = {0};
    struct word first = name;
    struct word option;
    struct word key;
    const char *rest = words_of(group).options;
    while (next_option(&rest, &option, &key))
        if (option.len > name.len && memcmp(option.at, name.at, name.len) == 0 &&
            option.at[name.len] == ':' && option_differs(groups, count, name, key, option))
            first = option;
    com_text_add(&label, first.at, first.len);
    rest = words_of(group).options;
    while (next_option(&rest, &option, &key)) {
        if (option.at == first.at || !option_differs(groups, count, name, key, option))
            continue;
        com_text_put(&label, " ");
        com_text_add(&label, option.at, option.len);
    }
    put_settings(&label, groups, count, group);
    return label.failed ? NULL : label.bytes;
}

/* What a group can be called: its label, all that was typed, or the label and the folder. */
enum { WAYS = 3 };

static int put_way(struct com_text *text, const struct rep_group *group, int way)
{
    com_text_put(text, way == 1 ? text_of(group) : group->label);
    if (way == 2)
        com_text_format(text, " (%s)", group->runs[0]->name);
    return !text->failed;
}

/* How many groups are called so this way; 0 without memory. */
static size_t count_called(const struct rep_group *groups, size_t count, int way, const char *what)
{
    size_t times = 0;
    int made = 1;
    for (size_t i = 0; i < count && made; i++) {
        struct com_text other = {0};
        made = put_way(&other, &groups[i], way);
        times += made && strcmp(other.bytes, what) == 0;
        free(other.bytes);
    }
    return made ? times : 0;
}

/* The first way that no other group shares; else the last one, and a number. NULL: no memory. */
static char *make_unique(const struct rep_group *groups, size_t count, size_t index)
{
    for (int way = 0; way < WAYS; way++) {
        struct com_text label = {0};
        const size_t times = put_way(&label, &groups[index], way)
                                 ? count_called(groups, count, way, label.bytes)
                                 : 0;
        if (times > 1 && way + 1 == WAYS)
            com_text_format(&label, " #%zu", index + 1);
        if (times == 1 || (times > 1 && way + 1 == WAYS && !label.failed))
            return label.bytes;
        free(label.bytes);
        if (times == 0)
            return NULL;
    }
    return NULL;
}

static int name_groups(struct rep_group *groups, size_t count)
{
    char **const unique = calloc(count + 1, sizeof *unique);
    int made = unique != NULL;
    for (size_t i = 0; i < count && made; i++)
        made = (groups[i].label = make_label(groups, count, &groups[i])) != NULL;
    for (size_t i = 0; i < count && made; i++)
        made = (unique[i] = make_unique(groups, count, i)) != NULL;
    for (size_t i = 0; i < count && made; i++) {
        free(groups[i].label);
        groups[i].label = unique[i];
    }
    for (size_t i = 0; i < count && unique && !made; i++)
        free(unique[i]);
    free(unique);
    return made;
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
