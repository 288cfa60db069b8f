/* One worker of bench/overlap: steps with and without overlap, in turn.
 *
 *   overlap_worker MODEL BATCH CHANNELS HEIGHT WIDTH METHOD STEPS BITS_PER_SECOND
 *
 * Each step computes a gradient of random images and takes it to all workers. Rank 0 prints one
 * line of JSON, medians over the steps of the slowest worker's time: without overlap, with it, of
 * the gradient alone, and the bound: the largest, over the buckets, of the time at which one is
 * ready in a step without overlap and the line time of it and of all later ones. */
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <terse/mpi.h>
#include <terse/terse.h>

#include "loop/overlap.h"
#include "loop/worker.h"
#include "net/net.h"

#define OUTPUTS 10u
#define MAX_STEPS 1000u

enum column { WHOLE, OVERLAP, COMPUTE, BOUND, COLUMNS };

struct bench {
    terse_group *group;
    struct trn_net *net;
    terse_method *method;
    float *weights;
    float *gradient;
    struct trn_batch batch;
    struct trn_overlap overlap;
    int overlaps;      /* in the step under way */
    double bytes_sent; /* of the last step */
    double bits_per_second;
    double column[COLUMNS][MAX_STEPS];
};

static terse_status listen(void *context, uint64_t first, terse_fault *fault)
{
    struct bench *const bench = context;
    struct trn_overlap *const overlap = &bench->overlap;
    if (bench->overlaps)
        return trn_overlap_final(overlap, first, fault);
    for (; overlap->posted < overlap->count && overlap->bucket[overlap->posted].first >= first;
         overlap->posted++)
        overlap->bucket[overlap->posted].ready = trn_now();
    return TERSE_OK;
}

/* The bytes of a bucket are to those of a step as its elements are to all. */
static double bound_of(const struct bench *bench, double start)
{
    const struct trn_overlap *const overlap = &bench->overlap;
    const double line = bench->bytes_sent * 8 / bench->bits_per_second;
    const double all = (double)terse_layout_count(trn_net_layout(bench->net));
    uint64_t end = (uint64_t)all;
    double most = 0;
    for (uint32_t b = 0; b < overlap->count; b++) { /* elements before `end` are still to come */
        most = fmax(most, overlap->bucket[b].ready - start + line * (double)end / all);
        end = overlap->bucket[b].first;
    }
    return most;
}

static terse_status take_step(struct bench *bench, int overlaps, unsigned number,
                              terse_fault *fault)
{
    terse_method_report report;
    double loss = 0;
    uint32_t correct = 0;
    const struct trn_listener listener = {bench, listen};
    bench->overlaps = overlaps;
    bench->overlap.posted = 0;
    terse_status status = terse_group_barrier(bench->group, fault);
    const double start = trn_now();
    if (status == TERSE_OK && overlaps)
        status = trn_overlap_begin(&bench->overlap, fault);
    if (status == TERSE_OK)
        status = trn_net_gradient(bench->net, terse_method_point(bench->method), &bench->batch,
                                  bench->gradient, &listener, &loss, &correct, fault);
    const double computed = trn_now();
    if (status == TERSE_OK)
        status = overlaps ? terse_method_finish(bench->method, bench->gradient, &report, fault)
                          : terse_method_step(bench->method, bench->gradient, &report, fault);
    if (status != TERSE_OK)
        return status;
    bench->column[overlaps ? OVERLAP : WHOLE][number] = trn_now() - start;
    bench->bytes_sent = (double)report.exchange.bytes_sent;
    if (!overlaps) {
        bench->column[COMPUTE][number] = computed - start;
        bench->column[BOUND][number] = bound_of(bench, start);
    }
    return TERSE_OK;
}

static int ascending(const void *a, const void *b)
{
    const double x = *(const double *)a;
    const double y = *(const double *)b;
    return (x > y) - (x < y);
}

/* Every number becomes the slowest worker's. */
static terse_status gather(struct bench *bench, terse_fault *fault)
{
    const uint32_t workers = terse_group_workers(bench->group);
    double *const all = calloc(workers, sizeof bench->column);
    void **const at = calloc(workers, sizeof *at);
    size_t *const len = calloc(workers, sizeof *len);
    terse_status status = all && at && len ? TERSE_OK : TERSE_NO_MEMORY;
    const size_t numbers = sizeof bench->column / sizeof *all;
    for (uint32_t r = 0; r < workers && status == TERSE_OK; r++) {
        at[r] = all + r * numbers;
        len[r] = sizeof bench->column;
    }
    if (status == TERSE_OK)
        status = terse_group_allgatherv(bench->group, bench->column, sizeof bench->column, at, len,
                                        fault);
    double *const mine = &bench->column[0][0];
    for (size_t i = 0; i < workers * numbers && status == TERSE_OK; i++)
        mine[i % numbers] = fmax(mine[i % numbers], all[i]);
    free(all);
    free(at);
    free(len);
    return status;
}

