/* scope=model: k of all parameters together, whatever the tensors and the buckets are. */
#include <math.h>
#include <stdio.h>

#include "base/hash.h"
#include "exchange/workers.h"
#include "method/subjects.h"

#define WORKERS 3u
#define STEPS 5u

/* ---- a plain reference ---- */

/* Is element i among the k largest of a? Ties go to the lowest index. */
static int is_chosen(const float *a, size_t count, size_t k, size_t i)
{
    size_t ahead = 0;
    for (size_t j = 0; j < count; j++)
        ahead += fabsf(a[j]) > fabsf(a[i]) || (fabsf(a[j]) == fabsf(a[i]) && j < i);
    return ahead < k;
}

/* a = g + e; the k largest of ALL elements leave e and are added in rank order. */
static void reference_step(const struct crew *crew, float **residual, size_t k, float lr, float *x)
{
    float *const sum = test_floats(crew->count);
    float *const a = test_floats(crew->count);
    for (uint32_t r = 0; r < crew->workers; r++) {
        for (size_t i = 0; i < crew->count; i++)
            a[i] = residual[r][i] + crew->gradient[r][i];
        for (size_t i = 0; i < crew->count; i++) {
            const int chosen = is_chosen(a, crew->count, k, i);
            sum[i] += chosen ? a[i] : 0;
            residual[r][i] = chosen ? 0 : a[i];
        }
    }
    for (size_t i = 0; i < crew->count; i++)
        x[i] -= lr * (sum[i] / (float)crew->workers);
    free(sum);
    free(a);
}

static void follows_reference(const char *spec, size_t k)
{
    terse_layout *const layout = subject_layout();
    const struct crew_plan plan = subject_plan(spec, WORKERS, layout);
    struct crew crew = crew_new(&plan);
    float *const x = test_floats(crew.count);
    float *residual[WORKERS];
    for (uint32_t r = 0; r < WORKERS; r++)
        residual[r] = test_floats(crew.count);
    for (uint64_t s = 0; s < STEPS; s++) {
        crew_gradients(&crew, TEST_NORMAL, s);
        for (uint32_t r = 0; r < WORKERS; r++) /* a tensor that could send nothing by itself */
            for (size_t i = 0; i < 540; i++)
                crew.gradient[r][i] *= 1e-3f;
        reference_step(&crew, residual, k, 0.5f, x);
        crew_step(&crew);
        for (size_t i = 0; i < crew.count; i++) {
            if (crew.weights[0][i] != x[i])
                fail_msg("%s: weight %zu of step %d is %g, not %g", spec, i, (int)s,
                         (double)crew.weights[0][i], (double)x[i]);
            for (uint32_t r = 0; r < WORKERS; r++)
                if (crew_floats(&crew, r, "residual")[i] != residual[r][i])
                    fail_msg("%s: residual %zu of rank %u", spec, i, r);
        }
    }
    crew_agrees(&crew, spec);
    for (uint32_t r = 0; r < WORKERS; r++)
        free(residual[r]);
    free(x);
    crew_free(&crew);
    terse_layout_destroy(layout);
}

static void the_largest_of_all_parameters_are_sent(void **unused)
{
    terse_layout *const layout = subject_layout();
    const size_t count = (size_t)terse_layout_count(layout); /* 3085 */
    (void)unused;
    terse_layout_destroy(layout);
    follows_reference("topk:keep=0.05,scope=model,lr=0.5", count / 20);
    follows_reference("topk:keep=0.05,scope=model,lr=0.5,combine=sparse-allreduce", count / 20);
    follows_reference("topk:keep=0.0003,scope=model,lr=0.5", 1); /* max(1, floor(0.93)) */
    follows_reference("topk:keep=1,scope=model,lr=0.5", count);
}

/* ---- the same bits as one vector ---- */

static uint64_t hash_of_training(const char *spec, const terse_layout *layout, uint32_t threads)
{
    struct crew_plan plan = subject_plan(spec, WORKERS, layout);
    plan.threads = threads;
    struct crew crew = crew_new(&plan);
    crew_train(&crew, TEST_NORMAL, 0, 8);
    const uint64_t hash = crew_hash(&crew);
    crew_free(&crew);
    return hash;
}

