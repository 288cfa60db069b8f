/* What a net promises beside right gradients (parity.py): clear refusals, batches of any size up to
 * its own, the same bits again and in every thread, initial weights that never change. */
#include <math.h>
#include <pthread.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include <cmocka.h>

#include "common/fault.h"
#include "net/net.h"

#define BATCH 6

static const struct trn_input images = {
    .kind = TRN_IMAGE, .channels = 3, .height = 32, .width = 32, .outputs = 10};
static const struct trn_input vectors = {
    .kind = TRN_VECTOR, .target = TRN_NUMBERS, .length = 7, .outputs = 2};
static const struct trn_input text = {
    .kind = TRN_TEXT, .length = 12, .vocabulary = 50, .outputs = 4};

struct examples {
    float values[BATCH * 3 * 32 * 32];
    float targets[BATCH * 2];
    uint32_t labels[BATCH];
    uint32_t lengths[BATCH];
    int32_t tokens[BATCH * 12];
    struct trn_batch batch;
};

static struct examples *make_examples(void)
{
    struct examples *e = calloc(1, sizeof *e);
    assert_non_null(e);
    for (size_t i = 0; i < sizeof e->values / sizeof e->values[0]; i++)
        e->values[i] = sinf((float)(i * i % 9973));
    for (uint32_t i = 0; i < BATCH * 2; i++)
        e->targets[i] = (float)i * 0.1f;
    for (uint32_t i = 0; i < BATCH; i++) {
        e->labels[i] = i % 4;
        e->lengths[i] = i * 2; /* the first is empty */
    }
    for (int32_t i = 0; i < BATCH * 12; i++)
        e->tokens[i] = i * 7 % 50;
    e->batch = (struct trn_batch){BATCH, e->values, e->tokens, e->lengths, e->labels, e->targets};
    return e;
}

/* The outcome of one step. */
struct outcome {
    const char *model;
    const struct trn_input *input;
    uint32_t count;
    unsigned threads;
    uint64_t size;
    float *weights;
    float *gradient;
    double loss;
    uint32_t correct;
};

static void *compute(void *argument)
{
    struct outcome *a = argument;
    struct examples *e = make_examples();
    struct trn_net *net = NULL;
    terse_fault fault;
    e->batch.count = a->count;
    assert_int_equal(trn_net_create(a->model, a->input, BATCH, a->threads, &net, &fault), TERSE_OK);
    a->size = terse_layout_count(trn_net_layout(net));
    a->weights = trn_floats_create(a->size);
    a->gradient = trn_floats_create(a->size);
    assert_true(a->weights && a->gradient);
    trn_net_init(net, 42, a->weights);
    for (uint64_t i = 0; i < a->size; i++)
        a->gradient[i] = NAN; /* every element is written */
    assert_int_equal(trn_net_gradient(net, a->weights, &e->batch, a->gradient, NULL, &a->loss,
                                      &a->correct, &fault),
                     TERSE_OK);
    trn_net_destroy(net);
    free(e);
    return NULL;
}

static void release(struct outcome *a)
{
    trn_floats_destroy(a->weights);
    trn_floats_destroy(a->gradient);
}

static const struct trn_input *input_for(const char *model)
{
    if (strcmp(model, "linear") == 0)
        return &vectors;
    return strcmp(model, "textbag") == 0 || strcmp(model, "bilstm") == 0 ? &text : &images;
}

