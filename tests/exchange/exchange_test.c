/* Exchanges over local groups: every worker gets the same aggregate, and it is the right one. */
#include <math.h>
#include <pthread.h>
#include <stdio.h>

#include "exchange/workers.h"

#define LARGE 30000u
#define STEPS 4u

static const uint32_t crowds[] = {1, 2, 3, 4, 7, 8};
#define CROWDS (sizeof crowds / sizeof crowds[0])

/* Shared by the workers of a test: the settings, and their aggregates. */
struct scene {
    const char *codec;
    const char *combine;
    const char *feedback;
    const char *tie;
    uint32_t buckets; /* 0: run; else post and finish with so many tensors in each */
    enum test_kind kind;
    size_t count;
    float *aggregate[TERSE_MAX_LOCAL_WORKERS]; /* of the last step */
    float *residual[TERSE_MAX_LOCAL_WORKERS];
    double left[TERSE_MAX_LOCAL_WORKERS]; /* sums over elements and steps, see conservation */
    terse_exchange_report report[TERSE_MAX_LOCAL_WORKERS];
    int32_t poisoned; /* this rank's gradient is not finite in step 1 */
};

/* Rank r's gradient of a step: a function of both. */
static void gradient_of(const struct scene *scene, uint32_t rank, uint64_t step, float *out)
{
    struct test_random random = {test_seed() * 1000003 + rank * 1009 + step};
    test_fill(&random, scene->kind, out, scene->count);
}

static terse_status step_of(const struct scene *scene, terse_exchange *exchange, float *gradient,
                            terse_exchange_report *report, terse_fault *fault)
{
    if (scene->buckets == 0)
        return terse_exchange_run(exchange, gradient, report, fault);
    terse_layout *const layout = test_layout(LARGE);
    const uint32_t tensors = terse_layout_tensors(layout);
    terse_layout_destroy(layout);
    for (uint32_t end = tensors; end > 0;) { /* from the last tensor on, as backward does */
        const uint32_t first = end > scene->buckets ? end - scene->buckets : 0;
        const terse_status status =
            terse_exchange_post(exchange, gradient, first, end - first, fault);
        if (status != TERSE_OK)
            return status;
        end = first;
    }
    return terse_exchange_finish(exchange, gradient, report, fault);
}

static const char *train(terse_group *handle, void *context)
{
    struct scene *const scene = context;
    const uint32_t rank = terse_group_rank(handle);
    const terse_exchange_options options = {.size = sizeof options,
                                            .codec = scene->codec,
                                            .combine = scene->combine,
                                            .feedback = scene->feedback,
                                            .tie = scene->tie,
                                            .seed = 5,
                                            .compare_every = 1};
    terse_layout *const layout = test_layout(LARGE);
    terse_exchange *exchange = NULL;
    terse_fault fault = {0};
    terse_status status = terse_exchange_create(handle, layout, &options, &exchange, &fault);
    terse_layout_destroy(layout);
    if (status != TERSE_OK)
        return complain(handle, "create", status, &fault);
    float *const gradient = scene->aggregate[rank];
    for (uint64_t step = 0; step < STEPS; step++) {
        gradient_of(scene, rank, step, gradient);
        if (step == 1 && (int32_t)rank == scene->poisoned)
            gradient[scene->count / 2] = NAN;
        status = step_of(scene, exchange, gradient, &scene->report[rank], &fault);
        if (status != TERSE_OK) {
            terse_exchange_destroy(exchange);
            return complain(handle, "step", status, &fault);
        }
        if (step == 1 && scene->report[rank].skipped_by != scene->poisoned) {
            terse_exchange_destroy(exchange);
            return complain(handle, "skipped by the wrong rank", status, NULL);
        }
    }
    if (terse_exchange_residual(exchange))
        memcpy(scene->residual[rank], terse_exchange_residual(exchange),
               scene->count * sizeof(float));
    if (terse_exchange_owner_residual(exchange))
        for (size_t i = 0; i < scene->count; i++)
            scene->residual[rank][i] +=
                terse_exchange_owner_residual(exchange)[i] *
                (float)terse_group_workers(handle); /* a mean's residual weighs as all workers' */
    terse_exchange_destroy(exchange);
    return NULL;
}

static struct scene scene_new(const char *codec, const char *combine)
{
    struct scene scene = {.codec = codec, .combine = combine, .poisoned = -1};
    terse_layout *const layout = test_layout(LARGE);
    scene.count = (size_t)terse_layout_count(layout);
    terse_layout_destroy(layout);
    for (size_t r = 0; r < TERSE_MAX_LOCAL_WORKERS; r++) {
        scene.aggregate[r] = test_floats(scene.count);
        scene.residual[r] = test_floats(scene.count);
    }
    return scene;
}

