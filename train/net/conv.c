/* Convolution with square kernels; bias and max(0, x) at its end where the op asks for them. */
#include "plan.h"

struct shape {
    dnnl_memory_desc_t weights; /* layout of the flat buffer */
    dnnl_memory_desc_t bias;
    dnnl_dims_t strides;
    dnnl_dims_t padding;
    uint64_t bias_offset;
};

static struct shape shape_of(struct trn_plan *plan, const struct trn_op *op)
{
    const int64_t inputs = plan->graph->values[op->source].dims[0];
    const int64_t outputs = plan->graph->values[op->result].dims[0];
    const int64_t pad = (op->kernel - 1) / 2;
    const dnnl_dim_t dims[4] = {outputs, inputs, op->kernel, op->kernel};
    return (struct shape){
        .weights = trn_desc(plan, 4, dims, dnnl_oihw),
        .bias = trn_desc(plan, 1, dims, dnnl_a),
        .strides = {op->stride, op->stride},
        .padding = {pad, pad},
        .bias_offset = op->parameters + (uint64_t)(outputs * inputs * op->kernel * op->kernel),
    };
}

/* Winograd's F(4 x 4, 3 x 3) needs a quarter of the multiplications, but moves more memory:
 * measured, it is slower with 16 channels (except for the weights, whose result is small), and on
 * images of 2 x 2, of which it computes 4 x 4. */
static bool is_winograd(const struct trn_plan *plan, const struct trn_op *op, bool for_weights)
{
    const struct trn_value *from = &plan->graph->values[op->source];
    const struct trn_value *to = &plan->graph->values[op->result];
    if (op->kernel != 3 || op->stride != 1 || from->dims[0] % 16 != 0 || to->dims[0] % 16 != 0)
        return false;
    return for_weights || (from->dims[0] >= 32 && to->dims[0] >= 32 && to->dims[1] > 2);
}

/* One of the three passes: winograd where it pays and this CPU has it, else direct. */
static dnnl_primitive_desc_t describe(struct trn_plan *plan, dnnl_convolution_desc_t *desc,
                                      bool winograd, bool relu, dnnl_primitive_desc_t hint)
{
    dnnl_primitive_attr_t attr = relu ? plan->relu : plan->plain;
    if (winograd) {
        desc->alg_kind = dnnl_convolution_winograd;
        dnnl_primitive_desc_t made = trn_describe_if(plan, desc, attr, hint);
        if (made)
            return made;
    }
    desc->alg_kind = dnnl_convolution_direct;
    return trn_describe(plan, desc, attr, hint);
}

static dnnl_memory_desc_t result_desc(struct trn_plan *plan, const struct trn_op *op)
{
    const struct trn_value *value = &plan->graph->values[op->result];
    const dnnl_dim_t dims[4] = {plan->count, value->dims[0], value->dims[1], value->dims[2]};
    return trn_desc(plan, 4, dims, dnnl_format_tag_any);
}

static void forward(struct trn_plan *plan, struct trn_stage *stage)
{
    const struct trn_op *op = stage->op;
    const struct shape shape = shape_of(plan, op);
    struct trn_memory *source = plan->flows[op->source].data;
    const dnnl_memory_desc_t from = trn_any(plan, &source->desc);
    const dnnl_memory_desc_t by = trn_any(plan, &shape.weights);
    const dnnl_memory_desc_t to = result_desc(plan, op);
    dnnl_convolution_desc_t desc;
    /* Evaluation uses the primitives of training: the result is the same, and oneDNN's inference
     * would transform Winograd's weights beforehand, anew for every batch and by a slow loop. */
    trn_try(plan, dnnl_convolution_forward_desc_init(&desc, dnnl_forward_training,
                                                     dnnl_convolution_direct, &from, &by,
                                                     op->bias ? &shape.bias : NULL, &to,
                                                     shape.strides, shape.padding, shape.padding));
    stage->forward = describe(plan, &desc, is_winograd(plan, op, false), op->relu, NULL);
    stage->source = trn_convert(plan, source, trn_query(plan, stage->forward, dnnl_query_src_md));
    struct trn_memory *flat = trn_bind(plan, TRN_WEIGHTS, op->parameters, &shape.weights);
    struct trn_memory *weights =
        trn_convert(plan, flat, trn_query(plan, stage->forward, dnnl_query_weights_md));
    struct trn_memory *bias =
        op->bias ? trn_bind(plan, TRN_WEIGHTS, shape.bias_offset, &shape.bias) : NULL;
    stage->weights = flat;
    stage->result = trn_make(plan, trn_query(plan, stage->forward, dnnl_query_dst_md));
    trn_call(plan, stage->forward,
             (struct trn_arg[]){{DNNL_ARG_SRC, stage->source},
                                {DNNL_ARG_WEIGHTS, weights},
                                {DNNL_ARG_BIAS, bias},
                                {DNNL_ARG_DST, stage->result},
                                {0, NULL}});
    trn_release(weights);
    plan->flows[op->result].data = stage->result;
}

