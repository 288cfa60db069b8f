/* How many bits a step of DQ-SGD takes (Yan, Huang, Lan, Song, MASS 2021), and the two rules it is
 * compared with. One rule with two knobs: s_n = kappa * alpha^((N-1-n)/2) * |g_n|_p levels. */
#include <math.h>

#include "codec/statistics.h"
#include "method/method.h"

#define LEAST_BITS 2.0
#define MOST_BITS 16.0
#define POINTS 16 /* at which the remaining steps are looked at */

static double bits_for(double levels)
{
    return log2(levels + 1) + 1;
}

/* alpha^((N-1-n)/2): later steps are worth more, their errors are not contracted any more. */
static double weight(const terse_method *method, double n)
{
    const double steps = (double)method->options.steps;
    const double left = steps - 1 - n > 0 ? steps - 1 - n : 0;
    return pow(tsi_value(method, TSI_ALPHA), left / 2);
}

/* kappa from an error to be kept: every step spends the same share A / N of what is allowed. */
static double kappa_for_error(const terse_method *method)
{
    const double steps = (double)method->options.steps;
    const double alpha = tsi_value(method, TSI_ALPHA);
    const double smoothness = tsi_value(method, TSI_SMOOTHNESS);
    const double lr =
        method->options.aggregate_out ? tsi_value(method, TSI_LR) : (double)method->lr;
    const double workers = (double)method->workers;
    const double sigma = tsi_value(method, TSI_NOISE);
    const double fallen = pow(alpha, steps);
    const double sum = alpha < 1 ? (1 - fallen) / (1 - alpha) : steps;
    const double noise = smoothness * lr * lr * sigma * sigma * sum / (2 * workers);
    const double allowed =
        tsi_value(method, TSI_EPSILON) - fallen * tsi_value(method, TSI_GAP) - noise;
    if (allowed <= 0)
        return INFINITY; /* cannot be kept: as many bits as there are */
    return lr * sqrt(steps * smoothness * (double)method->count / (12 * allowed * workers));
}

/* Bits that this step and all later ones would take: this one with its own norm, those with the
 * mean so far. */
static double bits_ahead(const terse_method *method, double kappa, double now, double mean)
{
    const double n = (double)method->progress.rounds;
    const double later = (double)method->options.steps - n - 1;
    double bits = fmax(bits_for(kappa * weight(method, n) * now), LEAST_BITS);
    for (int i = 0; i < POINTS && later > 0; i++) {
        const double at = n + 1 + later * (i + 0.5) / POINTS;
        bits += later / POINTS * fmax(bits_for(kappa * weight(method, at) * mean), LEAST_BITS);
    }
    return bits;
}

/* kappa such that what is left of the budget lasts to the end: found by halving. */
static double kappa_for_average(const terse_method *method, const struct tsi_bit_record *record,
                                double now)
{
    const double steps = (double)method->options.steps;
    const double left = fmax(steps - (double)method->progress.rounds, 1);
    const double budget =
        fmax(tsi_value(method, TSI_TARGET) * steps - record->spent, LEAST_BITS * left);
    const double mean = (record->mean * record->steps + now) / (record->steps + 1);
    double low = -60;
    double high = 60;
    for (int i = 0; i < 50; i++) {
        const double middle = (low + high) / 2;
        const int within = bits_ahead(method, exp2(middle) / now, now, mean) <= budget;
        low = within ? middle : low;
        high = within ? high : middle;
    }
    return exp2(low) / now;
}

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

static double choose(const terse_method *method, struct tsi_bit_record *record,
                     const struct tsi_call *call, const float *in, double norm)
{
    const double n = (double)method->progress.rounds;
    const double count = (double)call->piece->count;
    record->now = norm;
    switch ((int)tsi_value(method, TSI_BITS)) {
    case TSI_BITS_KAPPA: return bits_for(tsi_value(method, TSI_KAPPA) * weight(method, n) * norm);
    case TSI_BITS_ERROR: return bits_for(kappa_for_error(method) * weight(method, n) * norm);
    case TSI_BITS_RMS:
        return bits_relative(method, record, sqrt(tsi_square_sum(call, in) / count), 1);
    case TSI_BITS_MEANSTD: return bits_relative(method, record, mean_to_deviation(call, in), -1);
    default: return bits_for(kappa_for_average(method, record, norm) * weight(method, n) * norm);
    }
}

/* An owner's draws are those of worker K and above; its records are apart from a worker's. */
unsigned tsi_method_bits(void *context, const struct tsi_call *call, const float *in, float norm)
{
    terse_method *const method = context;
    const size_t role = call->key->worker >= method->workers ? method->slots / 2 : 0;
    struct tsi_bit_record *const record = &method->bits[role + call->piece->slot];
    const double bits = choose(method, record, call, in, (double)norm);
    record->chosen = bits > MOST_BITS ? MOST_BITS : fmax(ceil(bits - 1e-9), LEAST_BITS);
    return (unsigned)record->chosen;
}

void tsi_method_bits_commit(terse_method *method)
{
    for (size_t i = 0; i < method->slots; i++) {
        struct tsi_bit_record *const record = &method->bits[i];
        if (record->chosen == 0)
            continue;
        record->mean = (record->mean * record->steps + record->now) / (record->steps + 1);
        record->spent += record->chosen;
        record->steps += 1;
    }
    tsi_method_bits_forget(method);
}

void tsi_method_bits_forget(terse_method *method)
{
    for (size_t i = 0; i < method->slots; i++)
        method->bits[i].now = method->bits[i].chosen = 0;
}
