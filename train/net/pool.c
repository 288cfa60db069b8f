/* Pooling: the largest of 2 x 2 (an odd last row or column is left out), and the mean of an image.
 */
#include "plan.h"

struct window {
    dnnl_alg_kind_t kind;
    dnnl_dims_t kernel;
    dnnl_dims_t stride;
};

static const dnnl_dims_t none = {0, 0};

static struct window window_of(const struct trn_plan *plan, const struct trn_op *op)
{
    const struct trn_value *value = &plan->graph->values[op->source];
    if (op->layer == &trn_pool_layer)
        return (struct window){dnnl_pooling_max, {2, 2}, {2, 2}};
    return (struct window){dnnl_pooling_avg_exclude_padding,
                           {value->dims[1], value->dims[2]},
                           {value->dims[1], value->dims[2]}};
}

static void forward(struct trn_plan *plan, struct trn_stage *stage)
{
    const struct trn_op *op = stage->op;
    const struct window window = window_of(plan, op);
    const struct trn_value *value = &plan->graph->values[op->result];
    stage->source = plan->flows[op->source].data;
    const dnnl_memory_desc_t to = trn_desc(
        plan, 4, (dnnl_dim_t[]){plan->count, value->dims[0], value->dims[1], value->dims[2]},
        dnnl_format_tag_any);
    dnnl_pooling_desc_t desc;
    trn_try(plan,
            dnnl_pooling_forward_desc_init(
                &desc, plan->training ? dnnl_forward_training : dnnl_forward_inference, window.kind,
                &stage->source->desc, &to, window.stride, window.kernel, none, none));
    stage->forward = trn_describe(plan, &desc, plan->plain, NULL);
    stage->result = trn_make(plan, trn_query(plan, stage->forward, dnnl_query_dst_md));
    if (plan->training && window.kind == dnnl_pooling_max)
        stage->workspace = trn_make(plan, trn_query(plan, stage->forward, dnnl_query_workspace_md));
    trn_call(plan, stage->forward,
             (struct trn_arg[]){{DNNL_ARG_SRC, stage->source},
                                {DNNL_ARG_DST, stage->result},
                                {DNNL_ARG_WORKSPACE, stage->workspace},
                                {0, NULL}});
    plan->flows[op->result].data = stage->result;
}

static void backward(struct trn_plan *plan, struct trn_stage *stage)
{
    const struct trn_op *op = stage->op;
    const struct window window = window_of(plan, op);
    struct trn_memory *diff = trn_take_diff(plan, op->result, &stage->result->desc);
    dnnl_pooling_desc_t desc;
    trn_try(plan, dnnl_pooling_backward_desc_init(&desc, window.kind, &stage->source->desc,
                                                  &stage->result->desc, window.stride,
                                                  window.kernel, none, none));
    dnnl_primitive_desc_t made = trn_describe(plan, &desc, plan->plain, stage->forward);
    struct trn_memory *source_diff = trn_make(plan, &stage->source->desc);
    trn_call(plan, made,
             (struct trn_arg[]){{DNNL_ARG_DIFF_DST, diff},
                                {DNNL_ARG_WORKSPACE, stage->workspace},
                                {DNNL_ARG_DIFF_SRC, source_diff},
                                {0, NULL}});
    trn_release(diff);
    trn_give_diff(plan, op->source, source_diff);
}

const struct trn_layer trn_pool_layer = {"pooling", forward, backward};
const struct trn_layer trn_mean_layer = {"mean", forward, backward};
