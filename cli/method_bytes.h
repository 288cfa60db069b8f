/* The bytes that a method sends, counted in one exchange of local workers. */
#ifndef CLI_METHOD_BYTES_H
#define CLI_METHOD_BYTES_H

#include <stddef.h>
#include <stdint.h>

#include <terse/terse.h>

/* The sample: one tensor of this shape; normal floats, different on every worker. */
enum { METHOD_SAMPLE_ROWS = 1000, METHOD_SAMPLE_COLS = 1000 };

struct method_sample {
    terse_layout *layout;
    float *gradient; /* that of worker k begins k cache lines later */
    float *start;    /* weights before the step */
};

/* Bytes that a worker sends in one exchange, mean over the workers. */
struct method_bytes {
    uint32_t workers;
    double sent;
    double dense; /* the same of an all-reduce of f32 */
};

/* Each returns an exit code (message.h) and prints errors. */
int method_sample_create(struct method_sample *sample);
void method_sample_destroy(struct method_sample *sample);

/* Local steps and dense steps before the exchange are left out: every=1, warmup=0. */
terse_status method_bytes_count(const struct method_sample *sample, const char *spec,
                                uint32_t workers, struct method_bytes *out, terse_fault *fault);

/* The value of an option of the spec's method, or `otherwise` where it has none of that name. */
double method_option(const char *spec, const char *name, double otherwise);

/* The number of that method in terse_method_list, or -1: composed. */
int method_index(const char *name, terse_method_about *about);

#endif
