/* The posterior of RegTop-k, kept beside the residual: for every element that was sent in the last
 * step, the accumulated gradient and the aggregate. An element whose contribution the other workers
 * cancelled scores lower in the next selection (Bereyhi, Liang, Boudreau, Afana, IEEE TSP 2025). */
#ifndef TSI_POSTERIOR_H
#define TSI_POSTERIOR_H

#include <stddef.h>
#include <stdint.h>

enum tsi_posterior_form {
    TSI_FORM_PREV, /* 1 + Delta = G / (w * a_prev): the authors' experiments */
    TSI_FORM_CUR,  /* 1 + Delta = 1 + (G - w * a_prev) / (w * a): their later notebook */
};

struct tsi_posterior {
    uint64_t *index; /* elements of the flat buffer sent in the last step, ascending */
    float *before;   /* their a_prev = g + e */
    float *sum;      /* G / w: their sum over the workers, by this worker's weight in it */
    float *score;    /* |a| * tanh(|1 + Delta| / mu) */
    uint64_t count;
    size_t cap;
};

/* Allocates for `cap` elements; 0 if out of memory. */
int tsi_posterior_create(struct tsi_posterior *posterior, size_t cap);
void tsi_posterior_destroy(struct tsi_posterior *posterior);

/* How many of the elements are before element `end` of the flat buffer. */
size_t tsi_posterior_before(const struct tsi_posterior *posterior, uint64_t end);

/* Scores entries from .. to-1; `residual` holds a = g + e. An entry with a_prev = 0 under `prev` or
 * a = 0 under `cur` counts as not sent before: its score is |a|. */
void tsi_posterior_score(struct tsi_posterior *posterior, enum tsi_posterior_form form, float mu,
                         const float *residual, size_t from, size_t to);

/* Records a step: the elements that this worker sent in the buckets, and their aggregate. If values
 * were rounded, `residual` holds the rounding errors, which were part of a_prev; else it is NULL.
 */
struct tsi_bucket;
void tsi_posterior_remember(struct tsi_posterior *posterior, struct tsi_bucket *const *buckets,
                            uint32_t count, const float *residual);

#endif
