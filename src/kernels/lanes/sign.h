/* One bit per element, and lists of the elements above a threshold. */
#ifndef TSK_LANES_SIGN_H
#define TSK_LANES_SIGN_H

/* Stores the lowest `count` bits, count <= 16, in the bytes that they need. */
LANE void store_bits(uint8_t *at, uint32_t bits, size_t count)
{
    const uint32_t kept = bits & ((1u << count) - 1);
    at[0] = (uint8_t)kept;
    if (count > 8)
        at[1] = (uint8_t)(kept >> 8);
}

LANE uint32_t load_bits(const uint8_t *at, size_t count)
{
    return count > 8 ? at[0] | (uint32_t)at[1] << 8 : at[0];
}

static uint32_t sign_f32(const float *in, size_t count, uint8_t *negative, uint8_t *zero)
{
    const vf nought = vf_of(0);
    vi most = vi_of(0);
    for (size_t i = 0; i < count; i += TSK_LANES) {
        const size_t n = lanes_of(count - i);
        const vf x = n == TSK_LANES ? vf_stream(in + i) : vf_load_first(in + i, n);
        most = vi_max(most, magnitude_of(x));
        store_bits(negative + i / 8, vm_bits(vf_below(x, nought)), n);
        if (zero)
            store_bits(zero + i / 8, vm_bits(vf_equal(x, nought)), n);
    }
    return vi_top(most);
}

static void sign_add_f32(float *out, const uint8_t *negative, size_t count, float scale)
{
    const vf plus = vf_of(scale);
    const vf minus = vf_of(-scale);
    size_t i = 0;
    for (; i + TSK_LANES <= count; i += TSK_LANES) {
        const vm bits = vm_of_bits(load_bits(negative + i / 8, TSK_LANES));
        vf_store(out + i, vf_add(vf_stream(out + i), vf_select(bits, minus, plus)));
    }
    if (i < count) {
        const vm bits = vm_of_bits(load_bits(negative + i / 8, count - i));
        const vf before = vf_load_first(out + i, count - i);
        vf_store_first(out + i, vf_add(before, vf_select(bits, minus, plus)), count - i);
    }
}

static size_t collect_f32(const float *in, size_t count, uint32_t threshold, uint32_t base,
                          uint32_t *index, float *value)
{
    const vi least = vi_of(threshold);
    size_t found = 0;
    size_t i = 0;
    for (; i + TSK_LANES <= count; i += TSK_LANES) {
        const vf x = vf_stream(in + i);
        const vm large = vi_at_least(magnitude_of(x), least);
        found += vf_collect(x, large, base + (uint32_t)i, index + found, value + found);
    }
    if (i < count) {
        const vf x = vf_load_first(in + i, count - i);
        const vm large = vm_and(vi_at_least(magnitude_of(x), least), vm_first(count - i));
        found += vf_collect(x, large, base + (uint32_t)i, index + found, value + found);
    }
    return found;
}

#endif
