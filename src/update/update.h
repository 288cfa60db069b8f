/* What the aggregate does to the weights. Every worker runs the same update on the same numbers, so
 * all hold the same bits afterwards. */
#ifndef TSI_UPDATE_H
#define TSI_UPDATE_H

#include "combine/aggregate.h"

struct tsk_table;
struct tsi_sparse_clear;

enum tsi_update_kind {
    TSI_UPDATE_SGD,        /* m = momentum * m + (G + decay * x);  x -= lr * m */
    TSI_UPDATE_SIGNED,     /* x -= lr * (sgn(G) + decay * x); sgn(0) = 0 */
    TSI_UPDATE_SUBTRACT,   /* m = momentum * m + G;  x -= lr * m, or lr * (momentum * m + G) */
    TSI_UPDATE_ADAM,       /* Adam with bias correction; decay is decoupled (AdamW) */
    TSI_UPDATE_REPLACE,    /* x = G: the owners have updated, and what came back are weights */
    TSI_UPDATE_WRITE,      /* out = G, for an optimizer elsewhere */
    TSI_UPDATE_WRITE_SIGN, /* out = sgn(G) */
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
    float *weights;
    struct tsi_sparse_clear *clear; /* told where a private output is written; NULL for none */
    unsigned threads;
    const struct tsk_table *kernel;
};

/* 1: an element whose aggregate is 0 stays as it is, so that spans suffice. */
int tsi_update_is_local(const struct tsi_update *update);

/* Visits the spans. A partial aggregate is only for updates that are local. */
void tsi_update(const struct tsi_update *update, const struct tsi_aggregate *aggregate);

#endif
