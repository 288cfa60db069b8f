/* A trace: the ranks of a job make some steps, and each event keeps the median of its CPU times. */
#include "record.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

enum {
    STEPS = PLN_STEPS, /* the first one allocates and is not noted */
    GAP = PLN_GAP,
    ALIGNMENT = 64,
    TRAINING = PLN_TRAINING,
};

/* How long a backward pass takes of a gradient's time: a forward pass multiplies once, a backward
 * pass twice. */
static const double backward = 2.0 / 3.0;

struct worker {
    struct pln_member member;
    const struct pln_job *job;
    const terse_layout *layout;
    const float *gradient;
    float *weights;
    struct pln_rank noted[STEPS - 1];
    const char *spec;
    const double *stands; /* by tensor: elements of the job's tensor, which it stands for */
    double least;         /* of these, in a bucket */
    int overlaps;
    terse_status status;
    terse_fault fault;
};

void pln_trace_free(struct pln_trace *trace)
{
    for (uint32_t i = 0; trace && i < trace->ranks; i++)
        free(trace->rank[i].event);
    free(trace ? trace->rank : NULL);
    free(trace);
}

struct pln_trace *pln_trace_create(uint32_t workers, uint32_t ranks)
{
    struct pln_trace *const trace = calloc(1, sizeof *trace);
    if (!trace)
        return NULL;
    *trace = (struct pln_trace){.workers = workers, .ranks = ranks, .every = 1, .scale = 1};
    trace->rank = calloc(ranks, sizeof *trace->rank);
    if (trace->rank)
        return trace;
    free(trace);
    return NULL;
}

/* ---- one rank ---- */

/* Buckets from the last tensor to the first, posted as soon as the backward pass has made them. */
static terse_status step_in_buckets(struct worker *worker, terse_method *method)
{
    uint32_t end = terse_layout_tensors(worker->layout);
    double all = 0;
    double count = 0;
    for (uint32_t t = 0; t < end; t++)
        all += worker->stands[t];
    worker->member.opening = 1;
    terse_status status = terse_method_progress(method, &worker->fault); /* opens the step */
    worker->member.opening = 0;
    pln_member_compute(&worker->member, 1 - backward);
    worker->member.backward = 1;
    for (uint32_t t = end; t-- > 0 && status == TERSE_OK;) {
        count += worker->stands[t];
        if (t > 0 && count < worker->least)
            continue;
        pln_member_compute(&worker->member, backward * count / all);
        status = terse_method_post(method, worker->gradient, t, end - t, &worker->fault);
        end = t;
        count = 0;
    }
    worker->member.backward = 0;
    return status == TERSE_OK ? terse_method_finish(method, worker->gradient, NULL, &worker->fault)
                              : status;
}

static terse_status make_steps(struct worker *worker, terse_method *method)
{
    terse_status status = TERSE_OK;
    for (int i = 0; i < STEPS && status == TERSE_OK; i++) {
        pln_member_note(&worker->member, i > 0 ? &worker->noted[i - 1] : NULL);
        if (worker->overlaps) {
            status = step_in_buckets(worker, method);
            continue;
        }
        pln_member_compute(&worker->member, 1);
        status = terse_method_step(method, worker->gradient, NULL, &worker->fault);
    }
    pln_member_note(&worker->member, NULL);
    return status;
}

static void *work(void *context)
{
    struct worker *const worker = context;
    const terse_method_options options = {
        .size = sizeof options, .seed = 1, .steps = TRAINING, .threads = worker->job->threads};
    terse_group *group = NULL;
    terse_method *method = NULL;
    worker->status = pln_member_enter(&worker->member, &group);
    if (worker->status == TERSE_OK)
        worker->status = terse_method_create(worker->spec, group, worker->layout, worker->weights,
                                             &options, &method, &worker->fault);
    if (worker->status == TERSE_OK)
        worker->status = make_steps(worker, method);
    if (worker->status == TERSE_OK && worker->member.no_memory)
        worker->status = com_fail(&worker->fault, TERSE_NO_MEMORY, "out of memory");
    terse_method_destroy(method);
    terse_group_destroy(group);
    pln_member_leave(&worker->member, worker->status != TERSE_OK);
    return NULL;
}

