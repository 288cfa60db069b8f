/* Evaluation: the test set, split over the workers, and the densities of the gradients. */
#include <math.h>
#include <string.h>

#include "loop/worker.h"

/* What a worker finds in its part of the test set. */
struct found {
    double loss; /* a sum */
    double correct;
    trn_check check;
};

/* The sums of all workers' numbers, in rank order: the same bits on every worker and group. */
static terse_status add_up(struct trn_worker *worker, struct found *found)
{
    struct found all[TERSE_MAX_WORKERS];
    const terse_status status = trn_share(worker->group, TRN_SHARE_EVALUATION, worker->step, found,
                                          sizeof *found, all, &worker->fault);
    *found = (struct found){.loss = 0};
    for (uint32_t r = 0; r < worker->run->workers && status == TERSE_OK; r++) {
        found->loss += all[r].loss;
        found->correct += all[r].correct;
    }
    return status;
}

/* ---- batch norm ---- */

/* Puts the mean of all workers' running statistics into the net and saves this worker's. */
static terse_status share_statistics(struct trn_worker *worker)
{
    uint64_t count = 0;
    float *const statistics = trn_net_statistics(worker->net, &count);
    if (count == 0)
        return TERSE_OK;
    memcpy(worker->statistics, statistics, count * sizeof(float));
    const terse_status status = terse_group_allreduce(worker->group, statistics, (size_t)count,
                                                      worker->scratch, &worker->fault);
    for (uint64_t i = 0; i < count && status == TERSE_OK; i++)
        statistics[i] /= (float)worker->run->workers;
    return status;
}

static void own_statistics(struct trn_worker *worker)
{
    uint64_t count = 0;
    float *const statistics = trn_net_statistics(worker->net, &count);
    memcpy(statistics, worker->statistics, count * sizeof(float));
}

/* ---- the test set ---- */

static terse_status test(struct trn_worker *worker, struct found *found)
{
    const struct trn_run *const run = worker->run;
    const uint64_t total = trn_data_about(run->data)->count[TRN_TEST];
    const uint32_t from = (uint32_t)(total * worker->rank / run->workers);
    const uint32_t to = (uint32_t)(total * (worker->rank + 1) / run->workers);
    terse_status status = TERSE_OK;
    for (uint32_t at = from; at < to && status == TERSE_OK; at += run->settings->batch) {
        const uint32_t left = to - at;
        const uint32_t count = left < run->settings->batch ? left : run->settings->batch;
        struct trn_batch batch;
        double loss = 0;
        uint32_t correct = 0;
        for (uint32_t i = 0; i < count; i++)
            worker->examples[i] = at + i;
        status = trn_worker_fill(worker, TRN_TEST, worker->examples, count, 0, &batch);
        if (status == TERSE_OK)
            status = trn_net_evaluate(worker->net, worker->eval_weights, &batch, &loss, &correct,
                                      &worker->fault);
        found->loss += loss;
        found->correct += correct;
    }
    return status;
}

/* ---- densities: which of sign and SGD suits the problem ---- */

static double density(const float *v, uint64_t count)
{
    double magnitudes = 0;
    double squares = 0;
    for (uint64_t i = 0; i < count; i++) {
        magnitudes += fabs((double)v[i]);
        squares += (double)v[i] * (double)v[i];
    }
    return squares > 0 ? magnitudes * magnitudes / ((double)count * squares) : NAN;
}

/* The densities of the mean gradient of the last step and of this worker's deviation from it. They
 * cost a dense all-reduce, which is counted in bytes_other. */
static terse_status measure(struct trn_worker *worker, struct trn_evaluation *out)
{
    const uint32_t workers = worker->run->workers;
    memcpy(worker->partial, worker->gradient, worker->count * sizeof(float));
    const terse_status status = terse_group_allreduce(
        worker->group, worker->partial, (size_t)worker->count, worker->scratch, &worker->fault);
    if (status != TERSE_OK)
        return status;
    for (uint64_t i = 0; i < worker->count; i++)
        worker->partial[i] /= (float)workers;
    out->phi_gradient = density(worker->partial, worker->count);
    for (uint64_t i = 0; i < worker->count; i++)
        worker->partial[i] = worker->gradient[i] - worker->partial[i];
    out->phi_noise = workers > 1 ? density(worker->partial, worker->count) : NAN;
    return TERSE_OK;
}

terse_status trn_worker_evaluate(struct trn_worker *worker, struct trn_evaluation *out)
{
    const double total = trn_data_about(worker->run->data)->count[TRN_TEST];
    struct found found = {.loss = 0};
    *out = (struct trn_evaluation){.phi_gradient = NAN, .phi_noise = NAN};
    terse_status status =
        terse_method_eval_weights(worker->method, worker->eval_weights, &worker->fault);
    if (status == TERSE_OK)
        status = share_statistics(worker);
    if (status == TERSE_OK)
        status = test(worker, &found);
    if (status == TERSE_OK)
        status = add_up(worker, &found);
    own_statistics(worker);
    if (status == TERSE_OK && worker->result.steps > 0)
        status = measure(worker, out);
    out->loss = found.loss / total;
    out->accuracy = worker->result.classifies ? found.correct / total : 0;
    return status;
}
