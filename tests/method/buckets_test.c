/* Workers in threads of their own: posted buckets give the bits of a whole step; settings that
 * differ are found. */
#include <math.h>
#include <stdio.h>

#include "exchange/workers.h"
#include "method/subjects.h"

#define WORKERS 3u
#define STEPS 4u
#define ROOM 4000u /* floats, enough for the layout of the subjects */

/* The order in which tensors are posted, and how many at once; SCATTERED: one buffer per tensor,
 * SCATTERED_TRIPLES: posted by three, from behind; WITH_PROGRESS: backward, from buffers that each
 * hold one bucket, with calls of progress whose number differs from rank to rank. */
enum order {
    WHOLE,
    SCATTERED,
    FORWARD,
    BACKWARD,
    PAIRS,
    MIDDLE_FIRST,
    SCATTERED_TRIPLES,
    WITH_PROGRESS,
    ORDERS
};

struct scene {
    const char *spec;
    enum order order;
    int poisoned; /* rank 1's gradient in step 2 is not finite, in the bucket that is posted last */
    uint64_t hash[WORKERS];
};

static void gradient_of(uint32_t rank, uint64_t step, float *out, size_t count)
{
    struct test_random random = {1000003 + rank * 100019 + step * 7 + 1};
    test_fill(&random, TEST_NORMAL, out, count);
}

static uint64_t mix(uint64_t hash, const void *bytes, size_t len)
{
    for (size_t i = 0; i < len; i++)
        hash = (hash ^ ((const unsigned char *)bytes)[i]) * UINT64_C(1099511628211);
    return hash;
}

static uint64_t hash_of(terse_method *method, const float *weights, size_t count)
{
    uint64_t bytes[64] = {0}; /* of tensors; zeros with scope=model */
    terse_state state;
    (void)!terse_method_tensor_bytes(method, bytes);
    uint64_t hash = mix(mix(1, bytes, sizeof bytes), weights, count * sizeof(float));
    for (uint32_t i = 0; terse_method_state(method, i, &state) == TERSE_OK; i++)
        if (strcmp(state.name, "factors") != 0) /* a bucket has its own */
            hash = mix(hash, state.bytes, state.len);
    return hash;
}

static terse_status post_triples(terse_method *method, const float *const *gradient,
                                 uint32_t tensors, terse_fault *fault)
{
    terse_status status = TERSE_OK;
    for (uint32_t t = tensors; t > 0 && status == TERSE_OK; t -= t > 2 ? 3 : t) {
        const uint32_t first = t > 2 ? t - 3 : 0;
        const float *bucket[3] = {0}; /* gone after the call */
        memcpy(bucket, gradient + first, (t - first) * sizeof *bucket);
        status = terse_method_post_tensors(method, bucket, first, t - first, fault);
    }
    return status;
}

/* Each tensor's gradient in a buffer of exactly its size. */
static terse_status step_scattered(enum order order, terse_method *method, const float *gradient,
                                   uint32_t tensors, terse_method_report *report,
                                   terse_fault *fault)
{
    terse_layout *const layout = subject_layout();
    float *apart[64] = {0};
    terse_status status = TERSE_OK;
    assert_true(tensors <= 64);
    for (uint32_t t = 0; t < tensors; t++) {
        terse_tensor tensor;
        assert_int_equal(terse_layout_tensor(layout, t, &tensor), TERSE_OK);
        apart[t] = test_floats((size_t)tensor.count);
        memcpy(apart[t], gradient + tensor.offset, (size_t)tensor.count * sizeof(float));
    }
    const float *const *const scattered = (const float *const *)apart;
    if (order == SCATTERED) {
        status = terse_method_step_tensors(method, scattered, report, fault);
    } else {
        status = post_triples(method, scattered, tensors, fault);
        if (status == TERSE_OK)
            status = terse_method_finish(method, gradient, report, fault);
    }
    for (uint32_t t = 0; t < tensors; t++)
        free(apart[t]);
    terse_layout_destroy(layout);
    return status;
}

