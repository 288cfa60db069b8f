#define _GNU_SOURCE /* MADV_HUGEPAGE */
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>

#include "plan.h"

#define ALIGNMENT 64
#define HUGE_PAGE ((size_t)2 << 20)

/* Activations are accessed with strides that exhaust the TLB if pages are small. */
static void *allocate(size_t len)
{
    const size_t alignment = len >= HUGE_PAGE ? HUGE_PAGE : ALIGNMENT;
    void *data = NULL;
    if (posix_memalign(&data, alignment, len) != 0)
        return NULL;
#ifdef MADV_HUGEPAGE
    if (alignment == HUGE_PAGE)
        (void)madvise(data, len, MADV_HUGEPAGE);
#endif
    return data;
}

float *trn_floats_create(uint64_t count)
{
    if (count > SIZE_MAX / sizeof(float) - 1)
        return NULL;
    const size_t len = ((size_t)count + 1) * sizeof(float);
    float *floats = allocate(len);
    if (floats)
        memset(floats, 0, len);
    return floats;
}

void trn_floats_destroy(float *floats)
{
    free(floats);
}

/* The smallest free buffer that is large enough and does not waste more than half of itself. */
static struct trn_buffer *acquire(struct trn_pool *pool, size_t len)
{
    struct trn_buffer *best = NULL;
    for (struct trn_buffer *b = pool->first; b; b = b->next)
        if (b->users == 0 && b->len >= len && b->len / 2 <= len && (!best || b->len < best->len))
            best = b;
    if (best) {
        best->users = 1;
        return best;
    }
    struct trn_buffer *made = calloc(1, sizeof *made);
    if (!made)
        return NULL;
    made->data = allocate(len);
    if (!made->data) {
        free(made);
        return NULL;
    }
    made->len = len;
    made->users = 1;
    made->next = pool->first;
    pool->first = made;
    return made;
}

void trn_pool_release(struct trn_pool *pool)
{
    while (pool->first) {
        struct trn_buffer *buffer = pool->first;
        pool->first = buffer->next;
        free(buffer->data);
        free(buffer);
    }
}

static struct trn_memory *wrap(struct trn_plan *plan, const dnnl_memory_desc_t *desc,
                               struct trn_buffer *buffer)
{
    struct trn_memory *memory = calloc(1, sizeof *memory);
    if (!memory) {
        trn_try(plan, dnnl_out_of_memory);
        return NULL;
    }
    memory->next = plan->memories;
    plan->memories = memory;
    memory->buffer = buffer;
    memory->desc = *desc;
    trn_try(plan, dnnl_memory_create(&memory->handle, desc, plan->engine,
                                     buffer ? buffer->data : DNNL_MEMORY_NONE));
    return memory;
}

struct trn_memory *trn_make(struct trn_plan *plan, const dnnl_memory_desc_t *desc)
{
    if (plan->status != TERSE_OK)
        return NULL;
    const size_t len = dnnl_memory_desc_get_size(desc);
    struct trn_buffer *buffer = acquire(plan->pool, len > 0 ? len : 1);
    if (!buffer) {
        trn_try(plan, dnnl_out_of_memory);
        return NULL;
    }
    return wrap(plan, desc, buffer);
}

struct trn_memory *trn_bind(struct trn_plan *plan, enum trn_origin origin, uint64_t offset,
                            const dnnl_memory_desc_t *desc)
{
    if (plan->status != TERSE_OK)
        return NULL;
    struct trn_binding *binding = calloc(1, sizeof *binding);
    struct trn_memory *memory = binding ? wrap(plan, desc, NULL) : NULL;
    if (!memory) {
        free(binding);
        trn_try(plan, dnnl_out_of_memory);
        return NULL;
    }
    *binding = (struct trn_binding){plan->bindings, memory, origin, offset};
    plan->bindings = binding;
    return memory;
}

struct trn_memory *trn_hold(struct trn_memory *memory)
{
    if (memory && memory->buffer)
        memory->buffer->users++;
    return memory;
}

void trn_release(struct trn_memory *memory)
{
    if (memory && memory->buffer)
        memory->buffer->users--;
}

struct trn_memory *trn_view(struct trn_plan *plan, struct trn_memory *memory,
                            const dnnl_memory_desc_t *desc)
{
    if (plan->status != TERSE_OK || dnnl_memory_desc_equal(&memory->desc, desc))
        return trn_hold(memory);
    if (!memory->buffer) {
        for (struct trn_binding *b = plan->bindings; b; b = b->next)
            if (b->memory == memory)
                return trn_bind(plan, b->origin, b->offset, desc);
    }
    return wrap(plan, desc, trn_hold(memory)->buffer);
}

void trn_reorder(struct trn_plan *plan, struct trn_memory *from, struct trn_memory *to)
{
    dnnl_primitive_desc_t desc = NULL;
    if (plan->status != TERSE_OK)
        return;
    trn_try(plan, dnnl_reorder_primitive_desc_create(&desc, &from->desc, plan->engine, &to->desc,
                                                     plan->engine, plan->plain));
    trn_keep(plan, desc);
    trn_call(plan, desc, (struct trn_arg[]){{DNNL_ARG_FROM, from}, {DNNL_ARG_TO, to}, {0, NULL}});
}

struct trn_memory *trn_convert(struct trn_plan *plan, struct trn_memory *memory,
                               const dnnl_memory_desc_t *wanted)
{
    if (plan->status != TERSE_OK || dnnl_memory_desc_equal(&memory->desc, wanted))
        return trn_hold(memory);
    struct trn_memory *made = trn_make(plan, wanted);
    trn_reorder(plan, memory, made);
    return made;
}

struct trn_memory *trn_in_place(struct trn_plan *plan, struct trn_memory *memory)
{
    if (plan->status != TERSE_OK || (memory->buffer && memory->buffer->users == 1))
        return trn_hold(memory);
    return trn_make(plan, &memory->desc);
}

void trn_give_diff(struct trn_plan *plan, uint32_t value, struct trn_memory *diff)
{
    struct trn_flow *flow = &plan->flows[value];
    if (plan->status != TERSE_OK)
        return;
    if (!flow->diff) {
        flow->diff = diff;
        return;
    }
    struct trn_memory *more = trn_convert(plan, diff, &flow->diff->desc);
    struct trn_memory *sum = trn_in_place(plan, flow->diff);
    dnnl_binary_desc_t add;
    trn_try(plan, dnnl_binary_desc_init(&add, dnnl_binary_add, &flow->diff->desc, &flow->diff->desc,
                                        &flow->diff->desc));
    dnnl_primitive_desc_t desc = trn_describe(plan, &add, plan->plain, NULL);
    trn_call(
        plan, desc,
        (struct trn_arg[]){
            {DNNL_ARG_SRC_0, flow->diff}, {DNNL_ARG_SRC_1, more}, {DNNL_ARG_DST, sum}, {0, NULL}});
    trn_release(more);
    trn_release(diff);
    trn_release(flow->diff);
    flow->diff = sum;
}

struct trn_memory *trn_take_diff(struct trn_plan *plan, uint32_t value,
                                 const dnnl_memory_desc_t *wanted)
{
    struct trn_memory *diff = plan->flows[value].diff;
    plan->flows[value].diff = NULL;
    if (plan->status != TERSE_OK || !wanted)
        return diff;
    struct trn_memory *converted = trn_convert(plan, diff, wanted);
    trn_release(diff);
    return converted;
}

float *trn_floats(const struct trn_memory *memory)
{
    void *data = NULL;
    (void)dnnl_memory_get_data_handle(memory->handle, &data);
    return data;
}
