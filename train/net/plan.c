#include "plan.h"

#include <stdlib.h>
#include <string.h>

/* oneDNN's arguments are not const, though it only reads the weights. */
static void *writable(const float *data)
{
    return (void *)(uintptr_t)data;
}

static void create_attributes(struct trn_plan *plan)
{
    dnnl_post_ops_t ops = NULL;
    trn_try(plan, dnnl_engine_create(&plan->engine, dnnl_cpu, 0));
    if (plan->status != TERSE_OK)
        return;
    trn_try(plan, dnnl_stream_create(&plan->stream, plan->engine, dnnl_stream_default_flags));
    trn_try(plan, dnnl_primitive_attr_create(&plan->plain));
    trn_try(plan, dnnl_primitive_attr_create(&plan->relu));
    trn_try(plan, dnnl_post_ops_create(&ops));
    if (plan->status == TERSE_OK) {
        trn_try(plan, dnnl_post_ops_append_eltwise(ops, 1.0f, dnnl_eltwise_relu, 0.0f, 0.0f));
        trn_try(plan, dnnl_primitive_attr_set_post_ops(plan->relu, ops));
        trn_try(plan,
                dnnl_primitive_attr_set_scratchpad_mode(plan->plain, dnnl_scratchpad_mode_user));
        trn_try(plan,
                dnnl_primitive_attr_set_scratchpad_mode(plan->relu, dnnl_scratchpad_mode_user));
    }
    if (ops)
        (void)dnnl_post_ops_destroy(ops);
}

/* The input is read in the caller's buffer; text has no floats, its layers read the tokens. */
static void bind_input(struct trn_plan *plan)
{
    const struct trn_value *value = &plan->graph->values[0];
    dnnl_dim_t dims[4] = {plan->count, value->dims[0], value->dims[1], value->dims[2]};
    const dnnl_format_tag_t tag = value->ndim == 3 ? dnnl_abcd : dnnl_ab;
    if (plan->graph->input.kind == TRN_TEXT)
        return;
    const dnnl_memory_desc_t desc = trn_desc(plan, value->ndim + 1, dims, tag);
    plan->flows[0].data = trn_bind(plan, TRN_VALUES, 0, &desc);
}

/* Nothing goes backward through an evaluation: after op `done`, only what later ops read is needed.
 */
static void free_all_but_needed(struct trn_plan *plan, uint32_t done)
{
    const struct trn_graph *graph = plan->graph;
    for (struct trn_buffer *buffer = plan->pool->first; buffer; buffer = buffer->next)
        buffer->users = 0;
    for (uint32_t i = done + 1; i < graph->op_count; i++) {
        const struct trn_op *op = &graph->ops[i];
        (void)trn_hold(plan->flows[op->source].data);
        if (op->other != op->source)
            (void)trn_hold(plan->flows[op->other].data);
    }
    (void)trn_hold(plan->flows[graph->ops[graph->op_count - 1].result].data);
}

/* The calls of the op's backward are there: the gradients of its parameters, which lie before those
 * of later ops, are final after the last of them. */
static void mark_final(struct trn_plan *plan)
{
    const uint64_t before = plan->op + 1 < plan->graph->ops + plan->graph->op_count
                                ? plan->op[1].parameters
                                : terse_layout_count(plan->graph->layout);
    struct trn_calls *const calls = plan->calls;
    for (; plan->marked < calls->count; plan->marked++)
        calls->items[plan->marked].final = before;
    if (calls->count > 0)
        calls->items[calls->count - 1].final = plan->op->parameters;
}

static void build(struct trn_plan *plan)
{
    const struct trn_graph *graph = plan->graph;
    plan->calls = &plan->forward;
    bind_input(plan);
    for (uint32_t i = 0; i < graph->op_count && plan->status == TERSE_OK; i++) {
        plan->op = &graph->ops[i];
        plan->stages[i].op = plan->op;
        plan->op->layer->forward(plan, &plan->stages[i]);
        if (!plan->training)
            free_all_but_needed(plan, i);
    }
    if (plan->status != TERSE_OK || !plan->training)
        return;
    plan->calls = &plan->backward;
    const uint32_t last = graph->ops[graph->op_count - 1].result;
    plan->flows[last].diff = trn_make(plan, &plan->flows[last].data->desc);
    plan->stages[graph->op_count - 1].result_diff = plan->flows[last].diff;
    for (uint32_t i = graph->op_count; i-- > 0 && plan->status == TERSE_OK;) {
        plan->op = &graph->ops[i];
        plan->op->layer->backward(plan, &plan->stages[i]);
        mark_final(plan);
    }
}

