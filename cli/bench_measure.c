/* One row of `terse bench codecs`. The passes that make up the limit are measured between the
 * repetitions of encode and decode, on the same buffers, so that noise hits both alike. */
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "bench.h"
#include "common/number.h"
#include "machine.h"
#include "message.h"
#include "normal.h"
#include "passes.h"

enum { MOST_PASSES = 2, LEAST_REPETITIONS = 4, MOST_REPETITIONS = 400, SEED = 1 };

enum clock { READ, WRITE, UPDATE, ENCODE, DECODE, MOVE, TOUCH, CLOCKS };

/* The state of a row while it is measured. */
struct stage {
    const struct bench_buffers *buffers;
    const struct bench_job *job;
    const struct bench_limit *limit;
    terse_codec *codec;
    uint32_t passes;
    terse_rng_key key;
    unsigned char *payload[MOST_PASSES];
    size_t cap[MOST_PASSES];
    size_t len[MOST_PASSES];
    uint32_t *touched; /* the elements that decoding changes: BENCH_BLOCK and BENCH_SPARSE */
    float *values;     /* their changes */
    size_t touched_count;
    double *samples[CLOCKS];
    uint32_t repetitions;
};

int bench_buffers_create(struct bench_buffers *buffers, uint64_t count)
{
    *buffers = (struct bench_buffers){.count = count};
    buffers->source = machine_floats(count);
    buffers->residual = machine_floats(count);
    buffers->out = machine_floats(count);
    if (!buffers->source || !buffers->residual || !buffers->out) {
        bench_buffers_destroy(buffers);
        return msg_error(CLI_MACHINE, "out of memory for three vectors of %s floats",
                         com_show_count(count).text);
    }
    normal_fill(buffers->source, (size_t)count, SEED);
    return CLI_OK;
}

void bench_buffers_destroy(struct bench_buffers *buffers)
{
    free(buffers->source);
    free(buffers->residual);
    free(buffers->out);
    *buffers = (struct bench_buffers){0};
}

/* The CPU clock is a system call: too slow for calls of microseconds. */
static const uint64_t LEAST_FOR_CPU_CLOCK = 1000000;

int bench_uses_cpu_clock(const struct bench_job *job)
{
    return !job->wall && job->threads == 1 && job->count >= LEAST_FOR_CPU_CLOCK;
}

double bench_now(const struct bench_job *job)
{
    return bench_uses_cpu_clock(job) ? machine_cpu_seconds() : machine_seconds();
}

terse_status bench_layout(uint64_t count, terse_layout **out)
{
    uint64_t rows = (uint64_t)sqrt((double)count);
    while (rows > 1 && count % rows != 0)
        rows--;
    uint64_t dims[2] = {rows, count / (rows == 0 ? 1 : rows)};
    terse_status status = terse_layout_create(out);
    if (status == TERSE_OK) {
        status = terse_layout_add(*out, "bench", 2, dims);
        if (status != TERSE_OK)
            terse_layout_destroy(*out);
    }
    return status;
}

static terse_status encode(struct stage *s)
{
    terse_status status = TERSE_OK;
    for (uint32_t pass = 0; pass < s->passes && status == TERSE_OK; pass++) {
        status = s->limit->takes
                     ? terse_codec_encode_take(s->codec, pass, &s->key, s->buffers->residual,
                                               s->payload[pass], s->cap[pass], &s->len[pass])
                     : terse_codec_encode(s->codec, pass, &s->key, s->buffers->residual,
                                          s->payload[pass], s->cap[pass], &s->len[pass]);
        /* A worker decodes the aggregate of a pass before it encodes the next: part of encoding. */
        if (status == TERSE_OK && pass + 1 < s->passes) {
            status = terse_codec_decode_add(s->codec, pass, &s->key, s->payload[pass], s->len[pass],
                                            s->buffers->out, NULL);
        }
    }
    return status;
}

static terse_status decode(struct stage *s)
{
    uint32_t pass = s->passes - 1;
    return terse_codec_decode_add(s->codec, pass, &s->key, s->payload[pass], s->len[pass],
                                  s->buffers->out, NULL);
}

static void refill(struct stage *s)
{
    memcpy(s->buffers->residual, s->buffers->source, (size_t)s->job->count * sizeof(float));
}

