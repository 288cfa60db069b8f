/* Communication during the backward pass: gradients are handed to the method bucket by bucket, the
 * last layer's first, as soon as they are final. */
#ifndef TRN_OVERLAP_H
#define TRN_OVERLAP_H

#include "loop/node.h"

#define TRN_BUCKET_BYTES                                                          \
    (UINT64_C(4) << 20)      /* the least that a bucket has, but for the last one \
                              */
#define TRN_MAX_BUCKETS 256u /* a model has no more tensors */

struct trn_bucket {
    uint32_t tensor; /* the first, */
    uint32_t count;  /* and how many */
    uint64_t first;  /* element where it begins */
    uint64_t elements;
    double ready; /* when it was posted in the last step, by trn_now */
};

struct trn_overlap {
    terse_method *method;
    float *gradient;
    const struct trn_node *node; /* a bucket becomes the mean of the node first; NULL: no nodes */
    float *scratch;              /* of that */
    struct trn_bucket bucket[TRN_MAX_BUCKETS]; /* in the order of posting, the last tensors first */
    uint32_t count;                            /* 0: steps are whole */
    uint32_t posted;                           /* of the step under way */
};

/* Cuts the layout into buckets. TERSE_TOO_SMALL: there are too many. */
TERSE_CHECK terse_status trn_overlap_plan(struct trn_overlap *overlap, const terse_layout *layout,
                                          terse_method *method, float *gradient);

struct trn_worker;
/* The worker's plan, where its method and its settings allow one; none else. */
TERSE_CHECK terse_status trn_overlap_start(struct trn_worker *worker);

/* Before the forward pass: opens the step. */
TERSE_CHECK terse_status trn_overlap_begin(struct trn_overlap *overlap, terse_fault *fault);
/* During the backward pass: the gradient of the elements from `first` on is final. Posts the
 * buckets that are complete, and lets the group make progress. */
TERSE_CHECK terse_status trn_overlap_final(struct trn_overlap *overlap, uint64_t first,
                                           terse_fault *fault);

#endif