/* A piece so large that it is prescanned, a slice at a time, across its tensors. */
static terse_layout *large_layout(void)
{
    terse_layout *layout = NULL;
    assert_int_equal(terse_layout_create(&layout), TERSE_OK);
    assert_int_equal(terse_layout_add(layout, "a", 1, (const uint64_t[]){9001}), TERSE_OK);
    assert_int_equal(terse_layout_add(layout, "b", 1, (const uint64_t[]){5}), TERSE_OK);
    assert_int_equal(terse_layout_add(layout, "c", 2, (const uint64_t[]){101, 110}), TERSE_OK);
    return layout;
}

/* On a model that is one vector the two scopes are the same thing: scores, values as halves,
 * momentum, warm-up and local steps are those of scope=tensor there. */
static void as_one_vector(const char *spec, const terse_layout *tensors)
{
    char model[128];
    terse_layout *vector = NULL;
    assert_int_equal(terse_layout_vector(terse_layout_count(tensors), &vector), TERSE_OK);
    (void)snprintf(model, sizeof model, "%s,scope=model", spec);
    const uint64_t hash = hash_of_training(spec, vector, 1);
    if (hash_of_training(model, tensors, 1) != hash)
        fail_msg("%s: other bits than one vector", model);
    if (hash_of_training(model, tensors, 3) != hash)
        fail_msg("%s: other bits with threads", model);
    if (hash_of_training(spec, tensors, 1) == hash)
        fail_msg("%s: k per tensor has the same bits, so nothing is tested", spec);
    terse_layout_destroy(vector);
}

static void tensors_do_not_matter(void **unused)
{
    static const char *const specs[] = {
        "topk:keep=0.05",
        "regtopk:keep=0.3,mu=1",
        "regtopk:keep=0.05,form=cur,momentum=0.9,wd=0.01",
        "regtopk:keep=0.3,mu=1,combine=sparse-allreduce,values=f16",
        "regtopk:keep=0.05,warmup=2",
        "topk:keep=0.05,every=3,momentum=0.9",
        "topk:keep=0.05,feedback=none",
    };
    terse_layout *const small = subject_layout();
    terse_layout *const large = large_layout();
    (void)unused;
    for (size_t s = 0; s < sizeof specs / sizeof specs[0]; s++) {
        as_one_vector(specs[s], small);
        as_one_vector(specs[s], large);
    }
    terse_layout_destroy(large);
    terse_layout_destroy(small);
}

/* ---- the same bits with a sparse all-reduce ---- */

/* It sums what an all-gather sums, in the same order, plain tensors too: which one is taken is a
 * question of time alone. */
static void a_sparse_allreduce_has_the_bits_of_an_allgather(void **unused)
{
    static const char *const specs[] = {
        "topk:keep=0.05",
        "topk:keep=0.05,min=64",
        "topk:keep=0.05,min=1000000",
        "topk:keep=0.02,min=64,momentum=0.9,wd=0.01",
        "regtopk:keep=0.3,mu=1,min=64",
        "regtopk:keep=0.05,form=cur,momentum=0.9,min=200,values=f16",
        "topk:keep=0.05,every=3,min=64",
        "topk:keep=0.05,feedback=none,min=64",
    };
    terse_layout *const layouts[] = {subject_layout(), large_layout()};
    (void)unused;
    for (size_t s = 0; s < sizeof specs / sizeof specs[0]; s++)
        for (int l = 0; l < 2; l++) {
            char sparse[128];
            assert_int_equal(terse_method_spec_with(specs[s], "combine=sparse-allreduce", 0, sparse,
                                                    sizeof sparse, NULL),
                             TERSE_OK);
            if (hash_of_training(specs[s], layouts[l], 1) !=
                hash_of_training(sparse, layouts[l], 1))
                fail_msg("%s: other bits than with allgather", sparse);
        }
    terse_layout_destroy(layouts[0]);
    terse_layout_destroy(layouts[1]);
}

/* ---- buckets ---- */

struct scene {
    const char *spec;
    terse_layout *(*layout)(void);
    uint64_t seed; /* of the cuts and orders; 0: whole gradients */
    uint64_t hash[WORKERS];
};

struct run {
    uint32_t first;
    uint32_t count;
};

/* Cuts the tensors into random buckets in a random order; returns how many. */
static uint32_t random_buckets(struct test_random *random, uint32_t tensors, struct run *out)
{
    uint32_t buckets = 0;
    for (uint32_t t = 0; t < tensors; t++) {
        if (t == 0 || test_next(random) % 2 == 0)
            out[buckets++] = (struct run){t, 0};
        out[buckets - 1].count++;
    }
    for (uint32_t left = buckets; left > 1; left--) {
        const uint32_t other = (uint32_t)(test_next(random) % left);
        const struct run last = out[left - 1];
        out[left - 1] = out[other];
        out[other] = last;
    }
    return buckets;
}

