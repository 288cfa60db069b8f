/* A trace: the ranks of a job make some steps, and each event keeps its shortest CPU time. */
#include "record.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

enum {
    STEPS = PLN_STEPS, /* the first one allocates and is not noted */
    SHIFT = PLN_SHIFT,
    TRAINING = PLN_TRAINING,
    /* Beyond PLN_MOST_RANKS, traces of these are extrapolated, of so many parameters that an
     * all-reduce has one segment with each of them. */
    FEW = 16,
    SOME = 32,
    SEGMENT = 256 * 1024,
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
    double scale; /* parameters of the job over those of the layout */
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

static struct pln_trace *trace_of(uint32_t workers, uint32_t ranks)
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

/* Buckets from the last tensor to the first, each of at least job->bucket bytes, posted as soon as
 * the backward pass has made them. */
static terse_status step_in_buckets(struct worker *worker, terse_method *method)
{
    const double all = (double)terse_layout_count(worker->layout);
    /* a bucket has its share of the model, not of the sample */
    const double least = (double)worker->job->bucket / sizeof(float) / worker->scale;
    uint32_t end = terse_layout_tensors(worker->layout);
    uint64_t count = 0;
    terse_tensor tensor;
    worker->member.opening = 1;
    terse_status status = terse_method_progress(method, &worker->fault); /* opens the step */
    worker->member.opening = 0;
    pln_member_compute(&worker->member, 1 - backward);
    worker->member.backward = 1;
    for (uint32_t t = end; t-- > 0 && status == TERSE_OK;) {
        status = terse_layout_tensor(worker->layout, t, &tensor);
        count += tensor.count;
        if (status != TERSE_OK || (t > 0 && (double)count < least))
            continue;
        pln_member_compute(&worker->member, backward * (double)count / all);
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
void pln_gradient(float *out, size_t count)
{
    uint64_t state = 88172645463325252u;
    for (size_t i = 0; i < count; i++) {
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

/* The shortest of each CPU time; other steps have other events only where a codec decides so. */
static void take_shortest(struct worker *worker, struct pln_rank *out)
{
    const struct pln_rank last = worker->noted[STEPS - 2];
    worker->noted[STEPS - 2] = (struct pln_rank){0};
    for (int i = 0; i < STEPS - 2; i++) {
        const struct pln_rank *const other = &worker->noted[i];
        for (size_t e = 0; other->count == last.count && e < last.count; e++)
            if (last.event[e].kind == PLN_CPU)
                last.event[e].amount = fmin(last.event[e].amount, other->event[e].amount);
        free(worker->noted[i].event);
        worker->noted[i] = (struct pln_rank){0};
    }
    *out = last;
}

static terse_status run_workers(struct worker *workers, uint32_t count, terse_fault *fault)
{
    pthread_t thread[PLN_MOST_RANKS];
    uint32_t started = 0;
    terse_status status = TERSE_OK;
    struct pln_world *const world = workers[0].member.world;
    (void)pthread_mutex_lock(&world->token); /* nobody begins before all are there */
    while (started < count && pthread_create(&thread[started], NULL, work, &workers[started]) == 0)
        started++;
    if (started < count)
        world->left = (int32_t)started;
    (void)pthread_mutex_unlock(&world->token);
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

/* One trace of a layout as it is. */
static terse_status record(const struct pln_job *job, const char *spec, const terse_layout *layout,
                           struct pln_trace **out, terse_fault *fault)
{
    const uint32_t count = job->workers;
    const size_t floats = (size_t)terse_layout_count(layout);
    terse_method_description chosen = {.size = sizeof chosen};
    struct pln_world world;
    terse_status status = terse_method_describe(spec, &chosen, fault);
    if (status != TERSE_OK)
        return status;
    struct worker *const workers = calloc(count, sizeof *workers);
    float *const gradient = malloc((floats + (size_t)SHIFT * count + 1) * sizeof *gradient);
    float *const weights = calloc((floats + SHIFT) * count, sizeof *weights);
    struct pln_trace *const trace = trace_of(count, count);
    status = pln_world_create(&world, count);
    if (!workers || !gradient || !weights || !trace)
        status = TERSE_NO_MEMORY;
    if (status != TERSE_OK)
        (void)com_fail(fault, status, "out of memory for %u workers of %zu parameters", count,
                       floats);
    if (status == TERSE_OK)
        pln_gradient(gradient, floats + (size_t)SHIFT * count);
    for (uint32_t i = 0; i < count && status == TERSE_OK; i++)
        workers[i] = (struct worker){
            .member = {.world = &world, .rank = i},
            .job = job,
            .layout = layout,
            .gradient = gradient + (size_t)SHIFT * i,
            .weights = weights + (floats + SHIFT) * i,
            .spec = spec,
            .scale = (double)terse_layout_count(job->layout) / (double)floats,
            .overlaps = job->bucket > 0 && chosen.has_buckets && chosen.passes <= 1};
    if (status == TERSE_OK)
        status = run_workers(workers, count, fault);
    for (uint32_t i = 0; workers && trace && i < count; i++)
        take_shortest(&workers[i], &trace->rank[i]);
    for (size_t e = 0; status == TERSE_OK && e < trace->rank[0].count; e++)
        trace->operations += trace->rank[0].event[e].kind == PLN_POST;
    free(workers);
    free(gradient);
    free(weights);
    pln_world_destroy(&world);
    if (status == TERSE_OK)
        *out = trace;
    else
        pln_trace_free(trace);
    return status;
}

/* ---- layouts that are too large ---- */

/* Does a message of this event grow with the model? Records, lengths and checks do not. */
static int grows(const struct pln_trace *trace, const struct pln_event *event)
{
    const double most = 256.0 * (trace->workers - 1);
    return event->kind == PLN_POST && (event->sent > most || event->received > most);
}

/* What grows, in sum over all ranks: CPU seconds, and bytes. */
struct total {
    double parameters;
    double cpu;
    double bytes;
};

static struct total total_of(const struct pln_trace *trace, const terse_layout *layout)
{
    struct total total = {.parameters = (double)terse_layout_count(layout)};
    for (uint32_t i = 0; i < trace->ranks; i++)
        for (size_t e = 0; e < trace->rank[i].count; e++) {
            const struct pln_event *const event = &trace->rank[i].event[e];
            total.cpu += event->kind == PLN_CPU ? event->amount : 0;
            total.bytes += grows(trace, event) ? event->sent : 0;
        }
    return total;
}

/* The value at `all` parameters over that of the larger sample, on the line through both samples:
 * at least 1, at most in proportion. */
static double growth(const struct total *large, const struct total *small, double at_large,
                     double at_small, double all)
{
    const double step = large->parameters - small->parameters;
    const double slope = step > 0 ? (at_large - at_small) / step : 0;
    const double factor = at_large > 0 ? 1 + slope * (all - large->parameters) / at_large : 1;
    return fmin(fmax(factor, 1), all / large->parameters);
}

static void multiply(struct pln_trace *trace, double cpu, double bytes)
{
    for (uint32_t i = 0; i < trace->ranks; i++)
        for (size_t e = 0; e < trace->rank[i].count; e++) {
            struct pln_event *const event = &trace->rank[i].event[e];
            const double factor = grows(trace, event) ? bytes : 1;
            event->amount *= event->kind == PLN_CPU ? cpu : 1;
            event->sent *= factor;
            event->received *= factor;
        }
}

/* A sample of the layout stands for it, and one of a quarter of its size tells what does not grow
 * with it: constant work, and factors of matrices, which grow with a dimension alone. */
static terse_status record_sample(const struct pln_job *job, const char *spec, double factor,
                                  struct pln_trace **out, terse_fault *fault)
{
    const double all = (double)terse_layout_count(job->layout);
    terse_layout *layout[2] = {NULL, NULL};
    struct pln_trace *trace[2] = {NULL, NULL};
    struct total total[2] = {{.parameters = 0}, {.parameters = 0}};
    terse_status status = TERSE_OK;
    for (int i = 0; i < 2 && status == TERSE_OK; i++) {
        status = pln_layout_scaled(job->layout, i == 0 ? factor : factor / 4, &layout[i]);
        if (status == TERSE_OK)
            status = record(job, spec, layout[i], &trace[i], fault);
        if (status == TERSE_OK)
            total[i] = total_of(trace[i], layout[i]);
    }
    if (status == TERSE_OK) {
        multiply(trace[0], growth(&total[0], &total[1], total[0].cpu, total[1].cpu, all),
                 growth(&total[0], &total[1], total[0].bytes, total[1].bytes, all));
        trace[0]->scale = all / total[0].parameters;
        *out = trace[0];
        trace[0] = NULL;
    }
    for (int i = 0; i < 2; i++) {
        terse_layout_destroy(layout[i]);
        pln_trace_free(trace[i]);
    }
    return status;
}

static terse_status record_real(const struct pln_job *job, const char *spec, uint64_t most,
                                struct pln_trace **out, terse_fault *fault)
{
    const double factor =
        (double)most / ((double)terse_layout_count(job->layout) * (double)job->workers);
    return most == 0 || factor >= 1 ? record(job, spec, job->layout, out, fault)
                                    : record_sample(job, spec, factor, out, fault);
}

/* ---- more workers than can run ---- */

/* a + b K + c / K through the values at three K, at another K: every combine of ARCHITECTURE.md's
 * table is of this form. Never less than nothing. */
static double extrapolate(const double at[3], const double value[3], double workers)
{
    double sum = 0;
    for (int i = 0; i < 3; i++) { /* Lagrange, of K f(K) = a K + b K^2 + c */
        double term = at[i] * value[i];
        for (int j = 0; j < 3; j++)
            if (j != i)
                term *= (workers - at[j]) / (at[i] - at[j]);
        sum += term;
    }
    return fmax(sum / workers, 0);
}

/* The mean of an event over all ranks but the first, or that of the first. */
static struct pln_event event_of(const struct pln_trace *trace, int others, size_t e)
{
    struct pln_event mean = trace->rank[others].event[e];
    if (!others)
        return mean;
    mean.amount = mean.sent = mean.received = 0;
    for (uint32_t i = 1; i < trace->ranks; i++) {
        const struct pln_event *const event = &trace->rank[i].event[e];
        mean.amount += event->amount / (trace->ranks - 1);
        mean.sent += event->sent / (trace->ranks - 1);
        mean.received += event->received / (trace->ranks - 1);
    }
    return mean;
}

static int have_equal_events(struct pln_trace *const trace[3])
{
    for (int k = 0; k < 3; k++)
        for (uint32_t i = 0; i < trace[k]->ranks; i++)
            if (trace[k]->rank[i].count != trace[0]->rank[0].count)
                return 0;
    return 1;
}

static terse_status extend(struct pln_trace *const known[3], uint32_t workers,
                           struct pln_trace **out, terse_fault *fault)
{
    const double at[3] = {known[0]->workers, known[1]->workers, known[2]->workers};
    const size_t events = known[0]->rank[0].count;
    if (!have_equal_events(known))
        return com_fail(fault, TERSE_UNSUPPORTED,
                        "%u workers: the messages of %u, %u and %u have no common order; at most "
                        "%d workers can be simulated with this method",
                        workers, FEW, SOME, PLN_MOST_RANKS, PLN_MOST_RANKS);
    struct pln_trace *const trace = trace_of(workers, 2);
    for (int i = 0; i < 2 && trace; i++) {
        struct pln_rank *const rank = &trace->rank[i];
        rank->event = calloc(events + 1, sizeof *rank->event);
        rank->count = rank->cap = rank->event ? events : 0;
        for (size_t e = 0; e < rank->count; e++) {
            const struct pln_event from[3] = {event_of(known[0], i, e), event_of(known[1], i, e),
                                              event_of(known[2], i, e)};
            const double amount[3] = {from[0].amount, from[1].amount, from[2].amount};
            const double sent[3] = {from[0].sent, from[1].sent, from[2].sent};
            const double received[3] = {from[0].received, from[1].received, from[2].received};
            rank->event[e] = from[2];
            if (from[2].kind != PLN_COMPUTE)
                rank->event[e].amount = extrapolate(at, amount, workers);
            rank->event[e].sent = extrapolate(at, sent, workers);
            rank->event[e].received = extrapolate(at, received, workers);
        }
    }
    if (!trace || !trace->rank[0].event || !trace->rank[1].event) {
        pln_trace_free(trace);
        return com_fail(fault, TERSE_NO_MEMORY, "out of memory");
    }
    trace->operations = known[2]->operations;
    trace->scale = known[2]->scale;
    *out = trace;
    return TERSE_OK;
}

static terse_status record_many(const struct pln_job *job, const char *spec, struct pln_trace **out,
                                terse_fault *fault)
{
    static const uint32_t ranks[3] = {FEW, SOME, PLN_MOST_RANKS};
    struct pln_trace *known[3] = {NULL, NULL, NULL};
    terse_status status = TERSE_OK;
    for (int i = 0; i < 3 && status == TERSE_OK; i++) {
        struct pln_job fewer = *job;
        fewer.workers = ranks[i];
        fewer.spec = spec;
        fewer.most = (uint64_t)SEGMENT * ranks[i];
        status = job->cached ? pln_record_cached(&fewer, &known[i], fault)
                             : pln_record(&fewer, &known[i], fault);
    }
    if (status == TERSE_OK)
        status = extend(known, job->workers, out, fault);
    for (int i = 0; i < 3; i++)
        pln_trace_free(known[i]);
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
    status = job->workers <= PLN_MOST_RANKS ? record_real(job, spec, job->most, out, fault)
                                            : record_many(job, spec, out, fault);
    if (status == TERSE_OK)
        (*out)->every = chosen.local_steps > 0 ? chosen.local_steps : 1;
    return status;
}