terse_status trn_plan_create(const struct trn_graph *graph, struct trn_pool *pool, uint32_t count,
                             bool training, struct trn_plan **out, terse_fault *fault)
{
    struct trn_plan *plan = calloc(1, sizeof *plan);
    if (!plan)
        return com_fail(fault, TERSE_NO_MEMORY, "no memory for a network");
    plan->graph = graph;
    plan->pool = pool;
    plan->count = count;
    plan->training = training;
    /* The contents that other plans of the net left in the buffers are not needed. */
    for (struct trn_buffer *buffer = pool->first; buffer; buffer = buffer->next)
        buffer->users = 0;
    create_attributes(plan);
    if (plan->status == TERSE_OK)
        build(plan);
    if (plan->status != TERSE_OK) {
        const terse_status status = plan->status;
        if (fault)
            *fault = plan->fault;
        trn_plan_destroy(plan);
        return status;
    }
    *out = plan;
    return TERSE_OK;
}

static void destroy_calls(struct trn_calls *calls)
{
    for (size_t i = 0; i < calls->count; i++)
        if (calls->items[i].primitive)
            (void)dnnl_primitive_destroy(calls->items[i].primitive);
    free(calls->items);
}

void trn_plan_destroy(struct trn_plan *plan)
{
    if (!plan)
        return;
    destroy_calls(&plan->forward);
    destroy_calls(&plan->backward);
    for (size_t i = 0; i < plan->desc_count; i++)
        (void)dnnl_primitive_desc_destroy(plan->descs[i]);
    free(plan->descs);
    while (plan->bindings) {
        struct trn_binding *binding = plan->bindings;
        plan->bindings = binding->next;
        free(binding);
    }
    while (plan->memories) {
        struct trn_memory *memory = plan->memories;
        plan->memories = memory->next;
        if (memory->handle)
            (void)dnnl_memory_destroy(memory->handle);
        free(memory);
    }
    if (plan->plain)
        (void)dnnl_primitive_attr_destroy(plan->plain);
    if (plan->relu)
        (void)dnnl_primitive_attr_destroy(plan->relu);
    if (plan->stream)
        (void)dnnl_stream_destroy(plan->stream);
    if (plan->engine)
        (void)dnnl_engine_destroy(plan->engine);
    free(plan);
}

static void *origin_of(const struct trn_pass *pass, enum trn_origin origin)
{
    switch (origin) {
    case TRN_WEIGHTS: return writable(pass->weights);
    case TRN_GRADIENT: return pass->gradient;
    case TRN_VALUES: return writable(pass->batch->values);
    case TRN_STATISTICS: return pass->statistics;
    }
    return NULL;
}

static terse_status run(struct trn_plan *plan, const struct trn_calls *calls, terse_fault *fault)
{
    const struct trn_listener *const listener =
        calls == &plan->backward ? plan->pass.listener : NULL;
    terse_status told = TERSE_OK;
    for (size_t i = 0; i < calls->count && told == TERSE_OK; i++) {
        const struct trn_call *call = &calls->items[i];
        dnnl_status_t status = dnnl_success;
        if (call->run)
            call->run(plan, call->stage);
        else
            status =
                dnnl_primitive_execute(call->primitive, plan->stream, call->arg_count, call->args);
        if (status != dnnl_success)
            return com_fail(fault, status == dnnl_out_of_memory ? TERSE_NO_MEMORY : TERSE_PEER_LOST,
                            "oneDNN could not execute a layer (status %d)", (int)status);
        if (listener)
            told = listener->final(listener->context, call->final, fault);
    }
    return told;
}

terse_status trn_plan_forward(struct trn_plan *plan, const struct trn_pass *pass,
                              terse_fault *fault)
{
    plan->pass = *pass;
    for (const struct trn_binding *b = plan->bindings; b; b = b->next) {
        float *base = origin_of(pass, b->origin);
        if (base)
            (void)dnnl_memory_set_data_handle(b->memory->handle, base + b->offset);
    }
    return run(plan, &plan->forward, fault);
}

terse_status trn_plan_backward(struct trn_plan *plan, terse_fault *fault)
{
    return run(plan, &plan->backward, fault);
}

struct trn_memory *trn_plan_output(struct trn_plan *plan)
{
    return plan->flows[plan->graph->ops[plan->graph->op_count - 1].result].data;
}

struct trn_memory *trn_plan_output_diff(struct trn_plan *plan)
{
    return plan->stages[plan->graph->op_count - 1].result_diff;
}
