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
    LONGEST_SPEC = 4096,
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

int method_index(const char *spec, terse_method_about *about)
{
    size_t len = strcspn(spec, ":=,");
    if (spec[len] == '=')
        return -1;
    for (uint32_t i = 0; terse_method_list(i, about) == TERSE_OK; i++)
        if (strlen(about->name) == len && strncmp(about->name, spec, len) == 0)
            return (int)i;
    return -1;
}

/* Where the value of `key` begins, or NULL. */
static const char *find_value(const char *complete, const char *key)
{
    size_t len = strlen(key);
    for (const char *at = complete; (at = strstr(at, key)); at += len)
        if (at > complete && strchr(":,", at[-1]) && at[len] == '=')
            return at + len + 1;
    return NULL;
}

double method_spec_value(const char *complete, const char *key, double otherwise)
{
    const char *value = find_value(complete, key);
    return !value ? otherwise : strtod(value, NULL);
}

/* Replaces the value of `key` where the spec has one; the new one is not longer. */
static void set_value(char *complete, const char *key, char digit)
{
    const char *found = find_value(complete, key);
    if (found) {
        char *value = complete + (found - complete);
        size_t len = strcspn(value, ",");
        value[0] = digit;
        memmove(value + 1, value + len, strlen(value + len) + 1);
    }
}

static const terse_method_options options = {
    .size = sizeof options, .seed = SEED, .steps = STEPS, .skip_finite_check = 1};

terse_status method_sample_settle(const struct method_sample *sample, const char *spec,
                                  char *complete, char *chosen, size_t cap, terse_fault *fault)
{
    terse_method *method;
    float *weights = machine_floats(SAMPLE_COUNT);
    if (!weights)
        return TERSE_NO_MEMORY;
    memcpy(weights, sample->start, SAMPLE_COUNT * sizeof *weights);
    terse_status status =
        terse_method_create_all(spec, 1, sample->layout, &weights, &options, &method, fault);
    if (status == TERSE_OK) {
        snprintf(complete, cap, "%s", terse_method_spec(method));
        snprintf(chosen, cap, "%s", terse_method_settings(method));
        terse_method_destroy(method);
    }
    free(weights);
    return status;
}

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

terse_status method_bytes_count(const struct method_sample *sample, const char *complete,
                                uint32_t workers, struct method_bytes *out, terse_fault *fault)
{
    char spec[LONGEST_SPEC];
    float *all = machine_floats((uint64_t)workers * SAMPLE_COUNT);
    if (!all)
        return TERSE_NO_MEMORY;
    snprintf(spec, sizeof spec, "%s", complete);
    set_value(spec, "every", '1');
    set_value(spec, "warmup", '0');
    *out = (struct method_bytes){.workers = workers};
    terse_status status = step_once(sample, spec, all, out, fault);
    free(all);
    return status;
}
