/* Every example once per epoch, equal steps, a pure function of seed, epoch and workers. */
#include "data/order.h"

#include <math.h>

#include "data/draw.h"
#include "support/folder.h"

static struct trn_data *digits(void)
{
    struct trn_data *data;
    assert_int_equal(trn_data_open("digits", 1, &data, NULL), TERSE_OK);
    return data;
}

static struct trn_order *order_of(const struct trn_data *data,
                                  const struct trn_order_options *options, uint32_t worker)
{
    struct trn_order *order;
    terse_fault fault;
    assert_int_equal(trn_order_create(data, options, worker, &order, &fault), TERSE_OK);
    return order;
}

static void check_epoch(const struct trn_data *data, const struct trn_order_options *options,
                        uint64_t epoch)
{
    const uint32_t count = trn_data_about(data)->count[TRN_TRAIN];
    uint8_t *seen = test_alloc(count);
    uint32_t *batch = test_alloc(options->batch * sizeof *batch);
    uint32_t steps = 0;
    uint32_t met = 0;
    for (uint32_t worker = 0; worker < options->workers; worker++) {
        struct trn_order *order = order_of(data, options, worker);
        if (worker == 0)
            steps = trn_order_steps(order);
        assert_int_equal(trn_order_steps(order), steps);
        uint32_t own = 0;
        for (uint32_t step = 0; step < steps; step++) {
            const uint32_t got = trn_order_batch(order, epoch, step, batch);
            if (step + 1 < steps || options->drop_short)
                assert_int_equal(got, options->batch);
            for (uint32_t i = 0; i < got; i++) {
                assert_true(batch[i] < count);
                assert_int_equal(seen[batch[i]]++, 0);
            }
            own += got;
        }
        assert_int_equal(trn_order_batch(order, epoch, steps, batch), 0);
        if (!options->drop_short)
            assert_int_equal(own, trn_order_count(order));
        met += own;
        trn_order_destroy(order);
    }
    if (!options->drop_short)
        assert_int_equal(met, count);
    free(seen);
    free(batch);
}

static void test_every_example_once(void **state)
{
    static const uint32_t workers[] = {1, 2, 3, 7, 8};
    static const uint32_t batches[] = {1, 32, 100, 7000};
    struct trn_data *data = digits();
    (void)state;
    for (int shard = 0; shard < 3; shard++)
        for (size_t i = 0; i < 5; i++)
            for (size_t j = 0; j < 4; j++) {
                const struct trn_order_options options = {.seed = test_seed(),
                                                          .workers = workers[i],
                                                          .batch = batches[j],
                                                          .shard = (enum trn_shard)shard,
                                                          .alpha = 0.3};
                check_epoch(data, &options, j);
            }
    const struct trn_order_options dropping = {
        .workers = 7, .batch = 100, .shard = TRN_SHARD_IID, .drop_short = 1};
    check_epoch(data, &dropping, 3);
    trn_data_close(data);
}

/* Parts of 1 : 2 : 3 : 4 that are fixed and disjoint; full batches of a worker's own examples,
 * which come in turn. */
static void test_unequal_parts(void **state)
{
    struct trn_data *data = digits();
    const uint32_t all = trn_data_about(data)->count[TRN_TRAIN];
    uint32_t sum = 0;
    (void)state;
    for (uint32_t w = 0; w < 4; w++) {
        const struct trn_order_options options = {
            .seed = 9, .workers = 4, .batch = 32, .shard = TRN_SHARD_UNEQUAL, .drop_short = 1};
        struct trn_order *order = order_of(data, &options, w);
        const uint32_t count = trn_order_count(order);
        uint32_t *const seen = calloc(all, sizeof *seen);
        uint32_t examples[32];
        assert_int_equal(trn_order_steps(order), all / 4 / 32);
        assert_true(count >= all / 10 * (w + 1) - 1 && count <= all / 10 * (w + 1) + 10);
        for (uint32_t step = 0; step < trn_order_steps(order); step++) {
            assert_int_equal(trn_order_batch(order, 1, step, examples), 32);
            for (int i = 0; i < 32; i++) {
                assert_true(examples[i] >= sum && examples[i] < sum + count);
                seen[examples[i]]++;
            }
        }
        for (uint32_t i = sum; i < sum + count; i++) /* in turn: as often as the others */
            assert_true(seen[i] + 1 >= trn_order_steps(order) * 32 / count &&
                        seen[i] <= trn_order_steps(order) * 32 / count + 1);
        sum += count;
        free(seen);
        trn_order_destroy(order);
    }
    assert_int_equal(sum, all);
    trn_data_close(data);
}

