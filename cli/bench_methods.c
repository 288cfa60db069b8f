#include "bench_methods.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "common/json.h"
#include "common/number.h"
#include "machine.h"
#include "message.h"
#include "normal.h"

const struct bench_kind bench_methods_kind = {
    .name = "methods",
    .option = "method",
    .vectors = 13, /* gradient, weights, scratch; up to nine of a method's, and payloads */
    .counts = {25000000},
    .quick_counts = {65536},
};

struct report {
    struct method_row *rows;
    size_t row_count;
    double cpu_share;
};

static const char *const stage_names[TERSE_STAGES] = {
    [TERSE_STAGE_DIRECTION] = "direction", [TERSE_STAGE_ENCODE] = "encode",
    [TERSE_STAGE_WIRE] = "wire",           [TERSE_STAGE_GROUP] = "group",
    [TERSE_STAGE_COMBINE] = "combine",     [TERSE_STAGE_DECODE] = "decode",
    [TERSE_STAGE_UPDATE] = "update",
};

/* ---- as text ---- */

static void print_heading(void)
{
    printf("%s%-12s %-7s %3s %11s %7s | %9s %9s %7s | %s%s\n", msg_bold(stdout), "method",
           "kernels", "thr", "floats", "bits", "step ms", "limit ms", "x limit", "limit",
           msg_plain(stdout));
}

static void print_row(const struct method_row *row)
{
    printf("%-12s %-7s %3u %11s %7.3g | %9.3f %9.3f %7.2f | %s\n", row->job.spec, row->job.kernels,
           row->job.threads, com_show_count(row->job.count).text, row->payload_bits,
           1e3 * row->step.best, 1e3 * row->limit_seconds, row->step.best / row->limit_seconds,
           row->limit->text);
    fflush(stdout);
}

/* The row of a method with the settings of `like`, or NULL. */
static const struct method_row *row_beside(const struct report *report, const char *name,
                                           const struct method_row *like)
{
    for (size_t i = 0; i < report->row_count; i++) {
        const struct method_row *row = &report->rows[i];
        if (strcmp(row->name, name) == 0 && row->job.count == like->job.count &&
            row->job.threads == like->job.threads &&
            strcmp(row->job.kernels, like->job.kernels) == 0)
            return row;
    }
    return NULL;
}

static void print_legend(const struct report *report)
{
    for (size_t i = 0; i < report->row_count; i++) {
        const struct method_row *row = &report->rows[i];
        const struct method_row *plain = row_beside(report, "topk", row);
        if (strcmp(row->name, "regtopk") == 0 && plain) {
            printf("\n%s takes %.3f times the step of %s (%s, %u threads, %s floats).\n",
                   row->job.spec, row->step.best / plain->step.best, plain->job.spec,
                   row->job.kernels, row->job.threads, com_show_count(row->job.count).text);
        }
    }
    fputs("\nstep: one step of one worker, all of it. limit: the memory passes of its stages,\n"
          "each made once, measured in the same run between the steps. R reads a vector, W writes\n"
          "it, RW reads and writes it; `,` passes made together, `;` one after the other, `|`\n"
          "another stage. g gradient, x weights, m and v moments, e residual, e' the owner's, w\n"
          "the point, X the owner's weights in full; codes, halves, payload: those bytes. The\n"
          "first R g is the finite check. One worker is the owner of all elements; of K workers\n"
          "each owns one part in K. x limit: step over limit, both the fastest of the\n"
          "repetitions. Times are wall clock; for one thread alone and a million floats or more,\n"
          "CPU time.\n",
          stdout);
}

/* ---- as JSON ---- */

static com_json *row_json(const struct report *report, const struct method_row *row)
{
    com_json *object = com_json_object();
    com_json_put_text(object, "method", row->job.spec);
    com_json_put_text(object, "name", row->name);
    com_json_put_text(object, "spec", row->full);
    com_json_put_text(object, "kernels", row->job.kernels);
    com_json_put_u64(object, "threads", row->job.threads);
    com_json_put_u64(object, "count", row->job.count);
    com_json_put_u64(object, "workers", 1);
    com_json_put_u64(object, "repetitions", row->repetitions);
    com_json_put_text(object, "clock", bench_uses_cpu_clock(&row->job) ? "cpu" : "wall");
    com_json_put_real(object, "payload_bits", row->payload_bits);
    com_json_put_real(object, "step_seconds", row->step.best);
    com_json_put_real(object, "step_median_seconds", row->step.median);
    com_json_put_real(object, "step_over_limit", row->step.best / row->limit_seconds);
    com_json_put_text(object, "limit", row->limit->text);
    com_json_put_real(object, "limit_seconds", row->limit_seconds);
    com_json_put_real(object, "read_seconds", row->read.best);
    com_json_put_real(object, "write_seconds", row->write.best);
    com_json_put_real(object, "update_seconds", row->update.best);
    com_json *stages = com_json_object();
    for (int i = 0; i < TERSE_STAGES; i++)
        com_json_put_real(stages, stage_names[i], row->stage_seconds[i]);
    com_json_put(object, "stage_seconds", stages);
    const struct method_row *plain = row_beside(report, "topk", row);
    if (strcmp(row->name, "regtopk") == 0 && plain)
        com_json_put_real(object, "step_over_topk", row->step.best / plain->step.best);
    return object;
}

