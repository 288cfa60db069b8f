/* The program that tools/trace-step runs: 3 steps of 2 local workers on 2 tensors. It traces the
 * third, so that work of the first steps alone is not counted.
 *
 *   trace_step SPEC
 *
 * Prints a line for every function entered, "+ADDRESS", and left, "-ADDRESS", in hexadecimal. With
 * -finstrument-functions the compiler calls the two functions below. */
#include <stdio.h>

#include <terse/terse.h>

enum { WORKERS = 2, ROWS = 256, COLUMNS = 256, COUNT = ROWS * COLUMNS + ROWS, WARM = 2 };

static int tracing;

#define NOT_TRACED __attribute__((no_instrument_function))

NOT_TRACED void __cyg_profile_func_enter(void *function, void *from);
NOT_TRACED void __cyg_profile_func_exit(void *function, void *from);

void __cyg_profile_func_enter(void *function, void *from)
{
    (void)from;
    if (tracing)
        (void)printf("+%p\n", function);
}

void __cyg_profile_func_exit(void *function, void *from)
{
    (void)from;
    if (tracing)
        (void)printf("-%p\n", function);
}

/* Numbers between -1 and 1 that differ between workers and steps. Each 16th is 0, as after a ReLU,
 * since sign codecs treat an exact zero separately. */
static void fill(float *gradient, uint32_t seed)
{
    for (uint32_t i = 0; i < COUNT; i++) {
        const uint32_t bits = (i * COUNT + seed + 1) * 2654435761u;
        gradient[i] = i % 16 ? (float)(bits >> 8) / 8388608.0f - 1.0f : 0.0f;
    }
}

static terse_status make_layout(terse_layout **out)
{
    terse_status status = terse_layout_create(out);
    if (status == TERSE_OK)
        status = terse_layout_add(*out, "weight", 2, (const uint64_t[]){ROWS, COLUMNS});
    if (status == TERSE_OK)
        status = terse_layout_add(*out, "bias", 1, (const uint64_t[]){ROWS});
    return status;
}

static terse_status run(const char *spec, terse_fault *fault)
{
    static float weights[WORKERS][COUNT];
    static float gradients[WORKERS][COUNT];
    const terse_method_options options = {.size = sizeof options, .seed = 1, .steps = WARM + 1};
    terse_layout *layout = NULL;
    terse_method *method[WORKERS] = {NULL};
    terse_status status = make_layout(&layout);
    if (status == TERSE_OK)
        status =
            terse_method_create_all(spec, WORKERS, layout, (float *const[]){weights[0], weights[1]},
                                    &options, method, fault);
    for (uint32_t step = 0; status == TERSE_OK && step <= WARM; step++) {
        for (uint32_t worker = 0; worker < WORKERS; worker++)
            fill(gradients[worker], step * WORKERS + worker);
        tracing = step == WARM;
        status = terse_method_step_all(method, (const float *const[]){gradients[0], gradients[1]},
                                       NULL, fault);
        tracing = 0;
    }
    for (uint32_t worker = 0; worker < WORKERS; worker++)
        terse_method_destroy(method[worker]);
    terse_layout_destroy(layout);
    return status;
}

int main(int argc, char **argv)
{
    terse_fault fault = {.rank = -1};
    if (argc != 2) {
        (void)fprintf(stderr, "usage: trace_step SPEC\n");
        return 2;
    }
    const terse_status status = run(argv[1], &fault);
    if (status != TERSE_OK)
        (void)fprintf(stderr, "%s\n", *fault.text ? fault.text : terse_status_text(status));
    return status != TERSE_OK;
}
