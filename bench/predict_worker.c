/* One rank of bench/predict: steps of real methods on a real network, over MPI.
 *
 *   predict_worker MODEL CHANNELS HEIGHT WIDTH BATCH SECONDS LONGEST SPEC...
 *
 * Rank 0 prints a line of JSON for every spec: the median seconds from the end of a step to that of
 * the next; those of its gradient on the slowest rank (they share the cores, as in training); and
 * the bytes that a rank sends. A spec is measured for SECONDS, at least two steps after two that
 * do not count; where one of these takes longer than LONGEST, it is the measurement. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include <terse/mpi.h>
#include <terse/terse.h>

#include "net/net.h"

enum { MOST_STEPS = 400, CLASSES = 10 };

struct bench {
    terse_group *group;
    struct trn_net *net;
    struct trn_batch batch;
    float *weights;
    float *gradient;
    uint64_t count;
    double seconds; /* of a spec */
    double longest; /* of a step that is made again */
    terse_fault fault;
};

static double now(void)
{
    struct timespec time;
    (void)clock_gettime(CLOCK_MONOTONIC, &time);
    return (double)time.tv_sec + 1e-9 * (double)time.tv_nsec;
}

static int ascending(const void *a, const void *b)
{
    const double first = *(const double *)a;
    const double second = *(const double *)b;
    return (first > second) - (first < second);
}

static double median(double *values, int count)
{
    qsort(values, (size_t)count, sizeof *values, ascending);
    return count % 2 ? values[count / 2] : (values[count / 2 - 1] + values[count / 2]) / 2;
}

static terse_status compute(struct bench *bench, const float *at)
{
    double loss;
    uint32_t correct;
    return trn_net_gradient(bench->net, at, &bench->batch, bench->gradient, NULL, &loss, &correct,
                            &bench->fault);
}

/* The slowest rank's seconds in each step: the others wait for it. */
static terse_status slowest(struct bench *bench, double *seconds, int steps)
{
    const uint32_t workers = terse_group_workers(bench->group);
    const size_t len = (size_t)steps * sizeof *seconds;
    double *const all = calloc((size_t)workers * MOST_STEPS, sizeof *all);
    void **const at = calloc(workers, sizeof *at);
    size_t *const lens = calloc(workers, sizeof *lens);
    terse_status status = all && at && lens ? TERSE_OK : TERSE_NO_MEMORY;
    for (uint32_t r = 0; r < workers && status == TERSE_OK; r++) {
        at[r] = all + (size_t)r * MOST_STEPS;
        lens[r] = len;
    }
    if (status == TERSE_OK)
        status = terse_group_allgatherv(bench->group, seconds, len, at, lens, &bench->fault);
    for (size_t i = 0; i < (size_t)workers * MOST_STEPS && status == TERSE_OK; i++)
        if (i % MOST_STEPS < (size_t)steps && all[i] > seconds[i % MOST_STEPS])
            seconds[i % MOST_STEPS] = all[i];
    free(all);
    free(at);
    free(lens);
    return status;
}

/* One step. The next one begins where this one ends, as in training: ranks that share a core are
 * not made to start together, and a rank that gets its core late counts as late. */
static terse_status make_step(struct bench *bench, terse_method *method, double *end,
                              double *computed, uint64_t *bytes)
{
    terse_method_report report = {0};
    const double start = *end;
    terse_status status = compute(bench, terse_method_point(method));
    *computed = now() - start;
    if (status == TERSE_OK)
        status = terse_method_step(method, bench->gradient, &report, &bench->fault);
    *end = now();
    *bytes = report.exchange.bytes_sent;
    return status;
}

/* Rank 0 says how many steps follow one that took so long. */
static terse_status share_count(struct bench *bench, double seconds, int *count)
{
    const double fit = bench->seconds / seconds;
    *count = seconds > bench->longest ? 0 : fit < 2 ? 2 : fit < MOST_STEPS ? (int)fit : MOST_STEPS;
    return terse_group_broadcast(bench->group, 0, count, sizeof *count, &bench->fault);
}

/* The first step allocates and connects, and counts only where it is alone; the second one tells
 * how many there will be. */
static terse_status make_steps(struct bench *bench, terse_method *method, double *seconds,
                               double *gradient, uint64_t *bytes)
{
    double taken[MOST_STEPS];
    double computed[MOST_STEPS];
    int count = 1;
    int made = 1;
    terse_status status = terse_group_barrier(bench->group, &bench->fault);
    for (int first = 0; first < 2 && count > 0 && status == TERSE_OK; first++) {
        double end = now();
        const double start = end;
        status = make_step(bench, method, &end, computed, bytes);
        taken[0] = end - start;
        if (status == TERSE_OK)
            status = share_count(bench, taken[0], &count);
    }
    double end = now();
    for (int i = 0; i < count && status == TERSE_OK; i++) {
        const double start = end;
        status = make_step(bench, method, &end, &computed[i], bytes);
        taken[i] = end - start;
        made = count;
    }
    if (status == TERSE_OK)
        status = slowest(bench, computed, made);
    if (status != TERSE_OK)
        return status;
    *seconds = median(taken, made);
    *gradient = median(computed, made);
    return TERSE_OK;
}

