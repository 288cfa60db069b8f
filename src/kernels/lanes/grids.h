/* Float to code: sign << mag_bits | magnitude, sixteen bits each. */
#ifndef TSK_LANES_GRIDS_H
#define TSK_LANES_GRIDS_H

#define PAIR (2 * TSK_LANES) /* elements whose codes are stored together */

/* ---- powers of two ---- */

/* Thresholds are few, but a loop over them costs: four vectors share it. */
LANE void log_magnitudes(const vf x[4], const float *thresholds, unsigned levels, vi magnitude[4])
{
    vf size[4];
    for (unsigned v = 0; v < 4; v++) {
        size[v] = vf_bits(magnitude_of(x[v]));
        magnitude[v] = vi_of(0);
    }
    for (unsigned j = 0; j < levels; j++) {
        const vf threshold = vf_of(thresholds[j]);
        for (unsigned v = 0; v < 4; v++)
            magnitude[v] = vi_count_if(magnitude[v], vf_below(threshold, size[v]));
    }
}

static void log_codes_f32(const float *in, size_t count, const float *thresholds, unsigned levels,
                          unsigned mag_bits, uint16_t *codes)
{
    const uint32_t sign = 1u << mag_bits;
    vf x[4] = {vf_of(0), vf_of(0), vf_of(0), vf_of(0)};
    vi magnitude[4];
    size_t i = 0;
    for (; i + 2 * PAIR <= count; i += 2 * PAIR) {
        for (unsigned v = 0; v < 4; v++)
            x[v] = vf_stream(in + i + TSK_LANES * v);
        log_magnitudes(x, thresholds, levels, magnitude);
        vi_store_codes(codes + i, magnitude[0], x[0], magnitude[1], x[1], sign);
        vi_store_codes(codes + i + PAIR, magnitude[2], x[2], magnitude[3], x[3], sign);
    }
    for (; i < count; i += TSK_LANES) {
        const size_t n = lanes_of(count - i);
        x[0] = vf_load_first(in + i, n);
        log_magnitudes(x, thresholds, levels, magnitude);
        vs_store_first(codes + i, vs_code(magnitude[0], x[0], sign), n);
    }
}

/* ---- equal steps ---- */

/* x in steps, levels at most (there the rest is 0 and nothing is added). */
LANE vf steps_of(vf x, float scale, uint32_t levels)
{
    return vf_least(vf_mul(x, vf_of(scale)), vf_of((float)levels));
}

LANE vi random_magnitude(vf steps, vi random)
{
    const vi below = vi_truncate(steps);
    const vf rest = vf_sub(steps, vf_of_vi(below));
    const vf u = vf_mul(vf_of_vi(vi_shr(random, 8)), vf_of(0x1p-24f));
    return vi_count_if(below, vf_below(u, rest));
}

static void random_codes_f32(const float *in, size_t count, float scale, uint32_t levels,
                             unsigned mag_bits, const struct tsk_stream *stream, uint64_t first,
                             uint16_t *codes)
{
    const struct random_plan plan = random_plan_of(stream);
    const uint32_t sign = 1u << mag_bits;
    vi random[RANDOM_VECTORS];
    size_t i = 0;
    for (; i + RANDOM_BATCH <= count; i += RANDOM_BATCH) {
        random_batch(&plan, first + i, random);
        for (unsigned v = 0; v < RANDOM_VECTORS; v += 2) {
            const size_t at = i + TSK_LANES * v;
            const vf x0 = vf_stream(in + at);
            const vf x1 = vf_stream(in + at + TSK_LANES);
            const vi magnitude0 = random_magnitude(steps_of(x0, scale, levels), random[v]);
            const vi magnitude1 = random_magnitude(steps_of(x1, scale, levels), random[v + 1]);
            vi_store_codes(codes + at, magnitude0, x0, magnitude1, x1, sign);
        }
    }
    if (i == count)
        return;
    random_batch(&plan, first + i, random);
    for (unsigned v = 0; i < count; v++, i += TSK_LANES) {
        const size_t n = lanes_of(count - i);
        const vf x = vf_load_first(in + i, n);
        const vi magnitude = random_magnitude(steps_of(x, scale, levels), random[v]);
        vs_store_first(codes + i, vs_code(magnitude, x, sign), n);
    }
}

LANE vi nearest_magnitude(vf steps)
{
    const vi below = vi_truncate(steps);
    const vf rest = vf_sub(steps, vf_of_vi(below));
    return vi_count_if(below, vf_below(vf_of(0.5f), rest));
}

static void nearest_codes_f32(const float *in, size_t count, float scale, uint32_t levels,
                              unsigned mag_bits, uint16_t *codes)
{
    const uint32_t sign = 1u << mag_bits;
    size_t i = 0;
    for (; i + PAIR <= count; i += PAIR) {
        const vf x0 = vf_stream(in + i);
        const vf x1 = vf_stream(in + i + TSK_LANES);
        const vi magnitude0 = nearest_magnitude(steps_of(x0, scale, levels));
        const vi magnitude1 = nearest_magnitude(steps_of(x1, scale, levels));
        vi_store_codes(codes + i, magnitude0, x0, magnitude1, x1, sign);
    }
    for (; i < count; i += TSK_LANES) {
        const size_t n = lanes_of(count - i);
        const vf x = vf_load_first(in + i, n);
        const vi magnitude = nearest_magnitude(steps_of(x, scale, levels));
        vs_store_first(codes + i, vs_code(magnitude, x, sign), n);
    }
}

/* ---- exponents ---- */

LANE vi natural_magnitude(vi size, vi random)
{
    return vi_shr(vi_add(size, vi_shr(random, 9)), 23);
}

static uint32_t natural_codes_f32(const float *in, size_t count, const struct tsk_stream *stream,
                                  uint64_t first, uint16_t *codes)
{
    const struct random_plan plan = random_plan_of(stream);
    const uint32_t sign = 1u << 8;
    vi most = vi_of(0);
    vi random[RANDOM_VECTORS];
    size_t i = 0;
    for (; i + RANDOM_BATCH <= count; i += RANDOM_BATCH) {
        random_batch(&plan, first + i, random);
        for (unsigned v = 0; v < RANDOM_VECTORS; v += 2) {
            const size_t at = i + TSK_LANES * v;
            const vf x0 = vf_stream(in + at);
            const vf x1 = vf_stream(in + at + TSK_LANES);
            const vi size0 = magnitude_of(x0);
            const vi size1 = magnitude_of(x1);
            most = vi_max(most, vi_max(size0, size1));
            vi_store_codes(codes + at, natural_magnitude(size0, random[v]), x0,
                           natural_magnitude(size1, random[v + 1]), x1, sign);
        }
    }
    if (i == count)
        return vi_top(most);
    random_batch(&plan, first + i, random);
    for (unsigned v = 0; i < count; v++, i += TSK_LANES) {
        const size_t n = lanes_of(count - i);
        const vf x = vf_load_first(in + i, n);
        const vi size = magnitude_of(x);
        most = vi_max(most, size);
        vs_store_first(codes + i, vs_code(natural_magnitude(size, random[v]), x, sign), n);
    }
    return vi_top(most);
}

#endif
