/* The candidates of --method auto. */
#include <stdio.h>
#include <string.h>

#include "plan/plan.h"
#include "train/loop/auto.h"
#include "train_request.h"

static const double near_dense = -1.0; /* points of accuracy that a candidate may lose */

/* Those that hand a mean gradient to the update of dense, and are known to learn as well. */
static void list_known(struct trn_auto_words *words)
{
    static const char *const names[] = {"dense",   "fp16", "bf16",  "topk",
                                        "regtopk", "qsgd", "dqsgd", "powersgd"};
    for (size_t i = 0; i < sizeof names / sizeof names[0]; i++) {
        const struct pln_accuracy *const accuracy = pln_accuracy_of(names[i]);
        if (accuracy && accuracy->fashion >= near_dense)
            (void)snprintf(words->method[words->count++], sizeof words->method[0], "%s",
                           accuracy->spec);
    }
}

static int is_dense(const char *method)
{
    terse_method_description chosen = {.size = sizeof chosen};
    return terse_method_describe(method, &chosen, NULL) == TERSE_OK &&
           strcmp(chosen.name, "dense") == 0;
}

/* Dense is the one to beat, and comes first. */
static terse_status put_dense_first(struct trn_auto_words *words, terse_fault *fault)
{
    char dense[TERSE_MAX_METHOD_SPEC] = "dense";
    uint32_t at = 0;
    while (at < words->count && !is_dense(words->method[at]))
        at++;
    if (at == TRN_MOST_CANDIDATES)
        return com_fail(fault, TERSE_BAD_SPEC, "auto: methods= has more than %u methods and dense",
                        TRN_MOST_CANDIDATES - 1);
    if (at == words->count)
        words->count++;
    else
        memcpy(dense, words->method[at], sizeof dense);
    memmove(words->method[1], words->method[0], at * sizeof words->method[0]);
    memcpy(words->method[0], dense, sizeof dense);
    return TERSE_OK;
}

/* What is given to all candidates are options of dense: others would be left out in silence. */
static terse_status check_options(const char *options, terse_fault *fault)
{
    char name[64];
    for (const char *at = options; *at != '\0';
         at += strcspn(at, ",") + (strchr(at, ',') != NULL)) {
        terse_method_entry entry;
        (void)snprintf(name, sizeof name, "%.*s", (int)strcspn(at, ",="), at);
        if (terse_method_entry_of("dense", name, &entry, NULL) != TERSE_OK || entry.is_stage ||
            strcmp(name, "min") == 0)
            return com_fail(fault, TERSE_BAD_SPEC,
                            "auto: '%s' is no option for all candidates; these are every=, "
                            "options of the update such as lr= and momentum=, and, last, "
                            "methods=SPEC;SPEC with what is a method's own",
                            name);
    }
    char dense[TERSE_MAX_METHOD_SPEC];
    return terse_method_spec_with("dense", options, 0, dense, sizeof dense, fault);
}

static terse_status check_method(const struct trn_auto_words *words, const char *method,
                                 terse_fault *fault)
{
    terse_method_description chosen = {.size = sizeof chosen};
    terse_method_entry rate;
    const terse_status status = terse_method_describe(method, &chosen, fault);
    if (status != TERSE_OK)
        return status;
    if (chosen.local_steps != 1)
        return com_fail(fault, TERSE_BAD_SPEC,
                        "auto: %.200s: only one in %u of its steps is an exchange, so that a few "
                        "steps tell nothing of its time; leave out its every=",
                        method, chosen.local_steps);
    if (trn_auto_is_alike(&chosen))
        return TERSE_OK;
    if (terse_method_entry_of(method, "lr", &rate, NULL) != TERSE_OK || !rate.is_given)
        return com_fail(fault, TERSE_BAD_SPEC,
                        "auto: %.200s: its update is not that of dense, so a learning rate for "
                        "dense does not suit it; write its own, %s:lr=...",
                        method, chosen.name);
    if (words->every)
        return com_fail(fault, TERSE_BAD_SPEC,
                        "auto: %.200s: its update is not that of dense, so it cannot take over "
                        "in the middle of a training; leave out every=%llu, or this method",
                        method, (unsigned long long)words->every);
    return TERSE_OK;
}

terse_status train_complete_auto(const struct train_request *request, const char *text,
                                 char out[TERSE_MAX_METHOD_SPEC], terse_fault *fault)
{
    static struct trn_auto_words words; /* 35 KB; one thread reads the command line */
    terse_status status = trn_auto_parse(text, &words, fault);
    if (status == TERSE_OK)
        status = check_options(words.options, fault);
    if (status == TERSE_OK && words.count == 0)
        list_known(&words);
    if (status == TERSE_OK)
        status = put_dense_first(&words, fault);
    for (uint32_t i = 0; i < words.count && status == TERSE_OK; i++) {
        char given[TERSE_MAX_METHOD_SPEC];
        memcpy(given, words.method[i], sizeof given);
        status = check_method(&words, given, fault);
        if (status == TERSE_OK)
            status = train_complete_method(request, given, words.options, words.method[i], fault);
        for (uint32_t j = 0; j < i && status == TERSE_OK; j++)
            if (strcmp(words.method[i], words.method[j]) == 0)
                status = com_fail(fault, TERSE_BAD_SPEC, "auto: methods= has %.200s twice", given);
    }
    if (status == TERSE_OK && trn_auto_print(&words, out, TERSE_MAX_METHOD_SPEC) != TERSE_OK)
        status = com_fail(fault, TERSE_BAD_SPEC,
                          "auto: the candidates have more than %u characters together",
                          TERSE_MAX_METHOD_SPEC - 1);
    return status;
}
