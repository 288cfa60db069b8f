/* A layout that is too large to run: samples of it are, and bytes and CPU times grow from them to
 * the whole by what parameters and tensors cost.
 *
 * Owners have slices of every tensor, cut at multiples of 2048 elements, and buckets are posted one
 * after the other. So a sample keeps several tensors, and of each so much that every owner has an
 * equal slice: else a few owners would send all, and the first bucket would be the last. */
#include <math.h>
#include <stdlib.h>

#include "record.h"

enum {
    CUT = 2048,  /* elements: where slices of owners begin, see docs/wire-format.md */
    BUCKETS = 6, /* tensors that are kept, where buckets are posted during the backward pass */
    WHOLE = 2,   /* the same where all is one */
    AT_MOST = 4, /* times `most`: what slices that are even may cost */
};

int pln_is_sampled(const struct pln_job *job)
{
    return job->most > 0 &&
           (double)terse_layout_count(job->layout) * job->workers > (double)job->most;
}

/* ---- what there is in a trace ---- */

int pln_has_equal_events(const struct pln_trace *trace)
{
    for (uint32_t i = 1; i < trace->ranks; i++)
        if (trace->rank[i].count != trace->rank[0].count)
            return 0;
    return 1;
}

struct pln_event pln_mean_event(const struct pln_trace *trace, uint32_t from, size_t e)
{
    const double count = trace->ranks - from;
    struct pln_event mean = trace->rank[from].event[e];
    mean.amount = mean.sent = mean.received = 0;
    for (uint32_t i = from; i < trace->ranks; i++) {
        const struct pln_event *const event = &trace->rank[i].event[e];
        mean.amount += event->amount / count;
        mean.sent += event->sent / count;
        mean.received += event->received / count;
    }
    return mean;
}

static double bytes_of(const struct pln_rank *rank)
{
    double bytes = 0;
    for (size_t e = 0; e < rank->count; e++)
        bytes += rank->event[e].sent + rank->event[e].received;
    return bytes;
}

int pln_has_server(const struct pln_trace *trace)
{
    double others = 0;
    for (uint32_t i = 1; i < trace->ranks; i++)
        others += bytes_of(&trace->rank[i]) / (trace->ranks - 1);
    return trace->ranks > 2 && bytes_of(&trace->rank[0]) > 2 * others;
}

/* Does a message of this event grow with the model? Records, lengths and checks do not: they are
 * shorter than the frame of a part. */
static int grows(const struct pln_trace *trace, size_t e)
{
    const double frames =
        (double)(TERSE_FRAME_HEADER_LEN + TERSE_FRAME_TRAILER_LEN) * (trace->workers - 1);
    for (uint32_t i = 0; i < trace->ranks; i++)
        if (e < trace->rank[i].count && trace->rank[i].event[e].kind == PLN_POST &&
            trace->rank[i].event[e].sent > frames)
            return 1;
    return 0;
}

/* ---- from samples to the whole ---- */

/* What grows, in sum over all ranks: CPU seconds, and bytes. */
struct total {
    double parameters;
    double tensors; /* that are not small */
    double value[2];
};

enum { CPU, BYTES };

static struct total total_of(const struct pln_trace *trace, double parameters, double tensors)
{
    struct total total = {.parameters = parameters, .tensors = tensors};
    for (uint32_t i = 0; i < trace->ranks; i++)
        for (size_t e = 0; e < trace->rank[i].count; e++) {
            const struct pln_event *const event = &trace->rank[i].event[e];
            total.value[CPU] += event->kind == PLN_CPU ? event->amount : 0;
            total.value[BYTES] += grows(trace, e) ? event->sent : 0;
        }
    return total;
}

/* The value of the whole over that of sample 0, which has more parameters than sample 1, and that
 * more tensors than sample 2: at least 1, at most in proportion to the parameters. */
static double growth(const struct total sample[3], const struct total *whole, int what)
{
    const double at = sample[0].value[what];
    const double more[2] = {sample[0].parameters - sample[1].parameters,
                            sample[1].parameters - sample[2].parameters};
    const double tensors = sample[1].tensors - sample[2].tensors;
    if (at <= 0)
        return 1;
    const double parameter = more[0] > 0 ? fmax((at - sample[1].value[what]) / more[0], 0) : 0;
    const double step = sample[1].value[what] - sample[2].value[what] - parameter * more[1];
    const double tensor = tensors > 0 ? fmax(step / tensors, 0) : 0;
    const double value = at + parameter * (whole->parameters - sample[0].parameters) +
                         tensor * (whole->tensors - sample[0].tensors);
    return fmin(fmax(value / at, 1), whole->parameters / sample[0].parameters);
}