static terse_status step_with_progress(terse_method *method, const float *gradient,
                                       uint32_t tensors, terse_method_report *report,
                                       terse_fault *fault)
{
    static _Atomic uint32_t calls; /* differs from rank to rank and from run to run */
    terse_layout *const layout = subject_layout();
    const size_t count = (size_t)terse_layout_count(layout);
    float *apart[64] = {0};
    terse_status status = calls++ % 2 ? TERSE_OK : terse_method_progress(method, fault);
    for (uint32_t t = tensors; t-- > 0 && status == TERSE_OK;) {
        terse_tensor tensor;
        apart[t] = test_floats(count);
        assert_int_equal(terse_layout_tensor(layout, t, &tensor), TERSE_OK);
        memcpy(apart[t] + tensor.offset, gradient + tensor.offset,
               (size_t)tensor.count * sizeof(float));
        status = terse_method_post(method, apart[t], t, 1, fault);
        for (uint32_t i = calls++ % 4; i > 0 && status == TERSE_OK; i--)
            status = terse_method_progress(method, fault);
    }
    if (status == TERSE_OK)
        status = terse_method_finish(method, gradient, report, fault);
    for (uint32_t t = 0; t < tensors; t++)
        free(apart[t]);
    terse_layout_destroy(layout);
    return status;
}

static terse_status step(enum order order, terse_method *method, const float *gradient,
                         uint32_t tensors, terse_method_report *report, terse_fault *fault)
{
    terse_status status = TERSE_OK;
    const uint32_t half = tensors / 2;
    switch (order) {
    case WHOLE:
    case ORDERS: return terse_method_step(method, gradient, report, fault);
    case SCATTERED:
    case SCATTERED_TRIPLES: return step_scattered(order, method, gradient, tensors, report, fault);
    case WITH_PROGRESS: return step_with_progress(method, gradient, tensors, report, fault);
    case FORWARD:
        for (uint32_t t = 0; t < tensors && status == TERSE_OK; t++)
            status = terse_method_post(method, gradient, t, 1, fault);
        break;
    case BACKWARD:
        for (uint32_t t = tensors; t-- > 0 && status == TERSE_OK;)
            status = terse_method_post(method, gradient, t, 1, fault);
        break;
    case PAIRS:
        for (uint32_t t = tensors; t > 0 && status == TERSE_OK; t -= t > 1 ? 2 : 1)
            status = terse_method_post(method, gradient, t > 1 ? t - 2 : 0, t > 1 ? 2 : 1, fault);
        break;
    case MIDDLE_FIRST:
        status = terse_method_post(method, gradient, half, tensors - half, fault);
        if (status == TERSE_OK)
            status = terse_method_post(method, gradient, 0, half, fault);
        break;
    }
    return status == TERSE_OK ? terse_method_finish(method, gradient, report, fault) : status;
}

/* The step that is skipped, with a gradient that is not finite, then again without it. */
static const char *poison(const struct scene *scene, terse_group *handle, terse_method *method,
                          float *gradient, const float *weights, size_t count, uint32_t tensors)
{
    const uint64_t before = hash_of(method, weights, count);
    const size_t at = scene->order == FORWARD ? count - 1 : 0; /* in the last bucket */
    const float kept = gradient[at];
    terse_method_report report = {0};
    terse_fault fault = {0};
    if (terse_group_rank(handle) == 1)
        gradient[at] = NAN;
    const terse_status status = step(scene->order, method, gradient, tensors, &report, &fault);
    gradient[at] = kept;
    if (status != TERSE_OK || report.exchange.skipped != TERSE_NOT_FINITE ||
        report.exchange.skipped_by != 1) {
        (void)snprintf(fault.text, sizeof fault.text, "skipped %d by %d",
                       (int)report.exchange.skipped, (int)report.exchange.skipped_by);
        return complain(handle, scene->spec, status, &fault);
    }
    if (hash_of(method, weights, count) != before) {
        (void)snprintf(fault.text, sizeof fault.text, "a skipped step has left a trace");
        return complain(handle, scene->spec, status, &fault);
    }
    return NULL;
}

