/* The same inputs over every engine give the same bits: prints, for every codec with its combines,
 * the hash of the answers of a few steps and of the memories, once all workers have been found
 * equal.
 *
 *   exchange local WORKERS       threads of this process
 *   exchange callbacks WORKERS   the same behind callbacks of the caller's own
 *   mpirun -n WORKERS exchange mpi */
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <terse/mpi.h>
#include <terse/terse.h>

#define STEPS 3u
#define LARGE 30000u

static const struct {
    const char *codec;
    const char *combine;
} pairs[] = {
    {"f32", "allreduce"},
    {"f32", "shard"},
    {"f16", "shard"},
    {"bf16", "allgather"},
    {"sign", "vote"},
    {"sign:zero=coin", "vote"},
    {"scaled-sign", "shard"},
    {"topk", "allgather"},
    {"topk", "shard"},
    {"topk", "sparse-allreduce"},
    {"block:ratio=8", "allreduce"},
    {"log", "shard"},
    {"log", "parameter-server"},
    {"uniform", "allgather"},
    {"uniform", "shard"},
    {"nearest", "allgather"},
    {"natural", "shard"},
    {"low-rank", "allreduce"},
};
#define PAIRS (sizeof pairs / sizeof pairs[0])

static terse_layout *layout_new(void)
{
    static const uint64_t matrix[] = {131, 57};
    static const uint64_t bias[] = {57};
    static const uint64_t large[] = {LARGE};
    terse_layout *layout = NULL;
    if (terse_layout_create(&layout) || terse_layout_add(layout, "matrix", 2, matrix) ||
        terse_layout_add(layout, "bias", 1, bias) || terse_layout_add(layout, "large", 1, large))
        abort();
    return layout;
}

/* Whatever the engine, rank r's gradient of a step is this. */
static void fill(float *gradient, size_t count, uint32_t rank, uint64_t step)
{
    uint64_t state = rank * UINT64_C(0x9E3779B97F4A7C15) + step * 77 + 1;
    for (size_t i = 0; i < count; i++) {
        state = state * UINT64_C(6364136223846793005) + UINT64_C(1442695040888963407);
        const int32_t wide = (int32_t)(state >> 32);
        gradient[i] = (float)wide * (i % 97 == 0 ? 1e-7f : 1e-9f);
    }
}

static uint64_t mix(uint64_t hash, const float *floats, size_t count)
{
    for (size_t i = 0; floats && i < count; i++) {
        uint32_t bits;
        memcpy(&bits, &floats[i], sizeof bits);
        hash = (hash ^ bits) * UINT64_C(1099511628211);
    }
    return hash;
}

static terse_status run_pair(terse_group *handle, size_t pair, uint64_t *hash, terse_fault *fault)
{
    const terse_exchange_options options = {.size = sizeof options,
                                            .codec = pairs[pair].codec,
                                            .combine = pairs[pair].combine,
                                            .seed = 11,
                                            .compare_every = 1};
    terse_layout *const layout = layout_new();
    const size_t count = (size_t)terse_layout_count(layout);
    float *const gradient = malloc(count * sizeof *gradient);
    terse_exchange *exchange = NULL;
    terse_status status = terse_exchange_create(handle, layout, &options, &exchange, fault);
    for (uint64_t step = 0; step < STEPS && status == TERSE_OK && gradient; step++) {
        fill(gradient, count, terse_group_rank(handle), step);
        status = terse_exchange_run(exchange, gradient, NULL, fault);
        *hash = mix(*hash, gradient, count);
    }
    terse_exchange_destroy(exchange);
    terse_layout_destroy(layout);
    free(gradient);
    return status;
}

/* All pairs on one handle; rank 0 prints. */
static int run_handle(terse_group *handle)
{
    for (size_t pair = 0; pair < PAIRS; pair++) {
        uint64_t hash = UINT64_C(14695981039346656037);
        terse_fault fault = {.rank = -1};
        const terse_status status = run_pair(handle, pair, &hash, &fault);
        if (status != TERSE_OK) {
            printf("rank %u: %s by %s: %s: %s\n", terse_group_rank(handle), pairs[pair].codec,
                   pairs[pair].combine, terse_status_text(status), fault.text);
            return 1;
        }
        if (terse_group_rank(handle) == 0)
            printf("%s %s %016llx\n", pairs[pair].codec, pairs[pair].combine,
                   (unsigned long long)hash);
    }
    return 0;
}