static void scene_free(struct scene *scene)
{
    for (size_t r = 0; r < TERSE_MAX_LOCAL_WORKERS; r++) {
        free(scene->aggregate[r]);
        free(scene->residual[r]);
    }
}

static const struct {
    const char *codec;
    const char *combine;
} pairs[] = {
    {"f32", "allreduce"},
    {"f32", "allgather"},
    {"f32", "shard"},
    {"f32", "median"},
    {"f16", "shard"},
    {"bf16", "allgather"},
    {"sign", "vote"},
    {"sign:zero=coin", "vote"},
    {"sign:zero=keep", "shard"},
    {"scaled-sign", "shard"},
    {"scaled-sign", "parameter-server"},
    {"topk:keep=0.05", "allgather"},
    {"topk:keep=0.05", "shard"},
    {"topk:keep=0.05", "sparse-allreduce"},
    {"block:ratio=8", "sparse-allreduce"},
    {"block:ratio=8", "allreduce"},
    {"log", "shard"},
    {"log", "parameter-server"},
    {"uniform", "allgather"},
    {"uniform:bits=8", "shard"},
    {"natural", "shard"},
    {"low-rank", "allreduce"},
    {"nearest:k=8", "allgather"},
};
#define PAIRS (sizeof pairs / sizeof pairs[0])

static void every_rank_gets_the_same_aggregate(void **unused)
{
    (void)unused;
    for (size_t p = 0; p < PAIRS; p++) {
        struct scene scene = scene_new(pairs[p].codec, pairs[p].combine);
        for (size_t c = 0; c < CROWDS; c++) {
            workers_run(crowds[c], train, &scene);
            for (uint32_t r = 1; r < crowds[c]; r++)
                assert_true(test_same_bits(scene.aggregate[0], scene.aggregate[r], scene.count));
        }
        scene_free(&scene);
    }
}

/* Buckets of one, two or all tensors: the same aggregate and residual, bit for bit. */
static void buckets_change_nothing(void **unused)
{
    (void)unused;
    for (size_t p = 0; p < PAIRS; p++) {
        struct scene whole = scene_new(pairs[p].codec, pairs[p].combine);
        struct scene parts = scene_new(pairs[p].codec, pairs[p].combine);
        workers_run(3, train, &whole);
        for (uint32_t buckets = 1; buckets <= 7; buckets += 2) {
            parts.buckets = buckets;
            workers_run(3, train, &parts);
            for (uint32_t r = 0; r < 3; r++) {
                if (!test_same_bits(whole.aggregate[r], parts.aggregate[r], whole.count))
                    fail_msg("%s by %s: another aggregate with buckets of %u", pairs[p].codec,
                             pairs[p].combine, buckets);
                assert_true(test_same_bits(whole.residual[r], parts.residual[r], whole.count));
            }
        }
        scene_free(&whole);
        scene_free(&parts);
    }
}

/* The mean of f32 is the mean in rank order; that of other codecs is near it. */
static void dense_aggregates_are_the_mean(void **unused)
{
    static const char *const combines[] = {"allreduce", "allgather", "shard", "parameter-server"};
    (void)unused;
    for (size_t m = 0; m < 4; m++) {
        struct scene scene = scene_new("f32", combines[m]);
        for (size_t c = 0; c < CROWDS; c++) {
            const uint32_t workers = crowds[c];
            float *const sum = test_floats(scene.count);
            float *const one = test_floats(scene.count);
            workers_run(workers, train, &scene);
            for (uint32_t r = 0; r < workers; r++) {
                gradient_of(&scene, r, STEPS - 1, one);
                for (size_t i = 0; i < scene.count; i++)
                    sum[i] = r == 0 ? one[i] : sum[i] + one[i];
            }
            for (size_t i = 0; i < scene.count; i++)
                sum[i] /= (float)workers;
            assert_true(test_same_bits(sum, scene.aggregate[0], scene.count));
            free(sum);
            free(one);
        }
        scene_free(&scene);
    }
}