static void backward_weights(struct trn_plan *plan, struct trn_stage *stage,
                             struct trn_memory *diff)
{
    const struct trn_op *op = stage->op;
    const struct shape shape = shape_of(plan, op);
    const dnnl_memory_desc_t from = trn_any(plan, &stage->source->desc);
    const dnnl_memory_desc_t by = trn_any(plan, &shape.weights);
    const dnnl_memory_desc_t to = result_desc(plan, op);
    dnnl_convolution_desc_t desc;
    trn_try(plan, dnnl_convolution_backward_weights_desc_init(
                      &desc, dnnl_convolution_direct, &from, &by, op->bias ? &shape.bias : NULL,
                      &to, shape.strides, shape.padding, shape.padding));
    dnnl_primitive_desc_t made =
        describe(plan, &desc, is_winograd(plan, op, true), false, stage->forward);
    struct trn_memory *source =
        trn_convert(plan, stage->source, trn_query(plan, made, dnnl_query_src_md));
    struct trn_memory *result_diff =
        trn_convert(plan, diff, trn_query(plan, made, dnnl_query_diff_dst_md));
    struct trn_memory *flat = trn_bind(plan, TRN_GRADIENT, op->parameters, &shape.weights);
    const dnnl_memory_desc_t *wanted = trn_query(plan, made, dnnl_query_diff_weights_md);
    const bool direct = dnnl_memory_desc_equal(wanted, &shape.weights);
    struct trn_memory *weights_diff = direct ? flat : trn_make(plan, wanted);
    struct trn_memory *bias_diff =
        op->bias ? trn_bind(plan, TRN_GRADIENT, shape.bias_offset, &shape.bias) : NULL;
    trn_call(plan, made,
             (struct trn_arg[]){{DNNL_ARG_SRC, source},
                                {DNNL_ARG_DIFF_DST, result_diff},
                                {DNNL_ARG_DIFF_WEIGHTS, weights_diff},
                                {DNNL_ARG_DIFF_BIAS, bias_diff},
                                {0, NULL}});
    if (!direct)
        trn_reorder(plan, weights_diff, flat);
    trn_release(weights_diff);
    trn_release(source);
    trn_release(result_diff);
}

static void backward_source(struct trn_plan *plan, struct trn_stage *stage, struct trn_memory *diff)
{
    const struct trn_op *op = stage->op;
    const struct shape shape = shape_of(plan, op);
    const dnnl_memory_desc_t from = trn_any(plan, &stage->source->desc);
    const dnnl_memory_desc_t by = trn_any(plan, &shape.weights);
    const dnnl_memory_desc_t to = result_desc(plan, op);
    dnnl_convolution_desc_t desc;
    trn_try(plan, dnnl_convolution_backward_data_desc_init(&desc, dnnl_convolution_direct, &from,
                                                           &by, &to, shape.strides, shape.padding,
                                                           shape.padding));
    dnnl_primitive_desc_t made =
        describe(plan, &desc, is_winograd(plan, op, false), false, stage->forward);
    struct trn_memory *weights =
        trn_convert(plan, stage->weights, trn_query(plan, made, dnnl_query_weights_md));
    struct trn_memory *result_diff =
        trn_convert(plan, diff, trn_query(plan, made, dnnl_query_diff_dst_md));
    struct trn_memory *source_diff = trn_make(plan, trn_query(plan, made, dnnl_query_diff_src_md));
    trn_call(plan, made,
             (struct trn_arg[]){{DNNL_ARG_DIFF_DST, result_diff},
                                {DNNL_ARG_WEIGHTS, weights},
                                {DNNL_ARG_DIFF_SRC, source_diff},
                                {0, NULL}});
    trn_release(weights);
    trn_release(result_diff);
    trn_give_diff(plan, op->source, source_diff);
}

static void backward(struct trn_plan *plan, struct trn_stage *stage)
{
    const struct trn_op *op = stage->op;
    struct trn_memory *diff = trn_take_diff(plan, op->result, NULL);
    if (op->relu)
        diff = trn_relu_backward(plan, stage->result, diff);
    backward_weights(plan, stage, diff);
    if (plan->graph->values[op->source].wanted)
        backward_source(plan, stage, diff);
    trn_release(diff);
}

const struct trn_layer trn_conv_layer = {"convolution", forward, backward};
