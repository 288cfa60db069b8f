/* The examples of each worker's steps: a pure function of the options, the epoch and the step, so a
 * resumed run needs only its position.
 *
 * The training set is dealt to the workers, each getting count/workers examples or one more:
 *     iid     the epoch's global shuffle, cut into equal parts
 *     class   fixed for the run: a worker's classes are drawn from Dirichlet(alpha); small alpha,
 *             few classes each. Shuffled within the worker every epoch.
 *     range   fixed: consecutive examples. Shuffled within the worker every epoch.
 *     unequal fixed: consecutive examples, r + 1 parts of K (K + 1) / 2 for rank r of K. An epoch
 *             is as long as with equal parts: who has few examples sees them several times, who
 *             has many does not see all.
 * All workers take the same number of steps: every batch is full except that of the last step,
 * which holds what is left (the workers' counts differ by at most one there, and one of them may
 * hold none). Every example comes exactly once per epoch, unless parts are unequal. With
 * `drop_short` the last step is left out unless it is full on all workers or the only one: which
 * examples that drops depends on the shuffle. */
#ifndef TRN_ORDER_H
#define TRN_ORDER_H

#include <stdint.h>

#include "data/data.h"

enum trn_shard { TRN_SHARD_IID, TRN_SHARD_CLASS, TRN_SHARD_RANGE, TRN_SHARD_UNEQUAL };

struct trn_order_options {
    uint64_t seed;
    uint32_t workers; /* >= 1, at most the number of training examples */
    uint32_t batch;   /* >= 1: examples per worker per step */
    enum trn_shard shard;
    double alpha; /* of TRN_SHARD_CLASS, > 0 */
    int drop_short;
};

/* "iid", "class" (alpha 1), "class:alpha=0.1", "range", "unequal"; TERSE_BAD_SPEC otherwise. */
TERSE_CHECK terse_status trn_shard_parse(const char *text, enum trn_shard *shard, double *alpha,
                                         terse_fault *fault);

/* The order of one worker; belongs to one thread at a time. */
struct trn_order;

TERSE_CHECK terse_status trn_order_create(const struct trn_data *data,
                                          const struct trn_order_options *options, uint32_t worker,
                                          struct trn_order **out, terse_fault *fault);
void trn_order_destroy(struct trn_order *order); /* NULL is fine */

uint32_t trn_order_steps(const struct trn_order *order); /* per epoch, equal on all workers; >= 1 */
uint32_t trn_order_count(const struct trn_order *order); /* examples this worker owns */
/* The examples that a worker of so many would own, of all that this order deals. */
uint32_t trn_order_count_of(const struct trn_order *order, uint32_t workers, uint32_t worker);

/* The examples of a step (0 .. steps-1) of an epoch: `examples` holds a batch. Returns their
 * number. The first call of an epoch shuffles, later ones only copy. */
uint32_t trn_order_batch(struct trn_order *order, uint64_t epoch, uint32_t step,
                         uint32_t *examples);

#endif
