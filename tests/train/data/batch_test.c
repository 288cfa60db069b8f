/* Batches: normalised by the training set, moved by (seed, epoch, example) alone. */
#include "data/data.h"

#include <math.h>
#include <pthread.h>

#include "support/folder.h"

enum { SIDE = 28, PIXELS = SIDE * SIDE };

static struct trn_data *digits(void)
{
    struct trn_data *data;
    assert_int_equal(trn_data_open("digits", test_seed(), &data, NULL), TERSE_OK);
    return data;
}

static void read_x(const struct trn_data *data, uint32_t example, const struct trn_augment *augment,
                   float *x)
{
    assert_int_equal(trn_data_batch(data, TRN_TRAIN, &example, 1, augment, NULL,
                                    &(struct trn_place){.x = x}, NULL),
                     TERSE_OK);
}

static void test_the_training_set_is_normalised(void **state)
{
    struct trn_data *data = digits();
    const uint32_t count = trn_data_about(data)->count[TRN_TRAIN];
    float x[PIXELS];
    double sum = 0;
    double squares = 0;
    (void)state;
    for (uint32_t i = 0; i < count; i++) {
        read_x(data, i, NULL, x);
        for (int j = 0; j < PIXELS; j++) {
            sum += (double)x[j];
            squares += (double)x[j] * (double)x[j];
        }
    }
    const double number = (double)count * PIXELS;
    assert_true(fabs(sum / number) < 1e-4);
    assert_true(fabs(squares / number - 1) < 1e-3);
    trn_data_close(data);
}

/* The move (dx, dy, mirrored) that makes `moved` of `plain`, found by trying them all. */
static int find_move(const float *plain, float black, const float *moved, int move[3])
{
    for (int i = 0; i < 9 * 9 * 2; i++) {
        const int dx = i % 9 - 4;
        const int dy = i / 9 % 9 - 4;
        int equal = 1;
        for (int j = 0; j < PIXELS && equal; j++) {
            const int column = i < 81 ? j % SIDE : SIDE - 1 - j % SIDE;
            const int x = column + dx;
            const int y = j / SIDE + dy;
            const int inside = x >= 0 && x < SIDE && y >= 0 && y < SIDE;
            equal = moved[j] == (inside ? plain[y * SIDE + x] : black);
        }
        if (equal) {
            move[0] = dx;
            move[1] = dy;
            move[2] = i >= 81;
            return 1;
        }
    }
    return 0;
}

static void test_images_are_moved_within_their_padding(void **state)
{
    struct trn_data *data = digits();
    const struct trn_about *about = trn_data_about(data);
    const float black = (float)((0 - (double)about->mean[0]) / (double)about->std[0]);
    struct trn_augment augment = {.crop = 1, .flip = 1, .seed = 5};
    int moves[9][9] = {{0}};
    int mirrored = 0;
    (void)state;
    for (uint32_t i = 0; i < 600; i++) {
        float plain[PIXELS];
        float moved[PIXELS];
        float edge = black;
        int move[3] = {0};
        augment.epoch = i / 100;
        read_x(data, i % 100, NULL, plain);
        read_x(data, i % 100, &augment, moved);
        for (int j = 0; j < PIXELS; j++) /* black as the table has it, to the last bit */
            if (fabsf(moved[j] - black) < 1e-5f)
                edge = moved[j];
        if (!find_move(plain, edge, moved, move))
            fail_msg("example %u is not a move of the image", i);
        moves[move[0] + 4][move[1] + 4]++;
        mirrored += move[2];
    }
    int met = 0;
    for (int i = 0; i < 81; i++)
        met += moves[i / 9][i % 9] > 0;
    assert_true(met >= 75);
    assert_in_range(mirrored, 240, 360);
    trn_data_close(data);
}

static void test_a_batch_is_its_examples(void **state)
{
    struct trn_data *data = digits();
    const uint32_t examples[3] = {7, 4, 7};
    const struct trn_augment augment = {.crop = 1, .flip = 1, .seed = 3, .epoch = 9};
    static float batch[3 * PIXELS];
    float one[PIXELS];
    uint32_t labels[3];
    float targets[3];
    const struct trn_place out = {.x = batch, .labels = labels, .targets = targets};
    (void)state;
    assert_int_equal(trn_data_batch(data, TRN_TRAIN, examples, 3, &augment, NULL, &out, NULL),
                     TERSE_OK);
    for (int i = 0; i < 3; i++) {
        read_x(data, examples[i], &augment, one);
        assert_true(test_same_bits(batch + (size_t)i * PIXELS, one, PIXELS));
        assert_true((float)labels[i] == targets[i]);
    }
    assert_int_equal(labels[0], labels[2]);
    trn_data_close(data);
}

