/* Networks that compute gradients: one object per worker, over one flat buffer of weights.
 *
 * A net belongs to one thread at a time; several nets may run at once in different threads. It
 * computes with its own number of threads, regardless of OMP_NUM_THREADS, and gives the same bits
 * for the same weights and batch when that number is the same. */
#ifndef TRN_NET_H
#define TRN_NET_H

#include <stdint.h>

#include <terse/layout.h>
#include <terse/status.h>

enum trn_input_kind {
    TRN_VECTOR, /* `length` floats */
    TRN_IMAGE,  /* channels x height x width floats */
    TRN_TEXT,   /* up to `length` token ids below `vocabulary` */
};

enum trn_target_kind {
    TRN_LABELS,  /* one of `outputs` classes: softmax cross-entropy */
    TRN_NUMBERS, /* `outputs` floats: mean squared error */
};

/* The shape of the data, which sizes every layer. Fields that a kind does not name are ignored. */
struct trn_input {
    enum trn_input_kind kind;
    enum trn_target_kind target;
    uint32_t channels;
    uint32_t height;
    uint32_t width;
    uint32_t length;
    uint32_t vocabulary;
    uint32_t outputs; /* classes, or numbers to predict */
};

/* Examples, one after another. Only what the input's kinds name is read. */
struct trn_batch {
    uint32_t count;          /* at least 1, at most what the net was created for */
    const float *values;     /* count x length, or count x channels x height x width */
    const int32_t *tokens;   /* count x length; tokens past an example's own length are not read */
    const uint32_t *lengths; /* count: tokens of each example, 0 to length */
    const uint32_t *labels;  /* count, each below outputs */
    const float *targets;    /* count x outputs */
};

struct trn_net;

/* Names and versions of the libraries that compute, cut off at `cap`. */
void trn_net_libraries(char *text, size_t cap);

/* The names of the models, for help and errors; NULL at and after the end. */
const char *trn_model_name(uint32_t index);
const char *trn_model_summary(uint32_t index);

/* 1: the model reads text word by word; 0: as a bag of words and pairs of them, or no text. */
int trn_model_reads_words(const char *model);

/* A net for batches of at most `batch` examples that computes with `threads` threads. Fails with
 * TERSE_BAD_SPEC for a name that is not a model's (the fault suggests one), TERSE_BAD_ARGUMENT for
 * data that the model cannot read. The caller destroys it. */
TERSE_CHECK terse_status trn_net_create(const char *model, const struct trn_input *input,
                                        uint32_t batch, unsigned threads, struct trn_net **out,
                                        terse_fault *fault);
void trn_net_destroy(struct trn_net *net); /* NULL is fine */

/* The parameters, in PyTorch's order, shapes and names. Belongs to the net. */
const terse_layout *trn_net_layout(const struct trn_net *net);

/* A zeroed buffer for weights or a gradient, on huge pages where the system has them: large layers
 * are a few percent faster there. Any other float buffer works as well. NULL: out of memory. */
float *trn_floats_create(uint64_t count);
void trn_floats_destroy(float *floats); /* NULL is fine */

/* He initialisation, uniform: integers times a constant, so the same bits on every machine. */
void trn_net_init(const struct trn_net *net, uint64_t seed, float *weights);

/* What a backward pass tells while it runs, several times in every layer: the gradient of the
 * elements from `first` on is final, and it does not read their weights any more. `first` never
 * rises, and is 0 at last. A failure ends the pass. */
struct trn_listener {
    void *context;
    terse_status (*final)(void *context, uint64_t first, terse_fault *fault);
};

/* Forward and backward: the mean loss over the batch and its gradient, which is overwritten.
 * Running statistics move by a tenth towards the batch's. `correct` counts right labels (0 for
 * numbers). A loss that is not finite is returned unchanged: the caller decides. `listener` may be
 * NULL. */
TERSE_CHECK terse_status trn_net_gradient(struct trn_net *net, const float *weights,
                                          const struct trn_batch *batch, float *gradient,
                                          const struct trn_listener *listener, double *loss,
                                          uint32_t *correct, terse_fault *fault);

/* Forward with the running statistics: `loss_sum` is the mean loss times the count, so that sums
 * over batches divide by the number of examples. */
TERSE_CHECK terse_status trn_net_evaluate(struct trn_net *net, const float *weights,
                                          const struct trn_batch *batch, double *loss_sum,
                                          uint32_t *correct, terse_fault *fault);

/* Running means and variances of the batch norms, one flat buffer, and their names and shapes
 * (PyTorch's: bn1.running_mean, bn1.running_var). The caller may overwrite them, e.g. with the mean
 * over workers. No tensors, and a count of 0, for a net without batch norm. */
float *trn_net_statistics(struct trn_net *net, uint64_t *count);
const terse_layout *trn_net_statistics_layout(const struct trn_net *net);

#endif
