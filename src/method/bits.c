/* How many bits a step of DQ-SGD takes (Yan, Huang, Lan, Song, MASS 2021), and the two rules it is
 * compared with. One rule with two knobs: s_n = kappa * alpha^((N-1-n)/2) * |g_n|_p levels. */
#include <math.h>

#include "base/fault.h"
#include "codec/statistics.h"
#include "method/method.h"

#define LEAST_BITS 2.0
#define MOST_BITS 16.0
#define POINTS 16 /* at which the later steps of a plan are looked at */

static double bits_for(double levels)
{
    return log2(levels + 1) + 1;
}

/* alpha^((N-1-n)/2): later steps are worth more, their errors are not contracted any more. */
static double weight(const terse_method *method)
{
    const double left = (double)method->options.steps - 1 - (double)method->progress.step;
    return pow(tsi_value(method, TSI_ALPHA), fmax(left, 0) / 2);
}

/* ---- bits=error ---- */

/* What the bound leaves of epsilon for quantization: A, and its two other terms. */
struct room {
    double start; /* alpha^N gap: what is left of the first error */
    double noise; /* of the gradients, averaged over the workers */
    double allowed;
};

static struct room room_of(const terse_method *method, double lr)
{
    const double steps = (double)method->options.steps;
    const double alpha = tsi_value(method, TSI_ALPHA);
    const double sigma = tsi_value(method, TSI_NOISE);
    const double fallen = pow(alpha, steps);
    const double sum = alpha < 1 ? (1 - fallen) / (1 - alpha) : steps;
    struct room room = {.start = fallen * tsi_value(method, TSI_GAP),
                        .noise = tsi_value(method, TSI_SMOOTHNESS) * lr * lr * sigma * sigma * sum /
                                 (2.0 * method->workers)};
    room.allowed = tsi_value(method, TSI_EPSILON) - room.start - room.noise;
    return room;
}

/* kappa from an error to be kept: every step spends the same share A / N of what is allowed. The
 * errors of the workers' payloads are averaged. Where owners quantize the mean again, that error is
 * not: each of the two gets half of A, which makes the sum of both numbers of bits the least. */
static double kappa_for_error(const terse_method *method, int owner)
{
    const int twice = method->step.in->combine->cut != TSI_CUT_WHOLE;
    const double given = tsi_value(method, TSI_LR);
    const double lr = method->options.aggregate_out ? given : (double)method->step.lr;
    const double allowed = room_of(method, fmax(lr, given)).allowed / (twice ? 2 : 1);
    const double averaged = owner ? 1 : method->workers;
    if (allowed <= 0)
        return INFINITY; /* a rate above that of the spec has used it up: all bits, and counted */
    return lr * sqrt((double)method->options.steps * tsi_value(method, TSI_SMOOTHNESS) *
                     (double)method->count / (12 * allowed * averaged));
}

terse_status tsi_method_bits_check(const terse_method *method, terse_fault *fault)
{
    if (!method->settings.row->dynamic || (int)tsi_value(method, TSI_BITS) != TSI_BITS_ERROR)
        return TERSE_OK;
    if (method->stages.local)
        return tsi_fail(fault, TERSE_BAD_SPEC, 0,
                        "bits=error: its bound is for an exchange in every step, not every=%g; use "
                        "bits=average",
                        tsi_value(method, TSI_EVERY));
    const struct room room = room_of(method, tsi_value(method, TSI_LR));
    if (room.allowed > 0)
        return TERSE_OK;
    return tsi_fail(fault, TERSE_BAD_SPEC, 0,
                    "epsilon=%g leaves no room for quantization: the start leaves %.4g, noise "
                    "%.4g; give an epsilon above %.4g, more steps or workers, or a smaller lr",
                    tsi_value(method, TSI_EPSILON), room.start, room.noise,
                    room.start + room.noise);
}

/* ---- bits=average ---- */

/* log2 of a norm. As a float, so that what is remembered does not depend on the last digit of a
 * mathematics library. */
