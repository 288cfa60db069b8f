/* Student's paired test: do two methods differ, judged seed by seed? */
#ifndef CLI_PAIRED_H
#define CLI_PAIRED_H

#include <stddef.h>

struct paired {
    double difference; /* mean of a - b */
    double low, high;  /* its 95 % interval */
    double p;          /* two-sided: chance of such a difference where there is none */
};

/* Needs two pairs at least. Pairs that all differ by the same have no spread: p is 0 then, or 1
 * where they are equal. */
struct paired paired_test(const double *a, const double *b, size_t count);

#endif
