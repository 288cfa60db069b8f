/* Converts codes to floats and adds them. Invalid codes are reported, not decoded. */
#ifndef TSK_LANES_GRIDS_ADD_H
#define TSK_LANES_GRIDS_ADD_H

struct code_parts {
    vi magnitude;
    vi sign; /* the sign of a float */
    vm bad;
};

/* The constants that split a code. */
struct code_plan {
    vi mask;   /* mask of the magnitude */
    vi levels; /* the largest magnitude */
    vi shift;  /* shift of the sign to bit 31 */
};

LANE struct code_plan code_plan_of(uint32_t levels, unsigned mag_bits)
{
    return (struct code_plan){vi_of((1u << mag_bits) - 1), vi_of(levels), vi_of(31 - mag_bits)};
}

/* magnitude - 1 is below `levels` for every code but 0. */
LANE struct code_parts code_parts_of(vs codes, struct code_plan plan)
{
    const vi code = vi_widen(codes);
    const vi magnitude = vi_and(code, plan.mask);
    return (struct code_parts){
        .magnitude = magnitude,
        .sign = vi_and(vi_shl_each(code, plan.shift), vi_of(SIGN_BIT)),
        .bad = vm_and(vi_nonzero(code), vi_at_least(vi_sub(magnitude, vi_of(1)), plan.levels)),
    };
}

/* A magnitude of 0 adds -0, which changes nothing, not even the sign of a zero. */
LANE vf log_value(struct code_parts code, vf scale, vi exponent)
{
    const vf size = vf_mul(scale, vf_bits(vi_shl(vi_add(code.magnitude, exponent), 23)));
    const vi value = vi_xor(vi_bits(size), code.sign);
    return vf_bits(vi_select(vi_nonzero(code.magnitude), value, vi_of(SIGN_BIT)));
}

static uint32_t log_add_f32(float *out, const uint16_t *codes, size_t count, unsigned levels,
                            unsigned mag_bits, float scale)
{
    const struct code_plan plan = code_plan_of(levels, mag_bits);
    const vi exponent = vi_of(127 - levels);
    const vf times = vf_of(scale);
    vm bad = vm_none();
    size_t i = 0;
    for (; i + TSK_LANES <= count; i += TSK_LANES) {
        const struct code_parts code = code_parts_of(vs_load(codes + i), plan);
        bad = vm_or(bad, code.bad);
        vf_store(out + i, vf_add(vf_stream(out + i), log_value(code, times, exponent)));
    }
    if (i < count) {
        const struct code_parts code = code_parts_of(vs_load_first(codes + i, count - i), plan);
        const vf before = vf_load_first(out + i, count - i);
        bad = vm_or(bad, code.bad);
        vf_store_first(out + i, vf_add(before, log_value(code, times, exponent)), count - i);
    }
    return vm_bits(bad) != 0;
}

/* The residual of x after its code is subtracted; the sign of the code is that of x. */
LANE vf log_rest(vf x, vi magnitude, vf times, vi exponent)
{
    const struct code_parts code = {.magnitude = magnitude,
                                    .sign = vi_and(vi_bits(x), vi_of(SIGN_BIT))};
    return vf_add(x, log_value(code, times, exponent));
}

static void log_take_f32(float *residual, size_t count, const float *thresholds, unsigned levels,
                         unsigned mag_bits, float scale, uint16_t *codes)
{
    const uint32_t sign = 1u << mag_bits;
    const vi exponent = vi_of(127 - levels);
    const vf times = vf_of(-scale);
    vf x[4] = {vf_of(0), vf_of(0), vf_of(0), vf_of(0)};
    vi magnitude[4];
    size_t i = 0;
    for (; i + 2 * PAIR <= count; i += 2 * PAIR) {
        for (unsigned v = 0; v < 4; v++)
            x[v] = vf_stream(residual + i + TSK_LANES * v);
        log_magnitudes(x, thresholds, levels, magnitude);
        for (unsigned v = 0; v < 4; v++)
            vf_store(residual + i + TSK_LANES * v, log_rest(x[v], magnitude[v], times, exponent));
        vi_store_codes(codes + i, magnitude[0], x[0], magnitude[1], x[1], sign);
        vi_store_codes(codes + i + PAIR, magnitude[2], x[2], magnitude[3], x[3], sign);
    }
    for (; i < count; i += TSK_LANES) {
        const size_t n = lanes_of(count - i);
        x[0] = vf_load_first(residual + i, n);
        log_magnitudes(x, thresholds, levels, magnitude);
        vf_store_first(residual + i, log_rest(x[0], magnitude[0], times, exponent), n);
        vs_store_first(codes + i, vs_code(magnitude[0], x[0], sign), n);
    }
}

LANE vf level_value(struct code_parts code, vf unit)
{
    return vf_bits(vi_xor(vi_bits(vf_mul(vf_of_vi(code.magnitude), unit)), code.sign));
}

static uint32_t level_add_f32(float *out, const uint16_t *codes, size_t count, uint32_t levels,
                              unsigned mag_bits, float unit)
{
    const struct code_plan plan = code_plan_of(levels, mag_bits);
    const vf step = vf_of(unit);
    vm bad = vm_none();
    size_t i = 0;
    for (; i + TSK_LANES <= count; i += TSK_LANES) {
        const struct code_parts code = code_parts_of(vs_load(codes + i), plan);
        bad = vm_or(bad, code.bad);
        vf_store(out + i, vf_add(vf_stream(out + i), level_value(code, step)));
    }
    if (i < count) {
        const struct code_parts code = code_parts_of(vs_load_first(codes + i, count - i), plan);
        const vf before = vf_load_first(out + i, count - i);
        bad = vm_or(bad, code.bad);
        vf_store_first(out + i, vf_add(before, level_value(code, step)), count - i);
    }
    return vm_bits(bad) != 0;
}

LANE vf natural_value(struct code_parts code, vf factor)
{
    return vf_mul(factor, vf_bits(vi_or(vi_shl(code.magnitude, 23), code.sign)));
}

static uint32_t natural_add_f32(float *out, const uint16_t *codes, size_t count, float factor)
{
    const struct code_plan plan = code_plan_of(254, 8);
    const vf times = vf_of(factor);
    vm bad = vm_none();
    size_t i = 0;
    for (; i + TSK_LANES <= count; i += TSK_LANES) {
        const struct code_parts code = code_parts_of(vs_load(codes + i), plan);
        bad = vm_or(bad, code.bad);
        vf_store(out + i, vf_add(vf_stream(out + i), natural_value(code, times)));
    }
    if (i < count) {
        const struct code_parts code = code_parts_of(vs_load_first(codes + i, count - i), plan);
        const vf before = vf_load_first(out + i, count - i);
        bad = vm_or(bad, code.bad);
        vf_store_first(out + i, vf_add(before, natural_value(code, times)), count - i);
    }
    return vm_bits(bad) != 0;
}

#endif