/* sparse-allreduce is allgather in fewer bytes: the same aggregate and residual, bit for bit. */
static void unions_are_exact(void **unused)
{
    static const char *const codecs[] = {"topk:keep=0.05", "topk:keep=0.3,values=f16",
                                         "block:ratio=8", "f32"};
    (void)unused;
    for (size_t c = 0; c < 4; c++) {
        for (size_t k = 0; k < CROWDS; k++) {
            struct scene gather = scene_new(codecs[c], "allgather");
            struct scene unions = scene_new(codecs[c], "sparse-allreduce");
            workers_run(crowds[k], train, &gather);
            workers_run(crowds[k], train, &unions);
            assert_true(test_same_bits(gather.aggregate[0], unions.aggregate[0], gather.count));
            assert_true(test_same_bits(gather.residual[0], unions.residual[0], gather.count));
            scene_free(&gather);
            scene_free(&unions);
        }
    }
}

/* The majority of the signs, counted by hand; ties of an even number are +1 with tie=plus. */
static void votes_are_majorities(void **unused)
{
    (void)unused;
    struct scene scene = scene_new("sign", "vote");
    float *const one = test_floats(scene.count);
    int *const votes = test_alloc(scene.count * sizeof *votes);
    scene.tie = "plus";
    for (uint32_t workers = 1; workers <= 9; workers++) {
        memset(votes, 0, scene.count * sizeof *votes);
        workers_run(workers, train, &scene);
        for (uint32_t r = 0; r < workers; r++) {
            gradient_of(&scene, r, STEPS - 1, one);
            for (size_t i = 0; i < scene.count; i++)
                votes[i] += one[i] < 0 ? -1 : 1;
        }
        for (size_t i = 0; i < scene.count; i++)
            assert_true(scene.aggregate[0][i] == (votes[i] < 0 ? -1.0f : 1.0f));
    }
    scene.tie = "coin";
    size_t ties = 0;
    size_t plus = 0;
    memset(votes, 0, scene.count * sizeof *votes);
    workers_run(4, train, &scene);
    for (uint32_t r = 0; r < 4; r++) {
        gradient_of(&scene, r, STEPS - 1, one);
        for (size_t i = 0; i < scene.count; i++)
            votes[i] += one[i] < 0 ? -1 : 1;
    }
    for (size_t i = 0; i < scene.count; i++) {
        assert_true(votes[i] == 0 || scene.aggregate[0][i] == (votes[i] < 0 ? -1.0f : 1.0f));
        ties += votes[i] == 0;
        plus += votes[i] == 0 && scene.aggregate[0][i] > 0;
    }
    assert_true(fabs((double)plus - (double)ties / 2) < 5 * sqrt((double)ties) / 2);
    free(one);
    free(votes);
    scene_free(&scene);
}

static int by_value(const void *a, const void *b)
{
    const float x = *(const float *)a;
    const float y = *(const float *)b;
    return (x > y) - (x < y);
}

/* The middle value, found by sorting; the mean of the two middle ones of an even number. */
static void medians_are_middle_values(void **unused)
{
    (void)unused;
    struct scene scene = scene_new("f32", "median");
    float *const one = test_floats(scene.count);
    float *const all = test_floats(scene.count * 19);
    for (uint32_t workers = 1; workers <= 19; workers++) {
        workers_run(workers, train, &scene);
        for (uint32_t r = 0; r < workers; r++) {
            gradient_of(&scene, r, STEPS - 1, one);
            for (size_t i = 0; i < scene.count; i++)
                all[i * workers + r] = one[i];
        }
        for (size_t i = 0; i < scene.count; i++) {
            float *const value = all + i * workers;
            qsort(value, workers, sizeof *value, by_value);
            const double middle =
                ((double)value[(workers - 1) / 2] + (double)value[workers / 2]) / 2;
            assert_true(scene.aggregate[0][i] == (float)middle);
        }
    }
    free(one);
    free(all);
    scene_free(&scene);
}

/* Conservation: over all steps, K times the aggregates plus the residuals is the sum of all
 * gradients. Small integers and exact codecs make it an equation; here it holds to float rounding.
 */
static const char *accumulate(terse_group *handle, void *context);

struct ledger {
    const char *codec;
    const char *combine;
    size_t count;
    double *balance; /* gradients minus aggregates and residuals, per element */
    pthread_mutex_t lock;
};