/* Finds the elements that decoding changes, by decoding onto zeros. */
static terse_status find_touched(struct stage *s)
{
    size_t count = (size_t)s->job->count;
    float *out = s->buffers->out;
    memset(out, 0, count * sizeof *out);
    terse_status status = decode(s);
    if (status != TERSE_OK)
        return status;
    size_t found = 0;
    for (size_t i = 0; i < count; i++)
        found += out[i] != 0;
    free(s->touched);
    free(s->values);
    s->touched = malloc((found + 1) * sizeof *s->touched);
    s->values = malloc((found + 1) * sizeof *s->values);
    if (!s->touched || !s->values)
        return TERSE_NO_MEMORY;
    s->touched_count = 0;
    for (size_t i = 0; i < count; i++) {
        if (out[i] != 0) {
            s->touched[s->touched_count] = (uint32_t)i;
            s->values[s->touched_count++] = out[i];
        }
    }
    return TERSE_OK;
}

static int is_one_run(const struct stage *s)
{
    size_t last = s->touched_count - 1;
    return s->touched_count > 0 && s->touched[last] - s->touched[0] == last;
}

/* First calls: they page in the payload and find the elements changed. A block that wraps around
 * the end is avoided, so that its limit is one run. */
static terse_status warm_up(struct stage *s)
{
    terse_status status;
    do {
        refill(s);
        status = encode(s);
        if (status == TERSE_OK)
            status = s->limit->reach == BENCH_WHOLE ? decode(s) : find_touched(s);
        s->key.step++;
    } while (status == TERSE_OK && s->limit->reach == BENCH_BLOCK && !is_one_run(s));
    s->key.step--;
    return status;
}

/* The passes over the whole vector, and the one over the elements changed. */
static void time_passes(struct stage *s, double seconds[CLOCKS])
{
    size_t count = (size_t)s->job->count;
    unsigned threads = s->job->threads;
    float *out = s->buffers->out;

    refill(s);
    double start = bench_now(s->job);
    pass_read(s->buffers->residual, count, threads);
    seconds[READ] = bench_now(s->job) - start;

    start = bench_now(s->job);
    pass_write(out, count, threads);
    seconds[WRITE] = bench_now(s->job) - start;

    start = bench_now(s->job);
    if (s->limit->reach == BENCH_SPARSE) {
        pass_scatter(out, s->touched, s->values, s->touched_count);
    } else if (s->limit->reach == BENCH_BLOCK) {
        /* down to the cache line where the block begins */
        pass_update(out + s->touched[0] / 16 * 16, s->touched_count, threads);
    }
    seconds[TOUCH] = bench_now(s->job) - start;

    start = bench_now(s->job);
    pass_update(out, count, threads);
    seconds[UPDATE] = bench_now(s->job) - start;

    if (s->limit->reach == BENCH_BLOCK) {
        start = bench_now(s->job);
        pass_move(s->buffers->residual + s->touched[0], s->values, s->touched_count);
        seconds[MOVE] = bench_now(s->job) - start;
    }
}

static terse_status repeat(struct stage *s, double seconds[CLOCKS])
{
    time_passes(s, seconds);
    refill(s);
    double start = bench_now(s->job);
    terse_status status = encode(s);
    seconds[ENCODE] = bench_now(s->job) - start;
    if (status != TERSE_OK)
        return status;
    pass_write(s->buffers->out, (size_t)s->job->count, s->job->threads);
    start = bench_now(s->job);
    status = decode(s);
    seconds[DECODE] = bench_now(s->job) - start;
    return status;
}

static terse_status repeat_all(struct stage *s)
{
    double end = machine_seconds() + s->job->seconds;
    while (s->repetitions < MOST_REPETITIONS &&
           (s->repetitions < LEAST_REPETITIONS || machine_seconds() < end)) {
        double seconds[CLOCKS] = {0};
        terse_status status = repeat(s, seconds);
        if (status != TERSE_OK)
            return status;
        for (int i = 0; i < CLOCKS; i++)
            s->samples[i][s->repetitions] = seconds[i];
        s->repetitions++;
    }
    return TERSE_OK;
}

static int ascending(const void *one, const void *other)
{
    double a = *(const double *)one;
    double b = *(const double *)other;
    return (a > b) - (a < b);
}

struct bench_time bench_summary(double *samples, size_t count)
{
    qsort(samples, count, sizeof *samples, ascending);
    return (struct bench_time){.best = samples[0], .median = samples[count / 2]};
}

static struct bench_time summary(const struct stage *s, enum clock which)
{
    return bench_summary(s->samples[which], s->repetitions);
}

