/* The method's spec with what training adds to it. */
#include <stdio.h>
#include <string.h>

#include <terse/terse.h>

#include "train/loop/auto.h"
#include "train_request.h"

/* Options with which the methods train the networks here, where the method's own default is the
 * paper's for another problem: docs/results.md tells how they were chosen. */
static const char *habit_of(const char *method)
{
    static const struct {
        const char *method;
        const char *options;
    } habits[] = {
        {"dense", "lr=0.02"},
        {"median", "lr=0.02"},
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
        {"qadam", "lr=0.002,ramp=300"},
        {"dqsgd", "lr=0.02,momentum=0.9"},
        {"qsgd", "lr=0.02,momentum=0.9"},
        {"natural", "lr=0.02,momentum=0.9"},
        {"terngrad", "lr=0.01,momentum=0.9"},
    };
    for (size_t i = 0; i < sizeof habits / sizeof habits[0]; i++)
        if (strcmp(habits[i].method, method) == 0)
            return habits[i].options;
    return "";
}

/* Of two options of one name the first counts, and before both the one in the spec. */
static void add(char *list, size_t cap, const char *options)
{
    const size_t used = strlen(list);
    (void)snprintf(list + used, cap - used, "%s%s", used > 0 && options[0] ? "," : "", options);
}

terse_status train_complete_method(const struct train_request *request, const char *method,
                                   const char *more, char out[TERSE_MAX_METHOD_SPEC],
                                   terse_fault *fault)
{
    terse_method_description chosen = {.size = sizeof chosen};
    char options[TERSE_MAX_METHOD_SPEC] = "";
    const terse_status status = terse_method_describe(method, &chosen, fault);
    if (status != TERSE_OK)
        return status;
    add(options, sizeof options, more);
    if (request->settings.lr >= 0) {
        char rate[32];
        (void)snprintf(rate, sizeof rate, "lr=%.9g", request->settings.lr);
        add(options, sizeof options, rate);
    }
    add(options, sizeof options, habit_of(chosen.name));
    if (chosen.has_plain && strcmp(chosen.codec, "f32") != 0)
        add(options, sizeof options, "min=1024");
    return terse_method_spec_with(method, options, 0, out, TERSE_MAX_METHOD_SPEC, fault);
}

terse_status train_request_method(struct train_request *request, const char *method, char *note,
                                  size_t note_cap, terse_fault *fault)
{
    note[0] = '\0';
    const terse_status status =
        trn_is_auto(method) ? train_complete_auto(request, method, request->spec, fault)
                            : train_complete_method(request, method, "", request->spec, fault);
    if (status != TERSE_OK)
        return status;
    if (strcmp(request->spec, method) != 0 && !trn_is_auto(method))
        (void)snprintf(note, note_cap, "method %s", request->spec);
    request->settings.method = request->spec;
    return TERSE_OK;
}
