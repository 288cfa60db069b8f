#include "sweep.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define EXAMPLE "write topk:keep={0.1,0.01},lr={0.02,0.05}"

/* The braces of a spec, and whether they belong to lr. */
struct braces {
    const char *open;
    const char *close;
    int is_lr;
};

/* The first braces of another key than lr, or else those of lr; open is NULL where there are
 * none. */
static struct braces find(const char *spec)
{
    struct braces found = {.open = NULL};
    for (const char *at = spec; (at = strchr(at, '{')) != NULL; at++) {
        const int is_lr =
            at - spec >= 4 && strncmp(at - 3, "lr=", 3) == 0 && (at[-4] == ',' || at[-4] == ':');
        if (found.open && is_lr)
            continue;
        found = (struct braces){at, strchr(at, '}'), is_lr};
        if (!is_lr)
            break;
    }
    return found;
}

static terse_status check(const char *spec, terse_fault *fault)
{
    int open = 0;
    for (const char *at = spec; *at; at++) {
        if ((*at == '{' && (open || at == spec || at[-1] != '=')) || (*at == '}' && !open))
            return com_fail(fault, TERSE_BAD_SPEC,
                            "'%.80s': braces hold the values of a key; " EXAMPLE, spec);
        if (open && (*at == ',' || *at == '}') && (at[-1] == ',' || at[-1] == '{'))
            return com_fail(fault, TERSE_BAD_SPEC,
                            "'%.80s': a value between braces is empty; " EXAMPLE, spec);
        open = *at == '{' || (open && *at != '}');
    }
    return open ? com_fail(fault, TERSE_BAD_SPEC, "'%.80s': '{' is not closed; " EXAMPLE, spec)
                : TERSE_OK;
}

static terse_status append(struct sweep *out, const char *spec, const char *rate, int rate_len,
                           terse_fault *fault)
{
    if (out->count == SWEEP_MOST)
        return com_fail(fault, TERSE_BAD_SPEC, "the braces make more than %d specs", SWEEP_MOST);
    struct sweep_spec *const next = &out->specs[out->count++];
    (void)snprintf(next->spec, sizeof next->spec, "%s", spec);
    (void)snprintf(next->rate, sizeof next->rate, "%.*s", rate_len, rate);
    next->method = out->methods;
    return TERSE_OK;
}

/* Every value of the braces in turn, in place of them. Braces of lr are the last ones of a spec:
 * what they make is one method. */
static terse_status expand(struct sweep *out, const char *spec, terse_fault *fault)
{
    const struct braces braces = find(spec);
    terse_status status = TERSE_OK;
    if (!braces.open) {
        status = append(out, spec, "", 0, fault);
        out->methods++;
        return status;
    }
    for (const char *value = braces.open + 1; value <= braces.close && status == TERSE_OK;) {
        char one[SWEEP_SPEC];
        const int len = (int)strcspn(value, ",}");
        (void)snprintf(one, sizeof one, "%.*s%.*s%s", (int)(braces.open - spec), spec, len, value,
                       braces.close + 1);
        status = braces.is_lr ? append(out, one, value, len, fault) : expand(out, one, fault);
        value += len + 1;
    }
    out->methods += braces.is_lr ? 1 : 0;
    return status;
}

terse_status sweep_expand(const char *list, struct sweep *out, terse_fault *fault)
{
    terse_status status = TERSE_OK;
    *out = (struct sweep){.specs = calloc(SWEEP_MOST, sizeof *out->specs)};
    if (!out->specs)
        return com_fail(fault, TERSE_NO_MEMORY, "no memory for a list of methods");
    for (const char *at = list; status == TERSE_OK;) {
        char spec[SWEEP_SPEC];
        at += strspn(at, " ");
        const size_t whole = strcspn(at, ";");
        size_t len = whole;
        while (len > 0 && at[len - 1] == ' ')
            len--;
        if (len == 0 || len >= sizeof spec)
            return com_fail(fault, TERSE_BAD_SPEC, "an entry is empty or too long");
        (void)snprintf(spec, sizeof spec, "%.*s", (int)len, at);
        status = check(spec, fault);
        if (status == TERSE_OK)
            status = expand(out, spec, fault);
        if (at[whole] == '\0')
            break;
        at += whole + 1;
    }
    return status;
}

size_t sweep_rates(const struct sweep *sweep, size_t method, size_t *first)
{
    size_t count = 0;
    for (size_t i = sweep->count; i-- > 0;) {
        if (sweep->specs[i].method != method)
            continue;
        *first = i;
        count++;
    }
    return count;
}
