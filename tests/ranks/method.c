/* Every method gives the same weights whoever drives its workers: prints, for every method and a
 * few options, the hash of the weights after a few steps and of all error memories.
 *
 *   method local WORKERS       one thread takes all workers through each step
 *   method threads WORKERS     a thread each
 *   mpirun -n WORKERS method mpi */
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <terse/mpi.h>
#include <terse/terse.h>

#define STEPS 6u
#define MAX_WORKERS 64u

static const char *const more[] = {
    "def:ratio=8,every=3",
    "dense:every=2,outer_momentum=0.5,nesterov=yes",
    "adam:every=3",
    "regtopk:keep=0.3,mu=1",
    "regtopk:keep=0.05,combine=sparse-allreduce,form=cur",
    "topk:keep=0.05,combine=shard",
    "topk:keep=0.05,warmup=2,min=60",
    "qadam:kx=0",
    "qadam:warmup=2,combine=parameter-server",
    "def:ratio=8,plain=bias",
    "dqsgd:bits=rms,norm=2,combine=allgather",
    "ef-sign:clip=1,wd=0.01,momentum=0.9",
    "direction=adam,feedback=residual,codec=log:k=3,combine=shard",
};

/* Each method of the table, then more; NULL past the last. */
static const char *spec_of(uint32_t index)
{
    terse_method_about about;
    uint32_t methods = 0;
    if (terse_method_list(index, &about) == TERSE_OK)
        return about.name;
    while (terse_method_list(methods, &about) == TERSE_OK)
        methods++;
    return index - methods < sizeof more / sizeof more[0] ? more[index - methods] : NULL;
}

static terse_layout *layout_new(void)
{
    static const uint64_t matrix[] = {131, 57};
    static const uint64_t bias[] = {57};
    static const uint64_t large[] = {20000};
    terse_layout *layout = NULL;
    if (terse_layout_create(&layout) || terse_layout_add(layout, "matrix", 2, matrix) ||
        terse_layout_add(layout, "bias", 1, bias) || terse_layout_add(layout, "large", 1, large))
        abort();
    return layout;
}

/* Whoever drives it, rank r's gradient of a step is this. */
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
    for (size_t i = 0; i < count; i++) {
        uint32_t bits;
        memcpy(&bits, &floats[i], sizeof bits);
        hash = (hash ^ bits) * UINT64_C(1099511628211);
    }
    return hash;
}

static const terse_method_options options = {
    .size = sizeof options, .seed = 11, .steps = STEPS, .compare_every = 1};

/* Of a worker: weights, which are everybody's, and its own memory. */
struct result {
    uint64_t weights;
    uint64_t memory;
};

static struct result result_of(terse_method *method, const float *weights, size_t count)
{
    struct result result = {mix(UINT64_C(14695981039346656037), weights, count), 0};
    terse_state state;
    for (uint32_t i = 0; terse_method_state(method, i, &state) == TERSE_OK; i++)
        if (state.floats && strcmp(state.name, "residual") == 0)
            result.memory = mix(UINT64_C(14695981039346656037), state.bytes, count);
    return result;
}

/* Prints a spec's line, if all workers hold the same weights. */
static int tell(const char *spec, const struct result *result, uint32_t workers)
{
    uint64_t memories = 0;
    for (uint32_t r = 0; r < workers; r++) {
        memories = memories * 31 + result[r].memory;
        if (result[r].weights != result[0].weights) {
            printf("%s: ranks 0 and %u hold different weights\n", spec, r);
            return 1;
        }
    }
    printf("%s %016llx\n", spec, (unsigned long long)(result[0].weights ^ memories));
    return 0;
}

/* ---- one thread for all ---- */

static terse_status run_together(const char *spec, uint32_t workers, struct result *result,
                                 terse_fault *fault)
{
    terse_layout *const layout = layout_new();
    const size_t count = (size_t)terse_layout_count(layout);
    terse_method *method[MAX_WORKERS] = {NULL};
    float *weights[MAX_WORKERS];
    float *gradient[MAX_WORKERS];
    for (uint32_t r = 0; r < workers; r++) {
        weights[r] = calloc(count, sizeof(float));
        gradient[r] = malloc(count * sizeof(float));
        if (!weights[r] || !gradient[r])
            abort();
    }
    terse_status status =
        terse_method_create_all(spec, workers, layout, weights, &options, method, fault);
    for (uint64_t step = 0; step < STEPS && status == TERSE_OK; step++) {
        for (uint32_t r = 0; r < workers; r++)
            fill(gradient[r], count, r, step);
        status = terse_method_step_all(method, (const float *const *)gradient, NULL, fault);
    }
    for (uint32_t r = 0; r < workers; r++) {
        if (status == TERSE_OK)
            result[r] = result_of(method[r], weights[r], count);
        terse_method_destroy(method[r]);
        free(weights[r]);
        free(gradient[r]);
    }
    terse_layout_destroy(layout);
    return status;
}