static void test_positions_need_no_history(void **state)
{
    struct trn_data *data = digits();
    (void)state;
    for (int shard = 0; shard < 3; shard++) {
        const struct trn_order_options options = {
            .seed = 9, .workers = 4, .batch = 32, .shard = (enum trn_shard)shard, .alpha = 1};
        struct trn_order *walked = order_of(data, &options, 2);
        struct trn_order *fresh = order_of(data, &options, 2);
        uint32_t a[32];
        uint32_t b[32];
        uint32_t other[32];
        for (uint64_t epoch = 0; epoch < 3; epoch++)
            for (uint32_t step = 0; step < trn_order_steps(walked); step++)
                (void)trn_order_batch(walked, epoch, step, a);
        assert_int_equal(trn_order_batch(walked, 2, 11, a), 32);
        assert_int_equal(trn_order_batch(fresh, 2, 11, b), 32);
        assert_memory_equal(a, b, sizeof a);
        assert_int_equal(trn_order_batch(fresh, 3, 11, other), 32);
        assert_memory_not_equal(a, other, sizeof a);
        trn_order_destroy(walked);
        trn_order_destroy(fresh);
    }
    trn_data_close(data);
}

static void test_another_seed_is_another_order(void **state)
{
    struct trn_data *data = digits();
    uint32_t a[64];
    uint32_t b[64];
    (void)state;
    for (uint64_t seed = 1; seed <= 2; seed++) {
        const struct trn_order_options options = {.seed = seed << 32, .workers = 1, .batch = 64};
        struct trn_order *order = order_of(data, &options, 0);
        assert_int_equal(trn_order_batch(order, 0, 0, seed == 1 ? a : b), 64);
        trn_order_destroy(order);
    }
    assert_memory_not_equal(a, b, sizeof a);
    trn_data_close(data);
}

/* Mean over workers of the sum of squared class shares: 0.1 when even, 1 when each has one class.
 */
static double concentration(const struct trn_data *data, double alpha)
{
    const struct trn_order_options options = {
        .seed = 4, .workers = 8, .batch = 6000, .shard = TRN_SHARD_CLASS, .alpha = alpha};
    uint32_t *batch = test_alloc(6000 * sizeof *batch);
    uint32_t *labels = test_alloc(6000 * sizeof *labels);
    double sum = 0;
    for (uint32_t worker = 0; worker < 8; worker++) {
        struct trn_order *order = order_of(data, &options, worker);
        const uint32_t got = trn_order_batch(order, 0, 0, batch);
        double counts[10] = {0};
        assert_int_equal(got, 750);
        assert_int_equal(trn_data_batch(data, TRN_TRAIN, batch, got, NULL, NULL,
                                        &(struct trn_place){.labels = labels}, NULL),
                         TERSE_OK);
        for (uint32_t i = 0; i < got; i++)
            counts[labels[i]]++;
        for (int c = 0; c < 10; c++)
            sum += counts[c] * counts[c] / ((double)got * got) / 8;
        trn_order_destroy(order);
    }
    free(batch);
    free(labels);
    return sum;
}

static void test_alpha_decides_how_uneven_classes_are(void **state)
{
    struct trn_data *data = digits();
    const double even = concentration(data, 1000);
    const double some = concentration(data, 1);
    const double few = concentration(data, 0.05);
    (void)state;
    print_message("class concentration: alpha 1000 %.3f, 1 %.3f, 0.05 %.3f\n", even, some, few);
    assert_true(even > 0.099 && even < 0.11);
    /* 2/11 and nearly 1 were parts not equal: 750 examples cannot come from a class of 600 */
    assert_true(some > 0.12 && some < 0.25);
    assert_true(few > 0.35 && few < 0.7);
    trn_data_close(data);
}