static double log_of(double norm)
{
    return (double)(float)log2(norm);
}

/* The line through the logs of norms, now at time 0. Of the past, the latest half counts most. */
static struct tsi_trend trend_with(const struct tsi_trend *past, double steps, double log)
{
    const double keep = 1 - 1 / fmax((steps + 1) / 2, 4);
    const struct tsi_trend moved = {
        .count = past->count,
        .time = past->time - past->count,
        .time_square = past->time_square - 2 * past->time + past->count,
        .log = past->log,
        .log_time = past->log_time - past->log,
    };
    return (struct tsi_trend){.count = keep * moved.count + 1,
                              .time = keep * moved.time,
                              .time_square = keep * moved.time_square,
                              .log = keep * moved.log + log,
                              .log_time = keep * moved.log_time};
}

/* What later steps are expected to take, against this one. */
struct outlook {
    double later; /* exchanges after this one */
    double off;   /* log2 of the level of the norms over that of this step */
    double rise;  /* of log2 s from one exchange to the next, along kappa's rule */
};

/* Norms are expected to fall as they did, but by no more than the contraction promises, and not to
 * rise. Little is known of the slope at first: it is then the promised one, as if it had been seen
 * for PRIOR exchanges. Without gradient noise the bits thus stay level, as they should; once noise
 * stops the fall, bits are saved for the end, where errors are not contracted any more. To expect
 * level norms from the beginning would starve the first steps, and norms that therefore do not fall
 * would seem to be right. */
#define PRIOR 20.0
static struct outlook outlook_of(const terse_method *method, const struct tsi_trend *trend,
                                 double later, double log)
{
    const double promised = log2(tsi_value(method, TSI_ALPHA)) / 2 * tsi_value(method, TSI_EVERY);
    const double prior = PRIOR * PRIOR * PRIOR / 12;
    const double time = trend->time / trend->count;
    const double spread = trend->time_square - trend->time * time;
    const double slope =
        (trend->log_time - time * trend->log + prior * promised) / (spread + prior);
    const double level = trend->log / trend->count - slope * time;
    return (struct outlook){
        .later = later, .off = level - log, .rise = fmin(fmax(slope, promised), 0) - promised};
}

/* Bits of all later steps if this one has 2^log_levels levels; half a bit is what rounding up is
 * expected to add. */
static double bits_later(const struct outlook *outlook, double log_levels)
{
    const int points = outlook->rise > 0 ? POINTS : 1;
    double sum = 0;
    for (int i = 0; i < points; i++) {
        const double ahead = 1 + outlook->later * (i + 0.5) / points;
        const double log = fmin(log_levels + outlook->off + outlook->rise * ahead, MOST_BITS);
        sum += fmin(fmax(bits_for(exp2(log)) + 0.5, LEAST_BITS), MOST_BITS);
    }
    return outlook->later * sum / points;
}

/* The most bits with which this step and the later ones, by the same kappa, are within what is left
 * of the budget. */
static double bits_for_average(const terse_method *method, const struct tsi_bit_record *record,
                               double norm)
{
    const double log = log_of(norm);
    const double rounds = floor((double)method->options.steps / tsi_value(method, TSI_EVERY));
    const double left = fmax(rounds - (double)method->progress.rounds, 1);
    const double budget = tsi_value(method, TSI_TARGET) * (record->steps + left) - record->spent;
    const struct tsi_trend trend = trend_with(&record->trend, record->steps, log);
    const struct outlook outlook = outlook_of(method, &trend, left - 1, log);
    double bits = LEAST_BITS;
    while (bits < MOST_BITS && bits + 1 + bits_later(&outlook, log2(exp2(bits - 1) - 1)) <= budget)
        bits++;
    return bits;
}

/* ---- bits=rms, bits=meanstd ---- */

