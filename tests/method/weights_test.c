/* Weights of workers: a mean is sum w_k a_k / sum w_k with every combine, a residual is never
 * weighted, equal weights change no bit. */
#include <math.h>
#include <stdio.h>

#include "base/hash.h"
#include "exchange/workers.h"
#include "method/subjects.h"

#define WORKERS 3u
#define MOST 4u
#define STEPS 6u

struct scene {
    const char *spec;
    uint32_t workers;
    double weight[MOST]; /* of each worker; 0: none */
    uint32_t twin[MOST]; /* whose gradients a worker has; 0: its own, else that rank + 1 */
    int posts;           /* 1: tensors are posted one by one, the last first */
    size_t count;
    float *weights[MOST]; /* results */
    float *residual[MOST];
    float *eval[MOST];
    double *gradients[MOST]; /* the sum of all steps */
    uint64_t hash[MOST];
};

static void gradient_of(uint32_t rank, uint64_t step, float *out, size_t count)
{
    struct test_random random = {77 + rank * 100019 + step * 7 + 1};
    test_fill(&random, TEST_NORMAL, out, count);
}

static struct scene scene_new(const char *spec, uint32_t workers, const double *weight)
{
    terse_layout *const layout = subject_layout();
    struct scene scene = {
        .spec = spec, .workers = workers, .count = (size_t)terse_layout_count(layout)};
    for (uint32_t r = 0; r < workers; r++) {
        scene.weight[r] = weight ? weight[r] : 0;
        scene.weights[r] = test_floats(scene.count);
        scene.residual[r] = test_floats(scene.count);
        scene.eval[r] = test_floats(scene.count);
        scene.gradients[r] = calloc(scene.count, sizeof(double));
        assert_non_null(scene.gradients[r]);
    }
    terse_layout_destroy(layout);
    return scene;
}

static void scene_free(struct scene *scene)
{
    for (uint32_t r = 0; r < scene->workers; r++) {
        free(scene->weights[r]);
        free(scene->residual[r]);
        free(scene->eval[r]);
        free(scene->gradients[r]);
    }
}

static terse_status step(const struct scene *scene, terse_method *method,
                         const terse_layout *layout, const float *gradient, terse_fault *fault)
{
    terse_status status = TERSE_OK;
    if (!scene->posts)
        return terse_method_step(method, gradient, NULL, fault);
    for (uint32_t t = terse_layout_tensors(layout); t-- > 0 && status == TERSE_OK;)
        status = terse_method_post(method, gradient, t, 1, fault);
    return status == TERSE_OK ? terse_method_finish(method, gradient, NULL, fault) : status;
}

static const char *train(terse_group *handle, void *context)
{
    struct scene *const scene = context;
    const uint32_t rank = terse_group_rank(handle);
    const terse_method_options options = {.size = sizeof options,
                                          .seed = 3,
                                          .steps = 60,
                                          .compare_every = 1,
                                          .worker_weight = scene->weight[rank]};
    terse_layout *const layout = subject_layout();
    float *const gradient = test_floats(scene->count);
    terse_method *method = NULL;
    terse_fault fault = {0};
    terse_state state;
    terse_status status = terse_method_create(scene->spec, handle, layout, scene->weights[rank],
                                              &options, &method, &fault);
    for (uint64_t s = 0; s < STEPS && status == TERSE_OK; s++) {
        gradient_of(scene->twin[rank] ? scene->twin[rank] - 1 : rank, s, gradient, scene->count);
        for (size_t i = 0; i < scene->count; i++)
            scene->gradients[rank][i] += (double)gradient[i];
        status = step(scene, method, layout, gradient, &fault);
    }
    if (status == TERSE_OK)
        status = terse_method_eval_weights(method, scene->eval[rank], &fault);
    scene->hash[rank] = tsi_hash64(scene->weights[rank], scene->count * sizeof(float));
    for (uint32_t i = 0; status == TERSE_OK && terse_method_state(method, i, &state) == TERSE_OK;
         i++) {
        scene->hash[rank] = 31 * scene->hash[rank] + tsi_hash64(state.bytes, state.len);
        if (strcmp(state.name, "residual") == 0)
            memcpy(scene->residual[rank], state.bytes, state.len);
    }
    terse_method_destroy(method);
    terse_layout_destroy(layout);
    free(gradient);
    return status == TERSE_OK ? NULL : complain(handle, scene->spec, status, &fault);
}

