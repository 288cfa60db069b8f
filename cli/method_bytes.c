#include "method_bytes.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "machine.h"
#include "message.h"
#include "normal.h"

enum {
    SAMPLE_COUNT = METHOD_SAMPLE_ROWS * METHOD_SAMPLE_COLS,
    SEED = 1,
    SHIFT = 16,   /* floats from one worker's gradient to the next: a cache line */
    STEPS = 1000, /* length of the training, for bit budgets */
};

int method_sample_create(struct method_sample *sample)
{
    static const uint64_t dims[2] = {METHOD_SAMPLE_ROWS, METHOD_SAMPLE_COLS};
    *sample = (struct method_sample){0};
    sample->gradient = machine_floats(SAMPLE_COUNT + SHIFT * TERSE_MAX_LOCAL_WORKERS);
    sample->start = machine_floats(SAMPLE_COUNT);
    if (!sample->gradient || !sample->start || terse_layout_create(&sample->layout) != TERSE_OK ||
        terse_layout_add(sample->layout, "sample", 2, dims) != TERSE_OK) {
        method_sample_destroy(sample);
        return msg_error(CLI_MACHINE, "out of memory");
    }
    normal_fill(sample->gradient, SAMPLE_COUNT + SHIFT * TERSE_MAX_LOCAL_WORKERS, SEED);
    normal_fill(sample->start, SAMPLE_COUNT, SEED + 1);
    return CLI_OK;
}

void method_sample_destroy(struct method_sample *sample)
{
    terse_layout_destroy(sample->layout);
    free(sample->gradient);
    free(sample->start);
    *sample = (struct method_sample){0};
}

int method_index(const char *name, terse_method_about *about)
{
    for (uint32_t i = 0; terse_method_list(i, about) == TERSE_OK; i++)
        if (strcmp(about->name, name) == 0)
            return (int)i;
    return -1;
}

double method_option(const char *spec, const char *name, double otherwise)
{
    terse_method_entry entry;
    return terse_method_entry_of(spec, name, &entry, NULL) == TERSE_OK ? entry.number : otherwise;
}

static const terse_method_options options = {
    .size = sizeof options, .seed = SEED, .steps = STEPS, .skip_finite_check = 1};

static terse_status step_once(const struct method_sample *sample, const char *spec, float *all,
                              struct method_bytes *out, terse_fault *fault)
{
    terse_method *methods[TERSE_MAX_LOCAL_WORKERS];
    terse_method_report reports[TERSE_MAX_LOCAL_WORKERS];
    const float *gradients[TERSE_MAX_LOCAL_WORKERS];
    float *weights[TERSE_MAX_LOCAL_WORKERS];
    uint32_t workers = out->workers;
    for (uint32_t i = 0; i < workers; i++) {
        weights[i] = all + (size_t)i * SAMPLE_COUNT;
        memcpy(weights[i], sample->start, SAMPLE_COUNT * sizeof *all);
        gradients[i] = sample->gradient + (size_t)SHIFT * i;
    }
    terse_status status =
        terse_method_create_all(spec, workers, sample->layout, weights, &options, methods, fault);
    if (status != TERSE_OK)
        return status;
    status = terse_method_step_all(methods, gradients, reports, fault);
    for (uint32_t i = 0; i < workers; i++) {
        if (status == TERSE_OK) {
            out->sent += (double)reports[i].exchange.bytes_sent / workers;
            out->dense = (double)reports[i].exchange.dense_bytes;
        }
        terse_method_destroy(methods[i]);
    }
    return status;
}

terse_status method_bytes_count(const struct method_sample *sample, const char *spec,
                                uint32_t workers, struct method_bytes *out, terse_fault *fault)
{
    char exchanging[TERSE_MAX_METHOD_SPEC];
    float *all = machine_floats((uint64_t)workers * SAMPLE_COUNT);
    if (!all)
        return TERSE_NO_MEMORY;
    *out = (struct method_bytes){.workers = workers};
    terse_status status =
        terse_method_spec_with(spec, "every=1,warmup=0", 1, exchanging, sizeof exchanging, fault);
    if (status == TERSE_OK)
        status = step_once(sample, exchanging, all, out, fault);
    free(all);
    return status;
}