static int run_local(uint32_t workers)
{
    const char *spec;
    for (uint32_t s = 0; (spec = spec_of(s)) != NULL; s++) {
        struct result result[MAX_WORKERS] = {{0}};
        terse_fault fault = {.rank = -1};
        if (run_together(spec, workers, result, &fault) != TERSE_OK) {
            printf("%s: %s\n", spec, fault.text);
            return 1;
        }
        if (tell(spec, result, workers))
            return 1;
    }
    return 0;
}

/* ---- a handle each ---- */

static terse_status run_alone(const char *spec, terse_group *handle, struct result *result,
                              terse_fault *fault)
{
    terse_layout *const layout = layout_new();
    const size_t count = (size_t)terse_layout_count(layout);
    float *const weights = calloc(count, sizeof(float));
    float *const gradient = malloc(count * sizeof(float));
    terse_method *method = NULL;
    if (!weights || !gradient)
        abort();
    terse_status status =
        terse_method_create(spec, handle, layout, weights, &options, &method, fault);
    for (uint64_t step = 0; step < STEPS && status == TERSE_OK; step++) {
        fill(gradient, count, terse_group_rank(handle), step);
        status = terse_method_step(method, gradient, NULL, fault);
    }
    if (status == TERSE_OK)
        *result = result_of(method, weights, count);
    terse_method_destroy(method);
    terse_layout_destroy(layout);
    free(weights);
    free(gradient);
    return status;
}

/* All specs on one handle; rank 0 prints. */
static int run_handle(terse_group *handle)
{
    const char *spec;
    for (uint32_t s = 0; (spec = spec_of(s)) != NULL; s++) {
        struct result mine = {0};
        struct result all[MAX_WORKERS] = {{0}};
        void *at[MAX_WORKERS];
        size_t len[MAX_WORKERS];
        terse_request request;
        terse_fault fault = {.rank = -1};
        for (uint32_t r = 0; r < terse_group_workers(handle); r++) {
            at[r] = &all[r];
            len[r] = sizeof all[r];
        }
        terse_status status = run_alone(spec, handle, &mine, &fault);
        if (status == TERSE_OK)
            status =
                terse_group_post_allgatherv(handle, &mine, sizeof mine, at, len, &request, &fault);
        if (status == TERSE_OK)
            status = terse_group_wait(handle, request, &fault);
        if (status != TERSE_OK) {
            printf("rank %u: %s: %s: %s\n", terse_group_rank(handle), spec,
                   terse_status_text(status), fault.text);
            return 1;
        }
        if (terse_group_rank(handle) == 0 && tell(spec, all, terse_group_workers(handle)))
            return 1;
    }
    return 0;
}

struct worker {
    pthread_t thread;
    terse_group *handle;
    int bad;
};

static void *work(void *opaque)
{
    struct worker *const worker = opaque;
    worker->bad = run_handle(worker->handle);
    return NULL;
}

static int run_threads(uint32_t workers)
{
    terse_group *handles[MAX_WORKERS];
    struct worker crew[MAX_WORKERS];
    int bad = 0;
    if (terse_group_local(workers, handles) != TERSE_OK)
        return 1;
    for (uint32_t r = 0; r < workers; r++) {
        crew[r] = (struct worker){.handle = handles[r]};
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
        terse_group_mpi(MPI_COMM_WORLD, &handle, &fault) != TERSE_OK ||
        terse_group_workers(handle) > MAX_WORKERS) {
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
    const uint32_t workers = count == 3 ? (uint32_t)strtoul(words[2], NULL, 10) : 0;
    if (count == 2 && strcmp(words[1], "mpi") == 0)
        return run_mpi();
    if (workers > 0 && workers <= MAX_WORKERS && strcmp(words[1], "local") == 0)
        return run_local(workers);
    if (workers > 0 && workers <= MAX_WORKERS && strcmp(words[1], "threads") == 0)
        return run_threads(workers);
    return 2;
}
