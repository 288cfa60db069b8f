/* More workers than are run: every message of traces of fewer workers is a + b K + c / K. */
#include <math.h>
#include <stdlib.h>

#include "record.h"

enum {
    KNOWN = 3,
    /* Layouts of at most so many parameters run as they are, an all-reduce has one segment with
     * each of 16, 32 and 64 workers, and so have samples. */
    SEGMENT = 256 * 1024,
};

static const uint32_t as_they_are[KNOWN] = {16, 32, PLN_MOST_RANKS};
static const uint32_t sampled[KNOWN] = {8, 16, PLN_MOST_SAMPLED};

int pln_is_extended(const struct pln_job *job)
{
    return job->workers > PLN_MOST_RANKS ||
           (job->workers > PLN_MOST_SAMPLED && pln_is_sampled(job) && !pln_sample_fits(job));
}

/* a + b K + c / K through the values at three K, at another K: every combine of ARCHITECTURE.md's
 * table is of this form. Never less than nothing. */
static double on_the_curve(const double at[KNOWN], const double value[KNOWN], double workers)
{
    double sum = 0;
    for (int i = 0; i < KNOWN; i++) { /* Lagrange, of K f(K) = a K + b K^2 + c */
        double term = at[i] * value[i];
        for (int j = 0; j < KNOWN; j++)
            if (j != i)
                term *= (workers - at[j]) / (at[i] - at[j]);
        sum += term;
    }
    return fmax(sum / workers, 0);
}

/* CPU times are measured: a + b K, where b is the smaller rise of two, and they do not fall. What
 * another program took of the machine would be a hundred times as much with thousands of workers.
 */
static double on_the_line(const double at[KNOWN], const double value[KNOWN], double workers)
{
    const double first = (value[1] - value[0]) / (at[1] - at[0]);
    const double second = (value[2] - value[1]) / (at[2] - at[1]);
    return value[2] + fmax(fmin(first, second), 0) * (workers - at[2]);
}

static double cpu_of(const struct pln_rank *rank)
{
    double sum = 0;
    for (size_t e = 0; e < rank->count; e++)
        sum += rank->event[e].kind == PLN_CPU ? rank->event[e].amount : 0;
    return sum;
}

/* The ranks of a trace as one: all of them, or one that is a server, or the others. */
static terse_status mean_rank(const struct pln_trace *trace, int others, struct pln_rank *out)
{
    const int server = pln_has_server(trace);
    const size_t events = trace->rank[0].count;
    *out = (struct pln_rank){
        .event = calloc(events + 1, sizeof *out->event), .count = events, .cap = events};
    for (size_t e = 0; out->event && e < events; e++)
        out->event[e] =
            server && !others ? trace->rank[0].event[e] : pln_mean_event(trace, server ? 1 : 0, e);
    return out->event ? TERSE_OK : TERSE_NO_MEMORY;
}

static void extend_rank(const struct pln_rank from[KNOWN], const double at[KNOWN], double workers,
                        struct pln_rank *out)
{
    double cpu[KNOWN];
    for (int k = 0; k < KNOWN; k++)
        cpu[k] = cpu_of(&from[k]);
    for (size_t e = 0; e < out->count; e++) {
        double amount[KNOWN];
        double sent[KNOWN];
        double received[KNOWN];
        for (int k = 0; k < KNOWN; k++) {
            amount[k] = from[k].event[e].amount;
            sent[k] = from[k].event[e].sent;
            received[k] = from[k].event[e].received;
        }
        out->event[e] = from[KNOWN - 1].event[e];
        if (out->event[e].kind == PLN_CPU)
            out->event[e].amount = on_the_line(at, amount, workers);
        out->event[e].sent = on_the_curve(at, sent, workers);
        out->event[e].received = on_the_curve(at, received, workers);
    }
    /* lines of single events that must not fall are too high in sum */
    const double sum = cpu_of(out);
    const double all = on_the_line(at, cpu, workers);
    for (size_t e = 0; e < out->count && sum > 0; e++)
        if (out->event[e].kind == PLN_CPU)
            out->event[e].amount *= all / sum;
}

static int have_equal_events(struct pln_trace *const trace[KNOWN])
{
    for (int k = 0; k < KNOWN; k++)
        if (!pln_has_equal_events(trace[k]) || trace[k]->rank[0].count != trace[0]->rank[0].count)
            return 0;
    return 1;
}

static terse_status extend(struct pln_trace *const known[KNOWN], uint32_t workers,
                           struct pln_trace **out, terse_fault *fault)
{
    const double at[KNOWN] = {known[0]->workers, known[1]->workers, known[2]->workers};
    struct pln_trace *trace;
    terse_status status = TERSE_OK;
    if (!have_equal_events(known))
        return com_fail(fault, TERSE_UNSUPPORTED,
                        "%u workers: the messages of %u, %u and %u have no common order; at most "
                        "%d workers can be simulated with this method",
                        workers, known[0]->workers, known[1]->workers, known[2]->workers,
                        PLN_MOST_RANKS);
    trace = pln_trace_create(workers, 2);
    if (!trace)
        status = TERSE_NO_MEMORY;
    for (int others = 0; others < 2 && status == TERSE_OK; others++) {
        struct pln_rank from[KNOWN] = {{0}, {0}, {0}};
        status = mean_rank(known[KNOWN - 1], others, &trace->rank[others]);
        for (int k = 0; k < KNOWN && status == TERSE_OK; k++)
            status = mean_rank(known[k], others, &from[k]);
        if (status == TERSE_OK)
            extend_rank(from, at, workers, &trace->rank[others]);
        for (int k = 0; k < KNOWN; k++)
            free(from[k].event);
    }
    if (status != TERSE_OK) {
        pln_trace_free(trace);
        return com_fail(fault, status, "out of memory");
    }
    trace->operations = known[KNOWN - 1]->operations;
    trace->scale = known[KNOWN - 1]->scale;
    *out = trace;
    return TERSE_OK;
}

/* Samples of one job for all numbers of workers, so that their messages have a common order. */
static terse_status extend_from(const struct pln_job *job, const char *spec,
                                const uint32_t ranks[KNOWN], uint32_t even, struct pln_trace **out,
                                terse_fault *fault)
{
    struct pln_trace *known[KNOWN] = {NULL, NULL, NULL};
    terse_status status = TERSE_OK;
    for (int i = 0; i < KNOWN && status == TERSE_OK; i++) {
        struct pln_job fewer = *job;
        fewer.workers = ranks[i];
        fewer.spec = spec;
        fewer.most = (uint64_t)SEGMENT * ranks[i];
        fewer.even = even;
        status = job->cached ? pln_record_cached(&fewer, &known[i], fault)
                             : pln_record(&fewer, &known[i], fault);
    }
    if (status == TERSE_OK)
        status = extend(known, job->workers, out, fault);
    for (int i = 0; i < KNOWN; i++)
        pln_trace_free(known[i]);
    return status;
}

terse_status pln_record_many(const struct pln_job *job, const char *spec, struct pln_trace **out,
                             terse_fault *fault)
{
    terse_status status = TERSE_UNSUPPORTED;
    if (terse_layout_count(job->layout) > SEGMENT)
        status = extend_from(job, spec, sampled, PLN_MOST_SAMPLED, out, fault);
    if (status == TERSE_UNSUPPORTED && job->workers <= PLN_MOST_RANKS)
        return pln_record_sample(job, spec, out, fault);
    return status == TERSE_UNSUPPORTED ? extend_from(job, spec, as_they_are, 1, out, fault)
                                       : status;
}
