/* The rows of a plan: every method on one link, in order, and which one to take. */
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "machine.h"
#include "message.h"
#include "plan_request.h"

enum { SAMPLED = 16 * 1000 * 1000 }; /* parameters of all ranks together */

static const double as_fast = 0.97;    /* what is not faster by this is not worth a change */
static const double near_dense = -1.0; /* points of accuracy that a recommended method may lose */

void plan_free(struct plan *plan)
{
    for (size_t i = 0; i < plan->rows; i++)
        pln_trace_free(plan->row[i].trace);
    free(plan->row);
    *plan = (struct plan){0};
}

/* As `terse train` completes a spec: small tensors travel as f32. */
static terse_status spec_of(const char *spec, const char *combine, struct plan_row *out,
                            terse_fault *fault)
{
    terse_method_description chosen = {.size = sizeof chosen};
    char options[64] = "";
    terse_status status = TERSE_OK;
    if (combine) {
        char with[TERSE_MAX_METHOD_SPEC];
        (void)snprintf(options, sizeof options, "combine=%s", combine);
        status = terse_method_spec_with(spec, options, 1, with, sizeof with, fault);
        if (status == TERSE_OK)
            (void)snprintf(out->spec, sizeof out->spec, "%s", with);
    } else {
        (void)snprintf(out->spec, sizeof out->spec, "%s", spec);
    }
    if (status == TERSE_OK)
        status = terse_method_describe(out->spec, &chosen, fault);
    if (status == TERSE_OK) {
        out->name = chosen.name;
        out->combine = chosen.combine;
    }
    return status;
}

static struct pln_job job_of(const struct plan_request *request, const terse_layout *layout,
                             const char *spec, uint32_t workers)
{
    return (struct pln_job){.spec = spec,
                            .workers = workers,
                            .layout = layout,
                            .most = request->exact ? 0 : SAMPLED,
                            .bucket = request->bucket,
                            .threads = (uint32_t)request->threads,
                            .at_once = request->ranks_per_core > 0 ? machine_cpus() : 1};
}

static terse_status record(const struct plan_request *request, const terse_layout *layout,
                           uint32_t workers, struct plan_row *row, terse_fault *fault)
{
    terse_method_description chosen = {.size = sizeof chosen};
    char trained[TERSE_MAX_METHOD_SPEC];
    terse_status status = terse_method_describe(row->spec, &chosen, fault);
    const int plain = status == TERSE_OK && chosen.has_plain && strcmp(chosen.codec, "f32") != 0;
    if (status == TERSE_OK)
        status = terse_method_spec_with(row->spec, plain ? "min=1024" : "", 0, trained,
                                        sizeof trained, fault);
    const struct pln_job job = job_of(request, layout, trained, workers);
    if (status != TERSE_OK)
        return status;
    return request->no_cache ? pln_record(&job, &row->trace, fault)
                             : pln_record_cached(&job, &row->trace, fault);
}

/* A row of its own for the method, and one for every other combine that it can have. */
static int add_rows(const struct plan_request *request, const terse_layout *layout,
                    const char *spec, struct plan *plan)
{
    const char *own = ""; /* the combine of the first row */
    for (uint32_t c = 0; c == 0 || (request->all_combines && terse_combine_name(c - 1)); c++) {
        const char *const combine = c == 0 ? NULL : terse_combine_name(c - 1);
        struct plan_row *const row = &plan->row[plan->rows];
        terse_fault fault = {.rank = -1};
        *row = (struct plan_row){0};
        terse_status status = spec_of(spec, combine, row, &fault);
        if (combine && (status != TERSE_OK || strcmp(combine, own) == 0))
            continue; /* not with this codec, or there already */
        own = combine ? own : row->combine;
        row->same_bits =
            !combine || (strcmp(combine, "sparse-allreduce") == 0 && strcmp(own, "allgather") == 0);
        if (status == TERSE_OK)
            status = record(request, layout, plan->nodes, row, &fault);
        if (combine && status == TERSE_BAD_SPEC)
            continue;
        if (status != TERSE_OK)
            return msg_status(spec, status, &fault);
        row->cost = pln_simulate(row->trace, &plan->place);
        plan->rows++;
    }
    return CLI_OK;
}

static int is_dense(const struct plan_row *row)
{
    return strcmp(row->name, "dense") == 0 && strcmp(row->combine, "allreduce") == 0;
}

static int by_time(const void *a, const void *b)
{
    const struct plan_row *const first = a;
    const struct plan_row *const second = b;
    return (first->cost.seconds > second->cost.seconds) -
           (first->cost.seconds < second->cost.seconds);
}

/* ---- which one ---- */

struct pln_shown plan_pays(double break_even)
{
    struct pln_shown shown;
    if (break_even <= 0)
        (void)snprintf(shown.text, sizeof shown.text, "never");
    else if (break_even >= PLN_FASTEST)
        (void)snprintf(shown.text, sizeof shown.text, "at every rate");
    else
        (void)snprintf(shown.text, sizeof shown.text, "below %.20s",
                       pln_show_rate(break_even).text);
    return shown;
}