static terse_status measure(struct bench *bench, const char *spec)
{
    const terse_method_options options = {.size = sizeof options, .seed = 1, .steps = 1000};
    const int root = terse_group_rank(bench->group) == 0;
    terse_method *method = NULL;
    double seconds = 0;
    double gradient = 0;
    uint64_t bytes = 0;
    trn_net_init(bench->net, 1, bench->weights);
    terse_status status = terse_method_create(spec, bench->group, trn_net_layout(bench->net),
                                              bench->weights, &options, &method, &bench->fault);
    if (status == TERSE_OK)
        status = make_steps(bench, method, &seconds, &gradient, &bytes);
    if (status == TERSE_OK && root)
        printf("{\"spec\": \"%s\", \"seconds\": %.9f, \"compute_seconds\": %.9f, "
               "\"bytes_sent\": %llu}\n",
               spec, seconds, gradient, (unsigned long long)bytes);
    (void)fflush(stdout);
    terse_method_destroy(method);
    return status;
}

/* ---- creation ---- */

static terse_status create(struct bench *bench, char **argv)
{
    const struct trn_input input = {.kind = TRN_IMAGE,
                                    .channels = (uint32_t)strtoul(argv[2], NULL, 10),
                                    .height = (uint32_t)strtoul(argv[3], NULL, 10),
                                    .width = (uint32_t)strtoul(argv[4], NULL, 10),
                                    .outputs = CLASSES};
    const uint32_t batch = (uint32_t)strtoul(argv[5], NULL, 10);
    const size_t floats = (size_t)batch * input.channels * input.height * input.width;
    terse_status status = trn_net_create(argv[1], &input, batch, 1, &bench->net, &bench->fault);
    if (status != TERSE_OK)
        return status;
    float *const values = calloc(floats, sizeof *values);
    uint32_t *const labels = calloc(batch, sizeof *labels);
    bench->count = terse_layout_count(trn_net_layout(bench->net));
    bench->weights = trn_floats_create(bench->count);
    bench->gradient = trn_floats_create(bench->count);
    bench->batch = (struct trn_batch){.count = batch, .values = values, .labels = labels};
    if (!values || !labels || !bench->weights || !bench->gradient)
        return TERSE_NO_MEMORY;
    for (size_t i = 0; i < floats; i++)
        values[i] = (float)((i * 2654435761u >> 8) % 2001) / 1000.0f - 1;
    for (uint32_t i = 0; i < batch; i++)
        labels[i] = (i + terse_group_rank(bench->group)) % CLASSES;
    trn_net_init(bench->net, 1, bench->weights);
    return TERSE_OK;
}

static terse_status run(struct bench *bench, int argc, char **argv)
{
    terse_status status = terse_group_mpi(MPI_COMM_WORLD, &bench->group, &bench->fault);
    if (status == TERSE_OK)
        status = terse_group_set_timeout(bench->group, 600);
    if (status == TERSE_OK)
        status = create(bench, argv);
    for (int i = 8; i < argc && status == TERSE_OK; i++)
        status = measure(bench, argv[i]);
    terse_group_destroy(bench->group);
    return status;
}

int main(int argc, char **argv)
{
    struct bench bench = {0};
    if (argc < 8) {
        (void)fprintf(stderr,
                      "usage: %s MODEL CHANNELS HEIGHT WIDTH BATCH SECONDS LONGEST SPEC...\n",
                      argv[0]);
        return 2;
    }
    bench.seconds = strtod(argv[6], NULL);
    bench.longest = strtod(argv[7], NULL);
    terse_status status = terse_mpi_start(&bench.fault);
    if (status == TERSE_OK)
        status = run(&bench, argc, argv);
    if (status != TERSE_OK)
        (void)fprintf(stderr, "%s: %s: %s\n", argv[0], terse_status_text(status), bench.fault.text);
    free((void *)(uintptr_t)bench.batch.values);
    free((void *)(uintptr_t)bench.batch.labels);
    trn_floats_destroy(bench.weights);
    trn_floats_destroy(bench.gradient);
    trn_net_destroy(bench.net);
    terse_mpi_stop(status == TERSE_OK ? 0 : 1);
    return status == TERSE_OK ? 0 : 1;
}