static const char *train(terse_group *handle, void *context)
{
    struct scene *const scene = context;
    const uint32_t rank = terse_group_rank(handle);
    terse_layout *const layout = subject_layout();
    const uint32_t tensors = terse_layout_tensors(layout);
    const size_t count = (size_t)terse_layout_count(layout);
    const terse_method_options options = {
        .size = sizeof options, .seed = 9, .steps = 60, .compare_every = 1};
    float *const weights = test_floats(count);
    float *const gradient = test_floats(count);
    terse_method *method = NULL;
    terse_fault fault = {0};
    const char *bad = NULL;
    terse_status status =
        terse_method_create(scene->spec, handle, layout, weights, &options, &method, &fault);
    for (uint64_t s = 0; s < STEPS && status == TERSE_OK && !bad; s++) {
        gradient_of(rank, s, gradient, count);
        if (scene->poisoned && s == 2)
            bad = poison(scene, handle, method, gradient, weights, count, tensors);
        /* in later steps other buckets hold the same elements */
        const enum order order = scene->poisoned && s % 2 == 0 ? WHOLE : scene->order;
        if (!bad)
            status = step(order, method, gradient, tensors, NULL, &fault);
    }
    if (status != TERSE_OK && !bad)
        bad = complain(handle, scene->spec, status, &fault);
    if (!bad)
        scene->hash[rank] = hash_of(method, weights, count);
    terse_method_destroy(method);
    terse_layout_destroy(layout);
    free(weights);
    free(gradient);
    return bad;
}

static int takes_buckets(const char *spec)
{
    return !strstr(spec, "clip=") && !strstr(spec, "every=");
}

static void buckets_change_nothing(void **unused)
{
    const char *spec;
    (void)unused;
    for (uint32_t s = 0; (spec = subject(s)) != NULL; s++) {
        struct scene whole = {.spec = spec, .order = WHOLE};
        workers_run(WORKERS, train, &whole);
        for (int order = SCATTERED; order < ORDERS; order++) {
            if (order > SCATTERED && !takes_buckets(spec))
                break;
            struct scene parts = {.spec = spec, .order = (enum order)order};
            workers_run(WORKERS, train, &parts);
            if (memcmp(whole.hash, parts.hash, sizeof whole.hash) != 0)
                fail_msg("%s: other bits with buckets in order %d", spec, order);
        }
    }
}

/* A bucket of PowerSGD has factors of its own, and here steps alternate between other buckets. */
static int keeps_factors(const char *spec)
{
    return strstr(spec, "powersgd") || strstr(spec, "low-rank");
}

/* A value that is not finite in the last bucket: the buckets already sent leave no trace. */
static void a_late_skip_leaves_no_trace(void **unused)
{
    const char *spec;
    (void)unused;
    for (uint32_t s = 0; (spec = subject(s)) != NULL; s++) {
        struct scene clean = {.spec = spec, .order = WHOLE};
        if (!takes_buckets(spec))
            continue;
        workers_run(WORKERS, train, &clean);
        for (int order = SCATTERED; order < ORDERS; order++) {
            struct scene parts = {.spec = spec, .order = (enum order)order, .poisoned = 1};
            if (order == PAIRS || order == MIDDLE_FIRST)
                continue;
            workers_run(WORKERS, train, &parts);
            if (!keeps_factors(spec) && memcmp(clean.hash, parts.hash, sizeof clean.hash) != 0)
                fail_msg("%s: other bits after a late skip, order %d", spec, order);
        }
    }
}

static void buckets_are_refused_where_the_whole_is_needed(void **unused)
{
    static const char *const specs[] = {"dense:clip=1", "dense:every=2"};
    (void)unused;
    for (int s = 0; s < 2; s++) {
        struct crew crew =
            crew_new(&(struct crew_plan){.spec = specs[s], .workers = 1, .count = 5});
        terse_fault fault = {0};
        assert_int_equal(terse_method_post(crew.method[0], crew.gradient[0], 0, 1, &fault),
                         TERSE_BAD_ARGUMENT);
        assert_non_null(strstr(fault.text, "all of the gradient"));
        assert_int_equal(terse_method_finish(crew.method[0], crew.gradient[0], NULL, &fault),
                         TERSE_BAD_ARGUMENT);
        assert_int_equal(terse_method_progress(crew.method[0], &fault), TERSE_BAD_ARGUMENT);
        assert_non_null(strstr(fault.text, "all of the gradient"));
        assert_int_equal(terse_method_post_tensors(
                             crew.method[0], (const float *const *)crew.gradient, 0, 1, &fault),
                         TERSE_BAD_ARGUMENT);
        assert_non_null(strstr(fault.text, "all of the gradient"));
        crew_step(&crew); /* and it still works */
        crew_free(&crew);
    }
}

