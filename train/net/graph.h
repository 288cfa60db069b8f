/* A model as data: values that flow, ops between them, parameters in one flat buffer. Knows
 * nothing of batch sizes; a plan (plan.h) is a graph made ready for one of them. */
#ifndef TRN_GRAPH_H
#define TRN_GRAPH_H

#include <stdbool.h>

#include "common/fault.h"
#include "net.h"

#define TRN_MAX_OPS 128
#define TRN_MAX_PARAMETERS 256

struct trn_layer;

/* Value 0 is the input. Shapes are those of one example. */
struct trn_value {
    uint32_t ndim; /* 1, or 3: channels, height, width; text: length, width */
    int64_t dims[3];
    bool wanted; /* a parameter comes before it, so its gradient is needed */
};

/* How a tensor starts: base + bound * (uniform in -1..1). */
struct trn_parameter {
    uint64_t offset;
    uint64_t count;
    float base;
    float bound;
};

struct trn_op {
    const struct trn_layer *layer;
    char name[48]; /* the prefix of its tensors, or the kind of layer */
    uint32_t source;
    uint32_t other; /* the second source of an addition */
    uint32_t result;
    uint32_t kernel;
    uint32_t stride;
    bool relu;           /* the op ends in max(0, x) */
    bool bias;           /* a second tensor follows the weights */
    uint64_t parameters; /* offset of the first of its tensors in the flat buffer */
    uint64_t statistics; /* the same in the buffer of running statistics */
};

struct trn_graph {
    struct trn_input input;
    struct trn_value values[TRN_MAX_OPS + 1];
    struct trn_op ops[TRN_MAX_OPS];
    struct trn_parameter parameters[TRN_MAX_PARAMETERS];
    uint32_t op_count;
    uint32_t parameter_count;
    terse_layout *layout;
    terse_layout *statistics;
    terse_status status; /* the first failure while building: later calls do nothing */
};

/* Each appends one op and returns the value it makes. `name` is the prefix of its tensors. */
uint32_t trn_build_conv(struct trn_graph *graph, uint32_t source, const char *name,
                        const uint32_t shape[3] /* channels, kernel, stride */, bool bias,
                        bool relu);
uint32_t trn_build_norm(struct trn_graph *graph, uint32_t source, const char *name, bool relu);
uint32_t trn_build_relu(struct trn_graph *graph, uint32_t source);
uint32_t trn_build_pool(struct trn_graph *graph, uint32_t source); /* largest of 2 x 2 */
uint32_t trn_build_mean(struct trn_graph *graph, uint32_t source); /* over the whole image */
uint32_t trn_build_add(struct trn_graph *graph, uint32_t source, uint32_t other); /* then relu */
uint32_t trn_build_dense(struct trn_graph *graph, uint32_t source, const char *name,
                         uint32_t outputs, bool relu);
uint32_t trn_build_bag(struct trn_graph *graph, const char *name, uint32_t width);
uint32_t trn_build_embed(struct trn_graph *graph, const char *name, uint32_t width);
uint32_t trn_build_lstm(struct trn_graph *graph, uint32_t source, const char *name, uint32_t width);

/* Builds the model of that name. The caller hands in a zeroed graph and releases it. */
terse_status trn_model_build(const char *model, struct trn_graph *graph, terse_fault *fault);
void trn_graph_release(struct trn_graph *graph);

/* The initial weights (init.c). */
void trn_graph_init(const struct trn_graph *graph, uint64_t seed, float *weights);

#endif
