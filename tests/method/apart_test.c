/* Ranks that come apart between two steps: the step fails on every rank with a mismatch that names
 * the rank and says what differs, and no weight changes. */
#include <stdio.h>

#include "exchange/workers.h"
#include "method/method.h"

#define MOST 3u /* workers */
#define COUNT 3000u

struct scene {
    const char *spec;
    uint32_t workers;
    uint32_t odd; /* the rank that differs */
    int lr;       /* 1: another learning rate; 0: another step */
    int post;     /* 1: the gradient is posted in a bucket */
};

/* The step of one rank is set as if it had been restored from another checkpoint. */
static terse_status part(terse_method *method, int lr)
{
    terse_state progress;
    if (lr)
        return terse_method_set_lr(method, 0.25);
    const terse_status status = terse_method_state(method, 0, &progress);
    if (status == TERSE_OK)
        ((struct tsi_progress *)progress.bytes)->rounds++;
    return status == TERSE_OK ? terse_method_restored(method, NULL) : status;
}

static terse_status step(const struct scene *scene, terse_method *method, const float *gradient,
                         terse_fault *fault)
{
    if (!scene->post)
        return terse_method_step(method, gradient, NULL, fault);
    const terse_status status = terse_method_post(method, gradient, 0, 1, fault);
    return status == TERSE_OK ? terse_method_finish(method, gradient, NULL, fault) : status;
}

/* Of two ranks either is the odd one: they agree on rank 1, or where they cannot read each other's
 * closing records, as in different steps, each names the other. */
static int32_t blamed(const struct scene *scene, uint32_t rank)
{
    return (int32_t)(scene->workers > 2 ? scene->odd : scene->lr ? 1 : 1 - rank);
}

static const char *come_apart(terse_group *handle, void *context)
{
    const struct scene *const scene = context;
    const uint32_t rank = terse_group_rank(handle);
    const char *const why = scene->lr ? "has another learning rate" : "is in another step";
    struct test_random random = {11 + rank};
    float *const gradient = test_floats(COUNT);
    float *const weights = test_floats(COUNT);
    float *const before = test_floats(COUNT);
    const char *complaint = NULL;
    terse_layout *layout = NULL;
    terse_method *method = NULL;
    terse_fault fault = {0};
    test_fill(&random, TEST_NORMAL, gradient, COUNT);
    terse_status status = terse_layout_vector(COUNT, &layout);
    if (status == TERSE_OK)
        status = terse_method_create(scene->spec, handle, layout, weights, NULL, &method, &fault);
    if (status == TERSE_OK)
        status = step(scene, method, gradient, &fault);
    if (status == TERSE_OK && rank == scene->odd)
        status = part(method, scene->lr);
    if (status != TERSE_OK) {
        complaint = complain(handle, "before", status, &fault);
    } else {
        memcpy(before, weights, COUNT * sizeof *weights);
        status = step(scene, method, gradient, &fault);
        if (status != TERSE_MISMATCH || fault.rank != blamed(scene, rank) ||
            !strstr(fault.text, why))
            complaint = complain(handle, why, status, &fault);
        else if (memcmp(before, weights, COUNT * sizeof *weights) != 0)
            complaint = complain(handle, "weights have changed", status, &fault);
    }
    terse_method_destroy(method);
    terse_layout_destroy(layout);
    free(gradient);
    free(weights);
    free(before);
    return complaint;
}

static void who_comes_apart_is_named(void **unused)
{
    static const char *const specs[] = {"dense:lr=0.1",         "signum:lr=0.1",
                                        "topk:keep=0.1,lr=0.1", "def:ratio=4,lr=0.1",
                                        "qadam:lr=0.1,ramp=0",  "regtopk:keep=0.1,lr=0.1",
                                        "dense:lr=0.1,every=1", "powersgd:lr=0.1"};
    (void)unused;
    for (size_t s = 0; s < sizeof specs / sizeof specs[0]; s++)
        for (uint32_t workers = 2; workers <= MOST; workers++)
            for (uint32_t kind = 0; kind < 4 * workers; kind++) {
                struct scene scene = {specs[s], workers, kind / 4, kind & 1, kind >> 1 & 1};
                if (scene.post && strstr(scene.spec, "powersgd"))
                    continue; /* it needs the whole gradient first */
                workers_run(workers, come_apart, &scene);
            }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(who_comes_apart_is_named),
    };
    return cmocka_run_group_tests_name("apart", tests, NULL, NULL);
}
