/* An exchange is a facade: a method whose direction is the gradient itself and whose update writes
 * the aggregate over it. */
#include <stdlib.h>
#include <string.h>

#include "base/fault.h"
#include "method/method.h"

struct terse_exchange {
    terse_method *method;
    char *plain; /* what the stages point to */
    char *combine;
};

/* By default a residual wherever the codec allows one and is not exact. */
static terse_status choose_feedback(const terse_exchange_options *options, const char *codec,
                                    int *residual, terse_fault *fault)
{
    const char *const name = options->feedback;
    terse_codec_about about = {0};
    if (name && strcmp(name, "none") != 0 && strcmp(name, "residual") != 0)
        return tsi_fail(fault, TERSE_BAD_SPEC, 0, "feedback is residual or none, not '%.64s'",
                        name);
    const terse_status status = terse_codec_check(codec, &about, fault);
    *residual =
        name ? strcmp(name, "residual") == 0
             : about.traits & TERSE_CODEC_CONTRACTIVE && !(about.traits & TERSE_CODEC_UNBIASED);
    return status;
}

static terse_status choose_stages(terse_exchange *exchange, const terse_exchange_options *options,
                                  terse_fault *fault)
{
    const char *const codec = options->codec ? options->codec : "f32";
    struct tsi_stages *const stages = &exchange->method->stages;
    if (strlen(codec) >= sizeof stages->codec)
        return tsi_fail(fault, TERSE_BAD_SPEC, 0, "the codec's spec is too long: %zu bytes",
                        strlen(codec));
    if (options->tie && strcmp(options->tie, "coin") != 0 && strcmp(options->tie, "plus") != 0)
        return tsi_fail(fault, TERSE_BAD_SPEC, 0, "tie is coin or plus, not '%.64s'", options->tie);
    exchange->plain = options->plain ? strdup(options->plain) : NULL;
    exchange->combine = options->combine ? strdup(options->combine) : NULL;
    if ((options->plain && !exchange->plain) || (options->combine && !exchange->combine))
        return tsi_fail(fault, TERSE_NO_MEMORY, 0, "out of memory");
    memcpy(stages->codec, codec, strlen(codec) + 1);
    stages->combine = exchange->combine;
    stages->tie_coin = !options->tie || strcmp(options->tie, "coin") == 0;
    stages->min = options->min;
    stages->plain = exchange->plain;
    return choose_feedback(options, codec, &stages->residual, fault);
}

static terse_status make(terse_exchange *exchange, terse_group *group, const terse_layout *layout,
                         const terse_exchange_options *options, terse_fault *fault)
{
    terse_exchange_options all;
    terse_method *const method = exchange->method;
    terse_status status = tsi_options_read(options, sizeof all, &all, fault);
    if (status != TERSE_OK)
        return status;
    method->settings.row = &tsi_method_composed;
    method->options = (terse_method_options){.size = sizeof method->options,
                                             .seed = all.seed,
                                             .threads = all.threads,
                                             .compare_every = all.compare_every,
                                             .skip_finite_check = all.skip_finite_check,
                                             .aggregate_out = 1};
    status = choose_stages(exchange, &all, fault);
    if (status == TERSE_OK)
        status = tsi_method_prepare(method, group, layout, NULL, fault);
    if (status != TERSE_OK) {
        tsi_collective_refuse(group, status);
        return status;
    }
    return tsi_method_connect(&exchange->method, 1, fault);
}

terse_status terse_exchange_create(terse_group *group, const terse_layout *layout,
                                   const terse_exchange_options *options, terse_exchange **out,
                                   terse_fault *fault)
{
    if (!group || !layout || !out)
        return tsi_fail(fault, TERSE_BAD_ARGUMENT, 0, "group, layout or out is NULL");
    terse_exchange *const exchange = calloc(1, sizeof *exchange);
    if (exchange)
        exchange->method = calloc(1, sizeof *exchange->method);
    if (!exchange || !exchange->method) {
        terse_exchange_destroy(exchange);
        return tsi_fail(fault, TERSE_NO_MEMORY, 0, "out of memory");
    }
    const terse_status status = make(exchange, group, layout, options, fault);
    if (status == TERSE_OK)
        *out = exchange;
    else
        terse_exchange_destroy(exchange);
    return status;
}

void terse_exchange_destroy(terse_exchange *exchange)
{
    if (!exchange)
        return;
    terse_method_destroy(exchange->method);
    free(exchange->plain);
    free(exchange->combine);
    free(exchange);
}

/* ---- steps ---- */

/* The aggregate is written over the gradient. */
static terse_status complete(terse_exchange *exchange, float *gradient, int posted,
                             terse_exchange_report *report, terse_fault *fault)
{
    terse_method_report done;
    if (!exchange || !gradient)
        return tsi_fail(fault, TERSE_BAD_ARGUMENT, 0, "exchange or gradient is NULL");
    exchange->method->buffers.weights = gradient;
    const terse_status status = posted
                                    ? terse_method_finish(exchange->method, gradient, &done, fault)
                                    : terse_method_step(exchange->method, gradient, &done, fault);
    if (status == TERSE_OK && report)
        *report = done.exchange;
    return status;
}

terse_status terse_exchange_run(terse_exchange *exchange, float *gradient,
                                terse_exchange_report *report, terse_fault *fault)
{
    return complete(exchange, gradient, 0, report, fault);
}

terse_status terse_exchange_finish(terse_exchange *exchange, float *gradient,
                                   terse_exchange_report *report, terse_fault *fault)
{
    return complete(exchange, gradient, 1, report, fault);
}

terse_status terse_exchange_post(terse_exchange *exchange, const float *gradient, uint32_t first,
                                 uint32_t count, terse_fault *fault)
{
    if (!exchange || !gradient)
        return tsi_fail(fault, TERSE_BAD_ARGUMENT, 0, "exchange or gradient is NULL");
    return terse_method_post(exchange->method, gradient, first, count, fault);
}

/* ---- asking ---- */

const char *terse_exchange_settings(const terse_exchange *exchange)
{
    return terse_method_settings(exchange->method);
}

float *terse_exchange_residual(terse_exchange *exchange)
{
    return exchange->method->buffers.residual.now;
}

float *terse_exchange_owner_residual(terse_exchange *exchange)
{
    return exchange->method->buffers.owner.now;
}

uint64_t terse_exchange_step(const terse_exchange *exchange)
{
    return exchange->method->progress.rounds;
}

void terse_exchange_set_step(terse_exchange *exchange, uint64_t step)
{
    exchange->method->progress.rounds = step;
}