static void a_tensor_without_a_gradient_is_refused(void **unused)
{
    static const char *const specs[] = {"signum", "topk:scope=model", "dense"};
    (void)unused;
    for (int s = 0; s < 3; s++) {
        struct crew crew =
            crew_new(&(struct crew_plan){.spec = specs[s], .workers = 1, .count = 5});
        terse_fault fault = {0};
        assert_int_equal(
            terse_method_post_tensors(crew.method[0], (const float *[]){NULL}, 0, 1, &fault),
            TERSE_BAD_ARGUMENT);
        assert_non_null(strstr(fault.text, "the gradient of tensor 0 is NULL"));
        assert_int_equal(terse_method_post_tensors(crew.method[0], NULL, 0, 1, &fault),
                         TERSE_BAD_ARGUMENT);
        assert_int_equal(terse_method_post_tensors(
                             crew.method[0], (const float *const *)crew.gradient, 0, 2, &fault),
                         TERSE_BAD_ARGUMENT);
        crew_step(&crew); /* and it still works */
        crew_free(&crew);
    }
}

/* ---- a worker that leaves ---- */

struct leaving {
    const char *spec;
    terse_method *method[WORKERS]; /* outlive the group */
    float *weights[WORKERS];
    float *gradient[WORKERS];
};

static const char *leave(terse_group *handle, void *context)
{
    struct leaving *const leaving = context;
    const uint32_t rank = terse_group_rank(handle);
    float *const weights = leaving->weights[rank];
    float *const gradient = leaving->gradient[rank];
    float before[120];
    terse_layout *layout = NULL;
    terse_fault fault = {0};
    if (terse_group_set_timeout(handle, 0.5) != TERSE_OK || terse_layout_vector(120, &layout))
        return "no timeout or layout";
    terse_status status = terse_method_create(leaving->spec, handle, layout, weights, NULL,
                                              &leaving->method[rank], &fault);
    terse_layout_destroy(layout);
    for (uint64_t s = 0; s < 2 && status == TERSE_OK; s++) {
        gradient_of(rank, s, gradient, 120);
        status = terse_method_step(leaving->method[rank], gradient, NULL, &fault);
    }
    if (status != TERSE_OK)
        return complain(handle, leaving->spec, status, &fault);
    if (rank == WORKERS - 1)
        return NULL;
    memcpy(before, weights, sizeof before);
    status = terse_method_step(leaving->method[rank], gradient, NULL, &fault);
    if (status != TERSE_TIMEOUT && status != TERSE_PEER_LOST)
        return complain(handle, "the fault does not name the rank that left", status, &fault);
    if (memcmp(before, weights, sizeof before) != 0)
        return complain(handle, "weights have changed", status, &fault);
    status = terse_method_step(leaving->method[rank], gradient, NULL, &fault);
    return status == TERSE_PEER_LOST ? NULL
                                     : complain(handle, "a step after the failure", status, &fault);
}

static void run_leaving(const char *spec, worker_fn *run)
{
    struct leaving leaving = {.spec = spec};
    for (uint32_t r = 0; r < WORKERS; r++) {
        leaving.weights[r] = test_floats(ROOM);
        leaving.gradient[r] = test_floats(ROOM);
    }
    workers_run(WORKERS, run, &leaving);
    for (uint32_t r = 0; r < WORKERS; r++) {
        terse_method_destroy(leaving.method[r]);
        free(leaving.weights[r]);
        free(leaving.gradient[r]);
    }
}

static void who_leaves_is_missed(void **unused)
{
    static const char *const specs[] = {"def", "qadam", "signum", "topk", "powersgd"};
    (void)unused;
    for (int s = 0; s < 5; s++)
        run_leaving(specs[s], leave);
}

