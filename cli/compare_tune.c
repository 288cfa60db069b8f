#include "compare_tune.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "message.h"
#include "table.h"
#include "train/loop/share.h"

#define HELD_OUT 0.1 /* share of the training examples, unless --validation names another */

struct tuning {
    double *score;  /* by spec: accuracy, or the negative loss where targets are numbers */
    uint32_t *best; /* by method: the index of its spec */
    int classifies;
};

size_t tuning_size(const struct sweep *sweep)
{
    size_t count = 0;
    for (size_t i = 0; i < sweep->count; i++)
        count += sweep->specs[i].rate[0] != '\0';
    return count;
}

/* A rate that diverged is worse than any that did not. */
static double score_of(const struct outcome *outcome)
{
    if (outcome->diverged)
        return -INFINITY;
    return isfinite(outcome->accuracy) ? outcome->accuracy : -outcome->loss;
}

/* The first of the best: of equal rates the one that was named first. */
static void choose(struct tuning *tuning, const struct sweep *sweep)
{
    for (size_t m = 0; m < sweep->methods; m++) {
        size_t first = 0;
        const size_t rates = sweep_rates(sweep, m, &first);
        tuning->best[m] = (uint32_t)first;
        for (size_t i = first; i < first + rates; i++)
            if (tuning->score[i] > tuning->score[tuning->best[m]])
                tuning->best[m] = (uint32_t)i;
    }
}

static int train_all(const struct train_request *request, const struct sweep *sweep,
                     struct comparison *comparison, struct tuning *tuning)
{
    struct train_request one = *request;
    struct member *members = NULL;
    char out[4096];
    (void)snprintf(out, sizeof out, "%s/tune", request->settings.out);
    one.settings.out = out;
    one.settings.validation =
        request->settings.validation > 0 ? request->settings.validation : HELD_OUT;
    if (request->tune_epochs) {
        one.settings.epochs = request->tune_epochs;
        one.settings.steps = 0;
    }
    int code = members_make(&one, sweep->specs, sweep->count, 1, &members);
    for (size_t i = 0; i < sweep->count && code == CLI_OK; i++) {
        if (sweep->specs[i].rate[0] == '\0')
            continue;
        code = member_run(&one, &members[i], comparison);
        tuning->score[i] = score_of(&members[i].outcome);
        tuning->classifies |= isfinite(members[i].outcome.accuracy);
    }
    free(members);
    return code;
}

int tuning_run(const struct train_request *request, const struct sweep *sweep,
               struct comparison *comparison, struct tuning **out)
{
    struct tuning *const tuning = calloc(1, sizeof *tuning);
    terse_group *const group = request->settings.group;
    terse_fault fault;
    *out = NULL;
    if (tuning_size(sweep) == 0) {
        free(tuning);
        return CLI_OK;
    }
    if (tuning) {
        tuning->score = calloc(sweep->count, sizeof *tuning->score);
        tuning->best = calloc(sweep->methods, sizeof *tuning->best);
    }
    if (!tuning || !tuning->score || !tuning->best) {
        tuning_free(tuning);
        return msg_error(CLI_MACHINE, "out of memory");
    }
    *out = tuning;
    const int code = train_all(request, sweep, comparison, tuning);
    if (code != CLI_OK)
        return code;
    choose(tuning, sweep);
    void *bytes = tuning->best;
    uint64_t len = sweep->methods * sizeof *tuning->best;
    if (group && trn_share_bytes(group, "the chosen rates", &bytes, &len, &fault) != TERSE_OK)
        return msg_error(CLI_MACHINE, "compare: %s", fault.text);
    if (bytes != tuning->best) {
        memcpy(tuning->best, bytes, sweep->methods * sizeof *tuning->best);
        free(bytes);
    }
    return CLI_OK;
}

