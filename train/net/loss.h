/* The loss of a batch of outputs. */
#ifndef TRN_LOSS_H
#define TRN_LOSS_H

#include "net.h"

/* The mean loss of `batch->count` rows of outputs, how many labels were right, and, unless NULL,
 * the gradient of the mean. */
void trn_loss(const struct trn_input *input, const struct trn_batch *batch, const float *outputs,
              float *diff, double *loss, uint32_t *correct);

#endif
