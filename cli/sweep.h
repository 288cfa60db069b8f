/* Specs with braces: "topk:keep={0.1,0.01},lr={0.02,0.05}" stands for two methods with a grid of
 * two learning rates each. */
#ifndef CLI_SWEEP_H
#define CLI_SWEEP_H

#include <stddef.h>

#include "common/fault.h"

enum { SWEEP_SPEC = 512, SWEEP_MOST = 1024 /* specs in all */ };

struct sweep_spec {
    char spec[SWEEP_SPEC];
    char rate[32]; /* the value of lr, where the method has a grid of them; else "" */
    size_t method; /* from 0; the specs of a method stand together */
};

struct sweep {
    struct sweep_spec *specs;
    size_t count;
    size_t methods;
};

/* Expands a list whose entries are separated by ';'. The caller frees out->specs, also after a
 * failure. */
TERSE_CHECK terse_status sweep_expand(const char *list, struct sweep *out, terse_fault *fault);

/* The number of specs of a method; *first is its first. */
size_t sweep_rates(const struct sweep *sweep, size_t method, size_t *first);

#endif
