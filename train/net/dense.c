/* Fully connected: result = weights [outputs, inputs] * source + bias. The weights are read, and
 * their gradient written, in the flat buffers: at the batch sizes of training a reordered copy
 * would cost more than it saves. */
#include <math.h>

#include "plan.h"

/* From this many outputs on, the product is computed as weights * source^T: then the small factor
 * is the one that oneDNN keeps packed in its cache. Measured at batch 64: 4.4 ms instead of 7.2 for
 * 784 to 4096. */
#define WIDE 256
#define TILE 16

struct shape {
    dnnl_memory_desc_t source; /* an image is flattened: channels, rows, columns */
    dnnl_memory_desc_t weights;
    dnnl_memory_desc_t bias;
    dnnl_memory_desc_t result;
    uint64_t bias_offset;
};

static struct shape shape_of(struct trn_plan *plan, const struct trn_op *op)
{
    const struct trn_value *value = &plan->graph->values[op->source];
    int64_t inputs = 1;
    for (uint32_t i = 0; i < value->ndim; i++)
        inputs *= value->dims[i];
    const int64_t outputs = plan->graph->values[op->result].dims[0];
    return (struct shape){
        .source = trn_desc(plan, 2, (dnnl_dim_t[]){plan->count, inputs}, dnnl_ab),
        .weights = trn_desc(plan, 2, (dnnl_dim_t[]){outputs, inputs}, dnnl_ab),
        .bias = trn_desc(plan, 1, (dnnl_dim_t[]){outputs}, dnnl_a),
        .result = trn_desc(plan, 2, (dnnl_dim_t[]){plan->count, outputs}, dnnl_ab),
        .bias_offset = op->parameters + (uint64_t)(outputs * inputs),
    };
}

static dnnl_memory_desc_t plain_of(struct trn_plan *plan, const struct trn_memory *memory)
{
    return trn_desc(plan, (uint32_t)memory->desc.ndims, memory->desc.dims,
                    memory->desc.ndims == 4 ? dnnl_abcd : dnnl_ab);
}

static bool is_wide(const struct trn_plan *plan, const struct trn_op *op)
{
    const int64_t outputs = plan->graph->values[op->result].dims[0];
    return outputs >= WIDE && outputs % TILE == 0 && outputs >= 4 * (int64_t)plan->count;
}

/* Transposes outputs x examples to examples x outputs and adds the bias. */
static void finish_wide(const struct trn_stage *stage, const float *bias)
{
    const int64_t rows = stage->result->desc.dims[0];
    const int64_t outputs = stage->result->desc.dims[1];
    const float floor = stage->op->relu ? 0.0f : -INFINITY;
    const float *turned = trn_floats(stage->scratch);
    float *result = trn_floats(stage->result);
    for (int64_t o = 0; o < outputs; o += TILE)
        for (int64_t i = 0; i < rows; i++)
            for (int64_t k = 0; k < TILE; k++) {
                const float x = turned[(o + k) * rows + i] + bias[o + k];
                result[i * outputs + o + k] = x < floor ? floor : x; /* NaN stays */
            }
}

static void forward_wide(struct trn_plan *plan, struct trn_stage *stage)
{
    const int64_t rows = stage->source->desc.dims[0];
    const int64_t inputs = stage->source->desc.dims[1];
    const int64_t outputs = stage->result->desc.dims[1];
    const float *weights = plan->pass.weights + stage->op->parameters;
    (void)dnnl_sgemm('N', 'T', outputs, rows, inputs, 1.0f, weights, inputs,
                     trn_floats(stage->source), inputs, 0.0f, trn_floats(stage->scratch), rows);
    finish_wide(stage, weights + outputs * inputs);
}

