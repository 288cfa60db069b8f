/* What the aggregate does to the weights. Every worker runs the same update on the same numbers, so
 * all hold the same bits afterwards. */
#ifndef TSI_UPDATE_H
#define TSI_UPDATE_H

#include <stddef.h>
#include <stdint.h>

#include "combine/aggregate.h"

struct tsk_table;

enum tsi_update_kind {
    TSI_UPDATE_SGD,        /* m = momentum * m + (G + decay * x);  x -= lr * m */
    TSI_UPDATE_SIGNED,     /* x -= lr * (sgn(G) + decay * x); sgn(0) = 0 */
    TSI_UPDATE_SUBTRACT,   /* m = momentum * m + G;  x -= lr * m, or lr * (momentum * m + G) */
    TSI_UPDATE_ADAM,       /* Adam with bias correction, or AMSGrad; decay is decoupled (AdamW) */
    TSI_UPDATE_REPLACE,    /* x = G: the owners have updated, and what came back are weights */
    TSI_UPDATE_WRITE,      /* out = G, for an optimizer elsewhere */
    TSI_UPDATE_WRITE_SIGN, /* out = sgn(G) */
};

/* Which elements of a private output the last sparse aggregate wrote: only these are set to 0, not
 * the whole buffer. */
struct tsi_sparse_clear {
    uint64_t *place; /* elements that may be nonzero, some listed more than once */
    size_t count;
    size_t cap;
    int known; /* 0: any element may be nonzero */
};

/* Buffers are flat. G is the aggregate. */
struct tsi_update {
    enum tsi_update_kind kind;
    float lr;
    float decay;    /* weight decay */
    float momentum; /* or beta1 of Adam */
    float beta2;
    float eps;
    float correct_m; /* Adam: 1 - beta1^t and 1 - beta2^t */
    float correct_v;
    int nesterov;
    float *m; /* NULL without momentum */
    float *v;
    float *v_most; /* AMSGrad: the largest v so far, which is divided by; NULL: v itself is */
    float *weights;
    struct tsi_sparse_clear *clear; /* told where a private output is written; NULL for none */
    unsigned threads;
    const struct tsk_table *kernel;
};

/* 1: an element whose aggregate is 0 stays as it is, so that spans suffice. */
int tsi_update_is_local(const struct tsi_update *update);

/* Does everything that the update would write stay finite? Tries it on copies, tile by tile: as
 * slow as the update itself. Not for updates that replace or write. Adds |x_new - x_old|^2 to
 * *square, which may be NULL; all of it where everything stays finite. */
int tsi_update_stays_finite(const struct tsi_update *update, const struct tsi_aggregate *aggregate,
                            double *square);

/* Visits the spans. A partial aggregate is only for updates that are local. */
void tsi_update(const struct tsi_update *update, const struct tsi_aggregate *aggregate);

/* For a buffer of `floats`, any of which may be nonzero at first; 0 if out of memory. */
int tsi_sparse_clear_create(struct tsi_sparse_clear *clear, size_t floats);
void tsi_sparse_clear_destroy(struct tsi_sparse_clear *clear);

/* Sets the whole buffer to 0. */
void tsi_sparse_clear_clear(struct tsi_sparse_clear *clear, float *buffer, size_t floats);

/* Records that elements base + index[0 .. count-1] are written; index NULL: base .. base + count-1.
 */
void tsi_sparse_clear_mark(struct tsi_sparse_clear *clear, uint64_t base, const uint32_t *index,
                           size_t count);

#endif
