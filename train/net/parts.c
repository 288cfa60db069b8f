#include <stdlib.h>
#include <string.h>

#include "plan.h"

static const char *text_of(dnnl_status_t status)
{
    switch (status) {
    case dnnl_out_of_memory: return "out of memory";
    case dnnl_invalid_arguments: return "invalid arguments";
    case dnnl_unimplemented: return "not implemented for this CPU";
    default: return "failed";
    }
}

void trn_try(struct trn_plan *plan, dnnl_status_t status)
{
    if (status == dnnl_success || plan->status != TERSE_OK)
        return;
    plan->status = status == dnnl_out_of_memory   ? TERSE_NO_MEMORY
                   : status == dnnl_unimplemented ? TERSE_UNSUPPORTED
                                                  : TERSE_PEER_LOST;
    (void)com_fail(&plan->fault, plan->status, "layer %s: oneDNN: %s",
                   plan->op ? plan->op->name : "output", text_of(status));
}

/* Grows an array by one element; NULL, and the plan has failed, if out of memory. */
static void *grow(struct trn_plan *plan, void *items, size_t count, size_t *room, size_t size)
{
    if (count < *room)
        return items;
    const size_t wanted = *room ? 2 * *room : 64;
    void *grown = realloc(items, wanted * size);
    if (!grown) {
        trn_try(plan, dnnl_out_of_memory);
        return NULL;
    }
    *room = wanted;
    return grown;
}

dnnl_memory_desc_t trn_desc(struct trn_plan *plan, uint32_t ndim, const dnnl_dim_t *dims,
                            dnnl_format_tag_t tag)
{
    dnnl_memory_desc_t desc;
    memset(&desc, 0, sizeof desc);
    trn_try(plan, dnnl_memory_desc_init_by_tag(&desc, (int)ndim, dims, dnnl_f32, tag));
    return desc;
}

dnnl_memory_desc_t trn_any(struct trn_plan *plan, const dnnl_memory_desc_t *like)
{
    return trn_desc(plan, (uint32_t)like->ndims, like->dims, dnnl_format_tag_any);
}

void trn_keep(struct trn_plan *plan, dnnl_primitive_desc_t desc)
{
    if (!desc)
        return;
    dnnl_primitive_desc_t *grown =
        grow(plan, plan->descs, plan->desc_count, &plan->desc_room, sizeof *plan->descs);
    if (!grown) {
        (void)dnnl_primitive_desc_destroy(desc);
        return;
    }
    plan->descs = grown;
    plan->descs[plan->desc_count++] = desc;
}

dnnl_primitive_desc_t trn_describe_if(struct trn_plan *plan, const void *op_desc,
                                      dnnl_primitive_attr_t attr, dnnl_primitive_desc_t hint)
{
    dnnl_primitive_desc_t desc = NULL;
    if (plan->status != TERSE_OK ||
        dnnl_primitive_desc_create(&desc, op_desc, attr, plan->engine, hint) != dnnl_success)
        return NULL;
    trn_keep(plan, desc);
    return desc;
}

dnnl_primitive_desc_t trn_describe(struct trn_plan *plan, const void *op_desc,
                                   dnnl_primitive_attr_t attr, dnnl_primitive_desc_t hint)
{
    dnnl_primitive_desc_t desc = NULL;
    if (plan->status != TERSE_OK)
        return NULL;
    trn_try(plan, dnnl_primitive_desc_create(&desc, op_desc, attr, plan->engine, hint));
    trn_keep(plan, desc);
    return desc;
}

const dnnl_memory_desc_t *trn_query(struct trn_plan *plan, dnnl_primitive_desc_t desc,
                                    dnnl_query_t what)
{
    static const dnnl_memory_desc_t none;
    const dnnl_memory_desc_t *found =
        plan->status == TERSE_OK ? dnnl_primitive_desc_query_md(desc, what, 0) : NULL;
    return found ? found : &none;
}

static struct trn_call *append(struct trn_plan *plan)
{
    struct trn_calls *calls = plan->calls;
    struct trn_call *grown =
        grow(plan, calls->items, calls->count, &calls->room, sizeof *calls->items);
    if (!grown)
        return NULL;
    calls->items = grown;
    struct trn_call *call = &calls->items[calls->count++];
    memset(call, 0, sizeof *call);
    return call;
}

/* Scratch memory lives for one call, so all calls share one place. */
static void add_scratchpad(struct trn_plan *plan, dnnl_primitive_desc_t desc, struct trn_call *call)
{
    const dnnl_memory_desc_t *wanted = trn_query(plan, desc, dnnl_query_scratchpad_md);
    if (dnnl_memory_desc_get_size(wanted) == 0)
        return;
    struct trn_memory *memory = trn_make(plan, wanted);
    if (!memory)
        return;
    call->args[call->arg_count++] = (dnnl_exec_arg_t){DNNL_ARG_SCRATCHPAD, memory->handle};
    trn_release(memory);
}

void trn_call(struct trn_plan *plan, dnnl_primitive_desc_t desc, const struct trn_arg *args)
{
    struct trn_call *call = plan->status == TERSE_OK ? append(plan) : NULL;
    if (!call)
        return;
    trn_try(plan, dnnl_primitive_create(&call->primitive, desc));
    for (; args->name != 0 && plan->status == TERSE_OK; args++)
        if (args->memory)
            call->args[call->arg_count++] = (dnnl_exec_arg_t){args->name, args->memory->handle};
    add_scratchpad(plan, desc, call);
}

void trn_run(struct trn_plan *plan, struct trn_stage *stage,
             void (*run)(struct trn_plan *plan, struct trn_stage *stage))
{
    struct trn_call *call = plan->status == TERSE_OK ? append(plan) : NULL;
    if (!call)
        return;
    call->run = run;
    call->stage = stage;
}
