/* The command line of `terse train` and `terse compare`. */
#ifndef CLI_TRAIN_REQUEST_H
#define CLI_TRAIN_REQUEST_H

#include "common/text.h"
#include "train/loop/train.h"

#define TRAIN_NOT_LIVE UINT32_MAX /* a port */

struct train_request {
    struct trn_settings settings; /* its method as given, until train_request_method completes it */
    uint64_t given;               /* a bit for every row of trn_options that was typed */
    com_json *kept;               /* run.json of the run that is resumed, or NULL */
    int json;
    int quiet;
    int verbose;
    int ascii;
    const char *live_host;
    uint32_t live_port;
    char spec[TERSE_MAX_METHOD_SPEC];
    char command[2048];
    char plugins[4096]; /* of --plugin, resolved: a resumed run finds them from any folder */
    /* compare */
    const char *methods;
    uint64_t seeds;
    uint64_t tune_epochs; /* of a training for a grid of learning rates; 0: as long as all */
};

/* The options of the two commands, as lines of help. */
void train_request_help(struct com_text *out);
void compare_request_help(struct com_text *out);

/* Reads the options. Returns an exit code. `compare`: 1 for `terse compare`, 0 for `terse train`.
 */
int train_request_read(int argc, char **argv, int compare, struct train_request *out);

/* Fills in the options that were not typed: from the run that --resume names, else the defaults.
 * Collective if there is a group. Returns an exit code. */
int train_request_complete(struct train_request *request);
void train_request_free(struct train_request *request);

/* The method's spec: what was given, --lr, and what training adds. `note` tells what was added, or
 * is "". `method` may not be the request's own spec. */
terse_status train_request_method(struct train_request *request, const char *method, char *note,
                                  size_t note_cap, terse_fault *fault);

/* The spec of a method for training: its own options, then `more`, --lr, and what training adds. */
terse_status train_complete_method(const struct train_request *request, const char *method,
                                   const char *more, char out[TERSE_MAX_METHOD_SPEC],
                                   terse_fault *fault);
/* auto with its candidates, each complete, dense first: those of the text, or those that are known
 * to learn as dense does. TERSE_BAD_SPEC: what is wrong with one. */
terse_status train_complete_auto(const struct train_request *request, const char *text,
                                 char out[TERSE_MAX_METHOD_SPEC], terse_fault *fault);

/* Under mpirun: an all-gather of chosen elements becomes a sparse all-reduce, which has the same
 * bits, where the plan of this link and CPU says that it is faster. `context` is the request, which
 * tells whether to print the choice. A trn_choose. */
terse_status train_choose_combine(void *context, terse_group *group, const terse_layout *layout,
                                  char spec[TERSE_MAX_METHOD_SPEC], terse_fault *fault);

#endif
