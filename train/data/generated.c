/* Generated vectors and targets, for linear models.
 *
 * regression: x ~ N(0, 1), y = w.x + 1/2 + noise, w ~ N(0, 1) and noise of deviation 0.1: the least
 * mean squared error is 0.01.
 * quadratic: x_i = +-sqrt(a_i), y = sum of x_i, without noise: the expected loss of weights w is
 * (1/2) sum a_i (w_i - 1)^2, curvatures a_i falling evenly from 1 to 0.01; the least loss is 0. */
#include <math.h>
#include <stdlib.h>

#include "data/draw.h"
#include "data/object.h"

enum {
    REGRESSION_FEATURES = 20,
    QUADRATIC_FEATURES = 200,
    TRAIN_COUNT = 4000,
    TEST_COUNT = 1000,
};
static const uint32_t counts[TRN_SPLITS] = {TRAIN_COUNT, TEST_COUNT};

static terse_status make_room(struct trn_data *data, uint32_t features, terse_fault *fault)
{
    data->about.kind = TRN_DATA_VECTOR;
    data->about.features = features;
    data->about.std[0] = 1.0f;
    for (int i = 0; i < TRN_SPLITS; i++) {
        struct trn_examples *split = &data->split[i];
        split->dense = malloc((size_t)counts[i] * features * sizeof *split->dense);
        split->targets = malloc(counts[i] * sizeof *split->targets);
        if (!split->dense || !split->targets)
            return com_fail(fault, TERSE_NO_MEMORY, "no memory for %u vectors", counts[i]);
        split->count = counts[i];
    }
    return TERSE_OK;
}

static float draw_regression(struct trn_stream *stream, const float *law, float *x)
{
    float y = 0.5f;
    for (int j = 0; j < REGRESSION_FEATURES; j++) {
        x[j] = trn_draw_bell(stream);
        y += law[j] * x[j];
    }
    return y + 0.1f * trn_draw_bell(stream);
}

static float draw_quadratic(struct trn_stream *stream, const float *law, float *x)
{
    float y = 0.0f;
    for (int j = 0; j < QUADRATIC_FEATURES; j++) {
        x[j] = trn_draw_u32(stream) & 1u ? law[j] : -law[j];
        y += x[j];
    }
    return y;
}

static void fill(struct trn_data *data, uint64_t seed, const float *law,
                 float (*draw)(struct trn_stream *stream, const float *law, float *x))
{
    for (int i = 0; i < TRN_SPLITS; i++) {
        struct trn_examples *split = &data->split[i];
        for (uint32_t j = 0; j < split->count; j++) {
            struct trn_stream stream;
            trn_stream_start(&stream, seed, TRN_DRAW_EXAMPLE, (uint64_t)i, j);
            split->targets[j] = draw(&stream, law, split->dense + (size_t)j * data->about.features);
        }
    }
}

terse_status trn_open_regression(struct trn_data *data, const char *where, uint64_t seed,
                                 terse_fault *fault)
{
    float law[REGRESSION_FEATURES];
    struct trn_stream stream;
    (void)where;
    const terse_status status = make_room(data, REGRESSION_FEATURES, fault);
    if (status != TERSE_OK)
        return status;
    trn_stream_start(&stream, seed, TRN_DRAW_LAW, 0, 0);
    for (int j = 0; j < REGRESSION_FEATURES; j++)
        law[j] = trn_draw_bell(&stream);
    fill(data, seed, law, draw_regression);
    return TERSE_OK;
}

terse_status trn_open_quadratic(struct trn_data *data, const char *where, uint64_t seed,
                                terse_fault *fault)
{
    float law[QUADRATIC_FEATURES];
    (void)where;
    const terse_status status = make_room(data, QUADRATIC_FEATURES, fault);
    if (status != TERSE_OK)
        return status;
    for (int j = 0; j < QUADRATIC_FEATURES; j++)
        law[j] = sqrtf(1.0f - 0.99f * (float)j / (float)(QUADRATIC_FEATURES - 1));
    fill(data, seed, law, draw_quadratic);
    return TERSE_OK;
}
