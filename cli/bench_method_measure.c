/* One row of `terse bench methods`. The passes that make up the limit are measured between the
 * steps, on vectors of the same size, so that noise hits both alike. */
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "bench_methods.h"
#include "machine.h"
#include "message.h"
#include "method_bytes.h"
#include "normal.h"
#include "passes.h"

enum { LEAST_REPETITIONS = 4, MOST_REPETITIONS = 400, WARM_UPS = 3, SEED = 1, STEPS = 1000 };

enum clock { READ, WRITE, UPDATE, MOVE, TOUCH, STEP, CLOCKS };

struct stage {
    const struct method_buffers *buffers;
    const struct bench_job *job;
    const struct method_limit *limit;
    terse_method *method;
    terse_method_report report;
    uint64_t step;
    double stage_seconds[TERSE_STAGES];
    uint32_t *touched; /* random elements, sorted: those that a sparse payload changes */
    float *values;     /* their changes; a block is moved here */
    size_t touched_count;
    double samples[CLOCKS][MOST_REPETITIONS];
    uint32_t repetitions;
};

/* ---- one repetition ---- */

static terse_status step(struct stage *s, terse_fault *fault)
{
    size_t shift = (size_t)(s->step++ * 37 % METHOD_SHIFTS) * METHOD_LINE;
    return terse_method_step(s->method, s->buffers->gradient + shift, &s->report, fault);
}

/* The fastest time of every stage: other processes delay sometimes one, sometimes another. */
static void keep_fastest(struct stage *s)
{
    for (int i = 0; i < TERSE_STAGES; i++) {
        double seconds = 1e-9 * (double)s->report.exchange.nanoseconds[i];
        if (s->repetitions == 0 || seconds < s->stage_seconds[i])
            s->stage_seconds[i] = seconds;
    }
}

static void time_passes(struct stage *s, double seconds[CLOCKS])
{
    size_t count = (size_t)s->job->count;
    unsigned threads = s->job->threads;
    float *scratch = s->buffers->scratch;

    double start = bench_now(s->job);
    pass_read(s->buffers->gradient, count, threads);
    seconds[READ] = bench_now(s->job) - start;

    start = bench_now(s->job);
    pass_write(scratch, count, threads);
    seconds[WRITE] = bench_now(s->job) - start;

    start = bench_now(s->job);
    pass_update(scratch, count, threads);
    seconds[UPDATE] = bench_now(s->job) - start;

    start = bench_now(s->job);
    if (s->limit->block)
        pass_move(scratch, s->values, s->touched_count);
    seconds[MOVE] = bench_now(s->job) - start;

    start = bench_now(s->job);
    if (s->limit->touched)
        pass_scatter(scratch, s->touched, s->values, s->touched_count);
    seconds[TOUCH] = bench_now(s->job) - start;
}

static terse_status repeat(struct stage *s, terse_fault *fault)
{
    double seconds[CLOCKS];
    time_passes(s, seconds);
    double start = bench_now(s->job);
    terse_status status = step(s, fault);
    seconds[STEP] = bench_now(s->job) - start;
    keep_fastest(s);
    for (int i = 0; i < CLOCKS; i++)
        s->samples[i][s->repetitions] = seconds[i];
    s->repetitions++;
    return status;
}

static terse_status repeat_all(struct stage *s, terse_fault *fault)
{
    double end = machine_seconds() + s->job->seconds;
    terse_status status = TERSE_OK;
    for (int i = 0; i < WARM_UPS && status == TERSE_OK; i++)
        status = step(s, fault);
    while (status == TERSE_OK && s->repetitions < MOST_REPETITIONS &&
           (s->repetitions < LEAST_REPETITIONS || machine_seconds() < end))
        status = repeat(s, fault);
    return status;
}

/* ---- before and after ---- */

