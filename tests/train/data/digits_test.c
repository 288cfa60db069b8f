/* The drawn digits: the same from the same seed, learnable, and not by a line alone. */
#include <math.h>

#include "data/data.h"
#include "data/order.h"
#include "files/hash.h"
#include "support/folder.h"

enum { PIXELS = 784, CLASSES = 10, BATCH = 50 };

static uint64_t hash_of(uint64_t seed)
{
    struct trn_data *data;
    struct trn_hash *hash = trn_hash_create();
    float x[PIXELS];
    uint32_t label;
    const struct trn_place out = {.x = x, .labels = &label};
    assert_non_null(hash);
    assert_int_equal(trn_data_open("digits", seed, &data, NULL), TERSE_OK);
    for (uint32_t i = 0; i < 1000; i++) {
        assert_int_equal(trn_data_batch(data, TRN_TEST, &i, 1, NULL, NULL, &out, NULL), TERSE_OK);
        trn_hash_add(hash, x, sizeof x);
        trn_hash_add(hash, &label, sizeof label);
    }
    const uint64_t value = trn_hash_value(hash);
    trn_hash_destroy(hash);
    trn_data_close(data);
    return value;
}

static void test_the_seed_decides(void **state)
{
    (void)state;
    assert_true(hash_of(1) == hash_of(1));
    assert_true(hash_of(1) != hash_of(2));
}

/* Logits of a linear model; bias last. */
static void apply(const float *weights, const float *x, float logits[CLASSES])
{
    for (int c = 0; c < CLASSES; c++) {
        const float *row = weights + (size_t)c * (PIXELS + 1);
        float sum = row[PIXELS];
        for (int j = 0; j < PIXELS; j++)
            sum += row[j] * x[j];
        logits[c] = sum;
    }
}

static int largest(const float logits[CLASSES])
{
    int best = 0;
    for (int c = 1; c < CLASSES; c++)
        best = logits[c] > logits[best] ? c : best;
    return best;
}

/* One step of softmax regression on one example. */
static void learn(float *weights, const float *x, uint32_t label, float rate)
{
    float logits[CLASSES];
    float sum = 0;
    apply(weights, x, logits);
    const float most = logits[largest(logits)];
    for (int c = 0; c < CLASSES; c++)
        sum += logits[c] = expf(logits[c] - most);
    for (uint32_t c = 0; c < CLASSES; c++) {
        float *row = weights + (size_t)c * (PIXELS + 1);
        const float step = rate * (logits[c] / sum - (c == label ? 1.0f : 0.0f));
        for (int j = 0; j < PIXELS; j++)
            row[j] -= step * x[j];
        row[PIXELS] -= step;
    }
}

static void train_epoch(const struct trn_data *data, uint64_t epoch, float *weights)
{
    const struct trn_order_options options = {.seed = 1, .workers = 1, .batch = BATCH};
    struct trn_order *order;
    static float x[BATCH * PIXELS];
    uint32_t examples[BATCH];
    uint32_t labels[BATCH];
    const struct trn_place out = {.x = x, .labels = labels};
    assert_int_equal(trn_order_create(data, &options, 0, &order, NULL), TERSE_OK);
    for (uint32_t step = 0; step < trn_order_steps(order); step++) {
        const uint32_t count = trn_order_batch(order, epoch, step, examples);
        assert_int_equal(trn_data_batch(data, TRN_TRAIN, examples, count, NULL, NULL, &out, NULL),
                         TERSE_OK);
        for (uint32_t i = 0; i < count; i++)
            learn(weights, x + (size_t)i * PIXELS, labels[i], 0.0005f);
    }
    trn_order_destroy(order);
}

static void test_a_linear_model_learns_some_of_it(void **state)
{
    struct trn_data *data;
    float *weights = test_floats((size_t)CLASSES * (PIXELS + 1));
    float x[PIXELS];
    uint32_t label;
    const struct trn_place out = {.x = x, .labels = &label};
    uint32_t right = 0;
    (void)state;
    assert_int_equal(trn_data_open("digits", test_seed(), &data, NULL), TERSE_OK);
    for (uint64_t epoch = 0; epoch < 5; epoch++)
        train_epoch(data, epoch, weights);
    const uint32_t count = trn_data_about(data)->count[TRN_TEST];
    for (uint32_t i = 0; i < count; i++) {
        float logits[CLASSES];
        assert_int_equal(trn_data_batch(data, TRN_TEST, &i, 1, NULL, NULL, &out, NULL), TERSE_OK);
        apply(weights, x, logits);
        right += (uint32_t)largest(logits) == label;
    }
    print_message("a linear model has %u of %u right\n", right, count);
    assert_in_range(right, count / 2, count * 95 / 100);
    trn_data_close(data);
    free(weights);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_the_seed_decides),
        cmocka_unit_test(test_a_linear_model_learns_some_of_it),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