/* A step whose buckets lie in buffers of their own, at their offsets. */
static terse_status step_at_random(terse_method *method, struct test_random *random,
                                   uint32_t tensors, const float *gradient, size_t count,
                                   terse_fault *fault)
{
    struct run run[16];
    const uint32_t buckets = random_buckets(random, tensors, run);
    float *const apart = test_floats(buckets * count);
    terse_status status = TERSE_OK;
    for (uint32_t b = 0; b < buckets && status == TERSE_OK; b++) {
        memcpy(apart + b * count, gradient, count * sizeof(float));
        status = terse_method_post(method, apart + b * count, run[b].first, run[b].count, fault);
    }
    if (status == TERSE_OK)
        status = terse_method_finish(method, gradient, NULL, fault);
    free(apart);
    return status;
}

static const char *train(terse_group *handle, void *context)
{
    struct scene *const scene = context;
    const uint32_t rank = terse_group_rank(handle);
    terse_layout *const layout = scene->layout();
    const uint32_t tensors = terse_layout_tensors(layout);
    const size_t count = (size_t)terse_layout_count(layout);
    const terse_method_options options = {.size = sizeof options, .compare_every = 1};
    struct test_random random = {scene->seed * 31 + rank}; /* other buckets on every rank */
    float *const weights = test_floats(count);
    float *const gradient = test_floats(count);
    terse_method *method = NULL;
    terse_fault fault = {0};
    terse_state state;
    terse_status status =
        terse_method_create(scene->spec, handle, layout, weights, &options, &method, &fault);
    for (uint64_t s = 0; s < STEPS && status == TERSE_OK; s++) {
        struct test_random filling = {1000003 + rank * 100019 + s * 7 + 1};
        test_fill(&filling, TEST_NORMAL, gradient, count);
        status = scene->seed == 0
                     ? terse_method_step(method, gradient, NULL, &fault)
                     : step_at_random(method, &random, tensors, gradient, count, &fault);
    }
    scene->hash[rank] = tsi_hash64(weights, count * sizeof(float));
    for (uint32_t i = 0; status == TERSE_OK && terse_method_state(method, i, &state) == TERSE_OK;
         i++)
        scene->hash[rank] = 31 * scene->hash[rank] + tsi_hash64(state.bytes, state.len);
    terse_method_destroy(method);
    terse_layout_destroy(layout);
    free(weights);
    free(gradient);
    return status == TERSE_OK ? NULL : complain(handle, scene->spec, status, &fault);
}

static void buckets_do_not_matter(void **unused)
{
    static const char *const specs[] = {
        "topk:keep=0.05,scope=model",
        "regtopk:keep=0.3,mu=1,scope=model",
        "regtopk:keep=0.3,mu=1,scope=model,combine=sparse-allreduce",
        "topk:keep=0.05,scope=model,feedback=none",
        "regtopk:keep=0.05,scope=model,warmup=2",
    };
    (void)unused;
    for (size_t s = 0; s < 2 * sizeof specs / sizeof specs[0]; s++) {
        struct scene whole = {.spec = specs[s / 2],
                              .layout = s % 2 == 0 ? subject_layout : large_layout};
        workers_run(WORKERS, train, &whole);
        for (uint64_t cut = 1; cut <= 8; cut++) {
            struct scene parts = whole;
            parts.seed = test_seed() + cut;
            workers_run(WORKERS, train, &parts);
            if (memcmp(whole.hash, parts.hash, sizeof whole.hash) != 0)
                fail_msg("%s: other bits with buckets of seed %d", whole.spec, (int)parts.seed);
        }
    }
}

/* ---- what is refused ---- */

