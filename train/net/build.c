#include <math.h>
#include <stdio.h>
#include <string.h>

#include "plan.h"

void trn_graph_release(struct trn_graph *graph)
{
    terse_layout_destroy(graph->layout);
    terse_layout_destroy(graph->statistics);
    memset(graph, 0, sizeof *graph);
}

/* Appends an op from `source` to a new value of the shape given. */
static struct trn_op *append(struct trn_graph *graph, const struct trn_layer *layer,
                             const char *name, uint32_t source, const struct trn_value *result)
{
    static struct trn_op nowhere; /* an op beyond the limit is written here */
    if (graph->op_count == TRN_MAX_OPS || graph->status != TERSE_OK) {
        if (graph->status == TERSE_OK)
            graph->status = TERSE_TOO_SMALL;
        return &nowhere;
    }
    struct trn_op *op = &graph->ops[graph->op_count++];
    op->layer = layer;
    (void)snprintf(op->name, sizeof op->name, "%s", name ? name : layer->name);
    op->source = source;
    op->other = source;
    op->result = graph->op_count;
    op->parameters = terse_layout_count(graph->layout);
    op->statistics = terse_layout_count(graph->statistics);
    graph->values[op->result] = *result;
    return op;
}

/* Appends a tensor NAME.PART of the op. */
static void add_tensor(struct trn_graph *graph, const char *name, const char *part,
                       const struct trn_value *shape, float base, float bound)
{
    char full[TERSE_MAX_NAME + 1];
    uint64_t dims[4];
    if (graph->status != TERSE_OK)
        return;
    if (graph->parameter_count == TRN_MAX_PARAMETERS) {
        graph->status = TERSE_TOO_SMALL;
        return;
    }
    struct trn_parameter *parameter = &graph->parameters[graph->parameter_count++];
    *parameter = (struct trn_parameter){terse_layout_count(graph->layout), 1, base, bound};
    for (uint32_t i = 0; i < shape->ndim; i++) {
        dims[i] = (uint64_t)shape->dims[i];
        parameter->count *= dims[i];
    }
    (void)snprintf(full, sizeof full, "%s.%s", name, part);
    graph->status = terse_layout_add(graph->layout, full, shape->ndim, dims);
}

static struct trn_value vector(int64_t width)
{
    return (struct trn_value){.ndim = 1, .dims = {width}, .wanted = true};
}

static struct trn_value matrix(int64_t rows, int64_t columns)
{
    return (struct trn_value){.ndim = 2, .dims = {rows, columns}, .wanted = true};
}

static int64_t width_of(const struct trn_value *value)
{
    int64_t width = 1;
    for (uint32_t i = 0; i < value->ndim; i++)
        width *= value->dims[i];
    return width;
}

/* He, Zhang, Ren, Sun 2015: variance 2 / inputs, here of a uniform distribution. The 2 makes up for
 * what a relu behind it cuts off. */
static float he_bound(int64_t inputs)
{
    return (float)sqrt(6.0 / (double)inputs);
}

static float linear_bound(int64_t inputs)
{
    return (float)sqrt(3.0 / (double)inputs);
}

static void add_conv_weights(struct trn_graph *graph, const char *name, int64_t outputs,
                             int64_t inputs, int64_t kernel)
{
    char full[TERSE_MAX_NAME + 1];
    const uint64_t dims[4] = {(uint64_t)outputs, (uint64_t)inputs, (uint64_t)kernel,
                              (uint64_t)kernel};
    if (graph->status != TERSE_OK || graph->parameter_count == TRN_MAX_PARAMETERS) {
        graph->status = graph->status != TERSE_OK ? graph->status : TERSE_TOO_SMALL;
        return;
    }
    graph->parameters[graph->parameter_count++] = (struct trn_parameter){
        terse_layout_count(graph->layout), dims[0] * dims[1] * dims[2] * dims[3], 0.0f,
        he_bound(inputs * kernel * kernel)};
    (void)snprintf(full, sizeof full, "%s.weight", name);
    graph->status = terse_layout_add(graph->layout, full, 4, dims);
}

uint32_t trn_build_conv(struct trn_graph *graph, uint32_t source, const char *name,
                        const uint32_t shape[3], bool bias, bool relu)
{
    const struct trn_value from = graph->values[source];
    const int64_t kernel = shape[1];
    const int64_t pad = (kernel - 1) / 2;
    const struct trn_value to = {.ndim = 3,
                                 .dims = {shape[0],
                                          (from.dims[1] + 2 * pad - kernel) / shape[2] + 1,
                                          (from.dims[2] + 2 * pad - kernel) / shape[2] + 1},
                                 .wanted = true};
    struct trn_op *op = append(graph, &trn_conv_layer, name, source, &to);
    op->kernel = shape[1];
    op->stride = shape[2];
    op->bias = bias;
    op->relu = relu;
    add_conv_weights(graph, name, shape[0], from.dims[0], kernel);
    const struct trn_value row = vector(shape[0]);
    if (bias)
        add_tensor(graph, name, "bias", &row, 0.0f, 0.0f);
    return op->result;
}

