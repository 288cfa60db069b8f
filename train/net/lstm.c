/* An LSTM read in both directions; the result is the mean of its states over an example's own
 * length, forward half and reverse half side by side. On OpenBLAS, not oneDNN's LSTM, which takes
 * no lengths: its reverse direction would start in the padding, and a short example's states would
 * be those of zeros read to the end. Parameters, gates (input, forget, candidate, output) and their
 * order are PyTorch's. */
#include <string.h>

#include "blas.h"
#include "plan.h"

struct sizes {
    int64_t steps; /* the longest example allowed; while running, the longest of the batch */
    int64_t rows;  /* examples */
    int64_t inputs;
    int64_t width; /* floats of the state */
};

/* One direction: where its parameters and its part of the layer's buffers start. */
struct way {
    struct sizes sizes;
    bool reverse;
    const uint32_t *lengths;
    uint64_t by_input; /* offsets in the flat buffer */
    uint64_t by_state;
    uint64_t bias_input;
    uint64_t bias_state;
    float *gates;  /* steps x rows x 4 width: activated; backward: their gradient */
    float *cells;  /* steps x rows x width */
    float *states; /* steps x rows x width */
};

static struct sizes sizes_of(const struct trn_plan *plan, const struct trn_op *op)
{
    return (struct sizes){
        .steps = plan->graph->input.length,
        .rows = plan->count,
        .inputs = plan->graph->values[op->source].dims[1],
        .width = plan->graph->values[op->result].dims[0] / 2,
    };
}

static int64_t longest(const uint32_t *lengths, int64_t rows)
{
    uint32_t most = 0;
    for (int64_t i = 0; i < rows; i++)
        most = lengths[i] > most ? lengths[i] : most;
    return most;
}

static struct way way_of(const struct trn_plan *plan, const struct trn_stage *stage, bool reverse)
{
    const struct sizes s = sizes_of(plan, stage->op);
    const uint64_t gates = 4 * (uint64_t)s.width;
    const uint64_t parameters = gates * (uint64_t)(s.inputs + s.width + 2);
    const int64_t area = s.steps * s.rows * s.width;
    struct way way = {.sizes = s, .reverse = reverse, .lengths = plan->pass.batch->lengths};
    way.sizes.steps = longest(way.lengths, s.rows);
    way.by_input = stage->op->parameters + (reverse ? parameters : 0);
    way.by_state = way.by_input + gates * (uint64_t)s.inputs;
    way.bias_input = way.by_state + gates * (uint64_t)s.width;
    way.bias_state = way.bias_input + gates;
    way.gates = trn_floats(stage->workspace) + (reverse ? 4 * area : 0);
    way.cells = trn_floats(stage->mean) + (reverse ? area : 0);
    way.states = trn_floats(stage->variance) + (reverse ? area : 0);
    return way;
}

/* exp(x) to two units in the last place, without a call or a branch, so that loops over it become
 * vector code: x = n ln 2 + r, a polynomial for exp(r) (Cephes), and n added to the exponent. */
static inline float exponential(float x)
{
    const float round = 12582912.0f; /* 1.5 * 2^23: adding it leaves no fraction */
    x = x < -87.0f ? -87.0f : x;
    x = x > 87.0f ? 87.0f : x;
    const float n = (x * 1.44269504088896341f + round) - round;
    const float r = (x - n * 0.693359375f) + n * 2.12194440e-4f;
    float y = 1.9875691500e-4f;
    y = y * r + 1.3981999507e-3f;
    y = y * r + 8.3334519073e-3f;
    y = y * r + 4.1665795894e-2f;
    y = y * r + 1.6666665459e-1f;
    y = y * r + 5.0000001201e-1f;
    y = y * r * r + r + 1.0f;
    const int32_t bits = ((int32_t)n + 127) << 23;
    float power;
    memcpy(&power, &bits, sizeof power);
    return y * power;
}

static inline float sigmoid(float x)
{
    return 1.0f / (1.0f + exponential(-x));
}

static inline float tangent(float x) /* hyperbolic */
{
    return 1.0f - 2.0f / (exponential(2.0f * x) + 1.0f);
}

static void sigmoids(float *x, int64_t count)
{
    for (int64_t j = 0; j < count; j++)
        x[j] = sigmoid(x[j]);
}

/* One example at one time: gates are activated in place. */
static void step_row(int64_t width, float *gates, const float *cell_before, float *restrict cell,
                     float *restrict state)
{
    const float *restrict in = gates;
    const float *restrict forget = gates + width;
    float *restrict candidate = gates + 2 * width;
    const float *restrict out = gates + 3 * width;
    sigmoids(gates, 2 * width);
    sigmoids(gates + 3 * width, width);
    for (int64_t j = 0; j < width; j++) {
        candidate[j] = tangent(candidate[j]);
        cell[j] = in[j] * candidate[j];
    }
    for (int64_t j = 0; cell_before && j < width; j++)
        cell[j] += forget[j] * cell_before[j];
    for (int64_t j = 0; j < width; j++)
        state[j] = out[j] * tangent(cell[j]);
}