/* The last rank leaves in the middle of its backward pass: half of its buckets are posted. */
static const char *leave_in_backward(terse_group *handle, void *context)
{
    struct leaving *const leaving = context;
    const uint32_t rank = terse_group_rank(handle);
    terse_layout *const layout = subject_layout();
    const uint32_t tensors = terse_layout_tensors(layout);
    const size_t count = (size_t)terse_layout_count(layout);
    float *const weights = leaving->weights[rank];
    float *const gradient = leaving->gradient[rank];
    terse_method **const method = &leaving->method[rank];
    terse_fault fault = {0};
    terse_status status =
        terse_method_create(leaving->spec, handle, layout, weights, NULL, method, &fault);
    terse_layout_destroy(layout);
    if (status == TERSE_OK)
        status = step(BACKWARD, *method, gradient, tensors, NULL, &fault);
    if (status == TERSE_OK)
        status = terse_group_set_timeout(handle, 3);
    if (status != TERSE_OK)
        return complain(handle, leaving->spec, status, &fault);
    const uint64_t before = mix(0, weights, count * sizeof(float));
    gradient_of(rank, 1, gradient, count);
    const uint32_t posted = rank == WORKERS - 1 ? tensors / 2 : tensors;
    for (uint32_t i = 0; i < posted && status == TERSE_OK; i++)
        status = terse_method_post(*method, gradient, tensors - 1 - i, 1, &fault);
    if (rank == WORKERS - 1)
        return status == TERSE_OK ? NULL : complain(handle, leaving->spec, status, &fault);
    if (status == TERSE_OK)
        status = terse_method_finish(*method, gradient, NULL, &fault);
    if ((status != TERSE_TIMEOUT && status != TERSE_PEER_LOST) ||
        fault.rank != (int32_t)WORKERS - 1)
        return complain(handle, "the fault does not name the rank that left", status, &fault);
    return mix(0, weights, count * sizeof(float)) == before
               ? NULL
               : complain(handle, "weights have changed", status, &fault);
}

static void who_leaves_in_backward_is_missed(void **unused)
{
    static const char *const specs[] = {"def", "topk"};
    (void)unused;
    for (int s = 0; s < 2; s++)
        run_leaving(specs[s], leave_in_backward);
}

/* ---- settings that differ ---- */

struct difference {
    const char *spec[2]; /* of rank 0 and the others; of the last rank */
    uint64_t steps[2];
    uint64_t seed[2];
    float weight[2];
    const char *why;
};

static const char *disagree(terse_group *handle, void *context)
{
    const struct difference *const difference = context;
    const int last = terse_group_rank(handle) == WORKERS - 1;
    const terse_method_options options = {
        .size = sizeof options, .steps = difference->steps[last], .seed = difference->seed[last]};
    float weights[50] = {difference->weight[last]};
    terse_layout *layout = NULL;
    terse_method *method = NULL;
    terse_fault fault = {0};
    if (terse_layout_vector(50, &layout) != TERSE_OK)
        return "no layout";
    const terse_status status = terse_method_create(difference->spec[last], handle, layout, weights,
                                                    &options, &method, &fault);
    terse_layout_destroy(layout);
    terse_method_destroy(method);
    if (strcmp(difference->spec[1], "def:lr=-1") == 0 && last)
        return status == TERSE_BAD_SPEC ? NULL : complain(handle, "its own fault", status, &fault);
    if (status != TERSE_MISMATCH || fault.rank != (int32_t)WORKERS - 1 ||
        !strstr(fault.text, difference->why))
        return complain(handle, difference->why, status, &fault);
    return NULL;
}

static void differences_are_named_on_all(void **unused)
{
    static struct difference cases[] = {
        {{"def", "def:lr=0.06"}, {9, 9}, {1, 1}, {0, 0}, "method"},
        {{"def", "ef"}, {9, 9}, {1, 1}, {0, 0}, "method"},
        {{"def", "def"}, {9, 8}, {1, 1}, {0, 0}, "method"},
        {{"def", "def"}, {9, 9}, {1, 2}, {0, 0}, "seed"},
        {{"def", "def"}, {9, 9}, {1, 1}, {0, 1e-30f}, "initial weights"},
        {{"def", "def:lr=-1"}, {9, 9}, {1, 1}, {0, 0}, "could not make"},
        {{"qadam", "qadam:kx=5"}, {9, 9}, {1, 1}, {0, 0}, "method"},
    };
    (void)unused;
    for (size_t k = 0; k < sizeof cases / sizeof cases[0]; k++)
        workers_run(WORKERS, disagree, &cases[k]);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(buckets_change_nothing),
        cmocka_unit_test(a_late_skip_leaves_no_trace),
        cmocka_unit_test(buckets_are_refused_where_the_whole_is_needed),
        cmocka_unit_test(a_tensor_without_a_gradient_is_refused),
        cmocka_unit_test(who_leaves_is_missed),
        cmocka_unit_test(who_leaves_in_backward_is_missed),
        cmocka_unit_test(differences_are_named_on_all),
    };
    return cmocka_run_group_tests_name("buckets", tests, NULL, NULL);
}
