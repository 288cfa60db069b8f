#include <math.h>

#include "kernels/ref/ref.h"

uint32_t tsk_ref_magnitude_max_f32(const float *in, size_t count)
{
    uint32_t most = 0;
    for (size_t i = 0; i < count; i++)
        most = larger(most, magnitude_bits(in[i]));
    return most;
}

static double sum_of_lanes(double lane[TSK_LANES])
{
    for (size_t width = TSK_LANES / 2; width > 0; width /= 2)
        for (size_t j = 0; j < width; j++)
            lane[j] += lane[j + width];
    return lane[0];
}

double tsk_ref_magnitude_sum_f32(const float *in, size_t count)
{
    double lane[TSK_LANES] = {0};
    for (size_t i = 0; i < count; i++)
        lane[i % TSK_LANES] += fabs((double)in[i]);
    return sum_of_lanes(lane);
}

double tsk_ref_square_sum_f32(const float *in, size_t count)
{
    double lane[TSK_LANES] = {0};
    for (size_t i = 0; i < count; i++)
        lane[i % TSK_LANES] += (double)in[i] * (double)in[i];
    return sum_of_lanes(lane);
}