static void the_same_bits_in_every_thread(void **state)
{
    (void)state;
    for (uint32_t m = 0; trn_model_name(m); m++) {
        const char *model = trn_model_name(m);
        struct outcome a[3];
        pthread_t thread[3];
        for (int i = 0; i < 3; i++) {
            a[i] = (struct outcome){.model = model, .input = input_for(model), .threads = 1};
            a[i].count = BATCH;
            assert_int_equal(pthread_create(&thread[i], NULL, compute, &a[i]), 0);
        }
        for (int i = 0; i < 3; i++)
            assert_int_equal(pthread_join(thread[i], NULL), 0);
        for (int i = 1; i < 3; i++) {
            assert_true(a[i].loss == a[0].loss);
            assert_memory_equal(a[i].gradient, a[0].gradient, a[0].size * sizeof(float));
        }
        for (uint64_t i = 0; i < a[0].size; i++)
            assert_true(isfinite(a[0].gradient[i]));
        for (int i = 0; i < 3; i++)
            release(&a[i]);
    }
}

static void two_threads_give_nearly_the_same(void **state)
{
    (void)state;
    struct outcome one = {.model = "resnet20", .input = &images, .count = BATCH, .threads = 1};
    struct outcome two = {.model = "resnet20", .input = &images, .count = BATCH, .threads = 2};
    (void)compute(&one);
    (void)compute(&two);
    assert_true(fabs(one.loss - two.loss) < 1e-4);
    release(&one);
    release(&two);
}

/* A net for BATCH examples gives for fewer what a net created for fewer gives. */
static void a_short_batch_is_a_batch(void **state)
{
    (void)state;
    struct examples *e = make_examples();
    for (uint32_t m = 0; trn_model_name(m); m++) {
        const char *model = trn_model_name(m);
        struct outcome small = {
            .model = model, .input = input_for(model), .count = 4, .threads = 1};
        struct trn_net *net = NULL;
        terse_fault fault;
        double loss = 0;
        uint32_t correct = 0;
        (void)compute(&small);
        float *gradient = calloc(small.size, sizeof(float));
        assert_non_null(gradient);
        assert_int_equal(trn_net_create(model, small.input, BATCH, 1, &net, &fault), TERSE_OK);
        for (uint32_t count = BATCH; count >= 4; count--) { /* 6, 5, 4, then all again */
            e->batch.count = count;
            assert_int_equal(trn_net_gradient(net, small.weights, &e->batch, gradient, NULL, &loss,
                                              &correct, &fault),
                             TERSE_OK);
        }
        assert_memory_equal(gradient, small.gradient, small.size * sizeof(float));
        assert_true(loss == small.loss);
        /* An evaluation in between disturbs nothing. */
        assert_int_equal(trn_net_evaluate(net, small.weights, &e->batch, &loss, &correct, &fault),
                         TERSE_OK);
        assert_true(isfinite(loss));
        assert_int_equal(trn_net_gradient(net, small.weights, &e->batch, gradient, NULL, &loss,
                                          &correct, &fault),
                         TERSE_OK);
        assert_memory_equal(gradient, small.gradient, small.size * sizeof(float));
        trn_net_destroy(net);
        free(gradient);
        release(&small);
    }
    free(e);
}

/* Without batch norm the loss of an evaluation is the loss of training. */
static void an_evaluation_is_a_sum(void **state)
{
    (void)state;
    struct examples *e = make_examples();
    struct outcome a = {.model = "cnn", .input = &images, .count = BATCH, .threads = 1};
    struct trn_net *net = NULL;
    terse_fault fault;
    double sum = 0;
    uint32_t correct = 0;
    (void)compute(&a);
    assert_int_equal(trn_net_create("cnn", &images, BATCH, 1, &net, &fault), TERSE_OK);
    assert_int_equal(trn_net_evaluate(net, a.weights, &e->batch, &sum, &correct, &fault), TERSE_OK);
    assert_true(fabs(sum - BATCH * a.loss) < 1e-5 * sum);
    assert_int_equal(correct, a.correct);
    trn_net_destroy(net);
    release(&a);
    free(e);
}

/* What the listener was told, against the gradient at the end. */
struct told {
    const float *gradient;
    float *then; /* elements as they were when they were called final */
    uint64_t first;
    uint32_t times;
};

