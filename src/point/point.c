#include "point/point.h"

#include "base/parallel.h"

struct detach {
    const float *weights;
    const float *memory;
    float *out;
    float lambda;
};

static void detach_chunk(void *context, size_t chunk, size_t first, size_t count)
{
    const struct detach *const detach = context;
    const float *restrict const weights = detach->weights + first;
    const float *restrict const memory = detach->memory + first;
    float *restrict const out = detach->out + first;
    const float lambda = detach->lambda;
    (void)chunk;
    for (size_t i = 0; i < count; i++)
        out[i] = weights[i] - lambda * memory[i];
}

void tsi_point_detach(unsigned threads, const float *weights, const float *memory, float lambda,
                      size_t count, float *out)
{
    struct detach detach = {weights, memory, out, lambda};
    tsi_each_chunk(threads, count, detach_chunk, &detach);
}
