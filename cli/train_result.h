/* The result of a training on standard output. */
#ifndef CLI_TRAIN_RESULT_H
#define CLI_TRAIN_RESULT_H

#include "common/json.h"
#include "train_request.h"

int train_result_print(const struct train_request *request, const struct trn_result *result);
int train_result_json(const struct train_request *request, const struct trn_result *result);

/* Why it failed, on standard error, and where it can go on; returns an exit code. */
int train_result_failure(const struct train_request *request, const char *subject,
                         terse_status status, const terse_fault *fault);

/* One object with everything a program may want to know. */
com_json *train_result_object(const struct train_request *request, const struct trn_result *result);

#endif
