/* What RegTop-k remembers beside the residual: of every element it sent last time, the accumulated
 * gradient and what all workers made of it. An element whose contribution the others cancelled
 * counts less when the next are chosen (Bereyhi, Liang, Boudreau, Afana, IEEE TSP 2025). */
#ifndef TSI_POSTERIOR_H
#define TSI_POSTERIOR_H

#include <stddef.h>
#include <stdint.h>

enum tsi_posterior_form {
    TSI_FORM_PREV, /* 1 + Delta = G / (w * a_prev): the authors' experiments */
    TSI_FORM_CUR,  /* 1 + Delta = 1 + (G - w * a_prev) / (w * a): their later notebook */
};

struct tsi_posterior {
    uint64_t *index; /* sent last time, ascending, in the flat buffer */
    float *before;   /* a_prev = g + e there */
    float *sum;      /* sum over the workers there: G / w */
    float *score;    /* |a| * tanh(|1 + Delta| / mu) */
    uint64_t count;
    size_t cap;
};

/* Room for `cap` elements; 0 without memory. */
int tsi_posterior_create(struct tsi_posterior *posterior, size_t cap);
void tsi_posterior_destroy(struct tsi_posterior *posterior);

/* How many of them lie before element `end` of the flat buffer. */
size_t tsi_posterior_before(const struct tsi_posterior *posterior, uint64_t end);

/* Scores of the elements number from .. to-1; `residual` holds a = g + e. a_prev = 0 under `prev`
 * and a = 0 under `cur` count as not sent before: the score is |a|. */
void tsi_posterior_score(struct tsi_posterior *posterior, enum tsi_posterior_form form, float mu,
                         const float *residual, size_t from, size_t to);

/* Writes down a step: what this worker sent in the buckets, and the aggregate there. Where values
 * were rounded, what is left of them in `residual` was part of a_prev; else it is NULL. */
struct tsi_bucket;
void tsi_posterior_remember(struct tsi_posterior *posterior, struct tsi_bucket *const *buckets,
                            uint32_t count, const float *residual);

#endif
