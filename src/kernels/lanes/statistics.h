/* Norms, each in one read pass. */
#ifndef TSK_LANES_STATISTICS_H
#define TSK_LANES_STATISTICS_H

LANE vi magnitude_of(vf x)
{
    return vi_and(vi_bits(x), vi_of(MAGNITUDE_MASK));
}

#define PAGE_FLOATS ((size_t)1024)
#define PAGES ((size_t)8)

/* Reads several pages side by side: the CPU prefetches each separately, which is a third faster. */
static uint32_t magnitude_max_f32(const float *in, size_t count)
{
    vi most0 = vi_of(0), most1 = most0, most2 = most0, most3 = most0;
    size_t i = 0;
    for (; i + PAGES * PAGE_FLOATS <= count; i += PAGES * PAGE_FLOATS) {
        for (size_t at = i; at < i + PAGE_FLOATS; at += TSK_LANES) {
            most0 = vi_max(most0, magnitude_of(vf_load(in + at)));
            most1 = vi_max(most1, magnitude_of(vf_load(in + at + PAGE_FLOATS)));
            most2 = vi_max(most2, magnitude_of(vf_load(in + at + 2 * PAGE_FLOATS)));
            most3 = vi_max(most3, magnitude_of(vf_load(in + at + 3 * PAGE_FLOATS)));
            most0 = vi_max(most0, magnitude_of(vf_load(in + at + 4 * PAGE_FLOATS)));
            most1 = vi_max(most1, magnitude_of(vf_load(in + at + 5 * PAGE_FLOATS)));
            most2 = vi_max(most2, magnitude_of(vf_load(in + at + 6 * PAGE_FLOATS)));
            most3 = vi_max(most3, magnitude_of(vf_load(in + at + 7 * PAGE_FLOATS)));
        }
    }
    for (; i + 64 <= count; i += 64) {
        most0 = vi_max(most0, magnitude_of(vf_stream(in + i)));
        most1 = vi_max(most1, magnitude_of(vf_stream(in + i + 16)));
        most2 = vi_max(most2, magnitude_of(vf_stream(in + i + 32)));
        most3 = vi_max(most3, magnitude_of(vf_stream(in + i + 48)));
    }
    for (; i < count; i += TSK_LANES)
        most0 = vi_max(most0, magnitude_of(vf_load_first(in + i, lanes_of(count - i))));
    return vi_top(vi_max(vi_max(most0, most1), vi_max(most2, most3)));
}

/* The zeros behind the last element do not change the sum: no lane is ever -0. */
static double magnitude_sum_f32(const float *in, size_t count)
{
    vd sum = vd_zero();
    size_t i = 0;
    for (; i + TSK_LANES <= count; i += TSK_LANES)
        sum = vd_add(sum, vd_of(vf_bits(magnitude_of(vf_stream(in + i)))));
    if (i < count)
        sum = vd_add(sum, vd_of(vf_bits(magnitude_of(vf_load_first(in + i, count - i)))));
    return vd_sum(sum);
}

LANE vd square_of(vf x)
{
    const vd wide = vd_of(x);
    return vd_mul(wide, wide);
}

static double square_sum_f32(const float *in, size_t count)
{
    vd sum = vd_zero();
    size_t i = 0;
    for (; i + TSK_LANES <= count; i += TSK_LANES)
        sum = vd_add(sum, square_of(vf_stream(in + i)));
    if (i < count)
        sum = vd_add(sum, square_of(vf_load_first(in + i, count - i)));
    return vd_sum(sum);
}

#endif
