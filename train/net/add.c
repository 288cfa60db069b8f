/* The end of a residual block: max(0, source + other). */
#include "plan.h"

static void forward(struct trn_plan *plan, struct trn_stage *stage)
{
    const struct trn_op *op = stage->op;
    struct trn_memory *source = plan->flows[op->source].data;
    struct trn_memory *other = trn_convert(plan, plan->flows[op->other].data, &source->desc);
    dnnl_binary_desc_t desc;
    trn_try(plan, dnnl_binary_desc_init(&desc, dnnl_binary_add, &source->desc, &source->desc,
                                        &source->desc));
    /* The batch norm before it needs what it read, not what it made. */
    stage->result = trn_in_place(plan, source);
    trn_call(plan, trn_describe(plan, &desc, plan->relu, NULL),
             (struct trn_arg[]){{DNNL_ARG_SRC_0, source},
                                {DNNL_ARG_SRC_1, other},
                                {DNNL_ARG_DST, stage->result},
                                {0, NULL}});
    trn_release(other);
    plan->flows[op->result].data = stage->result;
}

static void backward(struct trn_plan *plan, struct trn_stage *stage)
{
    const struct trn_op *op = stage->op;
    struct trn_memory *diff = trn_take_diff(plan, op->result, NULL);
    diff = trn_relu_backward(plan, stage->result, diff);
    trn_give_diff(plan, op->other, trn_hold(diff));
    trn_give_diff(plan, op->source, diff);
}

const struct trn_layer trn_add_layer = {"addition", forward, backward};