/* ---- all ranks ---- */

/* Normal enough for every codec: sums of four uniform numbers, with one element in about 64 larger,
 * at other places on every rank. */
void pln_gradients(float *out, size_t count, uint32_t ranks)
{
    uint64_t state = 88172645463325252u;
    for (size_t i = 0; i < (count + GAP) * ranks; i++) {
        float sum = 0;
        state ^= state << 13;
        state ^= state >> 7;
        state ^= state << 17;
        for (int j = 0; j < 4; j++)
            sum += (float)(state >> (16 * j) & 0xffff) / 65536.0f - 0.5f;
        const int large = (state * UINT64_C(0x9E3779B97F4A7C15)) >> 58 == 0;
        out[i] = 0.01f * sum * (large ? 8.0f : 1.0f);
    }
}

static int ascending(const void *a, const void *b)
{
    const double first = *(const double *)a;
    const double second = *(const double *)b;
    return (first > second) - (first < second);
}

/* The median of each CPU time; other steps have other events only where a codec decides so. */
static void take_median(struct worker *worker, struct pln_rank *out)
{
    const struct pln_rank last = worker->noted[STEPS - 2];
    for (size_t e = 0; e < last.count; e++) {
        double seconds[STEPS - 1];
        size_t count = 0;
        if (last.event[e].kind != PLN_CPU)
            continue;
        for (int i = 0; i < STEPS - 1; i++)
            if (worker->noted[i].count == last.count)
                seconds[count++] = worker->noted[i].event[e].amount;
        qsort(seconds, count, sizeof *seconds, ascending);
        last.event[e].amount = seconds[count / 2];
    }
    for (int i = 0; i < STEPS - 2; i++)
        free(worker->noted[i].event);
    memset(worker->noted, 0, sizeof worker->noted);
    *out = last;
}

static terse_status run_workers(struct worker *workers, uint32_t count, terse_fault *fault)
{
    pthread_t thread[PLN_MOST_RANKS];
    uint32_t started = 0;
    terse_status status = TERSE_OK;
    struct pln_world *const world = workers[0].member.world;
    (void)pthread_mutex_lock(&world->lock); /* nobody begins before all are there */
    while (started < count && pthread_create(&thread[started], NULL, work, &workers[started]) == 0)
        started++;
    if (started < count)
        world->left = (int32_t)started;
    (void)pthread_mutex_unlock(&world->lock);
    for (uint32_t i = 0; i < started; i++)
        (void)pthread_join(thread[i], NULL);
    if (started < count)
        return com_fail(fault, TERSE_NO_MEMORY, "no thread for rank %u", started);
    /* A rank that was left alone only says so. */
    for (uint32_t i = 0; i < count; i++)
        if (workers[i].status != TERSE_OK && (status == TERSE_OK || status == TERSE_PEER_LOST)) {
            status = workers[i].status;
            *fault = workers[i].fault;
        }
    return status;
}

/* Zeros, in pages that are there: a page fault in a step would count as work of the method. */
static float *floats_create(size_t count)
{
    const size_t len = (count * sizeof(float) / ALIGNMENT + 1) * ALIGNMENT;
    float *const floats = aligned_alloc(ALIGNMENT, len);
    if (floats)
        memset(floats, 0, len);
    return floats;
}

/* Tensors of a sample have the names of the job's. Returns the elements that they stand for. */
static double find_tensors(const terse_layout *sample, const terse_layout *layout, double *stands)
{
    terse_tensor mine;
    terse_tensor tensor;
    uint32_t at = 0;
    double sum = 0;
    for (uint32_t t = 0; t < terse_layout_tensors(sample); t++) {
        if (terse_layout_tensor(sample, t, &mine) != TERSE_OK)
            break;
        while (terse_layout_tensor(layout, at, &tensor) == TERSE_OK &&
               strcmp(mine.name, tensor.name) != 0)
            at++;
        stands[t] = (double)tensor.count;
        sum += stands[t];
    }
    return sum;
}

