/* One worker of bench/shaped: does a case's step again and again, and tells what it took.
 *
 *   shaped_worker CASE COUNT STEPS INTERFACE
 *
 * Rank 0 prints one line of JSON: seconds per step, and per worker and step the codec's seconds,
 * the bytes that the library claims to have said and those that the interface has counted. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include <terse/mpi.h>
#include <terse/terse.h>

struct bench {
    terse_group *group;
    terse_exchange *exchange; /* of the cases that have a codec */
    float *floats;
    float *scratch;
    size_t count;
    double computed; /* seconds that the stages other than the group took */
};

static double seconds_now(void)
{
    struct timespec now;
    (void)clock_gettime(CLOCK_MONOTONIC, &now);
    return (double)now.tv_sec + (double)now.tv_nsec * 1e-9;
}

/* Bytes that this interface has sent, as /proc/net/dev counts them for this network namespace. */
static uint64_t interface_bytes(const char *interface)
{
    enum { COLUMNS_RECEIVED = 8 };
    char line[512];
    uint64_t sent = 0;
    FILE *const file = fopen("/proc/net/dev", "r");
    while (file && fgets(line, sizeof line, file)) {
        char *const colon = strchr(line, ':');
        const char *const name = line + strspn(line, " ");
        if (!colon)
            continue;
        *colon = '\0';
        char *at = colon + 1;
        for (int i = 0; i <= COLUMNS_RECEIVED && strcmp(name, interface) == 0; i++)
            sent = strtoull(at, &at, 10);
    }
    if (file)
        (void)fclose(file);
    return sent;
}

/* ---- cases ---- */

static terse_status dense_step(struct bench *bench, terse_fault *fault)
{
    return terse_group_allreduce(bench->group, bench->floats, bench->count, bench->scratch, fault);
}

static terse_status exchange_step(struct bench *bench, terse_fault *fault)
{
    terse_exchange_report report;
    const terse_status status = terse_exchange_run(bench->exchange, bench->floats, &report, fault);
    for (int i = 0; i < TERSE_STAGES && !status; i++)
        if (i != TERSE_STAGE_GROUP)
            bench->computed += (double)report.nanoseconds[i] * 1e-9;
    return status;
}

static const struct {
    const char *name;
    terse_status (*step)(struct bench *bench, terse_fault *fault);
    const char *codec;
    const char *combine;
} cases[] = {
    {"dense", dense_step, NULL, NULL},
    {"vote", exchange_step, "sign", "vote"},
    {"scaled-sign", exchange_step, "scaled-sign", "shard"},
    {"f32", exchange_step, "f32", "allreduce"},
};

static terse_status make_exchange(struct bench *bench, size_t which, terse_fault *fault)
{
    const terse_exchange_options options = {
        .size = sizeof options, .codec = cases[which].codec, .combine = cases[which].combine};
    terse_layout *layout = NULL;
    if (!options.codec)
        return TERSE_OK;
    terse_status status = terse_layout_vector(bench->count, &layout);
    if (!status)
        status = terse_exchange_create(bench->group, layout, &options, &bench->exchange, fault);
    terse_layout_destroy(layout);
    for (size_t i = 0; i < bench->count && !status; i++) /* signs that look like a coin's */
        bench->floats[i] = (float)(int32_t)(uint32_t)(i * 2654435761u);
    return status;
}

/* ---- measuring ---- */

struct told {
    double seconds;
    double computed;
    uint64_t said;
    uint64_t counted;
};

static terse_status measure(struct bench *bench, size_t which, unsigned steps,
                            const char *interface, struct told *out, terse_fault *fault)
{
    uint64_t before = 0;
    uint64_t after = 0;
    terse_status status = cases[which].step(bench, fault); /* connections are made here */
    if (!status)
        status = terse_group_barrier(bench->group, fault);
    terse_group_traffic(bench->group, &before, NULL);
    const uint64_t counted = interface_bytes(interface);
    bench->computed = 0;
    const double start = seconds_now();
    for (unsigned i = 0; i < steps && !status; i++)
        status = cases[which].step(bench, fault);
    if (!status)
        status = terse_group_barrier(bench->group, fault);
    out->seconds = seconds_now() - start;
    out->computed = bench->computed;
    terse_group_traffic(bench->group, &after, NULL);
    out->said = after - before;
    out->counted = interface_bytes(interface) - counted;
    return status;
}

