#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <terse/terse.h>

#include "bench.h"
#include "bench_methods.h"
#include "bench_request.h"
#include "command.h"
#include "common/json.h"
#include "machine.h"
#include "message.h"

static int run(int argc, char **argv);

const struct command cmd_bench = {
    .name = "bench",
    .summary = "measure codecs and methods against the speed of memory",
    .usage = "terse bench codecs [options]\n  terse bench methods [options]",
    .help =
        "For every codec and size: encode and decode time, GB/s, and the ratio to the codec's\n"
        "memory limit: the time of the memory passes it cannot avoid, measured in the same run.\n"
        "The input is normal floats. For every method: the same of one step of one worker. The\n"
        "definition of each limit is printed.\n\n"
        "Options\n"
        "  --codec SPEC ...   codecs to measure; default one or more of each\n"
        "  --method SPEC ...  methods to measure; default all\n"
        "  --count N ...      sizes in floats (64k, 25M); default 65536 (fits the second cache),\n"
        "                     25M and 100M for codecs, 25M for methods\n"
        "  --threads N ...    default 1; with several, a table of scaling follows\n"
        "  --kernels SET ...  kernel sets, or 'all'; default the one in use (`terse info`)\n"
        "  --seconds S        time for each row; default 1.5\n"
        "  --quick            65536 and 4M floats, methods 65536, a tenth of a second each: too\n"
        "                     short for a reliable measurement\n"
        "  --json             print {\"rows\": [...]}\n"
        "  --plugin FILE      codecs of your own for SPECs: a .so or .py file, or several "
        "separated\n"
        "                     by commas\n\n"
        "A list may be given as `--count 64k 25M`; numbers and kernel sets also as `--count "
        "64k,25M`.\n\n"
        "Examples\n"
        "  terse bench codecs --count 25M\n"
        "  terse bench codecs --codec topk:keep=0.01 topk:keep=0.001 --threads 1 2\n"
        "  terse bench codecs --kernels all --quick --json\n"
        "  terse bench methods --method topk regtopk def:ratio=256\n",
    .run = run,
};

struct report {
    struct bench_row *rows;
    size_t row_count;
    struct bench_row *frames;
    size_t frame_count;
    double cpu_share; /* CPU time of this process over the time that passed */
};

static int measure_codecs(const struct bench_request *request, const struct bench_buffers *buffers,
                          struct bench_job *job, struct report *report)
{
    int code = CLI_OK;
    for (size_t c = 0; c < request->items.count && code == CLI_OK; c++) {
        struct bench_row *row = &report->rows[report->row_count];
        job->spec = request->items.items[c];
        bench_progress(job);
        code = bench_measure(buffers, job, row);
        bench_progress_done();
        report->row_count += code == CLI_OK;
        if (code == CLI_OK && !request->as_json)
            bench_print_row(row);
    }
    return code;
}

static int measure_frame(const struct bench_request *request, const struct bench_buffers *buffers,
                         const struct bench_job *job, struct report *report)
{
    struct bench_row *row = &report->frames[report->frame_count];
    int code = bench_measure_frame(buffers, job, row);
    report->frame_count += code == CLI_OK;
    if (code == CLI_OK && !request->as_json)
        bench_print_row(row);
    return code;
}

static int measure_kernels(const struct bench_request *request, const struct bench_buffers *buffers,
                           struct bench_job *job, struct report *report)
{
    int code = bench_select_kernels(job->kernels);
    for (size_t t = 0; t < request->threads_count && code == CLI_OK; t++) {
        job->threads = (uint32_t)request->threads[t];
        code = measure_codecs(request, buffers, job, report);
    }
    return code;
}

static int measure_all(const struct bench_request *request, const struct bench_buffers *buffers,
                       struct report *report)
{
    int code = CLI_OK;
    double start = machine_seconds();
    double cpu_start = machine_cpu_seconds();
    if (!request->as_json)
        bench_print_heading();
    for (size_t n = 0; n < request->count_count && code == CLI_OK; n++) {
        struct bench_job job = {.count = request->counts[n],
                                .seconds = request->seconds,
                                .wall = request->threads_count > 1};
        for (size_t l = 0; l < request->kernels.count && code == CLI_OK; l++) {
            job.kernels = request->kernels.items[l];
            code = measure_kernels(request, buffers, &job, report);
        }
        if (code == CLI_OK) {
            job.kernels = "-"; /* xxHash has kernel sets of its own */
            job.threads = 1;
            code = measure_frame(request, buffers, &job, report);
        }
    }
    report->cpu_share = (machine_cpu_seconds() - cpu_start) / (machine_seconds() - start);
    if (code == CLI_OK)
        bench_note_busy(report->cpu_share);
    return code;
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
    com_json_put(top, "limits", bench_limits_json());
    com_json *rows = com_json_array();
    for (size_t i = 0; i < report->row_count; i++)
        com_json_append(rows, bench_row_json(&report->rows[i]));
    com_json_put(top, "rows", rows);
    com_json *frames = com_json_array();
    for (size_t i = 0; i < report->frame_count; i++)
        com_json_append(frames, bench_row_json(&report->frames[i]));
    com_json_put(top, "frame", frames);
    return msg_json(top);
}

static int bench_codecs(struct bench_request *request)
{
    uint64_t largest;
    int code = bench_request_kernels(request);
    if (code == CLI_OK)
        code = bench_request_fit(request, &largest);
    struct bench_buffers buffers = {0};
    if (code == CLI_OK)
        code = bench_buffers_create(&buffers, largest);
    if (code != CLI_OK)
        return code;
    size_t most = request->count_count * request->kernels.count * request->threads_count *
                  request->items.count;
    struct report report = {0};
    report.rows = calloc(most, sizeof *report.rows);
    report.frames = calloc(request->count_count, sizeof *report.frames);
    if (!report.rows || !report.frames)
        code = msg_error(CLI_MACHINE, "out of memory");
    else
        code = measure_all(request, &buffers, &report);
    if (code == CLI_OK && request->as_json) {
        code = print_json(&report);
    } else if (code == CLI_OK) {
        bench_print_scaling(report.rows, report.row_count);
        bench_print_legend();
    }
    free(report.rows);
    free(report.frames);
    bench_buffers_destroy(&buffers);
    return code;
}

static int run(int argc, char **argv)
{
    int codecs = argc >= 2 && strcmp(argv[1], "codecs") == 0;
    int methods = argc >= 2 && strcmp(argv[1], "methods") == 0;
    if (!codecs && !methods) {
        return msg_usage("bench", argc < 2 ? "what to measure is missing: codecs or methods"
                                           : "only codecs or methods can be measured");
    }
    struct bench_request request = {.kind = codecs ? &bench_codecs_kind : &bench_methods_kind};
    argv[1] = argv[0];
    int code = bench_request_read(&request, argc - 1, argv + 1);
    if (code != CLI_OK)
        return code;
    return codecs ? bench_codecs(&request) : bench_methods(&request);
}