terse_status pln_record_layout(const struct pln_job *job, const char *spec,
                               const terse_layout *layout, struct pln_trace **out,
                               terse_fault *fault)
{
    const uint32_t count = job->workers;
    const size_t floats = (size_t)terse_layout_count(layout);
    terse_method_description chosen = {.size = sizeof chosen};
    struct pln_world world;
    terse_status status = terse_method_describe(spec, &chosen, fault);
    if (status != TERSE_OK)
        return status;
    struct worker *const workers = calloc(count, sizeof *workers);
    float *const gradient = floats_create((floats + GAP) * count);
    float *const weights = floats_create((floats + GAP) * count);
    double *const stands = calloc(terse_layout_tensors(layout) + (size_t)1, sizeof *stands);
    struct pln_trace *const trace = pln_trace_create(count, count);
    status = pln_world_create(&world, count, job->at_once);
    if (!workers || !gradient || !weights || !stands || !trace)
        status = TERSE_NO_MEMORY;
    if (status != TERSE_OK)
        (void)com_fail(fault, status, "out of memory for %u workers of %zu parameters", count,
                       floats);
    double share = 1; /* a bucket has its share of the model, not of the sample */
    if (status == TERSE_OK) {
        pln_gradients(gradient, floats, count);
        share = find_tensors(layout, job->layout, stands) / (double)terse_layout_count(job->layout);
    }
    for (uint32_t i = 0; i < count && status == TERSE_OK; i++)
        workers[i] = (struct worker){.member = {.world = &world, .rank = i},
                                     .job = job,
                                     .layout = layout,
                                     .gradient = gradient + (floats + GAP) * i,
                                     .weights = weights + (floats + GAP) * i,
                                     .spec = spec,
                                     .stands = stands,
                                     .least = (double)job->bucket / sizeof(float) * share,
                                     .overlaps = job->bucket > 0 && chosen.has_buckets &&
                                                 chosen.passes <= 1};
    if (status == TERSE_OK)
        status = run_workers(workers, count, fault);
    for (uint32_t i = 0; workers && trace && i < count; i++)
        take_median(&workers[i], &trace->rank[i]);
    for (size_t e = 0; status == TERSE_OK && e < trace->rank[0].count; e++)
        trace->operations += trace->rank[0].event[e].kind == PLN_POST;
    free(workers);
    free(gradient);
    free(weights);
    free(stands);
    pln_world_destroy(&world);
    if (status == TERSE_OK)
        *out = trace;
    else
        pln_trace_free(trace);
    return status;
}

terse_status pln_record(const struct pln_job *job, struct pln_trace **out, terse_fault *fault)
{
    terse_method_description chosen = {.size = sizeof chosen};
    char spec[TERSE_MAX_METHOD_SPEC];
    terse_status status = terse_method_describe(job->spec, &chosen, fault);
    if (status == TERSE_OK)
        status = terse_method_spec_with(job->spec, "every=1,warmup=0", 1, spec, sizeof spec, fault);
    if (status != TERSE_OK)
        return status;
    if (job->workers == 0 || job->workers > PLN_MOST_WORKERS)
        return com_fail(fault, TERSE_BAD_ARGUMENT, "%u workers: 1 to %d can be planned",
                        job->workers, PLN_MOST_WORKERS);
    status = pln_is_extended(job)  ? pln_record_many(job, spec, out, fault)
             : pln_is_sampled(job) ? pln_record_sample(job, spec, out, fault)
                                   : pln_record_layout(job, spec, job->layout, out, fault);
    if (status == TERSE_OK)
        (*out)->every = chosen.local_steps > 0 ? chosen.local_steps : 1;
    return status;
}