/* Past an example's end everything is 0, which is where its reverse direction starts from. */
static void step(const struct way *way, int64_t time, int64_t before)
{
    const int64_t rows = way->sizes.rows;
    const int64_t width = way->sizes.width;
    for (int64_t i = 0; i < rows; i++) {
        const int64_t at = (time * rows + i) * width;
        if (time < (int64_t)way->lengths[i]) {
            step_row(width, way->gates + 4 * at,
                     before >= 0 ? way->cells + (before * rows + i) * width : NULL, way->cells + at,
                     way->states + at);
        } else {
            memset(way->gates + 4 * at, 0, 4 * (size_t)width * sizeof(float));
            memset(way->cells + at, 0, (size_t)width * sizeof(float));
            memset(way->states + at, 0, (size_t)width * sizeof(float));
        }
    }
}

/* The time that direction reads as its k-th, and the one before it (-1: none). */
static int64_t time_of(const struct way *way, int64_t k)
{
    return way->reverse ? way->sizes.steps - 1 - k : k;
}

static void forward_way(const struct trn_plan *plan, const struct trn_stage *stage,
                        const struct way *way)
{
    const struct sizes s = way->sizes;
    const int64_t gates = 4 * s.width;
    const float *weights = plan->pass.weights;
    for (int64_t i = 0; i < s.steps * s.rows; i++)
        for (int64_t j = 0; j < gates; j++)
            way->gates[i * gates + j] =
                weights[way->bias_input + (uint64_t)j] + weights[way->bias_state + (uint64_t)j];
    trn_multiply(&(struct trn_product){s.steps * s.rows, gates, s.inputs, false, true, true},
                 trn_floats(stage->source), weights + way->by_input, way->gates);
    for (int64_t k = 0; k < s.steps; k++) {
        const int64_t time = time_of(way, k);
        const int64_t before = k > 0 ? time_of(way, k - 1) : -1;
        if (before >= 0)
            trn_multiply(&(struct trn_product){s.rows, gates, s.width, false, true, true},
                         way->states + before * s.rows * s.width, weights + way->by_state,
                         way->gates + time * s.rows * gates);
        step(way, time, before);
    }
}

static void mean_states(const struct way *way, float *result)
{
    const struct sizes s = way->sizes;
    for (int64_t i = 0; i < s.rows; i++) {
        float *row = result + i * 2 * s.width + (way->reverse ? s.width : 0);
        const int64_t length = way->lengths[i];
        memset(row, 0, (size_t)s.width * sizeof *row);
        for (int64_t t = 0; t < length; t++)
            for (int64_t j = 0; j < s.width; j++)
                row[j] += way->states[(t * s.rows + i) * s.width + j];
        for (int64_t j = 0; length > 0 && j < s.width; j++)
            row[j] /= (float)length;
    }
}

static void forward_run(struct trn_plan *plan, struct trn_stage *stage)
{
    for (int reverse = 0; reverse < 2; reverse++) {
        const struct way way = way_of(plan, stage, reverse != 0);
        forward_way(plan, stage, &way);
        mean_states(&way, trn_floats(stage->result));
    }
}

static void forward(struct trn_plan *plan, struct trn_stage *stage)
{
    const struct sizes s = sizes_of(plan, stage->op);
    const dnnl_dim_t result[2] = {s.rows, 2 * s.width};
    const dnnl_dim_t area[3] = {2 * s.steps, s.rows, s.width};
    const dnnl_dim_t gates[3] = {area[0], s.rows, 4 * s.width};
    const dnnl_memory_desc_t result_desc = trn_desc(plan, 2, result, dnnl_ab);
    const dnnl_memory_desc_t area_desc = trn_desc(plan, 3, area, dnnl_abc);
    const dnnl_memory_desc_t gates_desc = trn_desc(plan, 3, gates, dnnl_abc);
    stage->source = plan->flows[stage->op->source].data;
    stage->workspace = trn_make(plan, &gates_desc);
    stage->mean = trn_make(plan, &area_desc);     /* cells */
    stage->variance = trn_make(plan, &area_desc); /* states */
    stage->result = trn_make(plan, &result_desc);
    trn_run(plan, stage, forward_run);
    plan->flows[stage->op->result].data = stage->result;
}

/* One example at one time: gates become their gradient, `state_diff` that of the state before,
 * once multiplied; `cell_diff` that of the cell before. */
