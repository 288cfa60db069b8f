/* What is planned: a layout, and how long its gradient takes. */
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "common/number.h"
#include "files/safetensors.h"
#include "machine.h"
#include "message.h"
#include "net/net.h"
#include "plan_request.h"

enum { REPEATS = 5, TEXT_LEN = 64, VOCABULARY = 10000, CLASSES = 10 };

/* ---- weights in a file ---- */

static int layout_of_file(const char *path, terse_layout **out)
{
    struct trn_safetensors *file = NULL;
    terse_layout *layout = NULL;
    terse_fault fault = {.rank = -1};
    terse_status status = trn_safetensors_read(path, &file, &fault);
    if (status != TERSE_OK)
        return msg_failure(status, &fault);
    status = terse_layout_create(&layout);
    for (uint32_t i = 0; i < trn_safetensors_count(file) && status == TERSE_OK; i++) {
        const struct trn_stored *const tensor = trn_safetensors_at(file, i);
        status = terse_layout_add(layout, tensor->name, tensor->ndim, tensor->dims);
    }
    trn_safetensors_free(file);
    if (status != TERSE_OK || terse_layout_count(layout) == 0) {
        terse_layout_destroy(layout);
        return status != TERSE_OK ? msg_status(path, status, NULL)
                                  : msg_error(CLI_REFUSED, "%s: no parameters in it", path);
    }
    *out = layout;
    return CLI_OK;
}

/* ---- models ---- */

/* Random examples that the network can read. */
struct sample {
    struct trn_input input;
    float *values;
    int32_t *tokens;
    uint32_t *lengths;
    uint32_t *labels;
};

static int sample_create(struct sample *sample, uint32_t batch)
{
    const struct trn_input *const input = &sample->input;
    const size_t floats = input->kind == TRN_IMAGE
                              ? (size_t)input->channels * input->height * input->width
                              : input->length;
    sample->values = calloc(batch * floats + 1, sizeof *sample->values);
    sample->tokens = calloc((size_t)batch * TEXT_LEN, sizeof *sample->tokens);
    sample->lengths = calloc(batch, sizeof *sample->lengths);
    sample->labels = calloc(batch, sizeof *sample->labels);
    if (!sample->values || !sample->tokens || !sample->lengths || !sample->labels)
        return msg_error(CLI_MACHINE, "out of memory");
    for (size_t i = 0; i < batch * floats; i++)
        sample->values[i] = (float)((i * 2654435761u >> 8) % 2001) / 1000.0f - 1;
    for (size_t i = 0; i < (size_t)batch * TEXT_LEN; i++)
        sample->tokens[i] = (int32_t)(1 + i * 7919 % (VOCABULARY - 1));
    for (uint32_t i = 0; i < batch; i++) {
        sample->lengths[i] = TEXT_LEN;
        sample->labels[i] = i % CLASSES;
    }
    return CLI_OK;
}

static void sample_destroy(struct sample *sample)
{
    free(sample->values);
    free(sample->tokens);
    free(sample->lengths);
    free(sample->labels);
}

/* The median of some gradients. */
static terse_status time_gradient(struct trn_net *net, const struct sample *sample, uint32_t batch,
                                  double *seconds, terse_fault *fault)
{
    const uint64_t count = terse_layout_count(trn_net_layout(net));
    float *const weights = trn_floats_create(count);
    float *const gradient = trn_floats_create(count);
    const struct trn_batch examples = {.count = batch,
                                       .values = sample->values,
                                       .tokens = sample->tokens,
                                       .lengths = sample->lengths,
                                       .labels = sample->labels};
    double times[REPEATS + 1] = {0};
    terse_status status = weights && gradient ? TERSE_OK : TERSE_NO_MEMORY;
    if (status == TERSE_OK)
        trn_net_init(net, 1, weights);
    for (int i = 0; i <= REPEATS && status == TERSE_OK; i++) {
        double loss;
        uint32_t correct;
        const double start = machine_seconds();
        status = trn_net_gradient(net, weights, &examples, gradient, NULL, &loss, &correct, fault);
        times[i] = machine_seconds() - start;
    }
    for (int i = 2; i <= REPEATS && status == TERSE_OK; i++) /* sorted, the first one left out */
        for (int j = i; j > 1 && times[j] < times[j - 1]; j--) {
            const double swapped = times[j];
            times[j] = times[j - 1];
            times[j - 1] = swapped;
        }
    *seconds = times[(REPEATS + 1) / 2];
    trn_floats_destroy(weights);
    trn_floats_destroy(gradient);
    return status;
}

