/* Statistics, draws, plain floats and halves, signs, lists. */
#include <math.h>
#include <string.h>

#include "kernels/trials.h"

static size_t doubles_differ(double a, double b)
{
    return !(isnan(a) && isnan(b)) && memcmp(&a, &b, sizeof a) != 0;
}

/* As it is, and with what is not finite in a few places: wherever it lies, it is found. */
size_t trial_magnitude_max(struct lab *lab, const struct trial *trial)
{
    float *const in = (float *)(uintptr_t)lab_floats(lab, 0, trial, trial->count, trial->fill);
    size_t different = tsk_ref.magnitude_max_f32(in, trial->count) !=
                       trial->set->magnitude_max_f32(in, trial->count);
    for (int i = 0; i < 16 && trial->count > 0; i++) {
        float *const at = &in[lab_random(lab) % trial->count];
        const float held = *at;
        *at = -NAN;
        different += trial->set->magnitude_max_f32(in, trial->count) <= TSK_INFINITY_BITS;
        *at = held;
    }
    return different;
}

size_t trial_magnitude_sum(struct lab *lab, const struct trial *trial)
{
    const float *in = lab_floats(lab, 0, trial, trial->count, trial->fill);
    return doubles_differ(tsk_ref.magnitude_sum_f32(in, trial->count),
                          trial->set->magnitude_sum_f32(in, trial->count));
}

size_t trial_square_sum(struct lab *lab, const struct trial *trial)
{
    const float *in = lab_floats(lab, 0, trial, trial->count, trial->fill);
    return doubles_differ(tsk_ref.square_sum_f32(in, trial->count),
                          trial->set->square_sum_f32(in, trial->count));
}

static struct tsk_stream random_stream(struct lab *lab)
{
    struct tsk_stream stream;
    for (unsigned i = 0; i < 2; i++)
        stream.key[i] = (uint32_t)lab_random(lab);
    for (unsigned i = 0; i < 3; i++)
        stream.counter[i] = (uint32_t)lab_random(lab);
    return stream;
}

size_t trial_random(struct lab *lab, const struct trial *trial)
{
    const struct pair out = lab_output(lab, 0, trial, trial->count, sizeof(uint32_t));
    const struct tsk_stream stream = random_stream(lab);
    const uint64_t first = lab_random(lab) >> 20 & ~UINT64_C(63);
    tsk_ref.random_u32(&stream, first, trial->count, (uint32_t *)(void *)out.ref);
    trial->set->random_u32(&stream, first, trial->count, (uint32_t *)(void *)out.set);
    return pair_bytes_differ(&out) + (size_t)pair_around_differs(&out);
}

/* What a kernel that adds gave. After a refusal only the refusal itself counts. */
static size_t added_differ(const struct pair *out, uint32_t ref_bad, uint32_t set_bad)
{
    size_t different = (ref_bad != set_bad) + (size_t)pair_around_differs(out);
    if (!ref_bad)
        different += pair_floats_differ(out);
    return different;
}

size_t trial_snapshot_add(struct lab *lab, const struct trial *trial)
{
    const float *in = lab_floats(lab, 0, trial, trial->count, trial->fill);
    const struct pair memory = lab_output_floats(lab, 0, trial, trial->count, FILL_ANY);
    const struct pair before = lab_output(lab, 1, trial, trial->count, sizeof(float));
    const uint32_t most = tsk_ref.snapshot_add_f32((float *)(void *)memory.ref, in, trial->count,
                                                   (float *)(void *)before.ref);
    const uint32_t set_most = trial->set->snapshot_add_f32(
        (float *)(void *)memory.set, in, trial->count, (float *)(void *)before.set);
    return (most != set_most) + pair_floats_differ(&memory) + pair_bytes_differ(&before) +
           (size_t)pair_around_differs(&memory) + (size_t)pair_around_differs(&before);
}

size_t trial_add(struct lab *lab, const struct trial *trial)
{
    const size_t n = trial->count;
    const uint8_t *in = lab_payload_floats(lab, 0, trial, n, trial->fill);
    const struct pair out = lab_output_floats(lab, 0, trial, n, FILL_ANY);
    const uint32_t ref_bad = tsk_ref.add_f32((float *)(void *)out.ref, in, n);
    return added_differ(&out, ref_bad, trial->set->add_f32((float *)(void *)out.set, in, n));
}

size_t trial_sub_scaled(struct lab *lab, const struct trial *trial)
{
    const float *a = lab_floats(lab, 0, trial, trial->count, trial->fill);
    const float *b = lab_floats(lab, 1, trial, trial->count, FILL_ANY);
    const struct pair out = lab_output_floats(lab, 0, trial, trial->count, FILL_ANY);
    tsk_ref.sub_scaled_f32(a, b, 0.75f, trial->count, (float *)(void *)out.ref);
    trial->set->sub_scaled_f32(a, b, 0.75f, trial->count, (float *)(void *)out.set);
    return pair_floats_differ(&out) + (size_t)pair_around_differs(&out);
}

size_t trial_f16_from(struct lab *lab, const struct trial *trial)
{
    const float *in = lab_floats(lab, 0, trial, trial->count, trial->fill);
    const struct pair out = lab_output(lab, 0, trial, 2 * trial->count, 1);
    const uint32_t most = tsk_ref.f16_from_f32(in, trial->count, out.ref);
    return (most != trial->set->f16_from_f32(in, trial->count, out.set)) + pair_bytes_differ(&out) +
           (size_t)pair_around_differs(&out);
}

