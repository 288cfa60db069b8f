#include "gradient.h"

#include <math.h>

#include "normal.h"

static const struct {
    const char *name;
    uint32_t ndim;
    float scale; /* typical size of an element */
    uint64_t dims[4];
} layers[] = {
    {"conv1.weight", 4, 3e-2f, {64, 3, 7, 7}},
    {"layer1.conv.weight", 4, 8e-3f, {64, 64, 3, 3}},
    {"layer2.conv.weight", 4, 5e-3f, {128, 64, 3, 3}},
    {"layer3.conv.weight", 4, 2e-3f, {256, 128, 3, 3}},
    {"layer4.conv1.weight", 4, 9e-4f, {512, 256, 3, 3}},
    {"layer4.conv2.weight", 4, 6e-4f, {512, 512, 3, 3}},
    {"layer4.norm.weight", 1, 4e-3f, {512}},
    {"fc1.weight", 2, 4e-4f, {1024, 2048}},
    {"fc1.bias", 1, 2e-3f, {1024}},
    {"fc2.weight", 2, 2e-3f, {400, 1024}},
    {"fc2.bias", 1, 1e-2f, {400}},
};

enum { LAYER_COUNT = sizeof layers / sizeof layers[0], RANK = 6, WIDEST = 8192 };

terse_status gradient_layout(terse_layout **out)
{
    terse_layout *layout;
    terse_status status = terse_layout_create(&layout);
    if (status != TERSE_OK)
        return status;
    for (size_t i = 0; i < LAYER_COUNT && status == TERSE_OK; i++)
        status = terse_layout_add(layout, layers[i].name, layers[i].ndim, layers[i].dims);
    if (status != TERSE_OK) {
        terse_layout_destroy(layout);
        return status;
    }
    *out = layout;
    return TERSE_OK;
}

/* Row `row` of the lasting part: a sum of RANK products, each weaker than the one before. */
static void add_lasting(struct random *rows, float columns[RANK][WIDEST], size_t cols, float *out)
{
    float strength = 1;
    for (int r = 0; r < RANK; r++) {
        float weight = strength * random_normal(rows);
        strength *= 0.7f;
        for (size_t j = 0; j < cols; j++)
            out[j] += weight * columns[r][j];
    }
}

static void fill_layer(size_t number, unsigned step, size_t rows, size_t cols, float *out)
{
    static float columns[RANK][WIDEST];
    struct random lasting = {number + 1};
    struct random fresh = {(number + 1) * 1000 + step + 1};
    for (int r = 0; r < RANK; r++)
        for (size_t j = 0; j < cols; j++)
            columns[r][j] = random_normal(&lasting);
    for (size_t i = 0; i < rows; i++) {
        float row_scale = layers[number].scale * expf(0.7f * random_normal(&lasting));
        float *row = out + i * cols;
        for (size_t j = 0; j < cols; j++) {
            /* a normal whose size is itself log-normal: heavy tails */
            row[j] = random_normal(&fresh) * expf(0.8f * random_normal(&fresh));
        }
        add_lasting(&lasting, columns, cols, row);
        for (size_t j = 0; j < cols; j++)
            row[j] *= row_scale;
    }
}

void gradient_fill(const terse_layout *layout, unsigned step, float *out)
{
    terse_tensor tensor;
    for (uint32_t i = 0; i < LAYER_COUNT && terse_layout_tensor(layout, i, &tensor) == TERSE_OK;
         i++) {
        size_t rows = (size_t)tensor.dims[0];
        fill_layer(i, step, rows, (size_t)tensor.count / rows, out + tensor.offset);
    }
}