/* Ranks grow by as much as their mean: how uneven they are depends on where slices are cut, and
 * does not grow. A server grows on its own. */
static void grow(struct pln_trace *trace, double cpu, double bytes)
{
    const uint32_t from = pln_has_server(trace) ? 1 : 0;
    const int equal = pln_has_equal_events(trace);
    for (size_t e = 0; equal && e < trace->rank[0].count; e++) {
        const struct pln_event mean = pln_mean_event(trace, from, e);
        const double factor = grows(trace, e) ? bytes : 1;
        for (uint32_t i = 0; i < trace->ranks; i++) {
            struct pln_event *const event = &trace->rank[i].event[e];
            const struct pln_event by = i < from ? *event : mean;
            event->amount += event->kind == PLN_CPU ? (cpu - 1) * by.amount : 0;
            event->sent += (factor - 1) * by.sent;
            event->received += (factor - 1) * by.received;
        }
    }
    for (uint32_t i = 0; i < trace->ranks && !equal; i++)
        for (size_t e = 0; e < trace->rank[i].count; e++) {
            struct pln_event *const event = &trace->rank[i].event[e];
            const double factor = grows(trace, e) ? bytes : 1;
            event->amount *= event->kind == PLN_CPU ? cpu : 1;
            event->sent *= factor;
            event->received *= factor;
        }
}

/* ---- the samples ---- */

/* The largest sample, and its parameters. */
static terse_status scale_of(const struct pln_job *job, double unit, struct pln_scale *out,
                             double *parameters)
{
    const double all = (double)terse_layout_count(job->layout) * job->workers;
    const double factor = (double)job->most / all;
    terse_layout *layout = NULL;
    double tensors = 0;
    terse_status status = pln_layout_large(job->layout, &tensors);
    const double wanted = (job->bucket > 0 ? BUCKETS : WHOLE) / fmax(tensors, 1);
    const double keeps = fmin(fmax(factor, wanted), 1);
    *out = (struct pln_scale){keeps, factor / keeps, unit, 2 * unit};
    if (status == TERSE_OK)
        status = pln_layout_scaled(job->layout, out, &layout);
    if (status == TERSE_OK)
        *parameters = (double)terse_layout_count(layout);
    terse_layout_destroy(layout);
    return status;
}

static double even_unit(const struct pln_job *job)
{
    return (double)CUT * (job->even > 0 ? job->even : job->workers);
}

static int fits(const struct pln_job *job, double parameters)
{
    return parameters * job->workers <= AT_MOST * (double)job->most;
}

int pln_sample_fits(const struct pln_job *job)
{
    struct pln_scale scale;
    double parameters = 0;
    return scale_of(job, even_unit(job), &scale, &parameters) == TERSE_OK && fits(job, parameters);
}

terse_status pln_record_sample(const struct pln_job *job, const char *spec, struct pln_trace **out,
                               terse_fault *fault)
{
    struct pln_trace *trace[3] = {NULL, NULL, NULL};
    struct total total[3] = {{.parameters = 0}, {.parameters = 0}, {.parameters = 0}};
    struct total whole = {.parameters = (double)terse_layout_count(job->layout)};
    struct pln_scale scale = {0};
    double parameters = 0;
    double unit = even_unit(job);
    terse_status status = pln_layout_large(job->layout, &whole.tensors);
    if (status == TERSE_OK)
        status = scale_of(job, unit, &scale, &parameters);
    while (status == TERSE_OK && !fits(job, parameters) && unit > 16) { /* less even */
        unit /= 2;
        status = scale_of(job, unit, &scale, &parameters);
    }
    if (status == TERSE_OK && parameters >= whole.parameters)
        return pln_record_layout(job, spec, job->layout, out, fault);
    for (int i = 0; i < 3 && status == TERSE_OK; i++) {
        terse_layout *layout = NULL;
        double tensors = 0;
        if (i == 1) {
            scale.elements /= 2;
            scale.least = scale.unit;
        }
        if (i == 2)
            scale.tensors /= 2;
        status = pln_layout_scaled(job->layout, &scale, &layout);
        if (status == TERSE_OK)
            status = pln_layout_large(layout, &tensors);
        if (status == TERSE_OK)
            status = pln_record_layout(job, spec, layout, &trace[i], fault);
        if (status == TERSE_OK)
            total[i] = total_of(trace[i], (double)terse_layout_count(layout), tensors);
        terse_layout_destroy(layout);
    }
    if (status == TERSE_OK) {
        grow(trace[0], growth(total, &whole, CPU), growth(total, &whole, BYTES));
        trace[0]->scale = whole.parameters / total[0].parameters;
        *out = trace[0];
        trace[0] = NULL;
    }
    for (int i = 0; i < 3; i++)
        pln_trace_free(trace[i]);
    return status;
}