size_t trial_bf16_from(struct lab *lab, const struct trial *trial)
{
    const float *in = lab_floats(lab, 0, trial, trial->count, trial->fill);
    const struct pair out = lab_output(lab, 0, trial, 2 * trial->count, 1);
    const uint32_t most = tsk_ref.bf16_from_f32(in, trial->count, out.ref);
    return (most != trial->set->bf16_from_f32(in, trial->count, out.set)) +
           pair_bytes_differ(&out) + (size_t)pair_around_differs(&out);
}

/* Halves that are finite in most trials: random bits would hardly ever be accepted. */
static uint8_t *random_halves(struct lab *lab, const struct trial *trial, unsigned exponent)
{
    uint8_t *in = lab_bytes(lab, 0, trial, 2 * trial->count);
    const unsigned top = exponent >> 8;
    if (trial->fill >= FILL_FINITE_COUNT)
        return in;
    for (size_t i = 0; i < trial->count; i++)
        if ((in[2 * i + 1] & top) == top)
            in[2 * i + 1] &= 0xbf;
    return in;
}

size_t trial_f16_add(struct lab *lab, const struct trial *trial)
{
    const size_t n = trial->count;
    const float factor = trial->place % 2 ? -1.0f : 1.0f;
    const uint8_t *in = random_halves(lab, trial, 0x7c00);
    const struct pair out = lab_output_floats(lab, 0, trial, n, trial->fill);
    const uint32_t bad = tsk_ref.f16_add_f32((float *)(void *)out.ref, in, n, factor);
    return added_differ(&out, bad,
                        trial->set->f16_add_f32((float *)(void *)out.set, in, n, factor));
}

size_t trial_bf16_add(struct lab *lab, const struct trial *trial)
{
    const size_t n = trial->count;
    const float factor = trial->place % 2 ? -1.0f : 1.0f;
    const uint8_t *in = random_halves(lab, trial, 0x7f00);
    const struct pair out = lab_output_floats(lab, 0, trial, n, trial->fill);
    const uint32_t bad = tsk_ref.bf16_add_f32((float *)(void *)out.ref, in, n, factor);
    return added_differ(&out, bad,
                        trial->set->bf16_add_f32((float *)(void *)out.set, in, n, factor));
}

static size_t sign_differs(struct lab *lab, const struct trial *trial, int with_zero)
{
    const size_t n = trial->count;
    const size_t len = (n + 7) / 8;
    const float *in = lab_floats(lab, 0, trial, n, trial->fill);
    const struct pair negative = lab_output(lab, 0, trial, len, 1);
    const struct pair zero = lab_output(lab, 1, trial, len, 1);
    const uint32_t most = tsk_ref.sign_f32(in, n, negative.ref, with_zero ? zero.ref : NULL);
    const uint32_t same = trial->set->sign_f32(in, n, negative.set, with_zero ? zero.set : NULL);
    return (most != same) + pair_bytes_differ(&negative) + (size_t)pair_around_differs(&negative) +
           pair_bytes_differ(&zero) + (size_t)pair_around_differs(&zero);
}

size_t trial_sign(struct lab *lab, const struct trial *trial)
{
    return sign_differs(lab, trial, 0) + sign_differs(lab, trial, 1);
}

size_t trial_sign_add(struct lab *lab, const struct trial *trial)
{
    const size_t n = trial->count;
    const float *scale = lab_floats(lab, 1, trial, 1, trial->fill);
    const uint8_t *bits = lab_bytes(lab, 0, trial, (n + 7) / 8);
    const struct pair out = lab_output_floats(lab, 0, trial, n, FILL_ANY);
    tsk_ref.sign_add_f32((float *)(void *)out.ref, bits, n, *scale);
    trial->set->sign_add_f32((float *)(void *)out.set, bits, n, *scale);
    return added_differ(&out, 0, 0);
}

static size_t collect_differs(struct lab *lab, const struct trial *trial, uint32_t threshold)
{
    const size_t n = trial->count;
    const size_t room = n + TSK_COLLECT_ROOM;
    const uint32_t base = (uint32_t)lab_random(lab);
    const float *in = lab_floats(lab, 0, trial, n, trial->fill);
    struct pair index = lab_output(lab, 0, trial, room, sizeof(uint32_t));
    struct pair value = lab_output(lab, 1, trial, room, sizeof(float));
    const size_t found = tsk_ref.collect_f32(in, n, threshold, base, (uint32_t *)(void *)index.ref,
                                             (float *)(void *)value.ref);
    const size_t same = trial->set->collect_f32(
        in, n, threshold, base, (uint32_t *)(void *)index.set, (float *)(void *)value.set);
    size_t different =
        (found != same) + (size_t)pair_around_differs(&index) + (size_t)pair_around_differs(&value);
    index.size = found * sizeof(uint32_t);
    value.size = found * sizeof(float);
    return different + pair_bytes_differ(&index) + pair_bytes_differ(&value);
}

size_t trial_collect(struct lab *lab, const struct trial *trial)
{
    return collect_differs(lab, trial, 0x3f000000u) + /* a half: many */
           collect_differs(lab, trial, 0x3fc00000u) + /* one and a half: few */
           collect_differs(lab, trial, trial->place % 2 ? 0 : 0x80000000u); /* all, none */
}
