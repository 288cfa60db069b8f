/* Computes gradients and a few SGD steps of one net and leaves everything in files, for parity.py
 * to compare with PyTorch:
 *
 *   probe DIR MODEL KIND TARGET CHANNELS HEIGHT WIDTH LENGTH VOCABULARY OUTPUTS BATCH COUNT STEPS
 * LR
 *
 * Reads the COUNT examples of DIR (values.f32 or tokens.i32 and lengths.u32; labels.u32 or
 * targets.f32) and the first weights, if given.f32 is there; takes BATCH of them at each step, in
 * turn, the last ones maybe fewer. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "net/net.h"

struct job {
    const char *folder;
    struct trn_input input;
    uint32_t batch;
    uint32_t count;
    uint32_t steps;
    float rate;
    void *values;
    void *tokens;
    void *lengths;
    void *labels;
    void *targets;
};

static FILE *open_file(const struct job *job, const char *name, const char *mode)
{
    char path[4096];
    (void)snprintf(path, sizeof path, "%s/%s", job->folder, name);
    FILE *file = fopen(path, mode);
    if (!file) {
        fprintf(stderr, "cannot open %s\n", path);
        exit(1);
    }
    return file;
}

static void *take(size_t len)
{
    void *data = calloc(1, len + 1);
    if (!data)
        exit(1);
    return data;
}

static void *read_words(const struct job *job, const char *name, size_t words)
{
    void *data = take(words * 4);
    FILE *file = open_file(job, name, "rb");
    if (fread(data, 4, words, file) != words) {
        fprintf(stderr, "%s is short\n", name);
        exit(1);
    }
    (void)fclose(file);
    return data;
}

static void read_given(const struct job *job, float *weights, size_t count)
{
    char path[4096];
    (void)snprintf(path, sizeof path, "%s/given.f32", job->folder);
    FILE *file = fopen(path, "rb");
    if (!file)
        return;
    if (fread(weights, sizeof *weights, count, file) != count)
        exit(1);
    (void)fclose(file);
}

static void write_file(const struct job *job, const char *name, const void *data, size_t len)
{
    FILE *file = open_file(job, name, "wb");
    if (fwrite(data, 1, len, file) != len || fclose(file) != 0)
        exit(1);
}

static void write_layout(const struct job *job, const char *name, const terse_layout *layout)
{
    FILE *file = open_file(job, name, "w");
    for (uint32_t i = 0; i < terse_layout_tensors(layout); i++) {
        terse_tensor tensor;
        if (terse_layout_tensor(layout, i, &tensor) != TERSE_OK)
            exit(1);
        (void)fprintf(file, "%s", tensor.name);
        for (uint32_t d = 0; d < tensor.ndim; d++)
            (void)fprintf(file, " %llu", (unsigned long long)tensor.dims[d]);
        (void)fprintf(file, "\n");
    }
    (void)fclose(file);
}

static size_t example_words(const struct trn_input *input)
{
    return input->kind == TRN_IMAGE ? (size_t)input->channels * input->height * input->width
                                    : input->length;
}

static void read_examples(struct job *job)
{
    const size_t words = example_words(&job->input) * job->count;
    if (job->input.kind == TRN_TEXT) {
        job->tokens = read_words(job, "tokens.i32", words);
        job->lengths = read_words(job, "lengths.u32", job->count);
    } else {
        job->values = read_words(job, "values.f32", words);
    }
    if (job->input.target == TRN_LABELS)
        job->labels = read_words(job, "labels.u32", job->count);
    else
        job->targets = read_words(job, "targets.f32", (size_t)job->count * job->input.outputs);
}

static struct trn_batch batch_at(const struct job *job, uint32_t step)
{
    const uint32_t batches = (job->count + job->batch - 1) / job->batch;
    const uint32_t first = step % batches * job->batch;
    const size_t words = example_words(&job->input) * first;
    const uint32_t left = job->count - first;
    return (struct trn_batch){
        .count = left < job->batch ? left : job->batch,
        .values = job->values ? (const float *)job->values + words : NULL,
        .tokens = job->tokens ? (const int32_t *)job->tokens + words : NULL,
        .lengths = job->lengths ? (const uint32_t *)job->lengths + first : NULL,
        .labels = job->labels ? (const uint32_t *)job->labels + first : NULL,
        .targets =
            job->targets ? (const float *)job->targets + (size_t)first * job->input.outputs : NULL,
    };
}

static void must(terse_status status, const terse_fault *fault)
{
    if (status == TERSE_OK)
        return;
    fprintf(stderr, "%s: %s\n", terse_status_text(status), fault->text);
    exit(1);
}

static void train(const struct job *job, struct trn_net *net, float *weights)
{
    const size_t count = (size_t)terse_layout_count(trn_net_layout(net));
    float *gradient = take(count * 4);
    double *losses = take((job->steps + 1) * sizeof *losses);
    terse_fault fault = {0};
    uint32_t correct = 0;
    for (uint32_t step = 0; step < job->steps; step++) {
        const struct trn_batch batch = batch_at(job, step);
        must(
            trn_net_gradient(net, weights, &batch, gradient, NULL, &losses[step], &correct, &fault),
            &fault);
        if (step == 0)
            write_file(job, "gradient.f32", gradient, count * 4);
        for (size_t i = 0; i < count; i++)
            weights[i] -= job->rate * gradient[i];
    }
    const struct trn_batch batch = batch_at(job, 0);
    must(trn_net_evaluate(net, weights, &batch, &losses[job->steps], &correct, &fault), &fault);
    write_file(job, "losses.f64", losses, (job->steps + 1) * sizeof *losses);
    free(gradient);
    free(losses);
}

static uint32_t number(const char *text)
{
    return (uint32_t)strtoul(text, NULL, 10);
}

int main(int argc, char **argv)
{
    if (argc != 15)
        return 2;
    struct job job = {
        .folder = argv[1],
        .input = {.kind = (enum trn_input_kind)number(argv[3]),
                  .target = (enum trn_target_kind)number(argv[4]),
                  .channels = number(argv[5]),
                  .height = number(argv[6]),
                  .width = number(argv[7]),
                  .length = number(argv[8]),
                  .vocabulary = number(argv[9]),
                  .outputs = number(argv[10])},
        .batch = number(argv[11]),
        .count = number(argv[12]),
        .steps = number(argv[13]),
        .rate = strtof(argv[14], NULL),
    };
    struct trn_net *net = NULL;
    terse_fault fault = {0};
    read_examples(&job);
    must(trn_net_create(argv[2], &job.input, job.batch, 1, &net, &fault), &fault);
    const size_t count = (size_t)terse_layout_count(trn_net_layout(net));
    float *weights = take(count * 4);
    trn_net_init(net, 1, weights);
    read_given(&job, weights, count);
    write_layout(&job, "layout.txt", trn_net_layout(net));
    write_layout(&job, "statistics.txt", trn_net_statistics_layout(net));
    write_file(&job, "weights.f32", weights, count * 4);
    train(&job, net, weights);
    uint64_t statistics_count = 0;
    const float *statistics = trn_net_statistics(net, &statistics_count);
    write_file(&job, "statistics.f32", statistics, (size_t)statistics_count * 4);
    trn_net_destroy(net);
    free(weights);
    void *owned[] = {job.values, job.tokens, job.lengths, job.labels, job.targets};
    for (size_t i = 0; i < sizeof owned / sizeof owned[0]; i++)
        free(owned[i]);
    return 0;
}
