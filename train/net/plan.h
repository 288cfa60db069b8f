/* A graph made ready for one batch size: two lists of calls, forward and backward, over buffers
 * that are reused as soon as nobody needs them. Built once, then run step after step without
 * allocating. */
#ifndef TRN_PLAN_H
#define TRN_PLAN_H

#include <stddef.h>

#include "graph.h"
#include "onednn.h"

#define TRN_MAX_ARGS 12

struct trn_plan;
struct trn_stage;

/* Memory that a net lends to its plans, which never run at the same time. */
struct trn_buffer {
    struct trn_buffer *next;
    void *data;
    size_t len;
    uint32_t users; /* in the order of execution: 0 means free for what comes later */
};

struct trn_pool {
    struct trn_buffer *first;
};

/* A tensor in some layout of oneDNN's choosing. */
struct trn_memory {
    struct trn_memory *next;
    dnnl_memory_t handle;
    struct trn_buffer *buffer; /* NULL: bound to the caller's memory at each step */
    dnnl_memory_desc_t desc;
};

enum trn_origin { TRN_WEIGHTS, TRN_GRADIENT, TRN_VALUES, TRN_STATISTICS };

struct trn_binding {
    struct trn_binding *next;
    struct trn_memory *memory;
    enum trn_origin origin;
    uint64_t offset;
};

struct trn_arg {
    int name;
    struct trn_memory *memory;
};

/* Either a primitive or, where oneDNN has none, a function. */
struct trn_call {
    dnnl_primitive_t primitive;
    dnnl_exec_arg_t args[TRN_MAX_ARGS];
    int arg_count;
    void (*run)(struct trn_plan *plan, struct trn_stage *stage);
    struct trn_stage *stage;
    uint64_t final; /* of a backward call: gradients from this element on are final after it */
};

struct trn_calls {
    struct trn_call *items;
    size_t count;
    size_t room;
};

/* What an op's forward leaves for its backward. */
struct trn_stage {
    const struct trn_op *op;
    dnnl_primitive_desc_t forward;
    struct trn_memory *source;
    struct trn_memory *weights;
    struct trn_memory *result;
    struct trn_memory *workspace;
    struct trn_memory *mean;
    struct trn_memory *variance;
    struct trn_memory *scratch; /* for the layer's own use */
    struct trn_memory *result_diff;
    struct trn_memory *source_diff;
};

struct trn_flow {
    struct trn_memory *data;
    struct trn_memory *diff;
};

struct trn_pass {
    const float *weights;
    float *gradient;
    float *statistics;
    const struct trn_batch *batch;
    const struct trn_listener *listener; /* of the backward calls; NULL: none */
};

struct trn_plan {
    const struct trn_graph *graph;
    struct trn_pool *pool;
    uint32_t count; /* examples */
    bool training;
    struct trn_calls forward;
    struct trn_calls backward;
    struct trn_calls *calls; /* the list being built */
    size_t marked;           /* backward calls whose `final` is set */
    struct trn_flow flows[TRN_MAX_OPS + 1];
    struct trn_stage stages[TRN_MAX_OPS];
    struct trn_memory *memories;
    struct trn_binding *bindings;
    dnnl_primitive_desc_t *descs;
    size_t desc_count;
    size_t desc_room;
    dnnl_engine_t engine;
    dnnl_stream_t stream;
    dnnl_primitive_attr_t plain; /* with the plan's scratchpad */
    dnnl_primitive_attr_t relu;  /* the same with max(0, x) at the end */
    struct trn_pass pass;
    const struct trn_op *op; /* being built, for faults */
    terse_status status;     /* the first failure while building: later calls do nothing */
    terse_fault fault;
};

/* A layer: forward and backward append their calls to the plan. */
struct trn_layer {
    const char *name;
    void (*forward)(struct trn_plan *plan, struct trn_stage *stage);
    void (*backward)(struct trn_plan *plan, struct trn_stage *stage);
};

extern const struct trn_layer trn_conv_layer;
extern const struct trn_layer trn_norm_layer;
extern const struct trn_layer trn_relu_layer;
extern const struct trn_layer trn_pool_layer;
extern const struct trn_layer trn_mean_layer;
extern const struct trn_layer trn_add_layer;
extern const struct trn_layer trn_dense_layer;
extern const struct trn_layer trn_bag_layer;
extern const struct trn_layer trn_embed_layer;
extern const struct trn_layer trn_lstm_layer;