static double weighted(const struct scene *scene, float *const *of, size_t i)
{
    double sum = 0;
    double all = 0;
    for (uint32_t r = 0; r < scene->workers; r++) {
        sum += scene->weight[r] * (of ? (double)of[r][i] : scene->gradients[r][i]);
        all += scene->weight[r];
    }
    return sum / all;
}

static const double unequal[WORKERS] = {1, 2.5, 6};

/* ---- sum w a / sum w ---- */

/* What was taken from the weights and what is still outstanding are the weighted mean of all
 * gradients, whatever was dropped on the way: lr is 1, or inside both. */
static void weighted_means(void **unused)
{
    static const struct {
        const char *spec;
        double tolerance; /* where there is no residual: of the grid */
    } cases[] = {
        {"dense:lr=1,momentum=0", 1e-5},
        {"codec=f32,combine=allgather,lr=1,momentum=0", 1e-5},
        {"codec=f32,combine=shard,lr=1,momentum=0", 1e-5},
        {"codec=f32,combine=parameter-server,lr=1,momentum=0", 1e-5},
        {"qsgd:lr=1,bits=16", 5e-3},
        {"qsgd:lr=1,bits=16,combine=allgather", 5e-3},
        {"fp16:lr=1,momentum=0,combine=parameter-server", 2e-2},
        {"topk:lr=1,keep=0.1", 1e-5},
        {"topk:lr=1,keep=0.1,combine=sparse-allreduce", 1e-5},
        {"regtopk:lr=1,keep=0.3,mu=1", 1e-5},
        {"regtopk:lr=1,keep=0.3,mu=1,scope=model,combine=sparse-allreduce", 1e-5},
        {"regtopk:lr=1,keep=0.3,mu=1,warmup=2", 1e-5},
        {"ef:lr=1,momentum=0,ratio=4", 1e-5},
        {"codec=scaled-sign,feedback=residual,combine=allgather,lr=1,momentum=0", 1e-4},
        {"codec=topk:keep=0.2,combine=allgather,feedback=residual,lr=1,momentum=0", 1e-5},
        {"powersgd:lr=1,momentum=0,rank=2", 1e-3},
    };
    (void)unused;
    for (size_t k = 0; k < sizeof cases / sizeof cases[0]; k++) {
        struct scene scene = scene_new(cases[k].spec, WORKERS, unequal);
        workers_run(WORKERS, train, &scene);
        for (size_t i = 0; i < scene.count; i++)
            close_to((double)-scene.weights[2][i] + weighted(&scene, scene.residual, i),
                     weighted(&scene, NULL, i), cases[k].tolerance, cases[k].spec, i);
        scene_free(&scene);
    }
}

/* topk of owners that keep a residual of their own: what they still hold is not seen here, but
 * with all elements sent there is none. */
static void every_combine_of_a_selection(void **unused)
{
    static const char *const specs[] = {"topk:lr=1,keep=1", "topk:lr=1,keep=1,combine=shard",
                                        "topk:lr=1,keep=1,combine=parameter-server"};
    (void)unused;
    for (size_t k = 0; k < 3; k++) {
        struct scene scene = scene_new(specs[k], WORKERS, unequal);
        workers_run(WORKERS, train, &scene);
        for (size_t i = 0; i < scene.count; i++)
            close_to((double)-scene.weights[0][i], weighted(&scene, NULL, i), 1e-5, specs[k], i);
        scene_free(&scene);
    }
}

static void both_exact_combines_have_the_same_bits(void **unused)
{
    static const char *const specs[] = {
        "regtopk:keep=0.3,mu=1",
        "regtopk:keep=0.3,mu=1,combine=sparse-allreduce",
    };
    struct scene scene[2];
    (void)unused;
    for (int k = 0; k < 2; k++) {
        scene[k] = scene_new(specs[k], WORKERS, unequal);
        workers_run(WORKERS, train, &scene[k]);
    }
    assert_memory_equal(scene[0].hash, scene[1].hash, sizeof scene[0].hash);
    for (int k = 0; k < 2; k++)
        scene_free(&scene[k]);
}

