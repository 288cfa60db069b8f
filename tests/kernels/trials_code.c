/* Grids, and codes as bit strings. */
#include <float.h>
#include <math.h>

#include "kernels/trials.h"

/* ---- float to code ---- */

static size_t codes_differ(const struct pair *codes)
{
    return pair_bytes_differ(codes) + (size_t)pair_around_differs(codes);
}

static size_t log_codes_differ(struct lab *lab, const struct trial *trial, unsigned levels)
{
    const size_t n = trial->count;
    const float *in = lab_floats(lab, 0, trial, n, trial->fill);
    const float scale = fabsf(lab_floats(lab, 1, trial, 1, trial->fill)[0]);
    const struct pair codes = lab_output(lab, 0, trial, n, sizeof(uint16_t));
    float thresholds[TSK_MAX_LOG_LEVELS];
    for (unsigned j = 0; j < levels; j++)
        thresholds[j] = scale * ldexpf(0.75f, (int)j - (int)levels + 1);
    const unsigned mag_bits = 4 + trial->place % 12; /* 15 at most: a code has 16 bits */
    tsk_ref.log_codes_f32(in, n, thresholds, levels, mag_bits, (uint16_t *)(void *)codes.ref);
    trial->set->log_codes_f32(in, n, thresholds, levels, mag_bits, (uint16_t *)(void *)codes.set);
    return codes_differ(&codes);
}

size_t trial_log_codes(struct lab *lab, const struct trial *trial)
{
    size_t different = 0;
    const unsigned step = trial->count > 1000 ? 7 : 1;
    for (unsigned levels = trial->place % 4 == 0 ? 0 : 1; levels <= TSK_MAX_LOG_LEVELS;
         levels += step * (1 + trial->place % 4))
        different += log_codes_differ(lab, trial, levels);
    return different;
}

static size_t log_take_differs(struct lab *lab, const struct trial *trial, unsigned levels)
{
    const size_t n = trial->count;
    const float scale = fabsf(lab_floats(lab, 1, trial, 1, trial->fill)[0]);
    const struct pair codes = lab_output(lab, 0, trial, n, sizeof(uint16_t));
    const struct pair memory = lab_output_floats(lab, 1, trial, n, trial->fill);
    float thresholds[TSK_MAX_LOG_LEVELS];
    for (unsigned j = 0; j < levels; j++)
        thresholds[j] = scale * ldexpf(0.75f, (int)j - (int)levels + 1);
    const unsigned mag_bits = 4 + trial->place % 12;
    tsk_ref.log_take_f32((float *)(void *)memory.ref, n, thresholds, levels, mag_bits, scale,
                         (uint16_t *)(void *)codes.ref);
    trial->set->log_take_f32((float *)(void *)memory.set, n, thresholds, levels, mag_bits, scale,
                             (uint16_t *)(void *)codes.set);
    return codes_differ(&codes) + pair_floats_differ(&memory) +
           (size_t)pair_around_differs(&memory);
}

size_t trial_log_take(struct lab *lab, const struct trial *trial)
{
    size_t different = 0;
    const unsigned step = trial->count > 1000 ? 7 : 1;
    for (unsigned levels = 1 + trial->place % 2; levels <= TSK_MAX_LOG_LEVELS;
         levels += step * (1 + trial->place % 4))
        different += log_take_differs(lab, trial, levels);
    return different;
}

/* The scale that the codec takes, or one a little larger, so that some lie above the levels. */
static float random_scale(struct lab *lab, const float *in, size_t count, uint32_t levels)
{
    float most = 0;
    for (size_t i = 0; i < count; i++)
        most = fmaxf(most, fabsf(in[i]));
    const double more = lab_below(lab, 2) ? 1.25 : 1.0;
    const double scale = most > 0 ? levels * more / (double)most : 1.0;
    return scale < (double)FLT_MAX ? (float)scale : FLT_MAX;
}

static size_t random_codes_differ(struct lab *lab, const struct trial *trial, const float *in,
                                  float scale, unsigned mag_bits, const struct tsk_stream *stream,
                                  uint64_t first)
{
    const size_t n = trial->count;
    const uint32_t levels = (1u << mag_bits) - 1;
    const struct pair codes = lab_output(lab, 0, trial, n, sizeof(uint16_t));
    tsk_ref.random_codes_f32(in, n, scale, levels, mag_bits, stream, first,
                             (uint16_t *)(void *)codes.ref);
    trial->set->random_codes_f32(in, n, scale, levels, mag_bits, stream, first,
                                 (uint16_t *)(void *)codes.set);
    return codes_differ(&codes);
}