/* plan.c: for the net */
terse_status trn_plan_create(const struct trn_graph *graph, struct trn_pool *pool, uint32_t count,
                             bool training, struct trn_plan **out, terse_fault *fault);
terse_status trn_plan_forward(struct trn_plan *plan, const struct trn_pass *pass,
                              terse_fault *fault);
terse_status trn_plan_backward(struct trn_plan *plan, terse_fault *fault);
void trn_plan_destroy(struct trn_plan *plan);
struct trn_memory *trn_plan_output(struct trn_plan *plan);      /* what the last op made */
struct trn_memory *trn_plan_output_diff(struct trn_plan *plan); /* where the loss writes */
void trn_pool_release(struct trn_pool *pool);

/* parts.c: for layers. All do nothing and return NULL after a failure. */
void trn_try(struct trn_plan *plan, dnnl_status_t status);
dnnl_memory_desc_t trn_desc(struct trn_plan *plan, uint32_t ndim, const dnnl_dim_t *dims,
                            dnnl_format_tag_t tag);
dnnl_memory_desc_t trn_any(struct trn_plan *plan, const dnnl_memory_desc_t *like);
dnnl_primitive_desc_t trn_describe(struct trn_plan *plan, const void *op_desc,
                                   dnnl_primitive_attr_t attr, dnnl_primitive_desc_t hint);
/* The same, but NULL and no failure where this CPU has no such primitive. */
dnnl_primitive_desc_t trn_describe_if(struct trn_plan *plan, const void *op_desc,
                                      dnnl_primitive_attr_t attr, dnnl_primitive_desc_t hint);
void trn_keep(struct trn_plan *plan, dnnl_primitive_desc_t desc); /* destroyed with the plan */
const dnnl_memory_desc_t *trn_query(struct trn_plan *plan, dnnl_primitive_desc_t desc,
                                    dnnl_query_t what);
/* Ends with an argument of name 0. */
void trn_call(struct trn_plan *plan, dnnl_primitive_desc_t desc, const struct trn_arg *args);
void trn_run(struct trn_plan *plan, struct trn_stage *stage,
             void (*run)(struct trn_plan *plan, struct trn_stage *stage));

/* memory.c: a memory that is made or held has one user more, and must be released or given. */
struct trn_memory *trn_make(struct trn_plan *plan, const dnnl_memory_desc_t *desc);
struct trn_memory *trn_bind(struct trn_plan *plan, enum trn_origin origin, uint64_t offset,
                            const dnnl_memory_desc_t *desc);
struct trn_memory *trn_view(struct trn_plan *plan, struct trn_memory *memory,
                            const dnnl_memory_desc_t *desc); /* holds the same buffer */
struct trn_memory *trn_hold(struct trn_memory *memory);
void trn_release(struct trn_memory *memory);
/* The memory itself where its layout is the wanted one, else a reordered copy; held either way. */
struct trn_memory *trn_convert(struct trn_plan *plan, struct trn_memory *memory,
                               const dnnl_memory_desc_t *wanted);
/* Appends a reorder into an existing memory. */
void trn_reorder(struct trn_plan *plan, struct trn_memory *from, struct trn_memory *to);
/* The gradient of a value is handed over by each op that used it, and summed; the op that made the
 * value takes it, in the layout it wants (NULL: as it is). */
void trn_give_diff(struct trn_plan *plan, uint32_t value, struct trn_memory *diff);
struct trn_memory *trn_take_diff(struct trn_plan *plan, uint32_t value,
                                 const dnnl_memory_desc_t *wanted);
/* A memory to overwrite: the same one if nobody else needs it, else a new one. */
struct trn_memory *trn_in_place(struct trn_plan *plan, struct trn_memory *memory);
float *trn_floats(const struct trn_memory *memory);

/* relu.c: where the result was not above 0, the gradient becomes 0. */
struct trn_memory *trn_relu_backward(struct trn_plan *plan, struct trn_memory *result,
                                     struct trn_memory *diff);

#endif
