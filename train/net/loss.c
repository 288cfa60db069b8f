#include "loss.h"

#include <math.h>

/* Softmax cross-entropy of one row: log(sum(exp(x - top))) + top - x[label], never overflowing. */
static double cross_entropy(const float *row, uint32_t classes, uint32_t label, float share,
                            float *diff, uint32_t *correct)
{
    uint32_t best = 0;
    for (uint32_t c = 1; c < classes; c++)
        best = row[c] > row[best] ? c : best;
    const float top = row[best];
    double sum = 0;
    for (uint32_t c = 0; c < classes; c++)
        sum += exp((double)row[c] - top);
    for (uint32_t c = 0; diff && c < classes; c++) {
        const double chance = exp((double)row[c] - top) / sum;
        diff[c] = share * (float)(chance - (c == label ? 1.0 : 0.0));
    }
    *correct += best == label;
    return log(sum) + top - row[label];
}

static double squared_error(const float *row, uint32_t outputs, const float *target, float share,
                            float *diff)
{
    double sum = 0;
    for (uint32_t c = 0; c < outputs; c++) {
        const float error = row[c] - target[c];
        sum += (double)error * error;
        if (diff)
            diff[c] = 2.0f * share / (float)outputs * error;
    }
    return sum / outputs;
}

void trn_loss(const struct trn_input *input, const struct trn_batch *batch, const float *outputs,
              float *diff, double *loss, uint32_t *correct)
{
    const float share = 1.0f / (float)batch->count;
    double sum = 0;
    *correct = 0;
    for (uint32_t i = 0; i < batch->count; i++) {
        const uint64_t at = (uint64_t)i * input->outputs;
        float *row_diff = diff ? diff + at : NULL;
        if (input->target == TRN_LABELS)
            sum += cross_entropy(outputs + at, input->outputs, batch->labels[i], share, row_diff,
                                 correct);
        else
            sum +=
                squared_error(outputs + at, input->outputs, batch->targets + at, share, row_diff);
    }
    *loss = sum / batch->count;
}
