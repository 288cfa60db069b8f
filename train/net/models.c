/* The models, as lists of layers. To add one: a list, and a row in `models`, the only place that
 * names it. */
#include <stdio.h>
#include <string.h>

#include "common/names.h"
#include "graph.h"

enum row_kind {
    END,
    CONV,   /* 3 x 3, `size` channels, `stride` (0 means 1); bias unless a NORM follows */
    NORM,   /* batch norm and relu */
    RELU,   /* becomes part of the CONV or DENSE before it */
    POOL,   /* largest of 2 x 2 */
    MEAN,   /* over the whole image */
    BLOCK,  /* residual: conv, norm, relu, conv, norm, + input (1 x 1 conv, norm where shapes
               differ: option B of He et al. 2016), relu */
    DENSE,  /* `size` outputs */
    OUTPUT, /* dense, one output per class or number */
    BAG,    /* mean of the embeddings of all tokens */
    EMBED,  /* embeddings one by one */
    LSTM,   /* both directions, mean of the states */
};

struct row {
    enum row_kind kind;
    const char *name;
    uint32_t size;
    uint32_t stride;
};

static const struct row linear[] = {{OUTPUT, "linear", 0, 0}, {END, NULL, 0, 0}};

static const struct row mlp[] = {
    {DENSE, "fc1", 4096, 0}, {RELU, NULL, 0, 0},    {DENSE, "fc2", 2048, 0},
    {RELU, NULL, 0, 0},      {OUTPUT, "fc3", 0, 0}, {END, NULL, 0, 0},
};

/* relu after pooling: the same function, on a quarter of the numbers */
static const struct row cnn[] = {
    {CONV, "conv1", 32, 0}, {POOL, NULL, 0, 0}, {RELU, NULL, 0, 0},    {CONV, "conv2", 64, 0},
    {POOL, NULL, 0, 0},     {RELU, NULL, 0, 0}, {DENSE, "fc1", 64, 0}, {RELU, NULL, 0, 0},
    {OUTPUT, "fc2", 0, 0},  {END, NULL, 0, 0},
};

/* The numbering of PyTorch's `features`: convolution, norm, relu, ... , pooling. */
static const struct row vgg11[] = {
    {CONV, "features.0", 64, 0},
    {NORM, "features.1", 0, 0},
    {POOL, NULL, 0, 0},
    {CONV, "features.4", 128, 0},
    {NORM, "features.5", 0, 0},
    {POOL, NULL, 0, 0},
    {CONV, "features.8", 256, 0},
    {NORM, "features.9", 0, 0},
    {CONV, "features.11", 256, 0},
    {NORM, "features.12", 0, 0},
    {POOL, NULL, 0, 0},
    {CONV, "features.15", 512, 0},
    {NORM, "features.16", 0, 0},
    {CONV, "features.18", 512, 0},
    {NORM, "features.19", 0, 0},
    {POOL, NULL, 0, 0},
    {CONV, "features.22", 512, 0},
    {NORM, "features.23", 0, 0},
    {CONV, "features.25", 512, 0},
    {NORM, "features.26", 0, 0},
    {POOL, NULL, 0, 0},
    {OUTPUT, "classifier", 0, 0},
    {END, NULL, 0, 0},
};

static const struct row vgg16[] = {
    {CONV, "features.0", 64, 0},
    {NORM, "features.1", 0, 0},
    {CONV, "features.3", 64, 0},
    {NORM, "features.4", 0, 0},
    {POOL, NULL, 0, 0},
    {CONV, "features.7", 128, 0},
    {NORM, "features.8", 0, 0},
    {CONV, "features.10", 128, 0},
    {NORM, "features.11", 0, 0},
    {POOL, NULL, 0, 0},
    {CONV, "features.14", 256, 0},
    {NORM, "features.15", 0, 0},
    {CONV, "features.17", 256, 0},
    {NORM, "features.18", 0, 0},
    {CONV, "features.20", 256, 0},
    {NORM, "features.21", 0, 0},
    {POOL, NULL, 0, 0},
    {CONV, "features.24", 512, 0},
    {NORM, "features.25", 0, 0},
    {CONV, "features.27", 512, 0},
    {NORM, "features.28", 0, 0},
    {CONV, "features.30", 512, 0},
    {NORM, "features.31", 0, 0},
    {POOL, NULL, 0, 0},
    {CONV, "features.34", 512, 0},
    {NORM, "features.35", 0, 0},
    {CONV, "features.37", 512, 0},
    {NORM, "features.38", 0, 0},
    {CONV, "features.40", 512, 0},
    {NORM, "features.41", 0, 0},
    {POOL, NULL, 0, 0},
    {OUTPUT, "classifier", 0, 0},
    {END, NULL, 0, 0},
};