static int print_json(const struct report *report)
{
    char cpu[128];
    machine_cpu_name(cpu, sizeof cpu);
    com_json *top = com_json_object();
    com_json_put_text(top, "version", terse_version());
    com_json_put_text(top, "build", terse_build_options());
    com_json_put_text(top, "cpu", cpu);
    com_json_put_real(top, "cpu_share", report->cpu_share);
    com_json *rows = com_json_array();
    for (size_t i = 0; i < report->row_count; i++)
        com_json_append(rows, row_json(report, &report->rows[i]));
    com_json_put(top, "rows", rows);
    return msg_json(top);
}

/* ---- measuring ---- */

static int measure_methods(const struct bench_request *request,
                           const struct method_buffers *buffers, struct bench_job *job,
                           struct report *report)
{
    int code = CLI_OK;
    for (size_t i = 0; i < request->items.count && code == CLI_OK; i++) {
        struct method_row *row = &report->rows[report->row_count];
        job->spec = request->items.items[i];
        bench_progress(job);
        code = method_measure(buffers, job, row);
        bench_progress_done();
        report->row_count += code == CLI_OK;
        if (code == CLI_OK && !request->as_json)
            print_row(row);
    }
    return code;
}

static int measure_kernels(const struct bench_request *request,
                           const struct method_buffers *buffers, struct bench_job *job,
                           struct report *report)
{
    int code = bench_select_kernels(job->kernels);
    for (size_t t = 0; t < request->threads_count && code == CLI_OK; t++) {
        job->threads = (uint32_t)request->threads[t];
        code = measure_methods(request, buffers, job, report);
    }
    return code;
}

static int measure_all(const struct bench_request *request, const struct method_buffers *buffers,
                       struct report *report)
{
    int code = CLI_OK;
    double start = machine_seconds();
    double cpu_start = machine_cpu_seconds();
    if (!request->as_json)
        print_heading();
    for (size_t n = 0; n < request->count_count && code == CLI_OK; n++) {
        struct bench_job job = {.count = request->counts[n],
                                .seconds = request->seconds,
                                .wall = request->threads_count > 1};
        for (size_t l = 0; l < request->kernels.count && code == CLI_OK; l++) {
            job.kernels = request->kernels.items[l];
            code = measure_kernels(request, buffers, &job, report);
        }
    }
    report->cpu_share = (machine_cpu_seconds() - cpu_start) / (machine_seconds() - start);
    return code;
}

static int create_buffers(struct method_buffers *buffers, uint64_t count)
{
    uint64_t gradient = count + METHOD_SHIFTS * METHOD_LINE;
    buffers->gradient = machine_floats(gradient);
    buffers->weights = machine_floats(count);
    buffers->scratch = machine_floats(count);
    if (!buffers->gradient || !buffers->weights || !buffers->scratch) {
        return msg_error(CLI_MACHINE, "out of memory for three vectors of %s floats",
                         com_show_count(count).text);
    }
    normal_fill(buffers->gradient, (size_t)gradient, 1);
    return CLI_OK;
}

/* Every method, and qadam without quantized weights as well. */
static void name_all(struct bench_request *request)
{
    terse_method_about about;
    for (uint32_t i = 0; terse_method_list(i, &about) == TERSE_OK; i++) {
        if (request->items.count + 2 > LONGEST_LIST)
            return;
        request->items.items[request->items.count++] = about.name;
        if (strcmp(about.name, "qadam") == 0)
            request->items.items[request->items.count++] = "qadam:kx=0";
    }
}

static int measure_and_print(const struct bench_request *request,
                             const struct method_buffers *buffers)
{
    size_t most = request->count_count * request->kernels.count * request->threads_count *
                  request->items.count;
    struct report report = {.rows = calloc(most, sizeof *report.rows)};
    if (!report.rows)
        return msg_error(CLI_MACHINE, "out of memory");
    int code = measure_all(request, buffers, &report);
    if (code == CLI_OK)
        bench_note_busy(report.cpu_share);
    if (code == CLI_OK && request->as_json)
        code = print_json(&report);
    else if (code == CLI_OK)
        print_legend(&report);
    free(report.rows);
    return code;
}

int bench_methods(struct bench_request *request)
{
    uint64_t largest;
    struct method_buffers buffers = {0};
    if (request->items.count == 0)
        name_all(request);
    int code = bench_request_kernels(request);
    if (code == CLI_OK)
        code = bench_request_fit(request, &largest);
    if (code == CLI_OK)
        code = create_buffers(&buffers, largest);
    if (code == CLI_OK)
        code = measure_and_print(request, &buffers);
    free(buffers.gradient);
    free(buffers.weights);
    free(buffers.scratch);
    return code;
}