static const char *accumulate(terse_group *handle, void *context)
{
    struct ledger *const ledger = context;
    const uint32_t rank = terse_group_rank(handle);
    const double workers = terse_group_workers(handle);
    const terse_exchange_options options = {
        .size = sizeof options, .codec = ledger->codec, .combine = ledger->combine, .seed = 5};
    const struct scene scene = {.count = ledger->count};
    terse_layout *const layout = test_layout(LARGE);
    terse_exchange *exchange = NULL;
    terse_fault fault = {0};
    terse_status status = terse_exchange_create(handle, layout, &options, &exchange, &fault);
    terse_layout_destroy(layout);
    if (status != TERSE_OK)
        return complain(handle, "create", status, &fault);
    float *const gradient = malloc(ledger->count * sizeof *gradient);
    for (uint64_t step = 0; step < STEPS && gradient; step++) {
        gradient_of(&scene, rank, step, gradient);
        (void)pthread_mutex_lock(&ledger->lock);
        for (size_t i = 0; i < ledger->count; i++)
            ledger->balance[i] += (double)gradient[i];
        (void)pthread_mutex_unlock(&ledger->lock);
        status = terse_exchange_run(exchange, gradient, NULL, &fault);
        if (status != TERSE_OK)
            break;
        (void)pthread_mutex_lock(&ledger->lock);
        for (size_t i = 0; i < ledger->count; i++)
            ledger->balance[i] -=
                (double)gradient[i]; /* each worker counts its share of K aggregates */
        (void)pthread_mutex_unlock(&ledger->lock);
    }
    const float *const residual = terse_exchange_residual(exchange);
    const float *const owner = terse_exchange_owner_residual(exchange);
    (void)pthread_mutex_lock(&ledger->lock);
    for (size_t i = 0; i < ledger->count; i++) {
        ledger->balance[i] -= residual ? (double)residual[i] : 0;
        ledger->balance[i] -= owner ? workers * (double)owner[i] : 0;
    }
    (void)pthread_mutex_unlock(&ledger->lock);
    free(gradient);
    terse_exchange_destroy(exchange);
    return status == TERSE_OK ? NULL : complain(handle, "step", status, &fault);
}

static void nothing_is_lost(void **unused)
{
    static const struct {
        const char *codec;
        const char *combine;
    } remembering[] = {{"topk:keep=0.05", "allgather"},
                       {"topk:keep=0.05", "shard"},
                       {"topk:keep=0.05", "sparse-allreduce"},
                       {"block:ratio=8", "allreduce"},
                       {"scaled-sign", "shard"},
                       {"scaled-sign", "allgather"},
                       {"log", "shard"},
                       {"log", "parameter-server"},
                       {"f16", "shard"},
                       {"low-rank", "allreduce"}};
    (void)unused;
    for (size_t p = 0; p < sizeof remembering / sizeof remembering[0]; p++) {
        struct ledger ledger = {.codec = remembering[p].codec, .combine = remembering[p].combine};
        terse_layout *const layout = test_layout(LARGE);
        ledger.count = (size_t)terse_layout_count(layout);
        terse_layout_destroy(layout);
        ledger.balance = test_alloc(ledger.count * sizeof *ledger.balance);
        assert_int_equal(pthread_mutex_init(&ledger.lock, NULL), 0);
        workers_run(3, accumulate, &ledger);
        for (size_t i = 0; i < ledger.count; i++)
            if (!(fabs(ledger.balance[i]) < 1e-4))
                fail_msg("%s by %s: element %zu: %g is lost", ledger.codec, ledger.combine, i,
                         ledger.balance[i]);
        (void)pthread_mutex_destroy(&ledger.lock);
        free(ledger.balance);
    }
}

/* One gradient that is not finite skips the step on all; the steps after it are those of a
 * training without it. */
static void a_nonfinite_gradient_is_skipped_by_all(void **unused)
{
    (void)unused;
    for (size_t p = 0; p < PAIRS; p++) {
        for (uint32_t buckets = 0; buckets <= 2; buckets += 2) {
            struct scene scene = scene_new(pairs[p].codec, pairs[p].combine);
            scene.poisoned = 1;
            scene.buckets = buckets;
            workers_run(3, train, &scene);
            for (uint32_t r = 1; r < 3; r++)
                assert_true(test_same_bits(scene.aggregate[0], scene.aggregate[r], scene.count));
            for (size_t i = 0; i < scene.count; i++)
                assert_true(isfinite(scene.aggregate[0][i]));
            assert_int_equal(scene.report[0].step, STEPS - 2); /* the skipped one does not count */
            scene_free(&scene);
        }
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(every_rank_gets_the_same_aggregate),
        cmocka_unit_test(buckets_change_nothing),
        cmocka_unit_test(dense_aggregates_are_the_mean),
        cmocka_unit_test(unions_are_exact),
        cmocka_unit_test(votes_are_majorities),
        cmocka_unit_test(medians_are_middle_values),
        cmocka_unit_test(nothing_is_lost),
        cmocka_unit_test(a_nonfinite_gradient_is_skipped_by_all),
    };
    return cmocka_run_group_tests_name("exchange", tests, NULL, NULL);
}