static void back_row(int64_t width, float *gates, const float *cell_before,
                     const float *restrict cell, const float *restrict state_diff,
                     float *restrict cell_diff)
{
    float *restrict in = gates;
    float *restrict forget = gates + width;
    float *restrict candidate = gates + 2 * width;
    float *restrict out = gates + 3 * width;
    for (int64_t j = 0; j < width; j++) {
        const float bent = tangent(cell[j]);
        const float diff = cell_diff[j] + state_diff[j] * out[j] * (1.0f - bent * bent);
        const float i = in[j];
        const float c = candidate[j];
        in[j] = diff * c * i * (1.0f - i);
        candidate[j] = diff * i * (1.0f - c * c);
        out[j] = state_diff[j] * bent * out[j] * (1.0f - out[j]);
        cell_diff[j] = diff;
    }
    for (int64_t j = 0; j < width; j++) {
        const float kept = forget[j];
        forget[j] = cell_diff[j] * (cell_before ? cell_before[j] : 0.0f) * kept * (1.0f - kept);
        cell_diff[j] *= kept;
    }
}

/* Gates past an example's end are 0 and stay it. */
static void back_step(const struct way *way, int64_t time, int64_t before, const float *result_diff,
                      float *state_diff, float *cell_diff)
{
    const int64_t rows = way->sizes.rows;
    const int64_t width = way->sizes.width;
    for (int64_t i = 0; i < rows; i++) {
        const int64_t at = (time * rows + i) * width;
        const float *given = result_diff + i * 2 * width + (way->reverse ? width : 0);
        const int64_t length = way->lengths[i];
        if (time >= length)
            continue;
        for (int64_t j = 0; j < width; j++)
            state_diff[i * width + j] += given[j] / (float)length;
        back_row(width, way->gates + 4 * at,
                 before >= 0 ? way->cells + (before * rows + i) * width : NULL, way->cells + at,
                 state_diff + i * width, cell_diff + i * width);
    }
}

static void back_parameters(const struct trn_plan *plan, const struct trn_stage *stage,
                            const struct way *way)
{
    const struct sizes s = way->sizes;
    const int64_t gates = 4 * s.width;
    float *gradient = plan->pass.gradient;
    float *bias = gradient + way->bias_input;
    /* The state before lies one step later in memory for the reverse direction. */
    const int64_t later = s.steps > 1 ? s.rows : 0;
    trn_multiply(&(struct trn_product){gates, s.inputs, s.steps * s.rows, true, false, false},
                 way->gates, trn_floats(stage->source), gradient + way->by_input);
    trn_multiply(&(struct trn_product){gates, s.width, s.steps > 1 ? (s.steps - 1) * s.rows : 0,
                                       true, false, false},
                 way->gates + (way->reverse ? 0 : later * gates),
                 way->states + (way->reverse ? later * s.width : 0), gradient + way->by_state);
    memset(bias, 0, (size_t)gates * sizeof *bias);
    for (int64_t i = 0; i < s.steps * s.rows; i++)
        for (int64_t j = 0; j < gates; j++)
            bias[j] += way->gates[i * gates + j];
    memcpy(gradient + way->bias_state, bias, (size_t)gates * sizeof *bias);
}

static void backward_run(struct trn_plan *plan, struct trn_stage *stage)
{
    float *state_diff = trn_floats(stage->scratch);
    for (int reverse = 0; reverse < 2; reverse++) {
        const struct way way = way_of(plan, stage, reverse != 0);
        const struct sizes s = way.sizes;
        float *cell_diff = state_diff + s.rows * s.width;
        memset(state_diff, 0, 2 * (size_t)(s.rows * s.width) * sizeof *state_diff);
        for (int64_t k = s.steps; k-- > 0;) {
            const int64_t time = time_of(&way, k);
            back_step(&way, time, k > 0 ? time_of(&way, k - 1) : -1, trn_floats(stage->result_diff),
                      state_diff, cell_diff);
            trn_multiply(&(struct trn_product){s.rows, s.width, 4 * s.width, false, false, false},
                         way.gates + time * s.rows * 4 * s.width, plan->pass.weights + way.by_state,
                         state_diff);
        }
        back_parameters(plan, stage, &way);
        trn_multiply(&(struct trn_product){s.steps * s.rows, s.inputs, 4 * s.width, false, false,
                                           reverse != 0},
                     way.gates, plan->pass.weights + way.by_input, trn_floats(stage->source_diff));
    }
}

static void backward(struct trn_plan *plan, struct trn_stage *stage)
{
    const struct sizes s = sizes_of(plan, stage->op);
    const dnnl_memory_desc_t pair = trn_desc(plan, 3, (dnnl_dim_t[]){2, s.rows, s.width}, dnnl_abc);
    stage->result_diff = trn_take_diff(plan, stage->op->result, &stage->result->desc);
    stage->scratch = trn_make(plan, &pair);
    stage->source_diff = trn_make(plan, &stage->source->desc);
    trn_run(plan, stage, backward_run);
    trn_release(stage->scratch);
    trn_give_diff(plan, stage->op->source, stage->source_diff);
}

const struct trn_layer trn_lstm_layer = {"lstm", forward, backward};
