/* A trace played on a link. Every rank has a virtual clock and a link of its own with two
 * directions; what it sends goes out in the order in which it was posted, what it receives comes in
 * likewise. An all-to-all is done for a rank when its own bytes are out, all bytes for it are in
 * (not faster than its link, and not before their senders have sent them), and the latency has
 * passed. Messages of one all-to-all leave interleaved, as engines send them: each arrives when the
 * last of its sender does. A link with a burst is a token bucket, as of tc or a cloud's virtual
 * machine: what it carries is ahead of its rate by that much, and no more.
 *
 * During the backward pass nobody waits: while an all-to-all is not done, the rank computes on, and
 * the method goes on as soon as it is. So what a rank computes later may come before a wait. */
#include <math.h>
#include <stdlib.h>

#include "plan.h"

struct flight {
    double begins; /* first byte leaves */
    double leaves; /* last byte has left */
    double posted;
    double done;
    double sent;
    double received;
};

struct clock {
    const struct pln_event *next;
    const struct pln_event *end;
    const struct pln_event *ahead; /* what is computed before this event is done */
    double begun;                  /* seconds of the next computation that are done */
    double now;
    double out_free; /* the link, at its rate, is idle from here on */
    double in_free;
    double compute;
    double inside; /* averages of a node */
    double codec;
    double wire; /* without them */
    double seen; /* end of the last interval that counts as wire time */
    double bytes;
};

struct play {
    const struct pln_trace *trace;
    const struct pln_place *place;
    struct clock *clock;   /* by rank */
    struct flight *flight; /* by operation and rank */
    uint32_t *posted;      /* by operation: ranks */
};

/* All ranks have posted: when is it done, for each of them? */
static void land(struct play *play, uint32_t operation)
{
    const uint32_t ranks = play->trace->ranks;
    struct flight *const flight = play->flight + (size_t)operation * ranks;
    double first = INFINITY;
    double last = 0;
    for (uint32_t i = 0; i < ranks; i++)
        if (flight[i].sent > 0) {
            first = fmin(first, flight[i].begins);
            last = fmax(last, flight[i].leaves);
        }
    for (uint32_t i = 0; i < ranks; i++) {
        flight[i].done = fmax(flight[i].posted, flight[i].leaves);
        if (flight[i].received > 0) {
            const double in = 8 * flight[i].received / play->place->bits_per_second;
            /* an extrapolation may leave bytes to receive and none to send */
            const double begins = isfinite(first) ? first : flight[i].posted;
            const double at_rate = fmax(last, fmax(play->clock[i].in_free, begins) + in);
            const double ahead = fmax(begins, at_rate - play->place->burst);
            play->clock[i].in_free = at_rate;
            flight[i].done = fmax(flight[i].done, fmax(last, ahead));
        }
        if (flight[i].received > 0 || flight[i].sent > 0)
            flight[i].done += play->place->latency;
        flight[i].done += flight[i].received * play->place->passes_on;
    }
}

static void depart(struct play *play, uint32_t rank, const struct pln_event *event)
{
    struct clock *const clock = &play->clock[rank];
    const uint32_t ranks = play->trace->ranks;
    struct flight *const flight = &play->flight[(size_t)event->operation * ranks + rank];
    const double burst = play->place->burst;
    const double at_rate =
        fmax(clock->now, clock->out_free) + 8 * event->sent / play->place->bits_per_second;
    *flight = (struct flight){.posted = clock->now,
                              .begins = fmax(clock->now, clock->out_free - burst),
                              .leaves = fmax(clock->now, at_rate - burst),
                              .sent = event->sent,
                              .received = event->received};
    if (event->sent > 0)
        clock->out_free = at_rate;
    clock->bytes += event->sent;
    if (++play->posted[event->operation] == ranks)
        land(play, event->operation);
}

/* From the post until it is done, what earlier all-to-alls have counted left out. */
static void count_wire(struct clock *clock, const struct flight *flight)
{
    const double from = fmax(flight->posted, clock->seen);
    if (flight->done > from)
        clock->wire += flight->done - from;
    clock->seen = fmax(clock->seen, flight->done);
}

/* The next computation that is not done; NULL: there is none. */
static const struct pln_event *next_computation(struct clock *clock)
{
    while (clock->ahead < clock->end && clock->ahead->kind != PLN_COMPUTE)
        clock->ahead++;
    return clock->ahead < clock->end ? clock->ahead : NULL;
}

/* Computes until `until`, if there is so much; what is computed before `last`, and no more.
 * Averages of a node are taken as their gradients are made. */
static void compute(const struct play *play, struct clock *clock, double until,
                    const struct pln_event *last)
{
    const double all = play->place->compute + play->place->inside;
    for (const struct pln_event *event = next_computation(clock);
         event && event <= last && clock->now < until; event = next_computation(clock)) {
        const double left = event->amount * all - clock->begun;
        const int ends = left <= until - clock->now;
        const double spent = ends ? left : until - clock->now;
        clock->now += spent;
        clock->compute += all > 0 ? spent * play->place->compute / all : 0;
        clock->inside += all > 0 ? spent * play->place->inside / all : 0;
        clock->begun = ends ? 0 : clock->begun + spent;
        clock->ahead += ends;
    }
}

