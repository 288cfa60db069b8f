/* Tables of word vectors: one by one for layers that read in order, or the mean of a bag. oneDNN
 * has no such primitive. The gradient of a table is dense; rows of words that do not occur are 0.
 */
#include <string.h>

#include "plan.h"

static int64_t table_width(const struct trn_plan *plan, const struct trn_op *op)
{
    const struct trn_value *value = &plan->graph->values[op->result];
    return value->dims[value->ndim - 1];
}

static const int32_t *tokens_of(const struct trn_plan *plan, uint32_t example)
{
    return plan->pass.batch->tokens + (uint64_t)example * plan->graph->input.length;
}

static float *row_of(float *table, int32_t token, int64_t width)
{
    return table + (int64_t)token * width;
}

static void clear_gradient(struct trn_plan *plan, const struct trn_op *op)
{
    const size_t count = (size_t)plan->graph->input.vocabulary * (size_t)table_width(plan, op);
    memset(plan->pass.gradient + op->parameters, 0, count * sizeof(float));
}

static void add_scaled(float *to, const float *from, float scale, int64_t width)
{
    for (int64_t j = 0; j < width; j++)
        to[j] += scale * from[j];
}

static void bag_forward_run(struct trn_plan *plan, struct trn_stage *stage)
{
    const int64_t width = table_width(plan, stage->op);
    const float *table = plan->pass.weights + stage->op->parameters;
    float *result = trn_floats(stage->result);
    for (uint32_t i = 0; i < plan->count; i++, result += width) {
        const uint32_t length = plan->pass.batch->lengths[i];
        memset(result, 0, (size_t)width * sizeof *result);
        for (uint32_t t = 0; t < length; t++)
            add_scaled(result, table + (int64_t)tokens_of(plan, i)[t] * width, 1.0f, width);
        for (int64_t j = 0; length > 0 && j < width; j++)
            result[j] /= (float)length;
    }
}

static void bag_forward(struct trn_plan *plan, struct trn_stage *stage)
{
    const dnnl_dim_t dims[2] = {plan->count, table_width(plan, stage->op)};
    const dnnl_memory_desc_t desc = trn_desc(plan, 2, dims, dnnl_ab);
    stage->result = trn_make(plan, &desc);
    trn_run(plan, stage, bag_forward_run);
    plan->flows[stage->op->result].data = stage->result;
}

static void bag_backward_run(struct trn_plan *plan, struct trn_stage *stage)
{
    const int64_t width = table_width(plan, stage->op);
    float *table = plan->pass.gradient + stage->op->parameters;
    const float *diff = trn_floats(stage->result_diff);
    clear_gradient(plan, stage->op);
    for (uint32_t i = 0; i < plan->count; i++, diff += width) {
        const uint32_t length = plan->pass.batch->lengths[i];
        for (uint32_t t = 0; t < length; t++)
            add_scaled(row_of(table, tokens_of(plan, i)[t], width), diff, 1.0f / (float)length,
                       width);
    }
}

static void bag_backward(struct trn_plan *plan, struct trn_stage *stage)
{
    stage->result_diff = trn_take_diff(plan, stage->op->result, &stage->result->desc);
    trn_run(plan, stage, bag_backward_run);
}

/* Time is the first dimension, so that a step of the recurrence is one block of memory: time,
 * example, width. Past the end of an example there are zeros. */
static void embed_forward_run(struct trn_plan *plan, struct trn_stage *stage)
{
    const int64_t width = table_width(plan, stage->op);
    const size_t len = (size_t)width * sizeof(float);
    const float *table = plan->pass.weights + stage->op->parameters;
    float *result = trn_floats(stage->result);
    for (uint32_t t = 0; t < plan->graph->input.length; t++)
        for (uint32_t i = 0; i < plan->count; i++, result += width)
            if (t < plan->pass.batch->lengths[i])
                memcpy(result, table + (int64_t)tokens_of(plan, i)[t] * width, len);
            else
                memset(result, 0, len);
}

static void embed_forward(struct trn_plan *plan, struct trn_stage *stage)
{
    const dnnl_dim_t dims[3] = {plan->graph->input.length, plan->count,
                                table_width(plan, stage->op)};
    const dnnl_memory_desc_t desc = trn_desc(plan, 3, dims, dnnl_abc);
    stage->result = trn_make(plan, &desc);
    trn_run(plan, stage, embed_forward_run);
    plan->flows[stage->op->result].data = stage->result;
}

static void embed_backward_run(struct trn_plan *plan, struct trn_stage *stage)
{
    const int64_t width = table_width(plan, stage->op);
    float *table = plan->pass.gradient + stage->op->parameters;
    const float *diff = trn_floats(stage->result_diff);
    clear_gradient(plan, stage->op);
    for (uint32_t t = 0; t < plan->graph->input.length; t++)
        for (uint32_t i = 0; i < plan->count; i++, diff += width)
            if (t < plan->pass.batch->lengths[i])
                add_scaled(row_of(table, tokens_of(plan, i)[t], width), diff, 1.0f, width);
}

static void embed_backward(struct trn_plan *plan, struct trn_stage *stage)
{
    stage->result_diff = trn_take_diff(plan, stage->op->result, &stage->result->desc);
    trn_run(plan, stage, embed_backward_run);
}

const struct trn_layer trn_bag_layer = {"bag", bag_forward, bag_backward};
const struct trn_layer trn_embed_layer = {"embedding", embed_forward, embed_backward};