static void buckets_are_weighted_alike(void **unused)
{
    static const char *const specs[] = {"dense:lr=1", "qsgd:lr=1,combine=allgather",
                                        "topk:lr=1,combine=allgather",
                                        "topk:lr=1,combine=sparse-allreduce", "ef-sign:lr=1"};
    (void)unused;
    for (size_t s = 0; s < sizeof specs / sizeof specs[0]; s++) {
        struct scene whole = scene_new(specs[s], WORKERS, unequal);
        struct scene parts = scene_new(specs[s], WORKERS, unequal);
        parts.posts = 1;
        workers_run(WORKERS, train, &whole);
        workers_run(WORKERS, train, &parts);
        for (uint32_t r = 0; r < WORKERS; r++)
            if (whole.hash[r] != parts.hash[r])
                fail_msg("%s: rank %u has other bits with buckets", specs[s], r);
        scene_free(&whole);
        scene_free(&parts);
    }
}

/* A worker of weight 3 is as good as three workers with its gradients. */
static void a_weight_counts_workers(void **unused)
{
    static const char *const specs[] = {"dense:lr=1", "topk:lr=1,keep=0.1",
                                        "codec=bf16,lr=1,combine=shard"};
    (void)unused;
    for (int k = 0; k < 3; k++) {
        struct scene two = scene_new(specs[k], 2, (const double[]){3, 1});
        struct scene four = scene_new(specs[k], 4, NULL);
        for (uint32_t r = 0; r < 4; r++)
            four.twin[r] = r < 3 ? 1 : 2;
        workers_run(2, train, &two);
        workers_run(4, train, &four);
        for (size_t i = 0; i < two.count; i++)
            close_to((double)two.weights[0][i], (double)four.weights[0][i], k == 2 ? 0.1 : 1e-5,
                     specs[k], i);
        scene_free(&two);
        scene_free(&four);
    }
}

static void evaluation_weights_are_weighted(void **unused)
{
    struct scene scene = scene_new("def-a:ratio=5", WORKERS, unequal);
    (void)unused;
    workers_run(WORKERS, train, &scene);
    for (size_t i = 0; i < scene.count; i++) {
        close_to((double)scene.eval[1][i],
                 (double)scene.weights[1][i] - weighted(&scene, scene.residual, i), 1e-6, "x_A", i);
        assert_true(scene.eval[0][i] == scene.eval[2][i]);
    }
    scene_free(&scene);
}

/* ---- what weights leave as it is ---- */

static void equal_weights_change_no_bit(void **unused)
{
    static const double sevenths[WORKERS] = {1.0 / 7, 1.0 / 7, 1.0 / 7};
    const char *spec;
    (void)unused;
    for (uint32_t s = 0; (spec = subject(s)) != NULL; s++) {
        struct scene none = scene_new(spec, WORKERS, NULL);
        struct scene equal = scene_new(spec, WORKERS, sevenths);
        workers_run(WORKERS, train, &none);
        workers_run(WORKERS, train, &equal);
        if (memcmp(none.hash, equal.hash, sizeof none.hash) != 0)
            fail_msg("%s: other bits with equal weights", spec);
        scene_free(&none);
        scene_free(&equal);
    }
}

static void votes_are_not_weighted(void **unused)
{
    struct scene none = scene_new("signum", WORKERS, NULL);
    struct scene some = scene_new("signum", WORKERS, unequal);
    (void)unused;
    workers_run(WORKERS, train, &none);
    workers_run(WORKERS, train, &some);
    assert_memory_equal(none.hash, some.hash, sizeof none.hash);
    scene_free(&none);
    scene_free(&some);
}

/* ---- RegTop-k: 1 + Delta = G / (w_k a_prev) ---- */

struct worker_of_reference {
    double e[WORKERS][64];
    double before[WORKERS][64];
    int sent[WORKERS][64];
    double aggregate[64];
};

/* One step of the formula on 64 elements; k of them are sent. */
static void reference_step(struct worker_of_reference *all, const double *w, uint64_t step,
                           size_t k, int form_cur)
{
    double next[64] = {0};
    for (uint32_t r = 0; r < WORKERS; r++) {
        float g[64];
        double a[64];
        double score[64];
        gradient_of(r, step, g, 64);
        for (int j = 0; j < 64; j++) {
            a[j] = (double)g[j] + all->e[r][j];
            const double share = w[r] * all->before[r][j];
            const double delta = (all->aggregate[j] - share) / (form_cur ? w[r] * a[j] : share);
            score[j] = fabs(a[j]) * (all->sent[r][j] ? tanh(fabs(1 + delta)) : 1);
        }
        for (int j = 0; j < 64; j++) {
            size_t ahead = 0;
            for (int other = 0; other < 64; other++)
                ahead += score[other] > score[j];
            all->sent[r][j] = ahead < k;
            all->before[r][j] = a[j];
            all->e[r][j] = ahead < k ? 0 : a[j];
            next[j] += ahead < k ? w[r] * a[j] : 0;
        }
    }
    memcpy(all->aggregate, next, sizeof next);
}