static void add_statistics(struct trn_graph *graph, const char *name, const char *part,
                           uint64_t channels)
{
    char full[TERSE_MAX_NAME + 1];
    (void)snprintf(full, sizeof full, "%s.%s", name, part);
    if (graph->status == TERSE_OK)
        graph->status = terse_layout_add(graph->statistics, full, 1, &channels);
}

uint32_t trn_build_norm(struct trn_graph *graph, uint32_t source, const char *name, bool relu)
{
    const struct trn_value to = graph->values[source];
    const struct trn_value row = vector(to.dims[0]);
    struct trn_op *op = append(graph, &trn_norm_layer, name, source, &to);
    op->relu = relu;
    add_tensor(graph, name, "weight", &row, 1.0f, 0.0f);
    add_tensor(graph, name, "bias", &row, 0.0f, 0.0f);
    add_statistics(graph, name, "running_mean", (uint64_t)to.dims[0]);
    add_statistics(graph, name, "running_var", (uint64_t)to.dims[0]);
    return op->result;
}

uint32_t trn_build_relu(struct trn_graph *graph, uint32_t source)
{
    const struct trn_value to = graph->values[source];
    return append(graph, &trn_relu_layer, NULL, source, &to)->result;
}

uint32_t trn_build_pool(struct trn_graph *graph, uint32_t source)
{
    struct trn_value to = graph->values[source];
    to.dims[1] /= 2;
    to.dims[2] /= 2;
    return append(graph, &trn_pool_layer, NULL, source, &to)->result;
}

uint32_t trn_build_mean(struct trn_graph *graph, uint32_t source)
{
    struct trn_value to = graph->values[source];
    to.dims[1] = 1;
    to.dims[2] = 1;
    return append(graph, &trn_mean_layer, NULL, source, &to)->result;
}

uint32_t trn_build_add(struct trn_graph *graph, uint32_t source, uint32_t other)
{
    const struct trn_value to = graph->values[source];
    struct trn_op *op = append(graph, &trn_add_layer, NULL, source, &to);
    op->other = other;
    return op->result;
}

uint32_t trn_build_dense(struct trn_graph *graph, uint32_t source, const char *name,
                         uint32_t outputs, bool relu)
{
    const int64_t inputs = width_of(&graph->values[source]);
    const struct trn_value to = vector(outputs);
    const struct trn_value weights = matrix(outputs, inputs);
    struct trn_op *op = append(graph, &trn_dense_layer, name, source, &to);
    op->bias = true;
    op->relu = relu;
    add_tensor(graph, name, "weight", &weights, 0.0f,
               relu ? he_bound(inputs) : linear_bound(inputs));
    add_tensor(graph, name, "bias", &to, 0.0f, 0.0f);
    return op->result;
}

/* One row per token id; a row is an input of width 1, so its bound is that of its uses: small. */
static uint32_t build_table(struct trn_graph *graph, const struct trn_layer *layer,
                            const char *name, uint32_t width, const struct trn_value *to)
{
    const struct trn_value table = matrix(graph->input.vocabulary, width);
    struct trn_op *op = append(graph, layer, name, 0, to);
    add_tensor(graph, name, "weight", &table, 0.0f, he_bound(width));
    return op->result;
}

uint32_t trn_build_bag(struct trn_graph *graph, const char *name, uint32_t width)
{
    const struct trn_value to = vector(width);
    return build_table(graph, &trn_bag_layer, name, width, &to);
}

uint32_t trn_build_embed(struct trn_graph *graph, const char *name, uint32_t width)
{
    const struct trn_value to = matrix(graph->input.length, width);
    return build_table(graph, &trn_embed_layer, name, width, &to);
}

uint32_t trn_build_lstm(struct trn_graph *graph, uint32_t source, const char *name, uint32_t width)
{
    static const char *const parts[2][4] = {
        {"weight_ih_l0", "weight_hh_l0", "bias_ih_l0", "bias_hh_l0"},
        {"weight_ih_l0_reverse", "weight_hh_l0_reverse", "bias_ih_l0_reverse",
         "bias_hh_l0_reverse"}};
    const int64_t gates = 4 * (int64_t)width;
    const struct trn_value to = vector(2 * (int64_t)width);
    const struct trn_value by_input = matrix(gates, graph->values[source].dims[1]);
    const struct trn_value by_state = matrix(gates, width);
    const struct trn_value row = vector(gates);
    const float bound = (float)sqrt(1.0 / width); /* PyTorch's, for gates that must not saturate */
    struct trn_op *op = append(graph, &trn_lstm_layer, name, source, &to);
    for (int direction = 0; direction < 2; direction++) {
        add_tensor(graph, name, parts[direction][0], &by_input, 0.0f, bound);
        add_tensor(graph, name, parts[direction][1], &by_state, 0.0f, bound);
        add_tensor(graph, name, parts[direction][2], &row, 0.0f, bound);
        add_tensor(graph, name, parts[direction][3], &row, 0.0f, bound);
    }
    return op->result;
}