static const struct row resnet20[] = {
    {CONV, "conv1", 16, 0},     {NORM, "bn1", 0, 0},        {BLOCK, "layer1.0", 16, 1},
    {BLOCK, "layer1.1", 16, 1}, {BLOCK, "layer1.2", 16, 1}, {BLOCK, "layer2.0", 32, 2},
    {BLOCK, "layer2.1", 32, 1}, {BLOCK, "layer2.2", 32, 1}, {BLOCK, "layer3.0", 64, 2},
    {BLOCK, "layer3.1", 64, 1}, {BLOCK, "layer3.2", 64, 1}, {MEAN, NULL, 0, 0},
    {OUTPUT, "fc", 0, 0},       {END, NULL, 0, 0},
};

static const struct row resnet18[] = {
    {CONV, "conv1", 64, 0},      {NORM, "bn1", 0, 0},         {BLOCK, "layer1.0", 64, 1},
    {BLOCK, "layer1.1", 64, 1},  {BLOCK, "layer2.0", 128, 2}, {BLOCK, "layer2.1", 128, 1},
    {BLOCK, "layer3.0", 256, 2}, {BLOCK, "layer3.1", 256, 1}, {BLOCK, "layer4.0", 512, 2},
    {BLOCK, "layer4.1", 512, 1}, {MEAN, NULL, 0, 0},          {OUTPUT, "fc", 0, 0},
    {END, NULL, 0, 0},
};

static const struct row textbag[] = {
    {BAG, "embedding", 64, 0}, {DENSE, "fc1", 128, 0}, {RELU, NULL, 0, 0},
    {OUTPUT, "fc2", 0, 0},     {END, NULL, 0, 0},
};

static const struct row bilstm[] = {
    {EMBED, "embedding", 64, 0},
    {LSTM, "lstm", 64, 0},
    {OUTPUT, "fc", 0, 0},
    {END, NULL, 0, 0},
};

enum reads { FLOATS, IMAGES, WORDS, NGRAMS };
enum predicts { ANYTHING, CLASSES, NUMBERS };

static const struct model {
    const char *name;
    const char *summary;
    const struct row *rows;
    enum reads reads;
    uint32_t side; /* the least height and width of its images */
    enum predicts predicts;
    const char *otherwise; /* the model for the other kind of targets */
} models[] = {
    {"linear", "linear regression, mean squared error", linear, FLOATS, 0, NUMBERS, "logistic"},
    {"logistic", "softmax regression", linear, FLOATS, 0, CLASSES, "linear"},
    {"mlp", "fully connected, 4096 and 2048 wide", mlp, FLOATS, 0, ANYTHING, NULL},
    {"cnn", "two convolutions and two dense layers", cnn, IMAGES, 4, ANYTHING, NULL},
    {"vgg11", "VGG-11 with batch norm", vgg11, IMAGES, 32, ANYTHING, NULL},
    {"vgg16", "VGG-16 with batch norm", vgg16, IMAGES, 32, ANYTHING, NULL},
    {"resnet20", "ResNet-20, 16 to 64 channels", resnet20, IMAGES, 4, ANYTHING, NULL},
    {"resnet18", "ResNet-18, 64 to 512 channels", resnet18, IMAGES, 8, ANYTHING, NULL},
    {"textbag", "mean of embeddings, two dense layers", textbag, NGRAMS, 0, ANYTHING, NULL},
    {"bilstm", "embedding, LSTM in both directions", bilstm, WORDS, 0, ANYTHING, NULL},
};

#define MODEL_COUNT (sizeof models / sizeof models[0])

const char *trn_model_name(uint32_t index)
{
    return index < MODEL_COUNT ? models[index].name : NULL;
}

const char *trn_model_summary(uint32_t index)
{
    return index < MODEL_COUNT ? models[index].summary : NULL;
}

int trn_model_reads_words(const char *name)
{
    for (size_t i = 0; i < MODEL_COUNT; i++)
        if (strcmp(models[i].name, name) == 0)
            return models[i].reads == WORDS;
    return 0;
}

static uint32_t build_block(struct trn_graph *graph, uint32_t from, const struct row *row)
{
    char name[40];
    const bool same = graph->values[from].dims[0] == row->size && row->stride == 1;
    uint32_t at = from;
    uint32_t beside = from;
    (void)snprintf(name, sizeof name, "%s.conv1", row->name);
    at = trn_build_conv(graph, at, name, (uint32_t[]){row->size, 3, row->stride}, false, false);
    (void)snprintf(name, sizeof name, "%s.bn1", row->name);
    at = trn_build_norm(graph, at, name, true);
    (void)snprintf(name, sizeof name, "%s.conv2", row->name);
    at = trn_build_conv(graph, at, name, (uint32_t[]){row->size, 3, 1}, false, false);
    (void)snprintf(name, sizeof name, "%s.bn2", row->name);
    at = trn_build_norm(graph, at, name, false);
    if (!same) {
        (void)snprintf(name, sizeof name, "%s.downsample.0", row->name);
        beside = trn_build_conv(graph, beside, name, (uint32_t[]){row->size, 1, row->stride}, false,
                                false);
        (void)snprintf(name, sizeof name, "%s.downsample.1", row->name);
        beside = trn_build_norm(graph, beside, name, false);
    }
    return trn_build_add(graph, at, beside);
}

