#include "compare_result.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "common/file.h"
#include "common/number.h"
#include "message.h"
#include "paired.h"
#include "report/chart.h"
#include "report/report.h"
#include "table.h"

/* ---- the table ---- */

/* Mean and spread (standard deviation) over the seeds of one method. */
struct summary {
    double accuracy, accuracy_spread, loss, bytes, smaller, seconds;
    double seconds_to_target, bytes_to_target; /* NaN: not reached by all */
    int diverged;                              /* with any seed: there is no mean */
};

static struct summary summarize(const struct member *members, uint64_t seeds)
{
    struct summary sum = {0};
    double squares = 0;
    for (uint64_t i = 0; i < seeds; i++) {
        const struct outcome *const one = &members[i].outcome;
        const double n = (double)seeds;
        sum.diverged |= one->diverged;
        sum.accuracy += one->accuracy / n;
        sum.loss += one->loss / n;
        sum.bytes += one->bytes_per_step / n;
        sum.smaller += one->compression_ratio / n;
        sum.seconds += one->seconds / n;
        sum.seconds_to_target += one->seconds_to_target / n;
        sum.bytes_to_target += one->bytes_to_target / n;
    }
    for (uint64_t i = 0; i < seeds; i++)
        squares += pow(members[i].outcome.accuracy - sum.accuracy, 2);
    sum.accuracy_spread = seeds > 1 ? sqrt(squares / (double)(seeds - 1)) : 0;
    return sum;
}

/* ---- two methods, seed by seed ---- */

/* The accuracies of a method's seeds, or its losses where targets are numbers. Returns 0 where a
 * seed diverged: there is nothing to compare then. */
static int values_of(const struct member *members, uint64_t seeds, int losses, double *out)
{
    int usable = 1;
    for (uint64_t i = 0; i < seeds; i++) {
        const struct outcome *const one = &members[i].outcome;
        out[i] = losses ? one->loss : one->accuracy;
        usable &= !one->diverged;
    }
    return usable;
}

/* Compares a method with the first one. Returns 0 where that is not possible. */
static int compare_with_first(const struct train_request *request, const struct member *members,
                              size_t method, struct paired *out)
{
    const uint64_t seeds = request->seeds;
    const int losses = !isfinite(members->outcome.accuracy);
    double *const values = calloc(2 * seeds, sizeof *values);
    int usable = values && seeds > 1 && method > 0;
    if (usable)
        usable = values_of(members + method * seeds, seeds, losses, values) &&
                 values_of(members, seeds, losses, values + seeds);
    if (usable)
        *out = paired_test(values, values + seeds, seeds);
    free(values);
    return usable;
}

/* A sentence for every method but the first: how it differs from the first. */
static void print_pairs(const struct train_request *request, const struct member *members,
                        size_t methods)
{
    const int losses = !isfinite(members->outcome.accuracy);
    const double unit = losses ? 1 : 100;
    for (size_t m = 1; m < methods; m++) {
        struct paired pair;
        if (!compare_with_first(request, members, m, &pair))
            continue;
        (void)printf("%s%s against %s, %llu seeds: %s %+.*f%s (95 %% interval %+.*f to %+.*f), "
                     "paired t-test p = %.2g: %s\n",
                     m == 1 ? "\n" : "", members[m * request->seeds].method, members->method,
                     (unsigned long long)request->seeds, losses ? "loss" : "accuracy",
                     losses ? 4 : 2, unit * pair.difference, losses ? "" : " points",
                     losses ? 4 : 2, unit * pair.low, losses ? 4 : 2, unit * pair.high, pair.p,
                     pair.p < 0.05 ? "they differ" : "no difference is shown");
    }
}

static void print_row(struct table *table, const struct train_request *request,
                      const struct member *members)
{
    const struct summary sum = summarize(members, request->seeds);
    table_cell(table, "%s", members->method);
    if (sum.diverged)
        table_cell(table, "diverged");
    else if (!isfinite(sum.accuracy)) /* targets are numbers */
        table_cell(table, "-");
    else if (request->seeds > 1)
        table_cell(table, "%.2f +- %.2f", 100 * sum.accuracy, 100 * sum.accuracy_spread);
    else
        table_cell(table, "%.2f", 100 * sum.accuracy);
    if (sum.diverged)
        table_cell(table, "-");
    else
        table_cell(table, "%.4f", sum.loss);
    table_cell(table, "%s", com_show_bytes(sum.bytes).text);
    if (sum.smaller > 0)
        table_cell(table, "%.1f", sum.smaller);
    else
        table_cell(table, "-");
    table_cell(table, "%.1f", sum.seconds);
    if (request->settings.target <= 0)
        return;
    if (isfinite(sum.seconds_to_target)) {
        table_cell(table, "%.1f", sum.seconds_to_target);
        table_cell(table, "%s", com_show_bytes(sum.bytes_to_target).text);
    } else {
        table_cell(table, "-");
        table_cell(table, "-");
    }
}