static void forward(struct trn_plan *plan, struct trn_stage *stage)
{
    const struct trn_op *op = stage->op;
    const struct shape shape = shape_of(plan, op);
    struct trn_memory *source = plan->flows[op->source].data;
    const dnnl_memory_desc_t plain = plain_of(plan, source);
    struct trn_memory *converted = trn_convert(plan, source, &plain);
    stage->source = trn_view(plan, converted, &shape.source);
    stage->weights = trn_bind(plan, TRN_WEIGHTS, op->parameters, &shape.weights);
    stage->result = trn_make(plan, &shape.result);
    dnnl_inner_product_desc_t desc;
    trn_try(plan, dnnl_inner_product_forward_desc_init(
                      &desc, plan->training ? dnnl_forward_training : dnnl_forward_inference,
                      &shape.source, &shape.weights, &shape.bias, &shape.result));
    stage->forward = trn_describe(plan, &desc, op->relu ? plan->relu : plan->plain, NULL);
    plan->flows[op->result].data = stage->result;
    if (is_wide(plan, op)) {
        const dnnl_memory_desc_t turned =
            trn_desc(plan, 2, (dnnl_dim_t[]){shape.result.dims[1], shape.result.dims[0]}, dnnl_ab);
        stage->scratch = trn_make(plan, &turned);
        trn_run(plan, stage, forward_wide);
        trn_release(stage->scratch);
        return;
    }
    trn_call(plan, stage->forward,
             (struct trn_arg[]){
                 {DNNL_ARG_SRC, stage->source},
                 {DNNL_ARG_WEIGHTS, stage->weights},
                 {DNNL_ARG_BIAS, trn_bind(plan, TRN_WEIGHTS, shape.bias_offset, &shape.bias)},
                 {DNNL_ARG_DST, stage->result},
                 {0, NULL}});
}

static void backward_weights(struct trn_plan *plan, struct trn_stage *stage,
                             struct trn_memory *diff)
{
    const struct trn_op *op = stage->op;
    const struct shape shape = shape_of(plan, op);
    dnnl_inner_product_desc_t desc;
    trn_try(plan, dnnl_inner_product_backward_weights_desc_init(
                      &desc, &shape.source, &shape.weights, &shape.bias, &shape.result));
    dnnl_primitive_desc_t made = trn_describe(plan, &desc, plan->plain, stage->forward);
    trn_call(
        plan, made,
        (struct trn_arg[]){
            {DNNL_ARG_SRC, stage->source},
            {DNNL_ARG_DIFF_DST, diff},
            {DNNL_ARG_DIFF_WEIGHTS, trn_bind(plan, TRN_GRADIENT, op->parameters, &shape.weights)},
            {DNNL_ARG_DIFF_BIAS, trn_bind(plan, TRN_GRADIENT, shape.bias_offset, &shape.bias)},
            {0, NULL}});
}

static void backward_source(struct trn_plan *plan, struct trn_stage *stage, struct trn_memory *diff)
{
    const struct trn_op *op = stage->op;
    const struct shape shape = shape_of(plan, op);
    dnnl_inner_product_desc_t desc;
    trn_try(plan, dnnl_inner_product_backward_data_desc_init(&desc, &shape.source, &shape.weights,
                                                             &shape.result));
    dnnl_primitive_desc_t made = trn_describe(plan, &desc, plan->plain, stage->forward);
    struct trn_memory *flat = trn_make(plan, &shape.source);
    trn_call(plan, made,
             (struct trn_arg[]){{DNNL_ARG_DIFF_DST, diff},
                                {DNNL_ARG_WEIGHTS, stage->weights},
                                {DNNL_ARG_DIFF_SRC, flat},
                                {0, NULL}});
    if (plan->status != TERSE_OK)
        return;
    const dnnl_memory_desc_t plain = plain_of(plan, plan->flows[op->source].data);
    trn_give_diff(plan, op->source, trn_view(plan, flat, &plain));
    trn_release(flat);
}

static void backward(struct trn_plan *plan, struct trn_stage *stage)
{
    const struct trn_op *op = stage->op;
    struct trn_memory *diff = trn_take_diff(plan, op->result, &stage->result->desc);
    if (op->relu)
        diff = trn_relu_backward(plan, stage->result, diff);
    backward_weights(plan, stage, diff);
    if (plan->graph->values[op->source].wanted)
        backward_source(plan, stage, diff);
    trn_release(diff);
}

const struct trn_layer trn_dense_layer = {"inner product", forward, backward};
