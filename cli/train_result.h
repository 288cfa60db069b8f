/* The result of a training on standard output. */
#ifndef CLI_TRAIN_RESULT_H
#define CLI_TRAIN_RESULT_H

#include "common/json.h"
#include "train_request.h"

int train_result_print(const struct train_request *request, const struct trn_result *result);
int train_result_json(const struct train_request *request, const struct trn_result *result);

/* The exit code of a training that ended well: 0, or that of the signal which stopped it. */
int train_result_code(const struct trn_result *result);

/* Prints why it failed and how to resume it; returns an exit code. */
int train_result_failure(const struct train_request *request, const char *subject,
                         terse_status status, const terse_fault *fault);

/* The result as one object, for programs. */
com_json *train_result_object(const struct train_request *request, const struct trn_result *result);

#endif
