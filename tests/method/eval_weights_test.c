/* Workers in threads of their own: all have the same evaluation weights. */
#include <stdio.h>

#include "exchange/workers.h"
#include "method/subjects.h"

#define WORKERS 3u
#define STEPS 4u

static void gradient_of(uint32_t rank, uint64_t step, float *out, size_t count)
{
    struct test_random random = {1000003 + rank * 100019 + step * 7 + 1};
    test_fill(&random, TEST_NORMAL, out, count);
}

/* The evaluation weights are x - mean e on all workers, checked against all residuals. */
struct evaluation {
    float *out[WORKERS];
    float *weights[WORKERS];
    float *residual[WORKERS];
    size_t count;
};

static const char *evaluate(terse_group *handle, void *context)
{
    struct evaluation *const evaluation = context;
    const uint32_t rank = terse_group_rank(handle);
    const size_t count = evaluation->count;
    float *const gradient = test_floats(count);
    terse_layout *layout = NULL;
    terse_method *method = NULL;
    terse_fault fault = {0};
    terse_state state = {0};
    terse_status status = terse_layout_vector(count, &layout);
    if (status == TERSE_OK)
        status = terse_method_create("def-a:ratio=5", handle, layout, evaluation->weights[rank],
                                     NULL, &method, &fault);
    for (uint64_t s = 0; s < STEPS && status == TERSE_OK; s++) {
        gradient_of(rank, s, gradient, count);
        status = terse_method_step(method, gradient, NULL, &fault);
    }
    if (status == TERSE_OK)
        status = terse_method_eval_weights(method, evaluation->out[rank], &fault);
    for (uint32_t i = 0; status == TERSE_OK && terse_method_state(method, i, &state) == TERSE_OK;
         i++)
        if (strcmp(state.name, "residual") == 0)
            memcpy(evaluation->residual[rank], state.bytes, state.len);
    terse_method_destroy(method);
    terse_layout_destroy(layout);
    free(gradient);
    return status == TERSE_OK ? NULL : complain(handle, "eval_weights", status, &fault);
}

static void all_have_the_same_eval_weights(void **unused)
{
    struct evaluation evaluation = {.count = 200};
    (void)unused;
    for (uint32_t r = 0; r < WORKERS; r++) {
        evaluation.out[r] = test_floats(200);
        evaluation.weights[r] = test_floats(200);
        evaluation.residual[r] = test_floats(200);
    }
    workers_run(WORKERS, evaluate, &evaluation);
    for (size_t i = 0; i < 200; i++) {
        double kept = 0;
        for (uint32_t r = 0; r < WORKERS; r++) {
            kept += (double)evaluation.residual[r][i] / WORKERS;
            assert_true(evaluation.out[r][i] == evaluation.out[0][i]);
        }
        close_to((double)evaluation.out[0][i], (double)evaluation.weights[0][i] - kept, 1e-6, "x_A",
                 i);
    }
    for (uint32_t r = 0; r < WORKERS; r++) {
        free(evaluation.out[r]);
        free(evaluation.weights[r]);
        free(evaluation.residual[r]);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(all_have_the_same_eval_weights),
    };
    return cmocka_run_group_tests_name("eval weights", tests, NULL, NULL);
}