static void wrong_posts_are_refused(void **unused)
{
    terse_layout *const layout = subject_layout();
    const struct crew_plan plan = subject_plan("regtopk:keep=0.1,scope=model", 1, layout);
    struct crew crew = crew_new(&plan);
    struct crew whole = crew_new(&plan);
    terse_method *const method = crew.method[0];
    terse_fault fault = {0};
    (void)unused;
    for (uint64_t s = 0; s < 3; s++) {
        crew_gradients(&crew, TEST_NORMAL, s);
        crew_gradients(&whole, TEST_NORMAL, s);
        crew_step(&whole);
        const float *const gradient = crew.gradient[0];
        const uint64_t before = crew_hash(&crew);
        assert_int_equal(terse_method_finish(method, gradient, NULL, &fault), TERSE_BAD_ARGUMENT);
        assert_string_equal(fault.text, "0 of 6 tensors were posted");
        assert_int_equal(terse_method_post(method, gradient, 3, 3, &fault), TERSE_OK);
        assert_int_equal(terse_method_post(method, gradient, 2, 2, &fault), TERSE_BAD_ARGUMENT);
        assert_string_equal(fault.text, "a tensor is posted twice");
        assert_int_equal(terse_method_step(method, gradient, NULL, &fault), TERSE_BAD_ARGUMENT);
        assert_non_null(strstr(fault.text, "finish it first"));
        assert_int_equal(terse_method_finish(method, gradient, NULL, &fault), TERSE_BAD_ARGUMENT);
        assert_string_equal(fault.text, "3 of 6 tensors were posted");
        assert_true(crew_hash(&crew) == before); /* nothing has happened */
        assert_int_equal(terse_method_post(method, gradient, 0, 3, &fault), TERSE_OK);
        assert_int_equal(terse_method_finish(method, gradient, NULL, &fault), TERSE_OK);
    }
    assert_true(crew_hash(&crew) == crew_hash(&whole));
    crew_free(&whole);
    crew_free(&crew);
    terse_layout_destroy(layout);
}

/* Indices of one piece have 32 bits. Nothing of that size is allocated to find out. */
static void too_many_parameters_are_refused(void **unused)
{
    terse_layout *layout = NULL;
    float *weights[1] = {(float[1]){0}};
    terse_method *method = NULL;
    terse_fault fault = {0};
    (void)unused;
    assert_int_equal(terse_layout_create(&layout), TERSE_OK);
    for (int t = 0; t < 2; t++)
        assert_int_equal(
            terse_layout_add(layout, t == 0 ? "a" : "b", 1, (const uint64_t[]){UINT64_C(1) << 31}),
            TERSE_OK);
    assert_int_equal(
        terse_method_create_all("topk:scope=model", 1, layout, weights, NULL, &method, &fault),
        TERSE_BAD_SPEC);
    assert_string_equal(fault.text, "scope=model: 4294967296 parameters, at most 4294967295 can be "
                                    "one piece: use scope=tensor");
    terse_layout_destroy(layout);
}

static void what_makes_no_sense_is_refused(void **unused)
{
    static const struct {
        const char *spec;
        const char *why;
    } cases[] = {
        {"topk:scope=model,min=100", "leave out min and plain, or use scope=tensor"},
        {"regtopk:scope=model,plain=bias", "leave out min and plain, or use scope=tensor"},
        {"topk:scope=model,combine=shard", "use allgather or sparse-allreduce"},
        {"topk:scope=model,combine=parameter-server", "use allgather or sparse-allreduce"},
        {"topk:scope=all", "scope is tensor|model, not 'all'"},
    };
    terse_method_description chosen = {.size = sizeof chosen};
    (void)unused;
    for (size_t k = 0; k < sizeof cases / sizeof cases[0]; k++) {
        terse_fault fault = {0};
        assert_int_equal(terse_method_check(cases[k].spec, &fault), TERSE_BAD_SPEC);
        if (!strstr(fault.text, cases[k].why))
            fail_msg("%s: %s", cases[k].spec, fault.text);
    }
    assert_int_equal(terse_method_describe("topk:scope=model", &chosen, NULL), TERSE_OK);
    assert_string_equal(chosen.scope, "model");
    assert_int_equal(chosen.has_plain, 0);
    assert_int_equal(chosen.has_buckets, 1);
    assert_int_equal(terse_method_describe("topk", &chosen, NULL), TERSE_OK);
    assert_string_equal(chosen.scope, "tensor");
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(the_largest_of_all_parameters_are_sent),
        cmocka_unit_test(tensors_do_not_matter),
        cmocka_unit_test(a_sparse_allreduce_has_the_bits_of_an_allgather),
        cmocka_unit_test(buckets_do_not_matter),
        cmocka_unit_test(wrong_posts_are_refused),
        cmocka_unit_test(too_many_parameters_are_refused),
        cmocka_unit_test(what_makes_no_sense_is_refused),
    };
    return cmocka_run_group_tests_name("scope", tests, NULL, NULL);
}
