#include "kernels/ref/ref.h"

size_t tsk_ref_collect_f32(const float *in, size_t count, uint32_t threshold, uint32_t base,
                           uint32_t *index, float *value)
{
    size_t found = 0;
    for (size_t i = 0; i < count; i++) {
        if (magnitude_bits(in[i]) >= threshold) {
            index[found] = base + (uint32_t)i;
            value[found] = in[i];
            found++;
        }
    }
    return found;
}