static terse_status note_final(void *context, uint64_t first, terse_fault *fault)
{
    struct told *const told = context;
    (void)fault;
    assert_true(first <= told->first);
    memcpy(told->then + first, told->gradient + first, (told->first - first) * sizeof(float));
    told->times += first < told->first;
    told->first = first;
    return TERSE_OK;
}

static terse_status refuse_final(void *context, uint64_t first, terse_fault *fault)
{
    (void)context;
    (void)first;
    return com_fail(fault, TERSE_PEER_LOST, "a listener");
}

static void what_is_final_does_not_change(void **state)
{
    static const char *const models[] = {"mlp", "cnn", "resnet20", "textbag", "bilstm", "linear"};
    struct examples *e = make_examples();
    (void)state;
    for (size_t m = 0; m < sizeof models / sizeof models[0]; m++) {
        struct outcome a = {
            .model = models[m], .input = input_for(models[m]), .count = BATCH, .threads = 1};
        struct trn_net *net = NULL;
        terse_fault fault;
        (void)compute(&a);
        struct told told = {a.gradient, trn_floats_create(a.size), a.size, 0};
        const struct trn_listener listener = {&told, note_final};
        const struct trn_listener refusing = {NULL, refuse_final};
        assert_int_equal(trn_net_create(a.model, a.input, BATCH, 1, &net, &fault), TERSE_OK);
        assert_int_equal(trn_net_gradient(net, a.weights, &e->batch, a.gradient, &listener, &a.loss,
                                          &a.correct, &fault),
                         TERSE_OK);
        assert_int_equal(told.first, 0);
        assert_memory_equal(told.then, a.gradient, a.size * sizeof(float));
        assert_true(m == 5 || told.times > 1); /* not all at the end */
        assert_int_equal(trn_net_gradient(net, a.weights, &e->batch, a.gradient, &refusing, &a.loss,
                                          &a.correct, &fault),
                         TERSE_PEER_LOST);
        trn_floats_destroy(told.then);
        trn_net_destroy(net);
        release(&a);
    }
    free(e);
}

static double seconds_of_this_thread(void)
{
    struct timespec now;
    assert_int_equal(clock_gettime(CLOCK_THREAD_CPUTIME_ID, &now), 0);
    return (double)now.tv_sec + 1e-9 * (double)now.tv_nsec;
}

/* Forward is about a third of forward and backward. Small batches of a network with large weights
 * show any work that is done on the weights anew for each batch. */
static void an_evaluation_costs_less_than_a_step(void **state)
{
    (void)state;
    struct examples *e = make_examples();
    struct outcome a = {.model = "resnet18", .input = &images, .count = BATCH, .threads = 1};
    struct trn_net *net = NULL;
    terse_fault fault;
    double step = INFINITY;
    double evaluation = INFINITY;
    (void)compute(&a);
    assert_int_equal(trn_net_create(a.model, a.input, BATCH, 1, &net, &fault), TERSE_OK);
    for (int turn = 0; turn < 3; turn++) {
        double sum = 0;
        const double start = seconds_of_this_thread();
        assert_int_equal(trn_net_gradient(net, a.weights, &e->batch, a.gradient, NULL, &a.loss,
                                          &a.correct, &fault),
                         TERSE_OK);
        const double middle = seconds_of_this_thread();
        assert_int_equal(trn_net_evaluate(net, a.weights, &e->batch, &sum, &a.correct, &fault),
                         TERSE_OK);
        step = fmin(step, middle - start);
        evaluation = fmin(evaluation, seconds_of_this_thread() - middle);
    }
    print_message("a step %.0f ms, an evaluation %.0f ms\n", 1e3 * step, 1e3 * evaluation);
    assert_true(evaluation < step);
    trn_net_destroy(net);
    release(&a);
    free(e);
}