/* Elements that are their own draw, and its neighbours: a rest is compared with u in the last bit.
 */
static void make_close(struct lab *lab, float *in, size_t count, const struct tsk_stream *stream,
                       uint64_t first)
{
    for (size_t i = 0; i < count; i++) {
        uint32_t random[TSK_RANDOM_GROUP];
        tsk_ref.random_u32(stream, first + i / TSK_RANDOM_GROUP * TSK_RANDOM_GROUP, i % 64 + 1,
                           random);
        const float u = (float)(random[i % TSK_RANDOM_GROUP] >> 8) * 0x1p-24f;
        const uint32_t which = lab_below(lab, 3);
        in[i] = which == 0 ? u : nextafterf(u, which == 1 ? 0.0f : 2.0f);
    }
}

size_t trial_random_codes(struct lab *lab, const struct trial *trial)
{
    const size_t n = trial->count;
    const unsigned mag_bits = 1 + (trial->place + (unsigned)n) % 15;
    const struct tsk_stream stream = {{(uint32_t)lab_random(lab), 7}, {1, (uint32_t)n, 3}};
    const uint64_t first = (uint64_t)lab_below(lab, 1u << 26) * TSK_RANDOM_GROUP;
    float *in = lab_floats(lab, 0, trial, n, (enum fill)(trial->fill % FILL_FINITE_COUNT));
    const float scale = random_scale(lab, in, n, (1u << mag_bits) - 1);
    size_t different = random_codes_differ(lab, trial, in, scale, mag_bits, &stream, first);
    if (n <= 200 && trial->place % 16 == 0) {
        make_close(lab, in, n, &stream, first);
        different += random_codes_differ(lab, trial, in, 1.0f, mag_bits, &stream, first);
    }
    return different;
}

size_t trial_nearest_codes(struct lab *lab, const struct trial *trial)
{
    const size_t n = trial->count;
    const unsigned k = 1 + (trial->place + (unsigned)n) % 14;
    const float *in = lab_floats(lab, 0, trial, n, trial->fill);
    const float any = fabsf(lab_floats(lab, 1, trial, 1, trial->fill)[0]);
    const float scale = trial->place % 3 ? ldexpf(1.0f, (int)k - 3) : any;
    const struct pair codes = lab_output(lab, 0, trial, n, sizeof(uint16_t));
    tsk_ref.nearest_codes_f32(in, n, scale, 1u << k, k + 1, (uint16_t *)(void *)codes.ref);
    trial->set->nearest_codes_f32(in, n, scale, 1u << k, k + 1, (uint16_t *)(void *)codes.set);
    return codes_differ(&codes);
}

size_t trial_natural_codes(struct lab *lab, const struct trial *trial)
{
    const size_t n = trial->count;
    const float *in = lab_floats(lab, 0, trial, n, trial->fill);
    const struct tsk_stream stream = {{(uint32_t)lab_random(lab), 9}, {2, (uint32_t)n, 3}};
    const uint64_t first = (uint64_t)lab_below(lab, 1u << 26) * 64;
    const struct pair codes = lab_output(lab, 0, trial, n, sizeof(uint16_t));
    const uint32_t most =
        tsk_ref.natural_codes_f32(in, n, &stream, first, (uint16_t *)(void *)codes.ref);
    const uint32_t same =
        trial->set->natural_codes_f32(in, n, &stream, first, (uint16_t *)(void *)codes.set);
    return (most != same) + codes_differ(&codes);
}

/* ---- code to float ---- */

/* Sound codes; in every fourth trial one that is not: sign alone, or too large. */
static uint16_t *some_codes(struct lab *lab, const struct trial *trial, uint32_t levels,
                            unsigned mag_bits)
{
    uint16_t *codes = lab_codes(lab, 0, trial, trial->count);
    const uint32_t sign = 1u << mag_bits;
    for (size_t i = 0; i < trial->count; i++) {
        const uint32_t magnitude = lab_below(lab, levels + 1);
        codes[i] = (uint16_t)(magnitude == 0 ? 0 : magnitude | lab_below(lab, 2) * sign);
    }
    if (trial->count > 0 && lab_below(lab, 4) == 0) {
        uint16_t *code = &codes[lab_below(lab, (uint32_t)trial->count)];
        *code = (uint16_t)(levels + 1 < sign && lab_below(lab, 2) ? levels + 1 : sign);
    }
    return codes;
}

