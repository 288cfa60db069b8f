/* The program that bench/train_peer times against PyTorch:
 *
 *   train_peer_steps MODEL BATCH CHANNELS HEIGHT WIDTH OUTPUTS
 *
 * For each line on stdin it computes one gradient of random images with one thread and prints its
 * seconds of CPU time and the loss. */
#include <stdio.h>
#include <stdlib.h>
#include <time.h>

#include "net/net.h"

static double cpu_seconds(void)
{
    struct timespec now;
    (void)clock_gettime(CLOCK_PROCESS_CPUTIME_ID, &now);
    return (double)now.tv_sec + 1e-9 * (double)now.tv_nsec;
}

static uint32_t number(const char *text)
{
    return (uint32_t)strtoul(text, NULL, 10);
}

static int serve(struct trn_net *net, const struct trn_batch *batch)
{
    const uint64_t count = terse_layout_count(trn_net_layout(net));
    float *weights = trn_floats_create(count);
    float *gradient = trn_floats_create(count);
    terse_fault fault = {0};
    terse_status status = weights && gradient ? TERSE_OK : TERSE_NO_MEMORY;
    if (status == TERSE_OK)
        trn_net_init(net, 1, weights);
    for (int c = getchar(); c != EOF && status == TERSE_OK; c = getchar()) {
        double loss = 0;
        uint32_t correct = 0;
        if (c != '\n')
            continue;
        const double start = cpu_seconds();
        status = trn_net_gradient(net, weights, batch, gradient, NULL, &loss, &correct, &fault);
        printf("%.9f %.6f\n", cpu_seconds() - start, loss);
        (void)fflush(stdout);
    }
    trn_floats_destroy(weights);
    trn_floats_destroy(gradient);
    if (status != TERSE_OK)
        fprintf(stderr, "train_peer_steps: %s: %s\n", terse_status_text(status), fault.text);
    return status != TERSE_OK;
}

static void fill(float *values, size_t words, uint32_t *labels, uint32_t batch, uint32_t outputs)
{
    uint32_t state = 1;
    for (size_t i = 0; i < words; i++) {
        state = state * 1664525u + 1013904223u;
        values[i] = (float)(state >> 8) * 0x1p-23f - 1.0f;
    }
    for (uint32_t i = 0; i < batch; i++)
        labels[i] = i % outputs;
}

int main(int argc, char **argv)
{
    if (argc != 7)
        return 2;
    const uint32_t batch = number(argv[2]);
    const struct trn_input input = {.kind = TRN_IMAGE,
                                    .target = TRN_LABELS,
                                    .channels = number(argv[3]),
                                    .height = number(argv[4]),
                                    .width = number(argv[5]),
                                    .outputs = number(argv[6])};
    const size_t words = (size_t)batch * input.channels * input.height * input.width;
    float *values = malloc(words * sizeof *values);
    uint32_t *labels = malloc(batch * sizeof *labels);
    struct trn_net *net = NULL;
    terse_fault fault = {0};
    int result = 1;
    if (values && labels)
        fill(values, words, labels, batch, input.outputs);
    if (!values || !labels)
        fprintf(stderr, "train_peer_steps: no memory\n");
    else if (trn_net_create(argv[1], &input, batch, 1, &net, &fault) == TERSE_OK)
        result =
            serve(net, &(struct trn_batch){.count = batch, .values = values, .labels = labels});
    else
        fprintf(stderr, "train_peer_steps: %s\n", fault.text);
    trn_net_destroy(net);
    free(values);
    free(labels);
    return result;
}