static terse_status tell(struct bench *bench, const char *name, unsigned steps,
                         const struct told *mine, terse_fault *fault)
{
    const uint32_t workers = terse_group_workers(bench->group);
    struct told *const all = calloc(workers, sizeof *all);
    void **const at = calloc(workers, sizeof *at);
    size_t *const len = calloc(workers, sizeof *len);
    terse_status status = all && at && len ? TERSE_OK : TERSE_NO_MEMORY;
    double computed = 0;
    double said = 0;
    double counted = 0;
    for (uint32_t r = 0; r < workers && !status; r++) {
        at[r] = &all[r];
        len[r] = sizeof all[r];
    }
    if (!status)
        status = terse_group_allgatherv(bench->group, mine, sizeof *mine, at, len, fault);
    for (uint32_t r = 0; r < workers && !status; r++) {
        computed += all[r].computed / workers / steps;
        said += (double)all[r].said / workers / steps;
        counted += (double)all[r].counted / workers / steps;
    }
    if (!status && terse_group_rank(bench->group) == 0)
        printf("{\"case\": \"%s\", \"workers\": %u, \"count\": %zu, \"steps\": %u, "
               "\"seconds_per_step\": %.9f, \"codec_seconds\": %.9f, \"bytes_claimed\": %.0f, "
               "\"bytes_counted\": %.0f}\n",
               name, (unsigned)workers, bench->count, steps, all[0].seconds / steps, computed, said,
               counted);
    free(len);
    free(at);
    free(all);
    return status;
}

static terse_status run(struct bench *bench, size_t which, unsigned steps, const char *interface,
                        terse_fault *fault)
{
    struct told mine = {0};
    terse_status status = terse_group_mpi(MPI_COMM_WORLD, &bench->group, fault);
    if (status)
        return status;
    bench->floats = calloc(bench->count, sizeof *bench->floats);
    bench->scratch = calloc(terse_group_allreduce_scratch(bench->group, bench->count) + 1,
                            sizeof *bench->scratch);
    status = bench->floats && bench->scratch ? TERSE_OK : TERSE_NO_MEMORY;
    if (!status)
        status = make_exchange(bench, which, fault);
    if (!status)
        status = measure(bench, which, steps, interface, &mine, fault);
    if (!status)
        status = tell(bench, cases[which].name, steps, &mine, fault);
    terse_exchange_destroy(bench->exchange);
    terse_group_destroy(bench->group);
    free(bench->scratch);
    free(bench->floats);
    return status;
}

int main(int count, char **words)
{
    struct bench bench = {0};
    terse_fault fault = {0};
    size_t which = 0;
    if (count != 5) {
        (void)fprintf(stderr, "usage: %s CASE COUNT STEPS INTERFACE\n", words[0]);
        return 2;
    }
    while (which < sizeof cases / sizeof *cases && strcmp(cases[which].name, words[1]) != 0)
        which++;
    bench.count = strtoul(words[2], NULL, 10);
    const unsigned steps = (unsigned)strtoul(words[3], NULL, 10);
    if (which == sizeof cases / sizeof *cases || bench.count == 0 || steps == 0) {
        (void)fprintf(stderr, "%s: no such case, or a count of zero\n", words[0]);
        return 2;
    }
    terse_status status = terse_mpi_start(&fault);
    if (!status)
        status = run(&bench, which, steps, words[4], &fault);
    if (status)
        (void)fprintf(stderr, "%s: %s: %s\n", words[0], terse_status_text(status), fault.text);
    terse_mpi_stop(status ? 1 : 0);
    return status ? 1 : 0;
}