static size_t added_differ(const struct pair *out, uint32_t ref_bad, uint32_t set_bad)
{
    size_t different = (ref_bad != set_bad) + (size_t)pair_around_differs(out);
    if (!ref_bad)
        different += pair_floats_differ(out);
    return different;
}

static size_t log_add_differs(struct lab *lab, const struct trial *trial, unsigned levels)
{
    const size_t n = trial->count;
    const unsigned mag_bits = 4 + trial->place % 2;
    const float scale = lab_floats(lab, 1, trial, 1, trial->fill)[0];
    const uint16_t *codes = some_codes(lab, trial, levels, mag_bits);
    const struct pair out = lab_output_floats(lab, 0, trial, n, trial->fill);
    const uint32_t bad =
        tsk_ref.log_add_f32((float *)(void *)out.ref, codes, n, levels, mag_bits, scale);
    const uint32_t same =
        trial->set->log_add_f32((float *)(void *)out.set, codes, n, levels, mag_bits, scale);
    return added_differ(&out, bad, same);
}

size_t trial_log_add(struct lab *lab, const struct trial *trial)
{
    size_t different = 0;
    const unsigned step = trial->count > 1000 ? 7 : 1;
    for (unsigned levels = 1 + trial->place % 2; levels <= TSK_MAX_LOG_LEVELS;
         levels += step * (1 + trial->place % 4))
        different += log_add_differs(lab, trial, levels);
    return different;
}

size_t trial_level_add(struct lab *lab, const struct trial *trial)
{
    const size_t n = trial->count;
    const unsigned mag_bits = 1 + (trial->place + (unsigned)n) % 15;
    const uint32_t full = (1u << mag_bits) - 1;
    const uint32_t levels = trial->place % 2 ? full : full / 2 + 1; /* uniform, nearest */
    const float unit = lab_floats(lab, 1, trial, 1, trial->fill)[0];
    const uint16_t *codes = some_codes(lab, trial, levels, mag_bits);
    const struct pair out = lab_output_floats(lab, 0, trial, n, trial->fill);
    const uint32_t bad =
        tsk_ref.level_add_f32((float *)(void *)out.ref, codes, n, levels, mag_bits, unit);
    const uint32_t same =
        trial->set->level_add_f32((float *)(void *)out.set, codes, n, levels, mag_bits, unit);
    return added_differ(&out, bad, same);
}

size_t trial_natural_add(struct lab *lab, const struct trial *trial)
{
    const size_t n = trial->count;
    const float factor = trial->place % 2 ? -1.0f : 1.0f;
    const uint16_t *codes = some_codes(lab, trial, 254, 8);
    const struct pair out = lab_output_floats(lab, 0, trial, n, trial->fill);
    const uint32_t bad = tsk_ref.natural_add_f32((float *)(void *)out.ref, codes, n, factor);
    return added_differ(&out, bad,
                        trial->set->natural_add_f32((float *)(void *)out.set, codes, n, factor));
}

/* ---- bit strings ---- */

size_t trial_pack(struct lab *lab, const struct trial *trial)
{
    const size_t n = trial->count;
    uint16_t *codes = lab_codes(lab, 0, trial, n);
    size_t different = 0;
    for (size_t i = 0; i < n; i++)
        codes[i] = (uint16_t)lab_random(lab);
    for (unsigned bits = 16; bits > 0; bits--) {
        const struct pair out = lab_output(lab, 0, trial, (n * bits + 7) / 8, 1);
        for (size_t i = 0; i < n; i++)
            codes[i] = (uint16_t)(codes[i] & ((1u << bits) - 1));
        tsk_ref.pack_codes(codes, n, bits, out.ref);
        trial->set->pack_codes(codes, n, bits, out.set);
        different += pair_bytes_differ(&out) + (size_t)pair_around_differs(&out);
    }
    return different;
}

size_t trial_unpack(struct lab *lab, const struct trial *trial)
{
    const size_t n = trial->count;
    size_t different = 0;
    for (unsigned bits = 16; bits > 0; bits--) {
        const uint8_t *in = lab_bytes(lab, 0, trial, (n * bits + 7) / 8);
        const struct pair codes = lab_output(lab, 0, trial, n, sizeof(uint16_t));
        tsk_ref.unpack_codes(in, n, bits, (uint16_t *)(void *)codes.ref);
        trial->set->unpack_codes(in, n, bits, (uint16_t *)(void *)codes.set);
        different += codes_differ(&codes);
    }
    return different;
}