static void explain(struct plan *plan, const struct plan_row *fastest)
{
    const struct plan_row *const best = plan->recommended;
    const struct pln_accuracy *const accuracy = pln_accuracy_of(best->name);
    const double gain = plan->dense->cost.seconds / best->cost.seconds;
    int used;
    if (best == plan->dense && fastest->cost.seconds > as_fast * best->cost.seconds)
        used = snprintf(plan->reason, sizeof plan->reason,
                        "do not compress: dense takes %s per step, and no method is faster by more "
                        "than 3 %%",
                        pln_show_seconds(best->cost.seconds).text);
    else if (best == plan->dense)
        used = snprintf(plan->reason, sizeof plan->reason,
                        "do not compress: no method whose accuracy is known to be near that of "
                        "dense is faster by more than 3 %%");
    else
        used = snprintf(plan->reason, sizeof plan->reason,
                        "%.300s: %s per step, %.3g times as fast as dense; it pays %s. Measured "
                        "accuracy of %s: %s",
                        best->spec, pln_show_seconds(best->cost.seconds).text, gain,
                        plan_pays(best->break_even).text, accuracy->spec, accuracy->words);
    const size_t at = used > 0 ? (size_t)used : 0;
    if (fastest != best && fastest->cost.seconds < as_fast * best->cost.seconds &&
        at < sizeof plan->reason)
        (void)snprintf(plan->reason + at, sizeof plan->reason - at,
                       ". %.300s would take %s, but its accuracy %s", fastest->spec,
                       pln_show_seconds(fastest->cost.seconds).text,
                       pln_accuracy_of(fastest->name) ? "was measured behind"
                                                      : "was not measured here");
}

/* The fastest of those that are known to learn as well; dense where none is faster. */
static void recommend(struct plan *plan)
{
    plan->recommended = plan->dense;
    for (size_t i = 0; i < plan->rows && plan->recommended == plan->dense; i++) {
        const struct pln_accuracy *const accuracy = pln_accuracy_of(plan->row[i].name);
        if (accuracy && accuracy->fashion >= near_dense && plan->row[i].same_bits &&
            plan->row[i].cost.seconds < as_fast * plan->dense->cost.seconds)
            plan->recommended = &plan->row[i];
    }
    explain(plan, &plan->row[0]);
}

int plan_make(const struct plan_request *request, const terse_layout *layout,
              const struct pln_place *place, uint32_t workers, struct plan *out)
{
    const uint32_t node_size = (uint32_t)request->node_size;
    struct plan plan = {.workers = workers,
                        .nodes = workers / node_size,
                        .parameters = (double)terse_layout_count(layout)};
    struct pln_job inside = job_of(request, layout, "dense", node_size);
    terse_fault fault = {.rank = -1};
    terse_method_about about;
    const size_t most = (request->specs + 64) * 8;
    struct pln_place all = *place;
    int code = CLI_OK;
    inside.cached = !request->no_cache;
    if (node_size > 1) {
        const terse_status status =
            pln_place_nodes(&inside, node_size, request->inside, &all, &fault);
        if (status != TERSE_OK)
            return msg_status("--node-size", status, &fault);
    }
    plan.place = all;
    plan.row = calloc(most, sizeof *plan.row);
    if (!plan.row)
        return msg_error(CLI_MACHINE, "out of memory");
    for (uint32_t i = 0; request->specs == 0 && code == CLI_OK && plan.rows + 8 < most &&
                         terse_method_list(i, &about) == TERSE_OK;
         i++) {
        const struct pln_accuracy *const accuracy = pln_accuracy_of(about.name);
        code = add_rows(request, layout, accuracy ? accuracy->spec : about.name, &plan);
    }
    for (size_t i = 0; i < request->specs && code == CLI_OK; i++)
        code = add_rows(request, layout, request->spec[i], &plan);
    int has_dense = 0;
    for (size_t i = 0; i < plan.rows; i++)
        has_dense |= is_dense(&plan.row[i]);
    if (code == CLI_OK && !has_dense) {
        struct plan_request alone = *request;
        alone.all_combines = 0;
        code = add_rows(&alone, layout, "dense", &plan);
    }
    if (code != CLI_OK) {
        plan_free(&plan);
        return code;
    }
    qsort(plan.row, plan.rows, sizeof *plan.row, by_time);
    plan.dense = plan.row;
    for (size_t i = plan.rows; i-- > 0;)
        if (is_dense(&plan.row[i]))
            plan.dense = &plan.row[i];
    for (size_t i = 0; i < plan.rows; i++) {
        struct plan_row *const row = &plan.row[i];
        row->over_dense = row->cost.seconds / plan.dense->cost.seconds;
        row->break_even = pln_break_even(row->trace, plan.dense->trace, &plan.place);
    }
    recommend(&plan);
    *out = plan;
    return CLI_OK;
}