int compare_print(const struct train_request *request, const struct member *members, size_t methods)
{
    const int target = request->settings.target > 0;
    struct table *const table = table_create(target ? "lrrrrrrr" : "lrrrrr");
    if (!table)
        return msg_error(CLI_MACHINE, "out of memory");
    table_cell(table, "method");
    table_cell(table, "accuracy %%");
    table_cell(table, "loss");
    table_cell(table, "bytes/step");
    table_cell(table, "compression ratio");
    table_cell(table, "seconds");
    if (target) {
        table_cell(table, "s to %.1f %%", 100 * request->settings.target);
        table_cell(table, "bytes to it");
    }
    for (size_t i = 0; i < methods; i++)
        print_row(table, request, members + i * request->seeds);
    const int code = table_print(table, 0);
    print_pairs(request, members, methods);
    return code;
}

/* ---- JSON ---- */

static com_json *json_of_member(const struct member *member)
{
    const struct outcome *const one = &member->outcome;
    com_json *const item = com_json_object();
    com_json_put_text(item, "method", member->method);
    com_json_put_text(item, "folder", member->folder);
    com_json_put_u64(item, "seed", member->seed);
    com_json_put_text(item, "status", one->diverged ? "diverged" : "finished");
    com_json_put_real(item, "accuracy", one->accuracy);
    com_json_put_real(item, "loss", one->loss);
    com_json_put_real(item, "bytes_per_step", one->bytes_per_step);
    com_json_put_real(item, "compression_ratio", one->compression_ratio);
    com_json_put_real(item, "seconds", one->seconds);
    com_json_put_real(item, "seconds_to_target", one->seconds_to_target);
    com_json_put_real(item, "bytes_to_target", one->bytes_to_target);
    return item;
}

/* Means over the seeds, and how the method differs from the first. */
static com_json *json_of_method(const struct train_request *request, const struct member *members,
                                size_t method)
{
    const struct member *const own = members + method * request->seeds;
    const struct summary sum = summarize(own, request->seeds);
    struct paired pair;
    com_json *const item = com_json_object();
    com_json_put_text(item, "method", own->method);
    com_json_put_u64(item, "seeds", request->seeds);
    com_json_put_flag(item, "diverged", sum.diverged);
    com_json_put_real(item, "accuracy_mean", sum.accuracy);
    com_json_put_real(item, "accuracy_deviation", sum.accuracy_spread);
    com_json_put_real(item, "loss_mean", sum.loss);
    com_json_put_real(item, "bytes_per_step_mean", sum.bytes);
    com_json_put_real(item, "compression_ratio_mean", sum.smaller);
    com_json_put_real(item, "seconds_mean", sum.seconds);
    if (compare_with_first(request, members, method, &pair)) {
        com_json *const against = com_json_object();
        com_json_put_text(against, "against", members->method);
        com_json_put_real(against, "difference", pair.difference);
        com_json_put_real(against, "low", pair.low);
        com_json_put_real(against, "high", pair.high);
        com_json_put_real(against, "p", pair.p);
        com_json_put(item, "paired", against);
    }
    return item;
}

int compare_print_json(const struct train_request *request, const struct member *members,
                       size_t methods, com_json *tuned)
{
    com_json *const object = com_json_object();
    com_json *const all = com_json_array();
    com_json *const list = com_json_array();
    for (size_t m = 0; m < methods; m++)
        com_json_append(all, json_of_method(request, members, m));
    for (size_t i = 0; i < methods * request->seeds; i++)
        com_json_append(list, json_of_member(&members[i]));
    com_json_put_text(object, "model", request->settings.model);
    com_json_put_text(object, "data", request->settings.data);
    if (tuned)
        com_json_put(object, "tuned", tuned);
    com_json_put(object, "methods", all);
    com_json_put(object, "members", list);
    return msg_json(object);
}

/* ---- the page and the picture ---- */

void compare_draw(const struct train_request *request, const struct member *members, size_t methods)
{
    struct rep_chart_point *const points = calloc(methods + 1, sizeof *points);
    const struct rep_chart_style style = {.width = 80, .ascii = request->ascii};
    for (size_t i = 0; points && i < methods; i++) {
        const struct summary sum = summarize(members + i * request->seeds, request->seeds);
        points[i] =
            (struct rep_chart_point){members[i * request->seeds].method, sum.bytes, sum.accuracy};
    }
    char *const chart = points ? rep_chart_tradeoff(points, methods, &style) : NULL;
    if (chart)
        (void)printf("\n%s", chart);
    free(chart);
    free(points);
}

int compare_write_page(const struct train_request *request, const struct member *members,
                       size_t count)
{
    struct rep_run **const runs = calloc(count + 1, sizeof *runs);
    char path[4200];
    char *html = NULL;
    size_t len = 0;
    size_t read = 0;
    terse_fault fault;
    int code = CLI_OK;
    for (size_t i = 0; runs && i < count; i++)
        if (rep_run_read(members[i].folder, &runs[read], &fault) == TERSE_OK)
            read++;
    (void)snprintf(path, sizeof path, "%s/report.html", request->settings.out);
    if (!runs || rep_page_make(runs, read, NULL, 0, &html, &len) != TERSE_OK)
        code = msg_error(CLI_MACHINE, "compare: out of memory");
    else if (com_file_write(path, html, len, &fault) != TERSE_OK)
        code = msg_error(CLI_MACHINE, "compare: %s", fault.text);
    if (code == CLI_OK && !request->quiet)
        msg_note("page: %s", path);
    for (size_t i = 0; i < read; i++)
        rep_run_free(runs[i]);
    free(runs);
    free(html);
    return code;
}