/* ---- an engine of callbacks, over a local handle ---- */

struct relay {
    terse_group *inner;
    terse_request request[TERSE_MAX_REQUESTS];
};

static terse_status relay_post(void *context, uint32_t slot, const terse_alltoallv *alltoallv,
                               int32_t *rank)
{
    struct relay *const relay = context;
    terse_fault fault = {.rank = -1};
    const terse_status status =
        terse_group_post_alltoallv(relay->inner, alltoallv, &relay->request[slot], &fault);
    *rank = fault.rank;
    return status;
}

static terse_status relay_test(void *context, uint32_t slot, int *done, int32_t *rank)
{
    struct relay *const relay = context;
    terse_fault fault = {.rank = -1};
    const terse_status status = terse_group_test(relay->inner, relay->request[slot], done, &fault);
    *rank = fault.rank;
    return status;
}

static terse_status relay_wait(void *context, uint32_t slot, uint64_t nanoseconds, int32_t *rank)
{
    struct relay *const relay = context;
    terse_fault fault = {.rank = -1};
    (void)nanoseconds;
    const terse_status status = terse_group_wait(relay->inner, relay->request[slot], &fault);
    *rank = fault.rank;
    return status;
}

/* ---- threads ---- */

struct worker {
    pthread_t thread;
    terse_group *handle;
    int callbacks;
    int bad;
};

static void *work(void *opaque)
{
    static const terse_group_ops ops = {
        .size = sizeof ops, .post = relay_post, .test = relay_test, .wait = relay_wait};
    struct worker *const worker = opaque;
    struct relay *const relay = calloc(1, sizeof *relay);
    terse_group *outer = NULL;
    worker->bad = 1;
    if (!relay)
        return NULL;
    relay->inner = worker->handle;
    if (!worker->callbacks)
        worker->bad = run_handle(worker->handle);
    else if (terse_group_callbacks(&ops, relay, terse_group_rank(worker->handle),
                                   terse_group_workers(worker->handle), &outer) == TERSE_OK)
        worker->bad = run_handle(outer);
    terse_group_destroy(outer);
    free(relay);
    return NULL;
}

static int run_threads(uint32_t workers, int callbacks)
{
    terse_group *handles[TERSE_MAX_LOCAL_WORKERS];
    struct worker crew[TERSE_MAX_LOCAL_WORKERS];
    int bad = 0;
    if (workers > TERSE_MAX_LOCAL_WORKERS || terse_group_local(workers, handles) != TERSE_OK)
        return 1;
    for (uint32_t r = 0; r < workers; r++) {
        crew[r] = (struct worker){.handle = handles[r], .callbacks = callbacks};
        if (pthread_create(&crew[r].thread, NULL, work, &crew[r]) != 0)
            abort();
    }
    for (uint32_t r = 0; r < workers; r++) {
        (void)pthread_join(crew[r].thread, NULL);
        bad |= crew[r].bad;
    }
    for (uint32_t r = 0; r < workers; r++)
        terse_group_destroy(handles[r]);
    return bad;
}

static int run_mpi(void)
{
    terse_group *handle = NULL;
    terse_fault fault = {0};
    if (terse_mpi_start(&fault) != TERSE_OK ||
        terse_group_mpi(MPI_COMM_WORLD, &handle, &fault) != TERSE_OK) {
        printf("no group over MPI: %s\n", fault.text);
        return 1;
    }
    const int bad = run_handle(handle);
    terse_group_destroy(handle);
    terse_mpi_stop(bad);
    return bad;
}

int main(int count, char **words)
{
    if (count == 2 && strcmp(words[1], "mpi") == 0)
        return run_mpi();
    if (count == 3 && strcmp(words[1], "local") == 0)
        return run_threads((uint32_t)strtoul(words[2], NULL, 10), 0);
    if (count == 3 && strcmp(words[1], "callbacks") == 0)
        return run_threads((uint32_t)strtoul(words[2], NULL, 10), 1);
    return 2;
}