static terse_status measure(struct bench *bench, unsigned steps, terse_fault *fault)
{
    static const char *const names[COLUMNS] = {"whole", "overlap", "compute", "bound"};
    terse_status status = TERSE_OK;
    for (int warm = 0; warm < 4 && status == TERSE_OK; warm++)
        status = take_step(bench, warm % 2, 0, fault);
    for (unsigned i = 0; i < steps && status == TERSE_OK; i++) { /* either is first in turn */
        status = take_step(bench, i % 2 != 0, i, fault);
        if (status == TERSE_OK)
            status = take_step(bench, i % 2 == 0, i, fault);
    }
    if (status == TERSE_OK)
        status = gather(bench, fault);
    if (status != TERSE_OK || terse_group_rank(bench->group) != 0)
        return status;
    printf("{\"buckets\": %u, \"bytes_sent\": %.0f", bench->overlap.count, bench->bytes_sent);
    for (int c = 0; c < COLUMNS; c++) {
        qsort(bench->column[c], steps, sizeof(double), ascending);
        printf(", \"%s_seconds\": %.6f", names[c], bench->column[c][steps / 2]);
    }
    printf("}\n");
    return TERSE_OK;
}

static terse_status run(struct bench *bench, char **words, terse_fault *fault)
{
    const uint32_t batch = (uint32_t)strtoul(words[1], NULL, 10);
    const struct trn_input input = {.kind = TRN_IMAGE,
                                    .target = TRN_LABELS,
                                    .channels = (uint32_t)strtoul(words[2], NULL, 10),
                                    .height = (uint32_t)strtoul(words[3], NULL, 10),
                                    .width = (uint32_t)strtoul(words[4], NULL, 10),
                                    .outputs = OUTPUTS};
    const unsigned steps = (unsigned)strtoul(words[6], NULL, 10);
    const size_t floats = (size_t)batch * input.channels * input.height * input.width;
    float *const values = malloc((floats + 1) * sizeof *values);
    uint32_t *const labels = calloc(batch + 1, sizeof *labels);
    uint32_t state = 1 + terse_group_rank(bench->group);
    bench->bits_per_second = strtod(words[7], NULL);
    terse_status status =
        values && labels && steps > 0 && steps <= MAX_STEPS ? TERSE_OK : TERSE_BAD_ARGUMENT;
    for (size_t i = 0; i < floats && status == TERSE_OK; i++) {
        state = state * 1664525u + 1013904223u;
        values[i] = (float)(state >> 8) * 0x1p-23f - 1.0f;
    }
    bench->batch = (struct trn_batch){.count = batch, .values = values, .labels = labels};
    if (status == TERSE_OK)
        status = trn_net_create(words[0], &input, batch, 1, &bench->net, fault);
    if (status == TERSE_OK) {
        const uint64_t count = terse_layout_count(trn_net_layout(bench->net));
        bench->weights = trn_floats_create(count);
        bench->gradient = trn_floats_create(count);
        status = bench->weights && bench->gradient ? TERSE_OK : TERSE_NO_MEMORY;
    }
    if (status == TERSE_OK) {
        trn_net_init(bench->net, 1, bench->weights);
        status = terse_method_create(words[5], bench->group, trn_net_layout(bench->net),
                                     bench->weights, NULL, &bench->method, fault);
    }
    if (status == TERSE_OK)
        status = trn_overlap_plan(&bench->overlap, trn_net_layout(bench->net), bench->method,
                                  bench->gradient);
    if (status == TERSE_OK)
        status = measure(bench, steps, fault);
    if (status != TERSE_OK)
        return status; /* a failed group may still use the buffers */
    terse_method_destroy(bench->method);
    trn_net_destroy(bench->net);
    trn_floats_destroy(bench->weights);
    trn_floats_destroy(bench->gradient);
    free(values);
    free(labels);
    return TERSE_OK;
}

int main(int argc, char **argv)
{
    static struct bench bench;
    terse_fault fault = {.rank = -1};
    if (argc != 9) {
        (void)fprintf(stderr,
                      "usage: overlap_worker MODEL BATCH CHANNELS HEIGHT WIDTH METHOD STEPS "
                      "BITS_PER_SECOND\n");
        return 2;
    }
    terse_status status = terse_mpi_start(&fault);
    if (status == TERSE_OK)
        status = terse_group_mpi_world(&bench.group, &fault);
    if (status == TERSE_OK)
        status = run(&bench, argv + 1, &fault);
    if (status != TERSE_OK)
        (void)fprintf(stderr, "overlap_worker: %s: %s\n", terse_status_text(status), fault.text);
    else
        terse_group_destroy(bench.group);
    terse_mpi_stop(status ? 1 : 0);
    return status ? 1 : 0;
}
