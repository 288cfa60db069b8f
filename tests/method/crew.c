#include "method/crew.h"

#include <math.h>
#include <stdio.h>

static terse_layout *copy_layout(const struct crew_plan *plan)
{
    terse_layout *copy = NULL;
    if (!plan->layout) {
        assert_int_equal(terse_layout_vector(plan->count, &copy), TERSE_OK);
        return copy;
    }
    assert_int_equal(terse_layout_create(&copy), TERSE_OK);
    for (uint32_t t = 0; t < terse_layout_tensors(plan->layout); t++) {
        terse_tensor tensor;
        assert_int_equal(terse_layout_tensor(plan->layout, t, &tensor), TERSE_OK);
        assert_int_equal(terse_layout_add(copy, tensor.name, tensor.ndim, tensor.dims), TERSE_OK);
    }
    return copy;
}

struct crew crew_new(const struct crew_plan *plan)
{
    struct crew crew = {.workers = plan->workers, .layout = copy_layout(plan)};
    const terse_method_options options = {.size = sizeof options,
                                          .seed = plan->seed,
                                          .steps = plan->steps,
                                          .threads = plan->threads,
                                          .compare_every = 1,
                                          .measure_every = plan->measure_every,
                                          .aggregate_out = plan->aggregate_out,
                                          .private_output = plan->private_output};
    terse_fault fault = {0};
    crew.count = (size_t)terse_layout_count(crew.layout);
    for (uint32_t r = 0; r < plan->workers; r++) {
        crew.weights[r] = test_floats(crew.count);
        crew.gradient[r] = test_floats(crew.count);
        if (plan->start)
            memcpy(crew.weights[r], plan->start, crew.count * sizeof(float));
    }
    if (terse_method_create_all(plan->spec, plan->workers, crew.layout, crew.weights, &options,
                                crew.method, &fault) != TERSE_OK)
        fail_msg("%s with %u workers: %s", plan->spec, plan->workers, fault.text);
    return crew;
}

void crew_free(struct crew *crew)
{
    for (uint32_t r = 0; r < crew->workers; r++) {
        terse_method_destroy(crew->method[r]);
        free(crew->weights[r]);
        free(crew->gradient[r]);
    }
    terse_layout_destroy(crew->layout);
}

void crew_step(struct crew *crew)
{
    terse_fault fault = {0};
    if (terse_method_step_all(crew->method, (const float *const *)crew->gradient, crew->report,
                              &fault) != TERSE_OK)
        fail_msg("%s: step failed: %s", terse_method_spec(crew->method[0]), fault.text);
    if (crew->report[0].exchange.skipped != TERSE_OK)
        fail_msg("%s: step %llu was skipped: %s", terse_method_spec(crew->method[0]),
                 (unsigned long long)crew->report[0].step,
                 terse_status_text(crew->report[0].exchange.skipped));
}

void crew_gradients(struct crew *crew, enum test_kind kind, uint64_t step)
{
    for (uint32_t r = 0; r < crew->workers; r++) {
        struct test_random random = {test_seed() * 1000003 + r * 100019 + step * 7 + 1};
        test_fill(&random, kind, crew->gradient[r], crew->count);
    }
}

void crew_train(struct crew *crew, enum test_kind kind, uint64_t from, uint64_t steps)
{
    for (uint64_t step = from; step < from + steps; step++) {
        crew_gradients(crew, kind, step);
        crew_step(crew);
    }
}

terse_state crew_state(const struct crew *crew, uint32_t rank, const char *name)
{
    terse_state state;
    for (uint32_t i = 0; terse_method_state(crew->method[rank], i, &state) == TERSE_OK; i++)
        if (strcmp(state.name, name) == 0)
            return state;
    return (terse_state){.name = name};
}

float *crew_floats(const struct crew *crew, uint32_t rank, const char *name)
{
    const terse_state state = crew_state(crew, rank, name);
    if (state.bytes)
        assert_true(state.floats && state.len == crew->count * sizeof(float));
    return state.bytes;
}

void crew_agrees(const struct crew *crew, const char *what)
{
    for (uint32_t r = 1; r < crew->workers; r++)
        if (!test_same_bits(crew->weights[0], crew->weights[r], crew->count))
            fail_msg("%s: workers 0 and %u of %u hold different weights", what, r, crew->workers);
}

static uint64_t mix(uint64_t hash, const void *bytes, size_t len)
{
    for (size_t at = 0; at < len; at += sizeof(uint32_t)) {
        uint32_t word = 0;
        memcpy(&word, (const char *)bytes + at, len - at < sizeof word ? len - at : sizeof word);
        hash = (hash ^ word) * UINT64_C(1099511628211);
    }
    return hash ^ hash >> 32;
}

uint64_t crew_hash(const struct crew *crew)
{
    uint64_t hash = UINT64_C(14695981039346656037);
    for (uint32_t r = 0; r < crew->workers; r++) {
        terse_state state;
        hash = mix(hash, crew->weights[r], crew->count * sizeof(float));
        for (uint32_t i = 0; terse_method_state(crew->method[r], i, &state) == TERSE_OK; i++)
            hash = mix(hash, state.bytes, state.len);
    }
    return hash;
}

void crew_copy(const struct crew *from, struct crew *to)
{
    for (uint32_t r = 0; r < from->workers; r++) {
        terse_state source;
        terse_state target;
        memcpy(to->weights[r], from->weights[r], from->count * sizeof(float));
        for (uint32_t i = 0; terse_method_state(from->method[r], i, &source) == TERSE_OK; i++) {
            assert_int_equal(terse_method_state(to->method[r], i, &target), TERSE_OK);
            assert_string_equal(source.name, target.name);
            assert_int_equal(source.len, target.len);
            memcpy(target.bytes, source.bytes, source.len);
        }
        assert_int_equal(terse_method_restored(to->method[r], NULL), TERSE_OK);
    }
}

double crew_sum(const struct crew *crew, const char *name, size_t i)
{
    double sum = 0;
    for (uint32_t r = 0; r < crew->workers; r++) {
        const float *const floats = name ? crew_floats(crew, r, name) : crew->gradient[r];
        sum += floats ? (double)floats[i] : 0;
    }
    return sum;
}

double crew_mean(const struct crew *crew, const char *name, size_t i)
{
    return crew_sum(crew, name, i) / crew->workers;
}

void close_to(double a, double b, double tolerance, const char *what, size_t i)
{
    if (!(fabs(a - b) <= tolerance * fmax(1, fabs(b))))
        fail_msg("%s, element %zu: %.9g, expected %.9g", what, i, a, b);
}
