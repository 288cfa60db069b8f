/* Where the step of a method bends as workers are added, and why: all from the steps that were
 * planned. What a part of a step takes is what the step would be shorter by without it. */
#include <math.h>
#include <stdio.h>
#include <string.h>

#include "common/number.h"
#include "plan_request.h"

enum part { GRADIENT, CODEC, WIRE, LATENCY, PARTS };

/* A step with one number of workers, by what is not hidden. */
struct point {
    double workers;
    double step;
    double bytes;
    double hidden; /* of codec and wire, a share */
    double part[PARTS];
};

enum shape { FLAT, RISES, PROPORTIONAL };

/* d log step / d log K: less is flat, more is in proportion to the workers. */
static const double flat_below = 0.15;
static const double proportional_from = 0.7;

static const char *const part_names[PARTS] = {"gradient", "codec", "wire", "latency"};
static const char *const shape_names[] = {"flat", "rises", "proportional"};

static struct point point_of(const struct plan *plan, const struct plan_row *row)
{
    const struct pln_cost *const cost = &row->cost;
    struct pln_place endless = plan->place;
    struct pln_place near = plan->place;
    endless.bits_per_second = PLN_FASTEST;
    near.latency = 0;
    const double moved = cost->codec_seconds + cost->wire_seconds;
    struct point point = {.workers = plan->nodes,
                          .step = cost->seconds,
                          .bytes = cost->bytes_sent,
                          .hidden = moved > 0 ? cost->hidden_seconds / moved : 0};
    point.part[GRADIENT] = cost->compute_seconds;
    point.part[WIRE] = fmax(cost->seconds - pln_simulate(row->trace, &endless).seconds, 0);
    point.part[LATENCY] = fmax(cost->seconds - pln_simulate(row->trace, &near).seconds, 0);
    point.part[CODEC] =
        fmax(cost->seconds - point.part[GRADIENT] - point.part[WIRE] - point.part[LATENCY], 0);
    return point;
}

static enum shape shape_of(const struct point *from, const struct point *to)
{
    const double rise = log(to->step / from->step) / log(to->workers / from->workers);
    return rise < flat_below ? FLAT : rise < proportional_from ? RISES : PROPORTIONAL;
}

/* Flat: the longest part. Else the one that grows most. */
static enum part part_of(const struct point *from, const struct point *to, enum shape shape)
{
    enum part most = GRADIENT;
    for (int p = 0; p < PARTS; p++) {
        const double mine = to->part[p] - (shape == FLAT ? 0 : from->part[p]);
        const double best = to->part[most] - (shape == FLAT ? 0 : from->part[most]);
        most = mine > best ? (enum part)p : most;
    }
    return most;
}

/* What the bytes of a worker do from one number of workers to another. */
enum bytes { AS_SHARE, PAYLOADS, HEADERS };

static enum bytes bytes_of(const struct point *first, const struct point *from,
                           const struct point *to)
{
    const double share = (to->workers - 1) / to->workers / ((from->workers - 1) / from->workers);
    const double each = (to->bytes - from->bytes) / (to->workers - from->workers);
    if (to->bytes < 1.02 * share * from->bytes)
        return AS_SHARE;
    return each > 0.5 * first->bytes / (first->workers - 1) ? PAYLOADS : HEADERS;
}

static void why_wire(const struct point *first, const struct point *from, const struct point *to,
                     char *out, size_t cap)
{
    const struct com_shown each =
        com_show_bytes(fmax(to->bytes - from->bytes, 0) / (to->workers - from->workers));
    switch (bytes_of(first, from, to)) {
    case AS_SHARE:
        (void)snprintf(out, cap, "wire: bytes grow as (K - 1)/K, owners send and get slices");
        break;
    case PAYLOADS:
        (void)snprintf(out, cap, "wire: a payload more, %s, for each worker more", each.text);
        break;
    default:
        (void)snprintf(out, cap, "wire: %s more for each worker more, headers of its messages",
                       each.text);
    }
}

static void why_flat(const struct point *to, enum part part, char *out, size_t cap)
{
    const int used = snprintf(out, cap, "%s is %.0f %% of the step", part_names[part],
                              100 * to->part[part] / to->step);
    if (used > 0 && part == GRADIENT && to->hidden >= 0.05)
        (void)snprintf(out + used, cap - (size_t)used, ", and hides %.0f %% of codec and wire",
                       100 * to->hidden);
}

static void why(const struct point *first, const struct point *from, const struct point *to,
                enum shape shape, enum part part, char *out, size_t cap)
{
    const double each = (to->part[part] - from->part[part]) / (to->workers - from->workers);
    if (shape == FLAT)
        why_flat(to, part, out, cap);
    else if (part == WIRE)
        why_wire(first, from, to, out, cap);
    else
        (void)snprintf(out, cap, "%s: %s more for each worker more", part_names[part],
                       pln_show_seconds(each).text);
}

size_t plan_bends(const struct plan *plans, size_t count, const char *spec, struct plan_bend *out)
{
    struct point point[PLAN_MOST_SWEEP];
    size_t points = 0;
    size_t bends = 0;
    enum bytes last_bytes = AS_SHARE;
    for (size_t k = 0; k < count; k++) {
        const struct plan_row *const row = plan_row_of(&plans[k], spec);
        if (row && plans[k].nodes > 1)
            point[points++] = point_of(&plans[k], row);
    }
    for (size_t k = 0; k + 1 < points; k++) {
        const struct point *const from = &point[k];
        const struct point *const to = &point[k + 1];
        const enum shape shape = shape_of(from, to);
        const enum part part = part_of(from, to, shape);
        const enum bytes bytes =
            shape != FLAT && part == WIRE ? bytes_of(&point[0], from, to) : AS_SHARE;
        struct plan_bend *const last = bends > 0 ? &out[bends - 1] : NULL;
        struct plan_bend *const bend = &out[bends];
        const int same = last && last->shape == shape_names[shape] &&
                         last->part == part_names[part] && bytes == last_bytes;
        if (same) { /* of a stretch, the last two say why */
            why(&point[0], from, to, shape, part, last->why, sizeof last->why);
            continue;
        }
        bend->nodes = (uint32_t)from->workers;
        bend->shape = shape_names[shape];
        bend->part = part_names[part];
        last_bytes = bytes;
        why(&point[0], from, to, shape, part, bend->why, sizeof bend->why);
        bends++;
    }
    return bends;
}
