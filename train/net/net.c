#include <omp.h>
#include <stdio.h>
#include <stdlib.h>

#include "blas.h"
#include "loss.h"
#include "plan.h"

#define MAX_PLANS 6 /* a full and a short batch, to train and to evaluate, and two to spare */

struct trn_net {
    struct trn_graph graph;
    struct trn_pool pool;
    struct trn_plan *plans[MAX_PLANS];
    uint32_t oldest; /* the plan to replace next */
    uint32_t batch;
    int threads;
    float *statistics;
    uint64_t statistics_count;
};

void trn_net_libraries(char *text, size_t cap)
{
    const dnnl_version_t *const dnnl = dnnl_version();
    (void)snprintf(text, cap, "oneDNN %d.%d.%d, %s", dnnl->major, dnnl->minor, dnnl->patch,
                   trn_blas_version());
}

/* The statistics of an untrained net: mean 0, variance 1. */
static terse_status create_statistics(struct trn_net *net)
{
    const uint32_t tensors = terse_layout_tensors(net->graph.statistics);
    net->statistics_count = terse_layout_count(net->graph.statistics);
    net->statistics = calloc(net->statistics_count + 1, sizeof *net->statistics);
    if (!net->statistics)
        return TERSE_NO_MEMORY;
    for (uint32_t i = 1; i < tensors; i += 2) {
        terse_tensor variance;
        const terse_status status = terse_layout_tensor(net->graph.statistics, i, &variance);
        if (status != TERSE_OK)
            return status;
        for (uint64_t c = 0; c < variance.count; c++)
            net->statistics[variance.offset + c] = 1.0f;
    }
    return TERSE_OK;
}

terse_status trn_net_create(const char *model, const struct trn_input *input, uint32_t batch,
                            unsigned threads, struct trn_net **out, terse_fault *fault)
{
    if (!model || !input || !out || batch == 0 || threads == 0 || threads > 1024)
        return com_fail(fault, TERSE_BAD_ARGUMENT,
                        "a network needs a model, data, a batch and 1 to 1024 threads");
    struct trn_net *net = calloc(1, sizeof *net);
    if (!net)
        return com_fail(fault, TERSE_NO_MEMORY, "no memory for a network");
    net->graph.input = *input;
    net->batch = batch;
    net->threads = (int)threads;
    terse_status status = trn_model_build(model, &net->graph, fault);
    if (status == TERSE_OK) {
        status = create_statistics(net);
        if (status != TERSE_OK)
            (void)com_fail(fault, status, "no memory for the running statistics");
    }
    if (status != TERSE_OK) {
        trn_net_destroy(net);
        return status;
    }
    *out = net;
    return TERSE_OK;
}

void trn_net_destroy(struct trn_net *net)
{
    if (!net)
        return;
    for (uint32_t i = 0; i < MAX_PLANS; i++)
        trn_plan_destroy(net->plans[i]);
    trn_pool_release(&net->pool);
    trn_graph_release(&net->graph);
    free(net->statistics);
    free(net);
}

const terse_layout *trn_net_layout(const struct trn_net *net)
{
    return net->graph.layout;
}

const terse_layout *trn_net_statistics_layout(const struct trn_net *net)
{
    return net->graph.statistics;
}

float *trn_net_statistics(struct trn_net *net, uint64_t *count)
{
    *count = net->statistics_count;
    return net->statistics;
}

void trn_net_init(const struct trn_net *net, uint64_t seed, float *weights)
{
    trn_graph_init(&net->graph, seed, weights);
}

static terse_status check_text(const struct trn_input *input, const struct trn_batch *batch,
                               terse_fault *fault)
{
    for (uint32_t i = 0; i < batch->count; i++) {
        const uint32_t length = batch->lengths[i];
        const int32_t *tokens = batch->tokens + (uint64_t)i * input->length;
        if (length > input->length)
            return com_fail(fault, TERSE_BAD_ARGUMENT, "example %u: %u tokens, at most %u fit", i,
                            length, input->length);
        for (uint32_t t = 0; t < length; t++)
            if (tokens[t] < 0 || (uint32_t)tokens[t] >= input->vocabulary)
                return com_fail(fault, TERSE_BAD_ARGUMENT,
                                "example %u: token %d is not below the vocabulary of %u", i,
                                tokens[t], input->vocabulary);
    }
    return TERSE_OK;
}