/* Mean over standard deviation of the magnitudes. */
static double mean_to_deviation(const struct tsi_call *call, const float *in)
{
    const double count = (double)call->piece->count;
    const double mean = tsi_magnitude_sum(call, in) / count;
    const double variance = tsi_square_sum(call, in) / count - mean * mean;
    return variance > 0 ? mean / sqrt(variance) : 1e6;
}

/* More bits by every doubling of the statistic against its mean so far (sign +1), or fewer (-1). */
static double bits_relative(const terse_method *method, struct tsi_bit_record *record, double now,
                            double sign)
{
    const double mean = record->steps > 0 ? record->mean : now;
    record->now = now;
    return tsi_value(method, TSI_TARGET) + sign * log2(fmax(now, 1e-30) / fmax(mean, 1e-30));
}

/* ---- all of them ---- */

static double choose(const terse_method *method, struct tsi_bit_record *record,
                     const struct tsi_call *call, const float *in, double norm)
{
    const int owner = call->key->worker >= method->workers;
    const double count = (double)call->piece->count;
    record->now = norm;
    switch ((int)tsi_value(method, TSI_BITS)) {
    case TSI_BITS_KAPPA: return bits_for(tsi_value(method, TSI_KAPPA) * weight(method) * norm);
    case TSI_BITS_ERROR: return bits_for(kappa_for_error(method, owner) * weight(method) * norm);
    case TSI_BITS_RMS:
        return bits_relative(method, record, sqrt(tsi_square_sum(call, in) / count), 1);
    case TSI_BITS_MEANSTD: return bits_relative(method, record, mean_to_deviation(call, in), -1);
    default: return bits_for_average(method, record, norm);
    }
}

/* An owner's draws are those of worker K and above; its records are apart from a worker's. */
unsigned tsi_method_bits(void *context, const struct tsi_call *call, const float *in, float norm)
{
    terse_method *const method = context;
    const size_t role = call->key->worker >= method->workers ? method->slots / 2 : 0;
    struct tsi_bit_record *const record = &method->bits[role + call->piece->slot];
    const double bits = ceil(choose(method, record, call, in, (double)norm) - 1e-9);
    record->capped = bits > MOST_BITS;
    record->chosen = bits > MOST_BITS ? MOST_BITS : fmax(bits, LEAST_BITS);
    return (unsigned)record->chosen;
}

uint32_t tsi_method_bits_commit(terse_method *method)
{
    const int average = (int)tsi_value(method, TSI_BITS) == TSI_BITS_AVERAGE;
    uint32_t capped = 0;
    for (size_t i = 0; i < method->slots; i++) {
        struct tsi_bit_record *const record = &method->bits[i];
        if (record->chosen == 0)
            continue;
        if (average)
            record->trend = trend_with(&record->trend, record->steps, log_of(record->now));
        else
            record->mean = (record->mean * record->steps + record->now) / (record->steps + 1);
        record->spent += record->chosen;
        record->steps += 1;
        capped += record->capped != 0;
    }
    tsi_method_bits_forget(method);
    return capped;
}

void tsi_method_bits_forget(terse_method *method)
{
    for (size_t i = 0; i < method->slots; i++)
        method->bits[i].now = method->bits[i].chosen = method->bits[i].capped = 0;
}

/* A record that no training has written is dropped: the next step begins a new one. */
void tsi_method_bits_restored(terse_method *method)
{
    for (size_t i = 0; method->bits && i < method->slots; i++) {
        struct tsi_bit_record *const record = &method->bits[i];
        const struct tsi_trend *const trend = &record->trend;
        const double sum = record->mean + trend->count + trend->time + trend->time_square +
                           trend->log + trend->log_time;
        const int sound = record->steps >= 0 && record->spent >= LEAST_BITS * record->steps &&
                          record->spent <= MOST_BITS * record->steps && record->mean >= 0 &&
                          trend->count >= 0 && trend->time_square >= 0 && isfinite(sum);
        if (!sound)
            *record = (struct tsi_bit_record){0};
    }
    if (method->bits)
        tsi_method_bits_forget(method);
}
