/* The method's complete spec, from what was typed. */
#include <stdio.h>
#include <string.h>

#include <terse/terse.h>

#include "train_request.h"

static int mentions(const char *spec, const char *key)
{
    const size_t len = strlen(key);
    for (const char *at = strpbrk(spec, ":="); at; at = strpbrk(at + 1, ",:"))
        if (strncmp(at + 1, key, len) == 0 && at[1 + len] == '=')
            return 1;
    return strncmp(spec, key, len) == 0 && spec[len] == '=';
}

static int has_option(const char *spec, const char *name)
{
    const size_t len = strcspn(spec, ":");
    terse_method_about about;
    terse_option option;
    for (uint32_t i = 0; terse_method_list(i, &about) == TERSE_OK; i++) {
        if (strlen(about.name) != len || strncmp(about.name, spec, len) != 0)
            continue;
        for (uint32_t p = 0; terse_method_option(i, p, &option) == TERSE_OK; p++)
            if (strcmp(option.name, name) == 0)
                return 1;
    }
    return strchr(spec, '=') && strcspn(spec, "=") < strcspn(spec, ":,");
}

static void add_entry(char *spec, size_t cap, const char *entry)
{
    const size_t used = strlen(spec);
    (void)snprintf(spec + used, cap - used, "%s%s", strpbrk(spec, ":=") ? "," : ":", entry);
}

/* Learning rates with which the methods train the networks here, where the method's own default is
 * the paper's for another problem: see docs/results.md for how they were chosen. */
static const char *habit_of(const char *spec)
{
    static const struct {
        const char *method;
        const char *entries;
    } habits[] = {
        {"dense", "lr=0.02"},
        {"fp16", "lr=0.02"},
        {"bf16", "lr=0.02"},
        {"powersgd", "lr=0.02"},
        {"signsgd", "lr=0.0005"},
        {"signum", "lr=0.0005"},
        {"def", "lr=0.02"},
        {"def-a", "lr=0.02"},
        {"ef-sign", "lr=0.02"},
        {"topk", "lr=0.02,momentum=0.9"},
        {"regtopk", "lr=0.02,momentum=0.9"},
        {"dqsgd", "lr=0.02,momentum=0.9"},
        {"qsgd", "lr=0.02,momentum=0.9"},
        {"natural", "lr=0.02,momentum=0.9"},
        {"terngrad", "lr=0.01,momentum=0.9"},
    };
    const size_t len = strcspn(spec, ":");
    for (size_t i = 0; i < sizeof habits / sizeof habits[0]; i++)
        if (strlen(habits[i].method) == len && strncmp(habits[i].method, spec, len) == 0)
            return habits[i].entries;
    return "";
}

void train_request_method(struct train_request *request, const char *method, char *note,
                          size_t note_cap)
{
    char *const spec = request->spec;
    const size_t cap = sizeof request->spec;
    const char *habit = habit_of(method);
    char entry[64];
    (void)snprintf(spec, cap, "%s", method);
    if (request->settings.lr >= 0 && !mentions(spec, "lr")) {
        (void)snprintf(entry, sizeof entry, "lr=%.9g", request->settings.lr);
        add_entry(spec, cap, entry);
    }
    while (*habit != '\0') { /* each entry that the spec does not have yet */
        const size_t len = strcspn(habit, ",");
        const size_t key = strcspn(habit, "=");
        (void)snprintf(entry, sizeof entry, "%.*s", (int)key, habit);
        if (!mentions(spec, entry)) {
            (void)snprintf(entry, sizeof entry, "%.*s", (int)len, habit);
            add_entry(spec, cap, entry);
        }
        habit += len + (habit[len] == ',');
    }
    const int plain = strncmp(spec, "dense", 5) == 0 || strncmp(spec, "adam", 4) == 0;
    if (!plain && has_option(spec, "min") && !mentions(spec, "min"))
        add_entry(spec, cap, "min=1024");
    note[0] = '\0';
    if (strcmp(spec, method) != 0)
        (void)snprintf(note, note_cap, "method %s", spec);
    request->settings.method = spec;
}
