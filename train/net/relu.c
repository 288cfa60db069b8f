/* max(0, x). Its backward needs only the result, so a layer that ends in it keeps nothing else. */
#include "plan.h"

static dnnl_primitive_desc_t describe(struct trn_plan *plan, const dnnl_memory_desc_t *data)
{
    dnnl_eltwise_desc_t desc;
    trn_try(plan,
            dnnl_eltwise_forward_desc_init(&desc, dnnl_forward_training,
                                           dnnl_eltwise_relu_use_dst_for_bwd, data, 0.0f, 0.0f));
    return trn_describe(plan, &desc, plan->plain, NULL);
}

struct trn_memory *trn_relu_backward(struct trn_plan *plan, struct trn_memory *result,
                                     struct trn_memory *diff)
{
    if (plan->status != TERSE_OK)
        return diff;
    struct trn_memory *same = trn_convert(plan, diff, &result->desc);
    trn_release(diff);
    struct trn_memory *masked = trn_in_place(plan, same);
    dnnl_eltwise_desc_t desc;
    trn_try(plan, dnnl_eltwise_backward_desc_init(&desc, dnnl_eltwise_relu_use_dst_for_bwd,
                                                  &result->desc, &result->desc, 0.0f, 0.0f));
    dnnl_primitive_desc_t hint = describe(plan, &result->desc);
    trn_call(plan, trn_describe(plan, &desc, plan->plain, hint),
             (struct trn_arg[]){{DNNL_ARG_DST, result},
                                {DNNL_ARG_DIFF_DST, same},
                                {DNNL_ARG_DIFF_SRC, masked},
                                {0, NULL}});
    trn_release(same);
    return masked;
}

/* In place: the old values are not needed, neither here nor by pooling, which keeps indices. */
static void forward(struct trn_plan *plan, struct trn_stage *stage)
{
    struct trn_memory *source = plan->flows[stage->op->source].data;
    stage->result = trn_in_place(plan, source);
    stage->forward = describe(plan, &source->desc);
    trn_call(plan, stage->forward,
             (struct trn_arg[]){{DNNL_ARG_SRC, source}, {DNNL_ARG_DST, stage->result}, {0, NULL}});
    plan->flows[stage->op->result].data = stage->result;
}

static void backward(struct trn_plan *plan, struct trn_stage *stage)
{
    struct trn_memory *diff = trn_take_diff(plan, stage->op->result, NULL);
    trn_give_diff(plan, stage->op->source, trn_relu_backward(plan, stage->result, diff));
}

const struct trn_layer trn_relu_layer = {"relu", forward, backward};
