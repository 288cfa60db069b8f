#include <stdio.h>
#include <string.h>

#include "bench_methods.h"
#include "method_bytes.h"

/* g gradient, x weights, m and v moments, e residual, e' the owner's residual, w the point, X the
 * full weights of an owner. Stages are separated by "|", passes of one stage by ";". The first R g
 * is the finite check, before anything changes. Codecs as in `terse bench codecs`. */
#define GRID(name)                                                                        \
    {                                                                                     \
        name, -1, 5, 1, 1, 2, 0, 0, 0,                                                    \
            "R g | R g; R g, W codes | owner: R codes, W sum; R sum; R sum, W codes | R " \
            "codes, RW x"                                                                 \
    }
#define HALF(name)                                                                                 \
    {                                                                                              \
        name, -1, 3, 1, 2, 2, 0, 0, 0,                                                             \
            "R g | R g, W halves | owner: R halves, W sum; R sum, W halves | R halves, RW m, RW x" \
    }
#define DETACHED(name)                                                                \
    {                                                                                 \
        name, -1, 4, 1, 2, 0, 0, 1, 0,                                                \
            "R g | R g, RW m, RW e | block moved | RW x of the block | R x, R e, W w" \
    }
#define SELECTED(name)                                                                       \
    {                                                                                        \
        name, -1, 3, 0, 1, 0, 0, 0, 2, "R g | R g, RW e | R e | RW of touched in e and in x" \
    }

/* reads, writes, updates, payloads, back, block, touched */
const struct method_limit method_limits[] = {
    {"signsgd", -1, 2, 0, 1, 2, 0, 0, 0,
     "R g | R g, W codes | vote: R codes, W codes | R codes, RW x"},
    {"signum", -1, 3, 0, 2, 2, 0, 0, 0,
     "R g | R g, RW m | R m, W codes | vote: R codes, W codes | R codes, RW x"},
    DETACHED("def"),
    DETACHED("def-a"),
    {"qadam", 1, 5, 1, 5, 1, 1, 0, 0,
     "R g | R g, RW m, RW v, RW e | R e; RW e, W codes | owner: R codes, RW X; R X; R X, W Q_x | "
     "R Q_x, W x"},
    {"qadam", 0, 3, 0, 5, 1, 0, 0, 0,
     "R g | R g, RW m, RW v, RW e | R e; RW e, W codes | R codes, RW x"},
    SELECTED("regtopk"),
    GRID("dqsgd"),
    {"ef", -1, 2, 0, 2, 0, 0, 1, 0, "R g | R g, RW m, RW e | block moved | RW x of the block"},
    DETACHED("saef"),
    {"ef-sign", -1, 4, 0, 5, 2, 0, 0, 0,
     "R g | R g, RW e | R e; RW e, W codes | owner: R codes, RW e'; R e'; RW e', W codes | R "
     "codes, RW x"},
    SELECTED("topk"),
    GRID("qsgd"),
    GRID("terngrad"),
    GRID("natural"),
    {"powersgd", -1, 4, 0, 4, 0, 0, 0, 0, "R g | R g, RW e | R e; R e; RW e | RW m, RW x"},
    {"adam", -1, 2, 0, 3, 1, 0, 0, 0, "R g | R g, W payload | R payload, RW m, RW v, RW x"},
    {"dense", -1, 2, 0, 2, 1, 0, 0, 0, "R g | R g, W payload | R payload, RW m, RW x"},
    {"median", -1, 3, 1, 2, 2, 0, 0, 0,
     "R g | R g, W payload | owner: R payload, W medians; R medians, W payload | R payload, RW m, "
     "RW x"},
    HALF("fp16"),
    HALF("bf16"),
};
const size_t method_limit_count = sizeof method_limits / sizeof method_limits[0];

/* Options that add or remove a pass: zero if and only if the default is zero. `every` counts
 * from 1.
 */
static const char *const deciding[] = {"momentum", "beta", "wd", "clip", "sigma", "warmup", "min"};

static const char *changed_option(const char *spec, int index)
{
    terse_option option;
    for (uint32_t i = 0; terse_method_option((uint32_t)index, i, &option) == TERSE_OK; i++) {
        double value = method_option(spec, option.name, 0);
        for (size_t j = 0; j < sizeof deciding / sizeof deciding[0]; j++) {
            int initially_zero = strcmp(option.initial, "0") == 0;
            if (strcmp(option.name, deciding[j]) == 0 && (value == 0) != initially_zero)
                return deciding[j];
        }
    }
    terse_method_entry zero;
    if (terse_method_entry_of(spec, "zero", &zero, NULL) == TERSE_OK &&
        strcmp(zero.value, "keep") == 0)
        return "zero=keep";
    return method_option(spec, "every", 1) > 1 ? "every" : NULL;
}

static int names_a_stage(const char *spec)
{
    terse_method_entry entry;
    for (uint32_t i = 0; terse_method_entry_at(spec, i, &entry, NULL) == TERSE_OK; i++)
        if (entry.is_stage)
            return 1;
    return 0;
}

const struct method_limit *method_limit_of(const char *spec, const char **why)
{
    static char reason[96];
    terse_method_about about;
    terse_method_description chosen = {.size = sizeof chosen};
    *why = "the table of limits has no row for this method";
    if (terse_method_describe(spec, &chosen, NULL) != TERSE_OK)
        return NULL;
    int index = method_index(chosen.name, &about);
    if (index < 0)
        return NULL;
    const char *changed = changed_option(spec, index);
    if (changed || names_a_stage(spec)) {
        snprintf(reason, sizeof reason,
                 "with %s it makes other passes than the table of limits has",
                 changed ? changed : "another stage");
        *why = reason;
        return NULL;
    }
    int quantized = chosen.owner == TERSE_OWNER_WEIGHTS;
    for (size_t i = 0; i < method_limit_count; i++) {
        const struct method_limit *limit = &method_limits[i];
        if (strcmp(limit->method, about.name) == 0 &&
            (limit->quantized < 0 || limit->quantized == quantized))
            return limit;
    }
    return NULL;
}