struct regression {
    const char *spec;
    float weights[WORKERS][64];
};

static const char *step_regtopk(terse_group *handle, void *context)
{
    struct regression *const regression = context;
    const uint32_t rank = terse_group_rank(handle);
    const terse_method_options options = {.size = sizeof options, .worker_weight = unequal[rank]};
    float gradient[64];
    terse_layout *layout = NULL;
    terse_method *method = NULL;
    terse_fault fault = {0};
    terse_status status = terse_layout_vector(64, &layout);
    if (status == TERSE_OK)
        status = terse_method_create(regression->spec, handle, layout, regression->weights[rank],
                                     &options, &method, &fault);
    for (uint64_t s = 0; s < 12 && status == TERSE_OK; s++) {
        gradient_of(rank, s, gradient, 64);
        status = terse_method_step(method, gradient, NULL, &fault);
    }
    terse_method_destroy(method);
    terse_layout_destroy(layout);
    return status == TERSE_OK ? NULL : complain(handle, regression->spec, status, &fault);
}

static void regtopk_compares_with_its_own_weight(void **unused)
{
    static const char *const specs[] = {"regtopk:lr=1,keep=0.5,mu=1",
                                        "regtopk:lr=1,keep=0.5,mu=1,form=cur"};
    (void)unused;
    for (int form = 0; form < 2; form++) {
        const double w[WORKERS] = {1 / 9.5, 2.5 / 9.5, 6 / 9.5};
        struct regression regression = {.spec = specs[form]};
        struct worker_of_reference all = {0};
        double x[64] = {0};
        workers_run(WORKERS, step_regtopk, &regression);
        for (uint64_t s = 0; s < 12; s++) {
            reference_step(&all, w, s, 32, form);
            for (int j = 0; j < 64; j++)
                x[j] -= all.aggregate[j];
        }
        for (size_t j = 0; j < 64; j++)
            close_to((double)regression.weights[1][j], x[j], 1e-4, specs[form], j);
    }
}

/* ---- what is refused ---- */

static const char *refuse(terse_group *handle, void *context)
{
    const double *const weight = context;
    const uint32_t rank = terse_group_rank(handle);
    const terse_method_options options = {.size = sizeof options, .worker_weight = weight[rank]};
    float weights[5] = {0};
    terse_layout *layout = NULL;
    terse_method *method = NULL;
    terse_fault fault = {0};
    if (terse_layout_vector(5, &layout) != TERSE_OK)
        return "no layout";
    const terse_status status =
        terse_method_create("dense", handle, layout, weights, &options, &method, &fault);
    terse_layout_destroy(layout);
    terse_method_destroy(method);
    const int bad = !(weight[2] >= 0 && weight[2] < INFINITY);
    const char *const why = !bad        ? "rank 2: its use of worker_weight differs from rank 0's"
                            : rank == 2 ? "a finite number above 0"
                                        : "rank 2: could not make its part of the method";
    const terse_status wanted = bad && rank == 2 ? TERSE_BAD_ARGUMENT : TERSE_MISMATCH;
    return status == wanted && strstr(fault.text, why) ? NULL
                                                       : complain(handle, why, status, &fault);
}

static void bad_weights_are_refused(void **unused)
{
    const double third[] = {-1, NAN, INFINITY, 0};
    (void)unused;
    for (int k = 0; k < 4; k++) {
        double weight[WORKERS] = {1, 2, third[k]};
        workers_run(WORKERS, refuse, weight);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(weighted_means),
        cmocka_unit_test(every_combine_of_a_selection),
        cmocka_unit_test(both_exact_combines_have_the_same_bits),
        cmocka_unit_test(buckets_are_weighted_alike),
        cmocka_unit_test(a_weight_counts_workers),
        cmocka_unit_test(evaluation_weights_are_weighted),
        cmocka_unit_test(equal_weights_change_no_bit),
        cmocka_unit_test(votes_are_not_weighted),
        cmocka_unit_test(regtopk_compares_with_its_own_weight),
        cmocka_unit_test(bad_weights_are_refused),
    };
    return cmocka_run_group_tests_name("weights", tests, NULL, NULL);
}
