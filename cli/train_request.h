/* What `terse train` and `terse compare` are asked for on the command line. */
#ifndef CLI_TRAIN_REQUEST_H
#define CLI_TRAIN_REQUEST_H

#include "train/loop/train.h"

#define TRAIN_UNSAID UINT64_MAX /* of a seed */

struct train_request {
    struct trn_settings settings;
    const char *method; /* as given */
    com_json *kept;     /* run.json of the run that goes on, or NULL */
    double lr;          /* -1: the method's */
    int json;
    int quiet;
    int verbose;
    int ascii;
    const char *live_host;
    int live_port; /* -1: none */
    char spec[1024];
    char command[2048];
    /* compare */
    const char *methods;
    uint64_t seeds;
};

/* The options both commands share, as lines of help. */
#define TRAIN_OPTIONS_HELP                                                                       \
    "  --model M            linear logistic mlp cnn vgg11 vgg16 resnet20 resnet18 textbag "      \
    "bilstm\n"                                                                                   \
    "                       default what suits the data\n"                                       \
    "  --data D             fashion, digits, regression, quadratic, idx:DIR, cifar10:DIR,\n"     \
    "                       cifar100:DIR, agnews:DIR, libsvm:FILE; default fashion\n"            \
    "  --workers N          threads of this process; default 4. Under mpirun: its processes\n"   \
    "  --epochs E           default 3\n"                                                         \
    "  --steps S            instead of epochs\n"                                                 \
    "  --batch B            examples per worker and step; default 32\n"                          \
    "  --accumulate N       batches whose mean is one gradient; default 1\n"                     \
    "  --shard HOW          iid, class:alpha=0.1, range: who sees which examples; default iid\n" \
    "  --augment            crop and flip images\n"                                              \
    "  --seed Z             default 1\n"                                                         \
    "  --target A           stop at this test accuracy (0.9)\n"                                  \
    "  --evaluate-every N   steps; default every epoch, or ten times\n"                          \
    "  --threads N          of the network, per worker; default 1\n"                             \
    "  --codec-threads N    of codecs, per worker; default 1. Never changes a result\n"          \
    "  --deadline S         seconds to wait for a worker; default 60\n"

/* Reads the options. Returns an exit code; CLI_OK: go on. `compare` says which of the two commands
 * asks. */
int train_request_read(int argc, char **argv, int compare, struct train_request *out);

/* What was not said: from the run that --resume names, else the defaults. Collective where there is
 * a group. Returns an exit code. */
int train_request_complete(struct train_request *request);
void train_request_free(struct train_request *request);

/* The method's complete spec: what was given, --lr, and what training adds. `note` tells what was
 * added, or is "". */
void train_request_method(struct train_request *request, const char *method, char *note,
                          size_t note_cap);

#endif