static uint32_t build_row(struct trn_graph *graph, uint32_t at, const struct row *row)
{
    const bool relu = row[1].kind == RELU;
    switch (row->kind) {
    case CONV:
        return trn_build_conv(graph, at, row->name,
                              (uint32_t[]){row->size, 3, row->stride ? row->stride : 1},
                              row[1].kind != NORM, relu);
    case NORM: return trn_build_norm(graph, at, row->name, true);
    case RELU: /* a CONV or DENSE took it along */
        return row[-1].kind == CONV || row[-1].kind == DENSE ? at : trn_build_relu(graph, at);
    case POOL: return trn_build_pool(graph, at);
    case MEAN: return trn_build_mean(graph, at);
    case BLOCK: return build_block(graph, at, row);
    case DENSE: return trn_build_dense(graph, at, row->name, row->size, relu);
    case OUTPUT: return trn_build_dense(graph, at, row->name, graph->input.outputs, false);
    case BAG: return trn_build_bag(graph, row->name, row->size);
    case EMBED: return trn_build_embed(graph, row->name, row->size);
    case LSTM: return trn_build_lstm(graph, at, row->name, row->size);
    case END: break;
    }
    return at;
}

static const struct model *find(const char *name, terse_fault *fault)
{
    char there[160];
    for (size_t i = 0; i < MODEL_COUNT; i++)
        if (strcmp(models[i].name, name) == 0)
            return &models[i];
    const int nearest = com_names_nearest(trn_model_name, name, strlen(name));
    if (nearest != COM_NO_NAME)
        (void)com_fail(fault, TERSE_BAD_SPEC, "no model named '%.40s'; did you mean '%s'?", name,
                       models[nearest].name);
    else
        (void)com_fail(fault, TERSE_BAD_SPEC, "no model named '%.40s'; there are %s", name,
                       com_names_join(trn_model_name, ", ", there, sizeof there));
    return NULL;
}

static terse_status check_kind(const struct model *model, const struct trn_input *input,
                               terse_fault *fault)
{
    static const char *const reads[] = {"numbers", "images", "text", "text"};
    static const char *const kinds[] = {"vectors", "images", "text"};
    const bool fits = model->reads == FLOATS   ? input->kind != TRN_TEXT
                      : model->reads == IMAGES ? input->kind == TRN_IMAGE
                                               : input->kind == TRN_TEXT;
    if (!fits)
        return com_fail(fault, TERSE_BAD_ARGUMENT, "model %s reads %s, these data are %s",
                        model->name, reads[model->reads], kinds[input->kind]);
    if (model->reads == IMAGES && (input->height < model->side || input->width < model->side))
        return com_fail(fault, TERSE_BAD_ARGUMENT,
                        "model %s needs images of at least %u x %u, these are %u x %u", model->name,
                        model->side, model->side, input->height, input->width);
    if (model->predicts == NUMBERS && input->target == TRN_LABELS)
        return com_fail(fault, TERSE_BAD_ARGUMENT,
                        "model %s predicts numbers, these data have classes: use %s", model->name,
                        model->otherwise);
    if (model->predicts == CLASSES && input->target == TRN_NUMBERS)
        return com_fail(fault, TERSE_BAD_ARGUMENT,
                        "model %s predicts classes, these data have numbers: use %s", model->name,
                        model->otherwise);
    return TERSE_OK;
}

static terse_status check_sizes(const struct trn_input *input, terse_fault *fault)
{
    const bool empty = input->kind == TRN_IMAGE
                           ? !input->channels || !input->height || !input->width
                           : !input->length || (input->kind == TRN_TEXT && !input->vocabulary);
    if (empty || input->outputs == 0)
        return com_fail(fault, TERSE_BAD_ARGUMENT, "data without a size, or without outputs");
    if (input->target == TRN_LABELS && input->outputs < 2)
        return com_fail(fault, TERSE_BAD_ARGUMENT,
                        "the data have one class; at least 2 are needed");
    return TERSE_OK;
}

terse_status trn_model_build(const char *name, struct trn_graph *graph, terse_fault *fault)
{
    const struct trn_input *input = &graph->input;
    const struct model *model = find(name, fault);
    if (!model)
        return TERSE_BAD_SPEC;
    terse_status status = check_kind(model, input, fault);
    if (status == TERSE_OK)
        status = check_sizes(input, fault);
    if (status != TERSE_OK)
        return status;
    graph->values[0] =
        input->kind == TRN_IMAGE
            ? (struct trn_value){3, {input->channels, input->height, input->width}, false}
            : (struct trn_value){1, {input->length, 1, 1}, false};
    graph->status = terse_layout_create(&graph->layout);
    if (graph->status == TERSE_OK)
        graph->status = terse_layout_create(&graph->statistics);
    uint32_t at = 0;
    for (const struct row *row = model->rows; row->kind != END && graph->status == TERSE_OK; row++)
        at = build_row(graph, at, row);
    if (graph->status != TERSE_OK)
        return com_fail(fault, graph->status, "model %s for these data: %s", name,
                        terse_status_text(graph->status));
    return TERSE_OK;
}
