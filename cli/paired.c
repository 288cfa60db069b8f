#include "paired.h"

#include <math.h>

/* P(|T| <= t) of Student's distribution: Abramowitz and Stegun 26.7.3 and 26.7.4, finite sums for
 * whole degrees of freedom. */
static double within(double t, size_t freedom)
{
    const double angle = atan(t / sqrt((double)freedom));
    const double cosine = cos(angle);
    const int is_odd = freedom % 2 == 1;
    double term = is_odd ? cosine : 1;
    double sum = freedom > 1 ? term : 0;
    for (size_t k = is_odd ? 3 : 2; k + 2 <= freedom; k += 2) {
        term *= cosine * cosine * (double)(k - 1) / (double)k;
        sum += term;
    }
    if (is_odd)
        return (angle + sin(angle) * sum) / acos(0);
    return sin(angle) * sum;
}

/* The t with P(|T| <= t) = 0.95, by bisection. */
static double t_of_95(size_t freedom)
{
    double low = 0;
    double high = 1000;
    for (int i = 0; i < 100; i++) {
        const double middle = (low + high) / 2;
        if (within(middle, freedom) < 0.95)
            low = middle;
        else
            high = middle;
    }
    return high;
}

struct paired paired_test(const double *a, const double *b, size_t count)
{
    const double n = (double)count;
    double mean = 0;
    double squares = 0;
    for (size_t i = 0; i < count; i++)
        mean += (a[i] - b[i]) / n;
    for (size_t i = 0; i < count; i++)
        squares += pow(a[i] - b[i] - mean, 2);
    const double error = sqrt(squares / (n - 1) / n);
    struct paired out = {.difference = mean, .low = mean, .high = mean, .p = mean == 0};
    if (error > 0) {
        const double reach = t_of_95(count - 1) * error;
        out.low = mean - reach;
        out.high = mean + reach;
        out.p = 1 - within(fabs(mean) / error, count - 1);
    }
    return out;
}