void tuning_choose(const struct tuning *tuning, const struct sweep *sweep, struct sweep_spec *specs)
{
    for (size_t m = 0; m < sweep->methods; m++) {
        size_t first = 0;
        (void)sweep_rates(sweep, m, &first);
        specs[m] = sweep->specs[tuning ? tuning->best[m] : first];
    }
}

/* Is the best rate the least or the largest of its grid? With one or two rates it always is. */
static int is_at_end(const struct tuning *tuning, const struct sweep *sweep, size_t method)
{
    size_t first = 0;
    const size_t rates = sweep_rates(sweep, method, &first);
    const double chosen = strtod(sweep->specs[tuning->best[method]].rate, NULL);
    size_t below = 0;
    size_t above = 0;
    for (size_t i = first; i < first + rates; i++) {
        below += strtod(sweep->specs[i].rate, NULL) < chosen;
        above += strtod(sweep->specs[i].rate, NULL) > chosen;
    }
    return below == 0 || above == 0;
}

static void write_score(const struct tuning *tuning, size_t spec, char *out, size_t cap)
{
    if (!isfinite(tuning->score[spec]))
        (void)snprintf(out, cap, "diverged");
    else if (tuning->classifies)
        (void)snprintf(out, cap, "%.2f", 100 * tuning->score[spec]);
    else
        (void)snprintf(out, cap, "%.4g", -tuning->score[spec]);
}

int tuning_print(const struct tuning *tuning, const struct sweep *sweep)
{
    struct table *const table = table_create("lrl");
    if (!table)
        return msg_error(CLI_MACHINE, "out of memory");
    table_cell(table, "learning rates, on held-out examples");
    table_cell(table, tuning->classifies ? "accuracy %%" : "loss");
    table_cell(table, "chosen");
    for (size_t i = 0; i < sweep->count; i++) {
        char score[32];
        if (sweep->specs[i].rate[0] == '\0')
            continue;
        write_score(tuning, i, score, sizeof score);
        table_cell(table, "%s", sweep->specs[i].spec);
        table_cell(table, "%s", score);
        table_cell(table, "%s", tuning->best[sweep->specs[i].method] == i ? "yes" : "no");
    }
    const int code = table_print(table, 0);
    for (size_t m = 0; m < sweep->methods; m++) {
        const struct sweep_spec *const best = &sweep->specs[tuning->best[m]];
        if (best->rate[0] != '\0' && is_at_end(tuning, sweep, m))
            msg_note("terse: note: %s: the best rate, %s, is at an end of its grid; a better one "
                     "may lie beyond",
                     best->spec, best->rate);
    }
    return code;
}

com_json *tuning_json(const struct tuning *tuning, const struct sweep *sweep)
{
    com_json *const list = com_json_array();
    for (size_t m = 0; m < sweep->methods; m++) {
        size_t first = 0;
        const size_t rates = sweep_rates(sweep, m, &first);
        if (sweep->specs[first].rate[0] == '\0')
            continue;
        com_json *const item = com_json_object();
        com_json *const grid = com_json_array();
        for (size_t i = first; i < first + rates; i++) {
            com_json *const one = com_json_object();
            com_json_put_real(one, "lr", strtod(sweep->specs[i].rate, NULL));
            com_json_put_real(one, tuning->classifies ? "accuracy" : "loss",
                              tuning->classifies ? tuning->score[i] : -tuning->score[i]);
            com_json_append(grid, one);
        }
        com_json_put_text(item, "method", sweep->specs[tuning->best[m]].spec);
        com_json_put_real(item, "lr", strtod(sweep->specs[tuning->best[m]].rate, NULL));
        com_json_put_flag(item, "at_grid_end", is_at_end(tuning, sweep, m));
        com_json_put(item, "rates", grid);
        com_json_append(list, item);
    }
    return list;
}

void tuning_free(struct tuning *tuning)
{
    if (!tuning)
        return;
    free(tuning->score);
    free(tuning->best);
    free(tuning);
}