/* As many elements as the payload has, spread over the vector. */
static terse_status choose_touched(struct stage *s, const char *complete)
{
    double count = (double)s->job->count;
    double share = s->limit->block ? 1 / method_option(complete, "ratio", 1)
                                   : method_option(complete, "keep", 0);
    if (!s->limit->block && !s->limit->touched)
        return TERSE_OK;
    s->touched_count = (size_t)fmax(1, floor(share * count));
    s->touched = malloc(s->touched_count * sizeof *s->touched);
    s->values = machine_floats(s->touched_count);
    if (!s->touched || !s->values)
        return TERSE_NO_MEMORY;
    struct random random = {SEED};
    double gap = count / (double)s->touched_count;
    for (size_t i = 0; i < s->touched_count; i++) {
        double at = ((double)i + (1 - (double)random_uniform(&random))) * gap;
        s->touched[i] = (uint32_t)fmin(at, count - 1);
    }
    return TERSE_OK;
}

static terse_status make_stage(struct stage *s, terse_fault *fault)
{
    terse_layout *layout;
    terse_status status = bench_layout(s->job->count, &layout);
    if (status != TERSE_OK)
        return status;
    terse_method_options options = {
        .size = sizeof options, .seed = SEED, .steps = STEPS, .threads = s->job->threads};
    normal_fill(s->buffers->weights, (size_t)s->job->count, SEED + 1);
    status = terse_method_create_all(s->job->spec, 1, layout, &s->buffers->weights, &options,
                                     &s->method, fault);
    terse_layout_destroy(layout);
    if (status != TERSE_OK)
        return status;
    const char *why;
    s->limit = method_limit_of(terse_method_spec(s->method), &why);
    if (!s->limit) {
        snprintf(fault->text, sizeof fault->text, "%s", why);
        return TERSE_BAD_SPEC;
    }
    return choose_touched(s, terse_method_spec(s->method));
}

static void fill_row(struct stage *s, struct method_row *row)
{
    const struct method_limit *limit = s->limit;
    struct bench_time time[CLOCKS];
    for (int i = 0; i < CLOCKS; i++)
        time[i] = bench_summary(s->samples[i], s->repetitions);
    const char *complete = terse_method_spec(s->method);
    snprintf(row->name, sizeof row->name, "%s", limit->method);
    snprintf(row->full, sizeof row->full, "%s", complete);
    row->repetitions = s->repetitions;
    row->payload_bits = s->report.bits;
    row->step = time[STEP];
    row->read = time[READ];
    row->write = time[WRITE];
    row->update = time[UPDATE];
    memcpy(row->stage_seconds, s->stage_seconds, sizeof row->stage_seconds);
    double transfer = time[WRITE].best + time[READ].best; /* a vector written and read */
    double payload = row->payload_bits / 32;
    double back = (method_option(complete, "kx", 0) + 2) / 32;
    double block = (double)s->touched_count / (double)s->job->count;
    row->limit_seconds = limit->reads * time[READ].best + limit->writes * time[WRITE].best +
                         limit->updates * time[UPDATE].best +
                         (limit->payloads * payload + limit->back * back) * transfer +
                         (limit->block ? time[MOVE].best + block * time[UPDATE].best : 0) +
                         limit->touched * time[TOUCH].best;
}

int method_measure(const struct method_buffers *buffers, const struct bench_job *job,
                   struct method_row *out)
{
    terse_fault fault = {0};
    struct stage *s = calloc(1, sizeof *s);
    if (!s)
        return msg_error(CLI_MACHINE, "out of memory");
    s->buffers = buffers;
    s->job = job;
    terse_status status = make_stage(s, &fault);
    if (status == TERSE_OK)
        status = repeat_all(s, &fault);
    if (status == TERSE_OK) {
        *out = (struct method_row){.job = *job, .limit = s->limit};
        fill_row(s, out);
    }
    terse_method_destroy(s->method);
    free(s->touched);
    free(s->values);
    free(s);
    if (status != TERSE_OK) {
        char subject[256];
        snprintf(subject, sizeof subject, "method '%s'", job->spec);
        return msg_status(subject, status, &fault);
    }
    return CLI_OK;
}