static void first_weights_never_change(void **state)
{
    (void)state;
    struct trn_net *net = NULL;
    terse_fault fault;
    float w[16];
    assert_int_equal(trn_net_create("linear", &vectors, 1, 1, &net, &fault), TERSE_OK);
    assert_int_equal(terse_layout_count(trn_net_layout(net)), 16);
    trn_net_init(net, 0, w);
    /* Philox4x32-10 of counter (0, 0, 0, "init") and key 0, computed apart from this code */
    const float bound = sqrtf(3.0f / 7.0f); /* no relu behind it */
    for (int i = 0; i < 14; i++)
        assert_true(fabsf(w[i]) < bound && w[i] != 0.0f);
    assert_true(w[14] == 0.0f && w[15] == 0.0f);
    assert_true(fabsf(w[0] - (0.072747643f)) < 1e-7f && fabsf(w[1] - (0.277323715f)) < 1e-7f);
    trn_net_destroy(net);
}

static void refuse(const char *model, const struct trn_input *input, const char *wanted)
{
    struct trn_net *net = NULL;
    terse_fault fault = {0};
    assert_int_not_equal(trn_net_create(model, input, 1, 1, &net, &fault), TERSE_OK);
    assert_null(net);
    if (!strstr(fault.text, wanted))
        fail_msg("'%s' does not contain '%s'", fault.text, wanted);
}

static void bad_pairs_are_refused(void **state)
{
    (void)state;
    const struct trn_input small = {
        .kind = TRN_IMAGE, .channels = 1, .height = 28, .width = 28, .outputs = 10};
    const struct trn_input lone = {.kind = TRN_VECTOR, .length = 3, .outputs = 1};
    const struct trn_input empty = {.kind = TRN_VECTOR, .outputs = 2};
    refuse("resnet-20", &images, "did you mean 'resnet20'?");
    refuse("transformer", &images, "there are linear, logistic, mlp");
    refuse("cnn", &text, "reads images, these data are text");
    refuse("bilstm", &images, "reads text, these data are images");
    refuse("resnet18", &vectors, "reads images, these data are vectors");
    refuse("vgg16", &small, "at least 32 x 32, these are 28 x 28");
    refuse("linear", &images, "use logistic");
    refuse("logistic", &vectors, "use linear");
    refuse("logistic", &lone, "one class");
    refuse("mlp", &empty, "without a size");
}

static void bad_batches_are_refused(void **state)
{
    (void)state;
    struct examples *e = make_examples();
    struct trn_net *net = NULL;
    terse_fault fault;
    double loss;
    uint32_t correct;
    assert_int_equal(trn_net_create("textbag", &text, BATCH, 1, &net, &fault), TERSE_OK);
    float *w = calloc(terse_layout_count(trn_net_layout(net)), sizeof *w);
    assert_non_null(w);
    const struct trn_batch good = e->batch;
    for (int what = 0; what < 5; what++) {
        e->batch = good;
        e->batch.count = what == 0 ? BATCH + 1 : BATCH;
        e->batch.tokens = what == 1 ? NULL : e->tokens;
        e->labels[2] = what == 2 ? 4 : 0;
        e->tokens[12] = what == 3 ? 50 : 1;
        e->lengths[3] = what == 4 ? 13 : 2;
        assert_int_equal(trn_net_evaluate(net, w, &e->batch, &loss, &correct, &fault),
                         TERSE_BAD_ARGUMENT);
        assert_true(strlen(fault.text) > 10);
    }
    trn_net_destroy(net);
    free(w);
    free(e);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(the_same_bits_in_every_thread),
        cmocka_unit_test(two_threads_give_nearly_the_same),
        cmocka_unit_test(a_short_batch_is_a_batch),
        cmocka_unit_test(an_evaluation_is_a_sum),
        cmocka_unit_test(what_is_final_does_not_change),
        cmocka_unit_test(an_evaluation_costs_less_than_a_step),
        cmocka_unit_test(first_weights_never_change),
        cmocka_unit_test(bad_pairs_are_refused),
        cmocka_unit_test(bad_batches_are_refused),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
