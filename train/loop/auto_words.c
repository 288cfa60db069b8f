/* The text of --method auto, and what a run that it started has in its files. */
#include <stdio.h>
#include <string.h>

#include "common/number.h"
#include "loop/auto.h"

#define MOST_EVERY 1000000000u
#define EXAMPLE "for example auto:lr=0.05,every=1000,methods=topk:keep=0.001;fp16"

static const char name[] = "auto";
static const char methods[] = "methods=";
static const char every[] = "every=";

int trn_is_auto(const char *text)
{
    const size_t len = sizeof name - 1;
    return text && strncmp(text, name, len) == 0 && (text[len] == '\0' || text[len] == ':');
}

/* The words of `methods=`: all that is left, separated by ';'. */
static terse_status read_methods(const char *text, struct trn_auto_words *out, terse_fault *fault)
{
    for (const char *at = text;; at++) {
        const size_t len = strcspn(at, ";");
        if (len == 0 || len >= sizeof out->method[0])
            return com_fail(fault, TERSE_BAD_SPEC,
                            "auto: methods= has %s between two ';'; " EXAMPLE,
                            len == 0 ? "nothing" : "too long a spec");
        if (out->count == TRN_MOST_CANDIDATES)
            return com_fail(fault, TERSE_BAD_SPEC, "auto: methods= has more than %u methods",
                            TRN_MOST_CANDIDATES);
        (void)snprintf(out->method[out->count++], sizeof out->method[0], "%.*s", (int)len, at);
        at += len;
        if (*at == '\0')
            return TERSE_OK;
    }
}

static terse_status read_word(const char *word, struct trn_auto_words *out, terse_fault *fault)
{
    const size_t used = strlen(out->options);
    if (word[0] == '\0')
        return com_fail(fault, TERSE_BAD_SPEC, "auto: an option is empty; " EXAMPLE);
    if (strncmp(word, every, sizeof every - 1) != 0) {
        (void)snprintf(out->options + used, sizeof out->options - used, "%s%s", used ? "," : "",
                       word);
        return TERSE_OK;
    }
    if (com_parse_count(word + sizeof every - 1, 0, MOST_EVERY, &out->every))
        return TERSE_OK;
    return com_fail(fault, TERSE_BAD_SPEC,
                    "auto: every=%.40s is not a number of steps from 0 to %u; " EXAMPLE,
                    word + sizeof every - 1, MOST_EVERY);
}

terse_status trn_auto_parse(const char *text, struct trn_auto_words *out, terse_fault *fault)
{
    char word[TERSE_MAX_METHOD_SPEC];
    const char *at = text + sizeof name - 1;
    terse_status status = TERSE_OK;
    out->options[0] = '\0';
    out->every = out->count = 0;
    while (*at != '\0' && status == TERSE_OK) {
        const char *const start = at + 1; /* behind the colon or the comma */
        const size_t len = strcspn(start, ",");
        if (strncmp(start, methods, sizeof methods - 1) == 0)
            return read_methods(start + sizeof methods - 1, out, fault);
        if (len >= sizeof word)
            return com_fail(fault, TERSE_BAD_SPEC, "auto: the spec is too long");
        (void)snprintf(word, sizeof word, "%.*s", (int)len, start);
        status = read_word(word, out, fault);
        at = start + len;
    }
    return status;
}

terse_status trn_auto_print(const struct trn_auto_words *words, char *out, size_t cap)
{
    int used =
        snprintf(out, cap, "%s:%s%llu,%s", name, every, (unsigned long long)words->every, methods);
    for (uint32_t i = 0; i < words->count && used >= 0 && (size_t)used < cap; i++)
        used += snprintf(out + used, cap - (size_t)used, "%s%s", i ? ";" : "", words->method[i]);
    return used >= 0 && (size_t)used < cap ? TERSE_OK : TERSE_TOO_SMALL;
}

int trn_auto_is_alike(const terse_method_description *chosen)
{
    return strcmp(chosen->point, "x") == 0 && strcmp(chosen->direction, "gradient") == 0 &&
           strcmp(chosen->update, "sgd") == 0 && !chosen->votes;
}

struct trn_settings trn_auto_settings(const struct trn_settings *settings, const com_json *kept)
{
    struct trn_settings same = *settings;
    const char *spec = NULL;
    if (trn_is_auto(settings->method) &&
        com_json_get_text(com_json_get(kept, name), "spec", &spec) &&
        strcmp(spec, settings->method) == 0)
        (void)com_json_get_text(kept, "method", &same.method);
    return same;
}
