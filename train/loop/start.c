#include "loop/start.h"

#include <stdlib.h>
#include <string.h>

#include "common/names.h"
#include "files/hash.h"
#include "files/safetensors.h"

#define COUNTERS "*.num_batches_tracked" /* PyTorch's, beside the statistics of a batch norm */

static int is_given(const char *text)
{
    return text && text[0] != '\0';
}

terse_status trn_start_read(struct trn_run *run, terse_fault *fault)
{
    const struct trn_settings *const settings = run->settings;
    void *bytes = NULL;
    uint64_t len = 0;
    if (is_given(settings->reinit) && !is_given(settings->init))
        return com_fail(fault, TERSE_BAD_SPEC,
                        "--reinit %.100s: without --init FILE every tensor begins anew already",
                        settings->reinit);
    if (!is_given(settings->init) || run->checkpoint)
        return TERSE_OK;
    terse_status status = trn_share_file(settings->group, settings->init, TERSE_OK,
                                         "the weights of --init", &bytes, &len, fault);
    if (status == TERSE_OK) {
        const struct trn_bytes file = {settings->init, bytes, (size_t)len};
        run->init_hash = trn_hash64(bytes, (size_t)len, 0);
        status = trn_safetensors_parse(&file, &run->init, fault);
    }
    free(bytes);
    return status;
}

/* ---- checks ---- */

static const char *tensor_name(const terse_layout *layout, uint32_t index)
{
    terse_tensor tensor;
    return terse_layout_tensor(layout, index, &tensor) == TERSE_OK ? tensor.name : NULL;
}

/* Is there a tensor of the layout that matches? */
static int matches_any(const terse_layout *layout, const char *pattern)
{
    const char *name;
    for (uint32_t t = 0; (name = tensor_name(layout, t)); t++)
        if (com_patterns_match(pattern, name))
            return 1;
    return 0;
}

static terse_status check_patterns(const struct trn_worker *worker, terse_fault *fault)
{
    const terse_layout *const layout = trn_net_layout(worker->net);
    const char *patterns = worker->run->settings->reinit;
    char pattern[256];
    while ((patterns = com_pattern_next(patterns, pattern, sizeof pattern)))
        if (!matches_any(layout, pattern))
            return com_fail(fault, TERSE_MISMATCH,
                            "--reinit: '%.80s' matches no tensor of %s, whose last is '%.80s'",
                            pattern, worker->run->settings->model,
                            tensor_name(layout, terse_layout_tensors(layout) - 1));
    return TERSE_OK;
}

/* A tensor of the file that the network does not have: perhaps it is of another one. */
static terse_status check_extra(const struct trn_worker *worker, const terse_layout *parameters,
                                const terse_layout *statistics, terse_fault *fault)
{
    const struct trn_safetensors *const file = worker->run->init;
    const struct trn_stored *stored;
    char shape[100];
    for (uint32_t i = 0; (stored = trn_safetensors_at(file, i)); i++) {
        const int is_known = matches_any(parameters, stored->name) ||
                             (statistics && matches_any(statistics, stored->name)) ||
                             com_patterns_match(worker->run->settings->reinit, stored->name) ||
                             com_patterns_match(COUNTERS, stored->name);
        if (!is_known)
            return com_fail(fault, TERSE_MISMATCH,
                            "the file has a tensor '%.80s' of the shape %s, which %s does not have",
                            stored->name,
                            trn_shape_text(stored->ndim, stored->dims, shape, sizeof shape),
                            worker->run->settings->model);
    }
    return TERSE_OK;
}

terse_status trn_start_weights(struct trn_worker *worker)
{
    const struct trn_run *const run = worker->run;
    const struct trn_settings *const settings = run->settings;
    const terse_layout *const parameters = trn_net_layout(worker->net);
    terse_fault why = {.rank = -1};
    uint64_t count = 0;
    float *const running = trn_net_statistics(worker->net, &count);
    const terse_layout *const statistics =
        count > 0 ? trn_net_statistics_layout(worker->net) : NULL;
    if (!run->init)
        return TERSE_OK;
    terse_status status = check_patterns(worker, &why);
    if (status != TERSE_OK) {
        worker->fault = why;
        return status;
    }
    status =
        trn_safetensors_to_layout(run->init, parameters, settings->reinit, worker->weights, &why);
    if (status == TERSE_OK && statistics)
        status = trn_safetensors_to_layout(run->init, statistics, settings->reinit, running, &why);
    if (status == TERSE_OK)
        status = check_extra(worker, parameters, statistics, &why);
    if (status != TERSE_OK)
        com_note(&worker->fault, "--init: %.180s; --reinit leaves tensors out", why.text);
    return status;
}
