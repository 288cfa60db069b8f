#include <getopt.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <terse/terse.h>

#include "codec_specs.h"
#include "command.h"
#include "common/number.h"
#include "gradient.h"
#include "machine.h"
#include "message.h"
#include "table.h"

enum { STEPS = 4 };

static int run(int argc, char **argv);

const struct command cmd_demo = {
    .name = "demo",
    .summary = "every codec on a synthetic gradient",
    .usage = "terse demo",
    .help =
        "Makes a gradient of 6.5 million elements in eleven tensors, with layers of different\n"
        "scale, heavy tails and a part that stays from step to step. Encodes and decodes four\n"
        "steps of it with each codec, with error feedback where the codec allows it, and prints\n"
        "bytes and errors. Takes a few seconds and needs no files.\n",
    .run = run,
};

/* Roughly by size; other codecs follow. */
static const char *const chosen[] = {
    "f32",
    "bf16",
    "f16",
    "natural",
    "uniform:bits=8",
    "uniform:bits=4",
    "uniform:bits=2",
    "nearest",
    "log",
    "sign",
    "scaled-sign",
    "low-rank:rank=4",
    "block:ratio=64",
    "topk:keep=0.01",
    "topk:keep=0.001,values=f16",
};

/* The results of one codec. */
struct outcome {
    size_t bytes; /* frames of one step, without the layout */
    double first_error;
    double kept; /* error of the sum of all steps */
    double encode_seconds;
    double decode_seconds;
    uint32_t traits;
    char name[32];
};

struct demo {
    terse_layout *layout;
    size_t count;
    float *gradient[STEPS];
    float *residual;
    float *decoded; /* in this step */
    float *total;   /* in all steps */
};

static void add(float *to, const float *what, size_t count)
{
    for (size_t i = 0; i < count; i++)
        to[i] += what[i];
}

/* |a - b| / |a| */
static double distance(const float *a, const float *b, size_t count)
{
    double difference = 0;
    double norm = 0;
    for (size_t i = 0; i < count; i++) {
        double d = (double)a[i] - (double)b[i];
        difference += d * d;
        norm += (double)a[i] * (double)a[i];
    }
    return sqrt(difference / norm);
}

/* All passes of a step: from `residual` (or the gradient, without error feedback) to `decoded`. */
static terse_status run_step(const struct demo *demo, terse_codec *codec, unsigned step,
                             unsigned char *payload, struct outcome *outcome)
{
    terse_codec_about about;
    terse_codec_describe(codec, &about);
    terse_rng_key key = {.seed = 1, .step = step};
    double encoding = 0;
    double decoding = 0;
    outcome->bytes = 0;
    memset(demo->decoded, 0, demo->count * sizeof(float));
    for (uint32_t pass = 0; pass < about.passes; pass++) {
        size_t cap = terse_codec_payload_bound(codec, pass);
        size_t len;
        double start = machine_seconds();
        terse_status status =
            about.traits & TERSE_CODEC_CONTRACTIVE
                ? terse_codec_encode_take(codec, pass, &key, demo->residual, payload, cap, &len)
                : terse_codec_encode(codec, pass, &key, demo->gradient[step], payload, cap, &len);
        encoding += machine_seconds() - start;
        if (status != TERSE_OK)
            return status;
        start = machine_seconds();
        status = terse_codec_decode_add(codec, pass, &key, payload, len, demo->decoded, NULL);
        decoding += machine_seconds() - start;
        if (status != TERSE_OK)
            return status;
        outcome->bytes += terse_frame_len(codec, len, 0);
    }
    if (step == 0 || encoding < outcome->encode_seconds)
        outcome->encode_seconds = encoding;
    if (step == 0 || decoding < outcome->decode_seconds)
        outcome->decode_seconds = decoding;
    return TERSE_OK;
}

static terse_status run_steps(const struct demo *demo, terse_codec *codec, struct outcome *outcome)
{
    terse_codec_about about;
    terse_codec_describe(codec, &about);
    outcome->traits = about.traits;
    snprintf(outcome->name, sizeof outcome->name, "%s", about.name);
    size_t cap = 1;
    for (uint32_t pass = 0; pass < about.passes; pass++) {
        size_t bound = terse_codec_payload_bound(codec, pass);
        cap = bound > cap ? bound : cap;
    }
    unsigned char *payload = malloc(cap);
    terse_status status = !payload ? TERSE_NO_MEMORY : TERSE_OK;
    memset(demo->residual, 0, demo->count * sizeof(float));
    memset(demo->total, 0, demo->count * sizeof(float));
    for (unsigned step = 0; step < STEPS && status == TERSE_OK; step++) {
        add(demo->residual, demo->gradient[step], demo->count);
        status = run_step(demo, codec, step, payload, outcome);
        if (step == 0)
            outcome->first_error = distance(demo->gradient[0], demo->decoded, demo->count);
        add(demo->total, demo->decoded, demo->count);
    }
    free(payload);
    memset(demo->residual, 0, demo->count * sizeof(float));
    for (unsigned step = 0; step < STEPS; step++)
        add(demo->residual, demo->gradient[step], demo->count);
    outcome->kept = distance(demo->residual, demo->total, demo->count);
    return status;
}

