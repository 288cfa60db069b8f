/* Batch norm, with max(0, x) at its end where the op asks for it. Scale and shift are adjacent in
 * the flat buffer, as oneDNN requires. */
#include "plan.h"

#define EPSILON 1e-5f
#define MOMENTUM 0.1f /* weight of the newest batch in running statistics; PyTorch's default */

static unsigned flags_of(const struct trn_plan *plan, const struct trn_op *op)
{
    unsigned flags = dnnl_use_scaleshift;
    if (op->relu)
        flags |= dnnl_fuse_norm_relu;
    if (!plan->training)
        flags |= dnnl_use_global_stats;
    return flags;
}

static int64_t channels_of(const struct trn_plan *plan, const struct trn_op *op)
{
    return plan->graph->values[op->result].dims[0];
}

/* The running variance is the unbiased one, as in PyTorch. */
static void move_statistics(struct trn_plan *plan, struct trn_stage *stage)
{
    const struct trn_value *value = &plan->graph->values[stage->op->result];
    const int64_t channels = value->dims[0];
    const double samples = (double)plan->count * (double)(value->dims[1] * value->dims[2]);
    const float unbias = samples > 1 ? (float)(samples / (samples - 1)) : 1.0f;
    const float *mean = trn_floats(stage->mean);
    const float *variance = trn_floats(stage->variance);
    float *running = plan->pass.statistics + stage->op->statistics;
    for (int64_t c = 0; c < channels; c++) {
        running[c] += MOMENTUM * (mean[c] - running[c]);
        running[channels + c] += MOMENTUM * (unbias * variance[c] - running[channels + c]);
    }
}

static void forward(struct trn_plan *plan, struct trn_stage *stage)
{
    const struct trn_op *op = stage->op;
    const int64_t channels = channels_of(plan, op);
    const dnnl_memory_desc_t pair = trn_desc(plan, 2, (dnnl_dim_t[]){2, channels}, dnnl_ab);
    const dnnl_memory_desc_t row = trn_desc(plan, 1, (dnnl_dim_t[]){channels}, dnnl_a);
    stage->source = plan->flows[op->source].data;
    dnnl_batch_normalization_desc_t desc;
    trn_try(plan, dnnl_batch_normalization_forward_desc_init(
                      &desc, plan->training ? dnnl_forward_training : dnnl_forward_inference,
                      &stage->source->desc, EPSILON, flags_of(plan, op)));
    stage->forward = trn_describe(plan, &desc, plan->plain, NULL);
    stage->weights = trn_bind(plan, TRN_WEIGHTS, op->parameters, &pair);
    stage->result = trn_make(plan, &stage->source->desc);
    if (plan->training) {
        stage->mean = trn_make(plan, &row);
        stage->variance = trn_make(plan, &row);
    } else {
        stage->mean = trn_bind(plan, TRN_STATISTICS, op->statistics, &row);
        stage->variance = trn_bind(plan, TRN_STATISTICS, op->statistics + (uint64_t)channels, &row);
    }
    if (plan->training && op->relu)
        stage->workspace = trn_make(plan, trn_query(plan, stage->forward, dnnl_query_workspace_md));
    trn_call(plan, stage->forward,
             (struct trn_arg[]){{DNNL_ARG_SRC, stage->source},
                                {DNNL_ARG_SCALE_SHIFT, stage->weights},
                                {DNNL_ARG_MEAN, stage->mean},
                                {DNNL_ARG_VARIANCE, stage->variance},
                                {DNNL_ARG_WORKSPACE, stage->workspace},
                                {DNNL_ARG_DST, stage->result},
                                {0, NULL}});
    if (plan->training)
        trn_run(plan, stage, move_statistics);
    plan->flows[op->result].data = stage->result;
}

static void backward(struct trn_plan *plan, struct trn_stage *stage)
{
    const struct trn_op *op = stage->op;
    struct trn_memory *diff = trn_take_diff(plan, op->result, &stage->source->desc);
    dnnl_batch_normalization_desc_t desc;
    trn_try(plan, dnnl_batch_normalization_backward_desc_init(
                      &desc, dnnl_backward, &stage->source->desc, &stage->source->desc, EPSILON,
                      flags_of(plan, op)));
    dnnl_primitive_desc_t made = trn_describe(plan, &desc, plan->plain, stage->forward);
    if (plan->status != TERSE_OK)
        return;
    struct trn_memory *source_diff = trn_in_place(plan, diff);
    trn_call(
        plan, made,
        (struct trn_arg[]){{DNNL_ARG_SRC, stage->source},
                           {DNNL_ARG_MEAN, stage->mean},
                           {DNNL_ARG_VARIANCE, stage->variance},
                           {DNNL_ARG_DIFF_DST, diff},
                           {DNNL_ARG_SCALE_SHIFT, stage->weights},
                           {DNNL_ARG_WORKSPACE, stage->workspace},
                           {DNNL_ARG_DIFF_SRC, source_diff},
                           {DNNL_ARG_DIFF_SCALE_SHIFT,
                            trn_bind(plan, TRN_GRADIENT, op->parameters, &stage->weights->desc)},
                           {0, NULL}});
    trn_release(diff);
    trn_give_diff(plan, op->source, source_diff);
}

const struct trn_layer trn_norm_layer = {"batch norm", forward, backward};
