#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "command.h"
#include "common/file.h"
#include "common/json.h"
#include "common/launcher.h"
#include "common/number.h"
#include "compare_member.h"
#include "message.h"
#include "ranks.h"
#include "report/chart.h"
#include "report/report.h"
#include "table.h"
#include "train_progress.h"

static int run(int argc, char **argv);

const struct command cmd_compare = {
    .name = "compare",
    .summary = "train with several methods and compare the results",
    .usage = "terse compare --methods \"dense;signum;def:ratio=64\" [options]\n"
             "  mpirun -n 4 terse compare --methods \"...\" [options]",
    .help =
        "Trains with each method on the same data, order and seed, prints one table and writes\n"
        "one page. It continues where it stopped, and a member that has finished is not run\n"
        "again.\n\n"
        "Options\n",
    .options = compare_request_help,
    .notes =
        "\n"
        "With --target A the table also has the seconds and bytes to reach it. A member whose\n"
        "loss is not finite is listed as diverged, and the others continue. A signal ends it\n"
        "after a checkpoint, with the exit code of terse train: the same command continues from\n"
        "there.\n\n"
        "Examples\n"
        "  terse compare --methods \"dense;signum;def:ratio=64;regtopk:keep=0.01\"\n"
        "  terse compare --methods \"topk:keep=0.001;regtopk:keep=0.001\" --seeds 3 \\\n"
        "      --model resnet20 --data cifar10:DIR --workers 8\n",
    .run = run,
};

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

static int print_table(const struct train_request *request, const struct member *members,
                       size_t methods)
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
    return table_print(table, 0);
}

static int print_json(const struct train_request *request, const struct member *members,
                      size_t count)
{
    com_json *const object = com_json_object();
    com_json *const list = com_json_array();
    for (size_t i = 0; i < count; i++) {
        const struct outcome *const one = &members[i].outcome;
        com_json *const item = com_json_object();
        com_json_put_text(item, "method", members[i].method);
        com_json_put_text(item, "folder", members[i].folder);
        com_json_put_u64(item, "seed", members[i].seed);
        com_json_put_text(item, "status", one->diverged ? "diverged" : "finished");
        com_json_put_real(item, "accuracy", one->accuracy);
        com_json_put_real(item, "loss", one->loss);
        com_json_put_real(item, "bytes_per_step", one->bytes_per_step);
        com_json_put_real(item, "compression_ratio", one->compression_ratio);
        com_json_put_real(item, "seconds", one->seconds);
        com_json_put_real(item, "seconds_to_target", one->seconds_to_target);
        com_json_put_real(item, "bytes_to_target", one->bytes_to_target);
        com_json_append(list, item);
    }
    com_json_put_text(object, "model", request->settings.model);
    com_json_put_text(object, "data", request->settings.data);
    com_json_put(object, "members", list);
    return msg_json(object);
}

/* ---- the page and the picture ---- */

static void draw(const struct train_request *request, const struct member *members, size_t methods)
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

static int write_page(const struct train_request *request, const struct member *members,
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

/* ---- all members ---- */

static int compare(struct train_request *request, int is_root)
{
    struct member *members = NULL;
    struct progress *progress = NULL;
    size_t methods = 0;
    int code = members_make(request, &members, &methods);
    const size_t count = methods * request->seeds;
    if (!is_root)
        request->live_port = TRAIN_NOT_LIVE;
    if (code == CLI_OK)
        code = progress_start(request, &progress);
    for (size_t i = 0; i < count && code == CLI_OK; i++)
        code = member_run(request, &members[i], is_root, progress);
    progress_end(progress);
    if (code == CLI_OK && is_root) {
        code = request->json ? print_json(request, members, count)
                             : print_table(request, members, methods);
        if (code == CLI_OK && !request->json)
            draw(request, members, methods);
        if (code == CLI_OK)
            code = write_page(request, members, count);
    }
    free(members);
    return code;
}

static int run(int argc, char **argv)
{
    struct train_request request;
    terse_fault fault = {.rank = -1};
    const int launched = com_launched() > 0;
    int code = train_request_read(argc, argv, 1, &request);
    if (code != CLI_OK)
        return code;
    if (launched &&
        ranks_start(request.settings.timeout, &request.settings.group, &fault) != TERSE_OK)
        return msg_error(CLI_REFUSED, "compare: %s", fault.text);
    code = train_request_complete(&request);
    progress_catch_signals(&request, launched);
    if (code == CLI_OK)
        code = compare(&request, !launched || terse_group_rank(request.settings.group) == 0);
    train_request_free(&request);
    return ranks_end(request.settings.group, code);
}