/* "3x32x32" */
static int read_input(const char *text, struct trn_input *out)
{
    terse_layout *layout = NULL;
    terse_fault fault = {.rank = -1};
    terse_tensor tensor;
    if (pln_layout_parse(text, &layout, &fault) != TERSE_OK ||
        terse_layout_tensor(layout, 0, &tensor) != TERSE_OK || tensor.ndim != 3 ||
        terse_layout_tensors(layout) != 1 || tensor.count > 1u << 24) {
        terse_layout_destroy(layout);
        return msg_usage("plan", "--input: '%s' is not CHANNELSxHEIGHTxWIDTH, like 3x32x32", text);
    }
    *out = (struct trn_input){.kind = TRN_IMAGE,
                              .channels = (uint32_t)tensor.dims[0],
                              .height = (uint32_t)tensor.dims[1],
                              .width = (uint32_t)tensor.dims[2],
                              .outputs = CLASSES};
    terse_layout_destroy(layout);
    return CLI_OK;
}

/* A model reads images, or text. */
static int layout_of_model(struct plan_request *request, terse_layout **out)
{
    const uint32_t batch = (uint32_t)request->batch;
    struct sample sample = {0};
    struct trn_net *net = NULL;
    terse_fault fault = {.rank = -1};
    int code = read_input(request->input ? request->input : "3x32x32", &sample.input);
    if (code != CLI_OK)
        return code;
    const unsigned threads = (unsigned)request->threads;
    terse_status status =
        trn_net_create(request->model, &sample.input, batch, threads, &net, &fault);
    if (status == TERSE_BAD_ARGUMENT) {
        sample.input = (struct trn_input){
            .kind = TRN_TEXT, .length = TEXT_LEN, .vocabulary = VOCABULARY, .outputs = CLASSES};
        status = trn_net_create(request->model, &sample.input, batch, threads, &net, &fault);
    }
    if (status != TERSE_OK)
        return msg_status(request->model, status, &fault);
    const terse_layout *const layout = trn_net_layout(net);
    if (request->step < 0) {
        code = sample_create(&sample, batch);
        if (code == CLI_OK)
            status = time_gradient(net, &sample, batch, &request->step, &fault);
    }
    terse_layout *copy = NULL;
    if (status == TERSE_OK && code == CLI_OK)
        status = terse_layout_create(&copy);
    for (uint32_t i = 0; copy && i < terse_layout_tensors(layout) && status == TERSE_OK; i++) {
        terse_tensor tensor;
        status = terse_layout_tensor(layout, i, &tensor);
        if (status == TERSE_OK)
            status = terse_layout_add(copy, tensor.name, tensor.ndim, tensor.dims);
    }
    sample_destroy(&sample);
    trn_net_destroy(net);
    if (status == TERSE_OK && code == CLI_OK) {
        *out = copy;
        return CLI_OK;
    }
    terse_layout_destroy(copy);
    return code != CLI_OK ? code : msg_status(request->model, status, &fault);
}

int plan_inputs(struct plan_request *request, terse_layout **layout)
{
    terse_fault fault = {.rank = -1};
    uint64_t parameters = 0;
    if (request->model)
        return layout_of_model(request, layout);
    if (request->weights)
        return layout_of_file(request->weights, layout);
    if (request->parameters &&
        !com_parse_count(request->parameters, 1, TERSE_MAX_COUNT, &parameters))
        return msg_usage("plan", "--parameters: '%s' is not a number from 1 to 2^40, like 25M",
                         request->parameters);
    const terse_status status = request->parameters
                                    ? pln_layout_of(parameters, layout)
                                    : pln_layout_parse(request->shapes, layout, &fault);
    if (status == TERSE_BAD_SPEC)
        return msg_usage("plan", "--%s", fault.text);
    return status == TERSE_OK ? CLI_OK : msg_status("plan", status, &fault);
}