static int try_codec(const struct demo *demo, const char *spec, struct outcome *outcome)
{
    terse_codec *codec;
    terse_fault fault = {0};
    terse_status status = terse_codec_create(spec, demo->layout, NULL, &codec, &fault);
    if (status == TERSE_OK) {
        status = run_steps(demo, codec, outcome);
        terse_codec_destroy(codec);
    }
    return status == TERSE_OK ? CLI_OK : msg_status(spec, status, &fault);
}

static void percent_cell(struct table *table, double share)
{
    double percent = 100 * share;
    table_cell(table, percent >= 10 ? "%.0f %%" : "%.2g %%", percent);
}

static void table_row(struct table *table, const char *spec, const struct outcome *outcome,
                      size_t count)
{
    table_cell(table, "%s", spec);
    table_cell(table, "%s", com_show_count(outcome->bytes).text);
    table_cell(table, "%.1f", (double)count * sizeof(float) / (double)outcome->bytes);
    if (strcmp(outcome->name, "sign") == 0) {
        table_cell(table, "signs only");
        table_cell(table, "-");
    } else {
        percent_cell(table, outcome->first_error);
        percent_cell(table, outcome->kept);
    }
    table_cell(table, "%s", outcome->traits & TERSE_CODEC_CONTRACTIVE ? "yes" : "no");
    table_cell(table, "%.1f", 1e3 * outcome->encode_seconds);
    table_cell(table, "%.1f", 1e3 * outcome->decode_seconds);
}

static int print_outcomes(const struct demo *demo)
{
    struct table *table = table_create("lrrrrlrr");
    static const char *const headings[] = {"codec",         "bytes per step", "compression ratio",
                                           "error, 1 step", "error, 4 steps", "residual",
                                           "encode ms",     "decode ms"};
    for (size_t i = 0; i < 8; i++)
        table_cell(table, "%s", headings[i]);
    const char *specs[MAX_CODEC_SPECS];
    const size_t spec_count = codec_specs(chosen, sizeof chosen / sizeof chosen[0], specs);
    for (size_t i = 0; i < spec_count; i++) {
        struct outcome outcome = {0};
        int code = try_codec(demo, specs[i], &outcome);
        if (code != CLI_OK)
            return code;
        table_row(table, specs[i], &outcome, demo->count);
    }
    return table_print(table, 0);
}

static int prepare(struct demo *demo)
{
    terse_status status = gradient_layout(&demo->layout);
    if (status != TERSE_OK)
        return msg_status("layout", status, NULL);
    demo->count = (size_t)terse_layout_count(demo->layout);
    float **buffers[] = {&demo->residual, &demo->decoded, &demo->total};
    for (size_t i = 0; i < 3; i++) {
        *buffers[i] = machine_floats(demo->count);
        if (!*buffers[i])
            return msg_error(CLI_MACHINE, "out of memory");
    }
    for (unsigned step = 0; step < STEPS; step++) {
        demo->gradient[step] = machine_floats(demo->count);
        if (!demo->gradient[step])
            return msg_error(CLI_MACHINE, "out of memory");
        gradient_fill(demo->layout, step, demo->gradient[step]);
    }
    return CLI_OK;
}

static void clean_up(struct demo *demo)
{
    for (unsigned step = 0; step < STEPS; step++)
        free(demo->gradient[step]);
    free(demo->residual);
    free(demo->decoded);
    free(demo->total);
    terse_layout_destroy(demo->layout);
}

static int run(int argc, char **argv)
{
    if (argc > 1)
        return msg_usage("demo", "'%s' is one argument too many", argv[1]);
    const char *kernels;
    terse_status status = terse_kernel_set_name(&kernels, NULL);
    if (status != TERSE_OK)
        return msg_status("kernels", status, NULL);
    struct demo demo = {0};
    int code = prepare(&demo);
    if (code == CLI_OK) {
        printf(
            "A gradient of %s elements in %u tensors, %s per step as float32. One thread, kernels "
            "%s.\n\n",
            com_show_count(demo.count).text, terse_layout_tensors(demo.layout),
            com_show_bytes((double)demo.count * sizeof(float)).text, kernels);
        code = print_outcomes(&demo);
    }
    clean_up(&demo);
    if (code == CLI_OK) {
        printf(
            "\nerror: |input - decoded| / |input|. With a residual, what a step drops is added to\n"
            "the next; an unbiased codec is right on average and must not have a residual.\n\n"
            "Next: `terse codecs topk` (options), `terse bench codecs` (speed against memory),\n"
            "`terse encode --help` (your own vectors).\n");
    }
    return code;
}
