/* Floats and halves. */
#ifndef TSK_LANES_PLAIN_H
#define TSK_LANES_PLAIN_H

LANE uint32_t is_not_finite(vi most)
{
    return vi_top(most) >= TSK_INFINITY_BITS;
}

/* Elements before the first whole line, or all there are. */
LANE size_t before_line(const float *at, size_t count)
{
    const size_t beyond = (uintptr_t)at / sizeof *at % TSK_LANES;
    const size_t head = beyond > 0 ? TSK_LANES - beyond : 0;
    return head < count ? head : count;
}

LANE vi snapshot_add_first(float *memory, const float *in, size_t n, float *before, vi most)
{
    const vf x = vf_load_first(in, n);
    const vf held = vf_load_first(memory, n);
    vf_store_first(before, held, n);
    vf_store_first(memory, vf_add(held, x), n);
    return vi_max(most, magnitude_of(x));
}

static uint32_t snapshot_add_f32(float *memory, const float *in, size_t count, float *before)
{
    size_t i = before_line(before, count);
    vi most = vi_of(0);
    if (i > 0)
        most = snapshot_add_first(memory, in, i, before, most);
    for (; i + TSK_LANES <= count; i += TSK_LANES) {
        const vf x = vf_stream(in + i);
        const vf held = vf_stream(memory + i);
        most = vi_max(most, magnitude_of(x));
        vf_store_past(before + i, held);
        vf_store(memory + i, vf_add(held, x));
    }
    vf_stored_past();
    if (i < count)
        most = snapshot_add_first(memory + i, in + i, count - i, before + i, most);
    return vi_top(most);
}

static uint32_t add_f32(float *out, const uint8_t *in, size_t count)
{
    vi most = vi_of(0);
    size_t i = 0;
    for (; i + TSK_LANES <= count; i += TSK_LANES) {
        const vf x = vf_stream(in + 4 * i);
        most = vi_max(most, magnitude_of(x));
        vf_store(out + i, vf_add(vf_stream(out + i), x));
    }
    if (i < count) {
        const vf x = vf_load_first(in + 4 * i, count - i);
        most = vi_max(most, magnitude_of(x));
        vf_store_first(out + i, vf_add(vf_load_first(out + i, count - i), x), count - i);
    }
    return is_not_finite(most);
}

LANE void less_first(const float *a, const float *b, vf factor, size_t n, float *out)
{
    const vf x = vf_load_first(a, n);
    vf_store_first(out, vf_sub(x, vf_mul(factor, vf_load_first(b, n))), n);
}

static void sub_scaled_f32(const float *a, const float *b, float factor, size_t count, float *out)
{
    const vf times = vf_of(factor);
    size_t i = before_line(out, count);
    if (i > 0)
        less_first(a, b, times, i, out);
    for (; i + TSK_LANES <= count; i += TSK_LANES)
        vf_store_past(out + i, vf_sub(vf_stream(a + i), vf_mul(times, vf_stream(b + i))));
    vf_stored_past();
    if (i < count)
        less_first(a + i, b + i, times, count - i, out + i);
}

static uint32_t f16_from_f32(const float *in, size_t count, uint8_t *out)
{
    vi most = vi_of(0);
    size_t i = 0;
    for (; i + TSK_LANES <= count; i += TSK_LANES) {
        const vf x = vf_stream(in + i);
        most = vi_max(most, magnitude_of(x));
        vs_store(out + 2 * i, vs_f16_of(x));
    }
    if (i < count) {
        const vf x = vf_load_first(in + i, count - i);
        most = vi_max(most, magnitude_of(x));
        vs_store_first(out + 2 * i, vs_f16_of(x), count - i);
    }
    return vi_top(most);
}

LANE vs bf16_of(vf x)
{
    const vi bits = vi_bits(x);
    const vi upper = vi_shr(bits, 16);
    const vi odd = vi_and(upper, vi_of(1));
    const vi nearest = vi_shr(vi_add(vi_add(bits, vi_of(0x7fff)), odd), 16);
    const vm is_nan = vi_at_least(magnitude_of(x), vi_of(TSK_INFINITY_BITS + 1));
    return vs_narrow(vi_select(is_nan, vi_or(upper, vi_of(0x40)), nearest));
}

static uint32_t bf16_from_f32(const float *in, size_t count, uint8_t *out)
{
    vi most = vi_of(0);
    size_t i = 0;
    for (; i + TSK_LANES <= count; i += TSK_LANES) {
        const vf x = vf_stream(in + i);
        most = vi_max(most, magnitude_of(x));
        vs_store(out + 2 * i, bf16_of(x));
    }
    if (i < count) {
        const vf x = vf_load_first(in + i, count - i);
        most = vi_max(most, magnitude_of(x));
        vs_store_first(out + 2 * i, bf16_of(x), count - i);
    }
    return vi_top(most);
}

static uint32_t f16_add_f32(float *out, const uint8_t *in, size_t count, float factor)
{
    const vf times = vf_of(factor);
    vi most = vi_of(0);
    size_t i = 0;
    for (; i + TSK_LANES <= count; i += TSK_LANES) {
        const vf x = vf_of_f16(vs_load(in + 2 * i));
        most = vi_max(most, magnitude_of(x));
        vf_store(out + i, vf_add(vf_stream(out + i), vf_mul(times, x)));
    }
    if (i < count) {
        const vf x = vf_of_f16(vs_load_first(in + 2 * i, count - i));
        const vf before = vf_load_first(out + i, count - i);
        most = vi_max(most, magnitude_of(x));
        vf_store_first(out + i, vf_add(before, vf_mul(times, x)), count - i);
    }
    return is_not_finite(most);
}

LANE vf f32_of_bf16(vs half)
{
    return vf_bits(vi_shl(vi_widen(half), 16));
}

static uint32_t bf16_add_f32(float *out, const uint8_t *in, size_t count, float factor)
{
    const vf times = vf_of(factor);
    vi most = vi_of(0);
    size_t i = 0;
    for (; i + TSK_LANES <= count; i += TSK_LANES) {
        const vf x = f32_of_bf16(vs_load(in + 2 * i));
        most = vi_max(most, magnitude_of(x));
        vf_store(out + i, vf_add(vf_stream(out + i), vf_mul(times, x)));
    }
    if (i < count) {
        const vf x = f32_of_bf16(vs_load_first(in + 2 * i, count - i));
        const vf before = vf_load_first(out + i, count - i);
        most = vi_max(most, magnitude_of(x));
        vf_store_first(out + i, vf_add(before, vf_mul(times, x)), count - i);
    }
    return is_not_finite(most);
}

#endif
