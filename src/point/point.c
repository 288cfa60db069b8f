#include "point/point.h"

#include "base/parallel.h"
#include "kernels/kernels.h"

struct detach {
    const struct tsk_table *kernel;
    const float *weights;
    const float *memory;
    float *out;
    float lambda;
};

static void detach_chunk(void *context, size_t chunk, size_t first, size_t count)
{
    const struct detach *const detach = context;
    (void)chunk;
    detach->kernel->sub_scaled_f32(detach->weights + first, detach->memory + first, detach->lambda,
                                   count, detach->out + first);
}

void tsi_point_detach(const struct tsk_table *kernel, unsigned threads, const float *weights,
                      const float *memory, float lambda, size_t count, float *out)
{
    struct detach detach = {kernel, weights, memory, out, lambda};
    tsi_each_chunk(threads, count, detach_chunk, &detach);
}
