#include <stdio.h>
#include <string.h>
#include <unistd.h>

#include "bench.h"
#include "common/json.h"
#include "common/number.h"
#include "message.h"

static double gb_per_second(const struct bench_row *row, double seconds)
{
    return (double)row->job.count * sizeof(float) / seconds * 1e-9;
}

/* Less than this, and other processes have disturbed the measurement. */
static const double LEAST_CPU_SHARE = 0.95;

void bench_note_busy(double share)
{
    if (share < LEAST_CPU_SHARE) {
        msg_note("terse: the machine was busy with other work: this process ran for %.0f %% of the "
                 "time only. Repeat on a quiet one.",
                 100 * share);
    }
}

void bench_progress(const struct bench_job *job)
{
    if (isatty(STDERR_FILENO)) {
        fprintf(stderr, "\r\033[K%s, %s, %s floats, %u threads\r", job->spec, job->kernels,
                com_show_count(job->count).text, job->threads);
    }
}

void bench_progress_done(void)
{
    if (isatty(STDERR_FILENO))
        fputs("\r\033[K", stderr);
}

void bench_print_heading(void)
{
    printf("%s%-20s %-7s %3s %11s %9s | %9s %6s %7s  %-13s | %9s %6s %7s  %-21s | %6s%s\n",
           msg_bold(stdout), "codec", "kernels", "thr", "floats", "payload", "encode ms", "GB/s",
           "x limit", "limit", "decode ms", "GB/s", "x limit", "limit", "R GB/s",
           msg_plain(stdout));
}

void bench_print_row(const struct bench_row *row)
{
    printf(
        "%-20s %-7s %3u %11s %9s | %9.3f %6.2f %7.2f  %-13s | %9.3f %6.2f %7.2f  %-21s | %6.2f\n",
        row->job.spec, row->job.kernels, row->job.threads, com_show_count(row->job.count).text,
        com_show_bytes((double)row->payload_len).text, 1e3 * row->encode.best,
        gb_per_second(row, row->encode.best), row->encode.best / row->encode_limit,
        row->limit->encode, 1e3 * row->decode.best, gb_per_second(row, row->decode.best),
        row->decode.best / row->decode_limit, row->limit->decode,
        gb_per_second(row, row->read.best));
    fflush(stdout);
}

static int same_but_threads(const struct bench_row *one, const struct bench_row *other)
{
    return one->job.count == other->job.count && strcmp(one->job.spec, other->job.spec) == 0 &&
           strcmp(one->job.kernels, other->job.kernels) == 0;
}

/* One line per row with more threads than another row that is otherwise the same. */
void bench_print_scaling(const struct bench_row *rows, size_t row_count)
{
    int heading = 0;
    for (size_t i = 0; i < row_count; i++) {
        for (size_t j = 0; j < row_count; j++) {
            const struct bench_row *one = &rows[i];
            const struct bench_row *more = &rows[j];
            if (one->job.threads != 1 || more->job.threads == 1 || !same_but_threads(one, more))
                continue;
            if (!heading++) {
                printf("\n%s%-20s %-7s %11s  threads  %-19s %7s %7s%s\n", msg_bold(stdout),
                       "times faster", "kernels", "floats", "reading alone", "encode", "decode",
                       msg_plain(stdout));
            }
            printf("%-20s %-7s %11s  1 to %-2u  %-19.2f %7.2f %7.2f\n", one->job.spec,
                   one->job.kernels, com_show_count(one->job.count).text, more->job.threads,
                   one->read.best / more->read.best, one->encode.best / more->encode.best,
                   one->decode.best / more->decode.best);
        }
    }
}

void bench_print_legend(void)
{
    fputs("\nlimit: the memory passes that the codec cannot avoid, measured in the same run, "
          "between\n"
          "the repetitions, with the same buffers, size and threads. R reads the vector, W writes\n"
          "it, RW reads and writes it; codes, payload: those bytes written, read. x limit: time\n"
          "over limit, both the fastest of the repetitions. GB/s: float32 bytes of the vector.\n"
          "Times are wall clock; for one thread alone and a million floats or more, CPU time.\n",
          stdout);
    printf("Encoding includes subtracting from the residual (encode_take) for:");
    for (size_t i = 0; i < bench_limit_count; i++)
        if (bench_limits[i].takes)
            printf(" %s", bench_limits[i].codec);
    printf(".\n");
}

com_json *bench_row_json(const struct bench_row *row)
{
    com_json *object = com_json_object();
    com_json_put_text(object, "codec", row->job.spec);
    com_json_put_text(object, "name", row->name);
    com_json_put_text(object, "spec", row->full);
    com_json_put_text(object, "kernels", row->job.kernels);
    com_json_put_u64(object, "threads", row->job.threads);
    com_json_put_u64(object, "count", row->job.count);
    com_json_put_u64(object, "payload_bytes", row->payload_len);
    com_json_put_u64(object, "repetitions", row->repetitions);
    com_json_put_text(object, "clock", bench_uses_cpu_clock(&row->job) ? "cpu" : "wall");
    com_json_put_text(object, "encode_call", row->limit->takes ? "encode_take" : "encode");
    com_json_put_real(object, "encode_seconds", row->encode.best);
    com_json_put_real(object, "decode_seconds", row->decode.best);
    if (row->encode.median > 0) {
        com_json_put_real(object, "encode_median_seconds", row->encode.median);
        com_json_put_real(object, "decode_median_seconds", row->decode.median);
    }
    com_json_put_real(object, "encode_gbps", gb_per_second(row, row->encode.best));
    com_json_put_real(object, "decode_gbps", gb_per_second(row, row->decode.best));
    com_json_put_text(object, "encode_limit", row->limit->encode);
    com_json_put_text(object, "decode_limit", row->limit->decode);
    com_json_put_real(object, "encode_limit_seconds", row->encode_limit);
    com_json_put_real(object, "decode_limit_seconds", row->decode_limit);
    com_json_put_real(object, "encode_over_limit", row->encode.best / row->encode_limit);
    com_json_put_real(object, "decode_over_limit", row->decode.best / row->decode_limit);
    com_json_put_real(object, "read_seconds", row->read.best);
    com_json_put_real(object, "write_seconds", row->write.best);
    com_json_put_real(object, "update_seconds", row->update.best);
    com_json_put_real(object, "read_gbps", gb_per_second(row, row->read.best));
    return object;
}

com_json *bench_limits_json(void)
{
    com_json *list = com_json_array();
    for (size_t i = 0; i < bench_limit_count; i++) {
        com_json *object = com_json_object();
        com_json_put_text(object, "codec", bench_limits[i].codec);
        com_json_put_text(object, "encode", bench_limits[i].encode);
        com_json_put_text(object, "decode", bench_limits[i].decode);
        com_json_append(list, object);
    }
    return list;
}