/* The rank goes on until it waits for somebody who has not posted. Returns the events it made. */
static size_t go_on(struct play *play, uint32_t rank)
{
    struct clock *const clock = &play->clock[rank];
    const uint32_t ranks = play->trace->ranks;
    const struct pln_event *const from = clock->next;
    const double share = fmax(play->place->ranks_per_core, 1);
    for (; clock->next < clock->end; clock->next++) {
        const struct pln_event *const event = clock->next;
        const struct flight *const flight = &play->flight[(size_t)event->operation * ranks + rank];
        if (event->kind == PLN_CPU) {
            clock->codec += event->amount * share;
            clock->now += event->amount * share;
        } else if (event->kind == PLN_COMPUTE) {
            compute(play, clock, INFINITY, event);
        } else if (event->kind == PLN_POST) {
            depart(play, rank, event);
        } else if (play->posted[event->operation] == ranks) {
            count_wire(clock, flight);
            compute(play, clock, flight->done, clock->end);
            clock->now = fmax(clock->now, flight->done);
        } else {
            break;
        }
    }
    return (size_t)(clock->next - from);
}

/* Local steps between exchanges compute, average inside nodes, and do not communicate. */
static struct pln_cost cost_of(const struct play *play)
{
    const struct pln_trace *const trace = play->trace;
    const double every = trace->every;
    const struct clock *last = &play->clock[0];
    double bytes = 0;
    for (uint32_t i = 0; i < trace->ranks; i++) {
        const double stands_for = trace->ranks == trace->workers ? 1
                                  : i == 0                       ? 1
                                                                 : trace->workers - 1;
        bytes += stands_for * play->clock[i].bytes / trace->workers;
        last = play->clock[i].now > last->now ? &play->clock[i] : last;
    }
    struct pln_cost cost = {.compute_seconds = last->compute,
                            .codec_seconds = last->codec / every,
                            .wire_seconds = last->inside + last->wire / every,
                            .bytes_sent = bytes / every};
    const double own = last->compute + last->inside;
    cost.seconds = own + (last->now - own) / every;
    cost.hidden_seconds =
        fmax(cost.compute_seconds + cost.codec_seconds + cost.wire_seconds - cost.seconds, 0);
    return cost;
}

struct pln_cost pln_simulate(const struct pln_trace *trace, const struct pln_place *place)
{
    const size_t flights = (size_t)trace->ranks * trace->operations + 1;
    struct play play = {.trace = trace,
                        .place = place,
                        .clock = calloc(trace->ranks, sizeof *play.clock),
                        .flight = calloc(flights, sizeof *play.flight),
                        .posted = calloc(trace->operations + 1, sizeof *play.posted)};
    struct pln_cost cost = {.seconds = NAN};
    size_t moved = 1;
    if (play.clock && play.flight && play.posted) {
        for (uint32_t i = 0; i < trace->ranks; i++) {
            play.clock[i].next = play.clock[i].ahead = trace->rank[i].event;
            play.clock[i].end = trace->rank[i].event + trace->rank[i].count;
        }
        while (moved > 0) {
            moved = 0;
            for (uint32_t i = 0; i < trace->ranks; i++)
                moved += go_on(&play, i);
        }
        cost = cost_of(&play);
    }
    free(play.clock);
    free(play.flight);
    free(play.posted);
    return cost;
}

/* ---- nodes ---- */

terse_status pln_place_nodes(const struct pln_job *job, uint32_t size, double bits_per_second,
                             struct pln_place *place, terse_fault *fault)
{
    struct pln_job ranks = *job;
    struct pln_trace *trace = NULL;
    const struct pln_place node = {.bits_per_second = bits_per_second,
                                   .ranks_per_core = place->ranks_per_core};
    ranks.spec = "dense";
    ranks.workers = size;
    ranks.bucket = 0;
    const terse_status status =
        job->cached ? pln_record_cached(&ranks, &trace, fault) : pln_record(&ranks, &trace, fault);
    if (status != TERSE_OK)
        return status;
    place->inside = pln_simulate(trace, &node).seconds;
    place->passes_on = 8.0 * (size - 1) / bits_per_second;
    pln_trace_free(trace);
    return TERSE_OK;
}

/* ---- where it begins to pay ---- */

static int pays(const struct pln_trace *trace, const struct pln_trace *dense,
                struct pln_place place, double rate)
{
    place.bits_per_second = rate;
    return pln_simulate(trace, &place).seconds < pln_simulate(dense, &place).seconds;
}

double pln_break_even(const struct pln_trace *trace, const struct pln_trace *dense,
                      const struct pln_place *place)
{
    const double factor = 1.7782794100389228; /* four rates per decade */
    double high = PLN_FASTEST;
    if (pays(trace, dense, *place, high))
        return PLN_FASTEST;
    double low = high / factor;
    while (low > PLN_SLOWEST && !pays(trace, dense, *place, low)) {
        high = low;
        low /= factor;
    }
    if (low <= PLN_SLOWEST)
        return 0;
    for (int i = 0; i < 20; i++) {
        const double middle = sqrt(low * high);
        if (pays(trace, dense, *place, middle))
            low = middle;
        else
            high = middle;
    }
    return low;
}