static terse_status check_batch(const struct trn_net *net, const struct trn_batch *batch,
                                terse_fault *fault)
{
    const struct trn_input *input = &net->graph.input;
    const bool text = input->kind == TRN_TEXT;
    const bool labels = input->target == TRN_LABELS;
    if (batch->count == 0 || batch->count > net->batch)
        return com_fail(fault, TERSE_BAD_ARGUMENT, "a batch of %u; 1 to %u are possible",
                        batch->count, net->batch);
    if ((text ? !batch->tokens || !batch->lengths : !batch->values) ||
        (labels ? !batch->labels : !batch->targets))
        return com_fail(fault, TERSE_BAD_ARGUMENT, "a batch without its examples or targets");
    for (uint32_t i = 0; labels && i < batch->count; i++)
        if (batch->labels[i] >= input->outputs)
            return com_fail(fault, TERSE_BAD_ARGUMENT, "example %u: label %u of %u classes", i,
                            batch->labels[i], input->outputs);
    return text ? check_text(input, batch, fault) : TERSE_OK;
}

static terse_status find_plan(struct trn_net *net, uint32_t count, bool training,
                              struct trn_plan **out, terse_fault *fault)
{
    for (uint32_t i = 0; i < MAX_PLANS; i++) {
        struct trn_plan *plan = net->plans[i];
        if (plan && plan->count == count && plan->training == training) {
            *out = plan;
            return TERSE_OK;
        }
    }
    terse_status status = trn_plan_create(&net->graph, &net->pool, count, training, out, fault);
    if (status != TERSE_OK)
        return status;
    trn_plan_destroy(net->plans[net->oldest]);
    net->plans[net->oldest] = *out;
    net->oldest = (net->oldest + 1) % MAX_PLANS;
    return TERSE_OK;
}

/* One pass: forward, and backward too if `pass->gradient` is set. */
static terse_status run(struct trn_net *net, const struct trn_pass *pass, double *loss,
                        uint32_t *correct, terse_fault *fault)
{
    const bool training = pass->gradient != NULL;
    struct trn_plan *plan = NULL;
    terse_status status = check_batch(net, pass->batch, fault);
    if (status == TERSE_OK)
        status = find_plan(net, pass->batch->count, training, &plan, fault);
    if (status == TERSE_OK)
        status = trn_plan_forward(plan, pass, fault);
    if (status != TERSE_OK)
        return status;
    trn_loss(&net->graph.input, pass->batch, trn_floats(trn_plan_output(plan)),
             training ? trn_floats(trn_plan_output_diff(plan)) : NULL, loss, correct);
    return training ? trn_plan_backward(plan, fault) : TERSE_OK;
}

/* Primitives are made for the number of threads that the calling thread asks for at that moment,
 * and must run with it. */
static terse_status run_with_threads(struct trn_net *net, const struct trn_pass *pass, double *loss,
                                     uint32_t *correct, terse_fault *fault)
{
    const int before = omp_get_max_threads();
    omp_set_num_threads(net->threads);
    const terse_status status = run(net, pass, loss, correct, fault);
    omp_set_num_threads(before);
    return status;
}

terse_status trn_net_gradient(struct trn_net *net, const float *weights,
                              const struct trn_batch *batch, float *gradient,
                              const struct trn_listener *listener, double *loss, uint32_t *correct,
                              terse_fault *fault)
{
    const struct trn_pass pass = {weights, gradient, net ? net->statistics : NULL, batch, listener};
    if (!net || !weights || !batch || !gradient || !loss || !correct)
        return com_fail(fault, TERSE_BAD_ARGUMENT, "a gradient needs weights and a batch");
    return run_with_threads(net, &pass, loss, correct, fault);
}

terse_status trn_net_evaluate(struct trn_net *net, const float *weights,
                              const struct trn_batch *batch, double *loss_sum, uint32_t *correct,
                              terse_fault *fault)
{
    const struct trn_pass pass = {weights, NULL, net ? net->statistics : NULL, batch, NULL};
    if (!net || !weights || !batch || !loss_sum || !correct)
        return com_fail(fault, TERSE_BAD_ARGUMENT, "an evaluation needs weights and a batch");
    double loss = 0;
    const terse_status status = run_with_threads(net, &pass, &loss, correct, fault);
    if (status == TERSE_OK)
        *loss_sum = loss * batch->count;
    return status;
}