static void test_ranges_are_ranges(void **state)
{
    struct trn_data *data = digits();
    const struct trn_order_options options = {
        .seed = 4, .workers = 4, .batch = 1500, .shard = TRN_SHARD_RANGE};
    struct trn_order *order = order_of(data, &options, 2);
    uint32_t batch[1500];
    uint32_t sorted = 0;
    (void)state;
    assert_int_equal(trn_order_batch(order, 1, 0, batch), 1500);
    for (int i = 0; i < 1500; i++) {
        assert_in_range(batch[i], 3000, 4499);
        sorted += batch[i] == 3000u + (uint32_t)i;
    }
    assert_true(sorted < 20);
    trn_order_destroy(order);
    trn_data_close(data);
}

static void test_bad_options_are_refused(void **state)
{
    struct trn_data *data = digits();
    struct trn_data *regression;
    struct trn_order *order;
    enum trn_shard shard;
    double alpha;
    terse_fault fault;
    struct trn_order_options options = {.workers = 6001, .batch = 1};
    (void)state;
    test_refused(trn_order_create(data, &options, 0, &order, &fault), TERSE_BAD_ARGUMENT, &fault,
                 "6001 workers, but only 6000 examples");
    options.workers = 2;
    test_refused(trn_order_create(data, &options, 2, &order, &fault), TERSE_BAD_ARGUMENT, &fault,
                 "worker 2 of 2");
    assert_int_equal(trn_data_open("regression", 1, &regression, NULL), TERSE_OK);
    options.shard = TRN_SHARD_CLASS;
    options.alpha = 1;
    test_refused(trn_order_create(regression, &options, 0, &order, &fault), TERSE_BAD_ARGUMENT,
                 &fault, "no classes to shard by");
    assert_int_equal(trn_shard_parse("class:alpha=0.1", &shard, &alpha, &fault), TERSE_OK);
    assert_true(shard == TRN_SHARD_CLASS && alpha == 0.1);
    assert_int_equal(trn_shard_parse("range", &shard, &alpha, &fault), TERSE_OK);
    assert_int_equal(shard, TRN_SHARD_RANGE);
    test_refused(trn_shard_parse("class:alpha=0", &shard, &alpha, &fault), TERSE_BAD_SPEC, &fault,
                 "alpha");
    test_refused(trn_shard_parse("by-class", &shard, &alpha, &fault), TERSE_BAD_SPEC, &fault,
                 "there are iid");
    trn_data_close(regression);
    trn_data_close(data);
}

/* Known answers of Philox4x32-10: the paper's test vectors for zeros and ones. */
static void test_the_generator_is_philox(void **state)
{
    struct trn_stream stream = {.used = 4};
    (void)state;
    assert_int_equal(trn_draw_u32(&stream), 0x6627e8d5u);
    assert_int_equal(trn_draw_u32(&stream), 0xe169c58du);
    assert_int_equal(trn_draw_u32(&stream), 0xbc57ac4cu);
    assert_int_equal(trn_draw_u32(&stream), 0x9b00dbd8u);
    stream = (struct trn_stream){.key = {~0u, ~0u}, .counter = {~0u, ~0u, ~0u, ~0u}, .used = 4};
    assert_int_equal(trn_draw_u32(&stream), 0x408f276du);
    assert_int_equal(trn_draw_u32(&stream), 0x41c83b0eu);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_every_example_once),
        cmocka_unit_test(test_unequal_parts),
        cmocka_unit_test(test_positions_need_no_history),
        cmocka_unit_test(test_another_seed_is_another_order),
        cmocka_unit_test(test_alpha_decides_how_uneven_classes_are),
        cmocka_unit_test(test_ranges_are_ranges),
        cmocka_unit_test(test_bad_options_are_refused),
        cmocka_unit_test(test_the_generator_is_philox),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