static void test_what_cannot_be_had_is_refused(void **state)
{
    struct trn_data *data = digits();
    struct trn_data *regression;
    const uint32_t beyond = 1000;
    const uint32_t first = 0;
    uint32_t word = 0;
    int32_t token = 0;
    float x[PIXELS];
    terse_fault fault;
    (void)state;
    test_refused(
        trn_data_batch(data, TRN_TEST, &beyond, 1, NULL, NULL, &(struct trn_place){.x = x}, &fault),
        TERSE_BAD_ARGUMENT, &fault, "no example 1000");
    test_refused(trn_data_batch(data, TRN_TEST, &first, 1, NULL, NULL,
                                &(struct trn_place){.tokens = &token, .lengths = &word}, &fault),
                 TERSE_BAD_ARGUMENT, &fault, "only text has tokens");
    trn_data_close(data);
    assert_int_equal(trn_data_open("regression", 1, &regression, NULL), TERSE_OK);
    test_refused(trn_data_batch(regression, TRN_TEST, &first, 1, NULL, NULL,
                                &(struct trn_place){.labels = &word}, &fault),
                 TERSE_BAD_ARGUMENT, &fault, "no classes");
    trn_data_close(regression);
}

struct asker {
    const struct trn_data *data;
    double sum;
};

static void *ask(void *context)
{
    struct asker *asker = context;
    const struct trn_augment augment = {.crop = 1, .flip = 1, .seed = 1, .epoch = 2};
    float x[PIXELS];
    for (uint32_t i = 0; i < 500; i++) {
        if (trn_data_batch(asker->data, TRN_TRAIN, &i, 1, &augment, NULL,
                           &(struct trn_place){.x = x}, NULL) != TERSE_OK)
            return NULL;
        for (int j = 0; j < PIXELS; j++)
            asker->sum += (double)x[j] * (j + 1);
    }
    return NULL;
}

static void test_threads_see_the_same(void **state)
{
    struct trn_data *data = digits();
    struct asker askers[3] = {{data, 0}, {data, 0}, {data, 0}};
    pthread_t threads[3];
    (void)state;
    for (int i = 0; i < 3; i++)
        assert_int_equal(pthread_create(&threads[i], NULL, ask, &askers[i]), 0);
    for (int i = 0; i < 3; i++)
        assert_int_equal(pthread_join(threads[i], NULL), 0);
    assert_true(askers[0].sum != 0);
    assert_true(askers[0].sum == askers[1].sum && askers[1].sum == askers[2].sum);
    trn_data_close(data);
}

static void test_generated_vectors_follow_their_law(void **state)
{
    struct trn_data *data;
    float x[200];
    float y;
    double error = 0;
    (void)state;
    assert_int_equal(trn_data_open("quadratic", 3, &data, NULL), TERSE_OK);
    assert_int_equal(trn_data_about(data)->features, 200);
    for (uint32_t i = 0; i < 100; i++) {
        double sum = 0;
        assert_int_equal(trn_data_batch(data, TRN_TEST, &i, 1, NULL, NULL,
                                        &(struct trn_place){.x = x, .targets = &y}, NULL),
                         TERSE_OK);
        for (int j = 0; j < 200; j++) {
            sum += (double)x[j];
            assert_true(fabsf(x[j] * x[j] - (1.0f - 0.99f * (float)j / 199.0f)) < 1e-5f);
        }
        error += fabs(sum - (double)y);
    }
    assert_true(error < 1e-2);
    trn_data_close(data);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_the_training_set_is_normalised),
        cmocka_unit_test(test_images_are_moved_within_their_padding),
        cmocka_unit_test(test_a_batch_is_its_examples),
        cmocka_unit_test(test_what_cannot_be_had_is_refused),
        cmocka_unit_test(test_threads_see_the_same),
        cmocka_unit_test(test_generated_vectors_follow_their_law),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