static void fill_row(const struct stage *s, struct bench_row *row)
{
    const struct bench_limit *limit = s->limit;
    row->repetitions = s->repetitions;
    row->encode = summary(s, ENCODE);
    row->decode = summary(s, DECODE);
    row->read = summary(s, READ);
    row->write = summary(s, WRITE);
    row->update = summary(s, UPDATE);
    for (uint32_t pass = 0; pass < s->passes; pass++)
        row->payload_len += s->len[pass];
    double dense = (double)s->job->count * sizeof(float);
    double share = (double)row->payload_len / dense;
    double touch = summary(s, TOUCH).best;
    row->encode_limit = limit->reads * row->read.best + limit->updates * row->update.best +
                        (limit->payload_written ? share * row->write.best : 0) +
                        (limit->reach == BENCH_BLOCK ? summary(s, MOVE).best : 0);
    /* A sparse pass reads indices and values itself; the others read the payload on top. */
    row->decode_limit = limit->reach == BENCH_SPARSE  ? touch
                        : limit->reach == BENCH_BLOCK ? touch + share * row->read.best
                                                      : row->update.best + share * row->read.best;
}

static terse_status make_stage(struct stage *s, terse_fault *fault)
{
    terse_layout *layout;
    terse_status status = bench_layout(s->job->count, &layout);
    if (status != TERSE_OK)
        return status;
    terse_codec_options options = {.threads = s->job->threads};
    status = terse_codec_create(s->job->spec, layout, &options, &s->codec, fault);
    terse_layout_destroy(layout);
    if (status != TERSE_OK)
        return status;
    terse_codec_about about;
    terse_codec_describe(s->codec, &about);
    s->passes = about.passes;
    s->limit = bench_limit_of(&about);
    if (!s->limit || s->passes > MOST_PASSES) {
        snprintf(fault->text, sizeof fault->text,
                 "codec %s: cli/bench_limits.c has no memory limit for it", about.name);
        return TERSE_UNSUPPORTED;
    }
    for (uint32_t pass = 0; pass < s->passes; pass++) {
        s->cap[pass] = terse_codec_payload_bound(s->codec, pass);
        s->payload[pass] = malloc(s->cap[pass] + 1);
        status = !s->payload[pass] ? TERSE_NO_MEMORY : status;
    }
    for (int i = 0; i < CLOCKS; i++) {
        s->samples[i] = calloc(MOST_REPETITIONS, sizeof(double));
        status = !s->samples[i] ? TERSE_NO_MEMORY : status;
    }
    return status;
}

static void destroy_stage(struct stage *s)
{
    for (int i = 0; i < CLOCKS; i++)
        free(s->samples[i]);
    for (int pass = 0; pass < MOST_PASSES; pass++)
        free(s->payload[pass]);
    free(s->touched);
    free(s->values);
    terse_codec_destroy(s->codec);
}

int bench_measure(const struct bench_buffers *buffers, const struct bench_job *job,
                  struct bench_row *out)
{
    struct stage stage = {.buffers = buffers, .job = job, .key = {.seed = SEED}};
    terse_fault fault = {0};
    terse_status status = make_stage(&stage, &fault);
    if (status == TERSE_OK)
        status = warm_up(&stage);
    if (status == TERSE_OK)
        status = repeat_all(&stage);
    if (status == TERSE_OK) {
        *out = (struct bench_row){.job = *job, .limit = stage.limit};
        terse_codec_about about;
        terse_codec_describe(stage.codec, &about);
        snprintf(out->name, sizeof out->name, "%s", about.name);
        snprintf(out->full, sizeof out->full, "%s", terse_codec_spec(stage.codec));
        fill_row(&stage, out);
    }
    destroy_stage(&stage);
    if (status != TERSE_OK) {
        char subject[256];
        snprintf(subject, sizeof subject, "codec '%s'", job->spec);
        return msg_status(subject, status, &fault);
    }
    return CLI_OK;
}

int bench_select_kernels(const char *kernels)
{
    terse_fault fault = {0};
    terse_status status = terse_kernel_set_select(kernels, &fault);
    if (status == TERSE_OK)
        return CLI_OK;
    msg_error(CLI_USAGE, "kernels '%s': %s", kernels,
              fault.text[0] != '\0' ? fault.text : terse_status_text(status));
    return status == TERSE_BAD_ARGUMENT ? CLI_USAGE : CLI_REFUSED;
}
